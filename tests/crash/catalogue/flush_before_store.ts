/**
 * The server flushes the place and stores the record then. Wrong: a flush is about what was stored
 * before it.
 */
import { answer, asked, onHosts, serve, storing } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server, text) {
    yield* server.persist(0, text.length);
    server.store(0, text);
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* asked(link, bytes);
  }),
});
