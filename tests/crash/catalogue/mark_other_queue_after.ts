/**
 * WRITE over one queue pair, and when it has completed the mark over another. Right: the
 * completion orders them.
 */
import { answer, asked, completed, onHosts, post, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server) {
    yield* server.persist(0, 64);
    yield* answer(server);
  }, { queues: 2 }),
  a: storing(function* (link, bytes) {
    yield* post(link, [write(link, 0, bytes)], 1);
    yield* completed(link);
    yield* asked(link);
  }, { queues: 2 }),
});
