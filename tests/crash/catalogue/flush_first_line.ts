/**
 * WRITE and SEND; the server flushes 64 bytes and answers. Wrong: the record has 128.
 */
import { answer, asked, execute, onHosts, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server) {
    yield* server.persist(0, 64);
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 0, bytes));
    yield* asked(link);
  }, { length: 128 }),
});
