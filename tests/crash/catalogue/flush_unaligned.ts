/**
 * WRITE of 64 bytes at 96, and SEND; the server flushes from the line that has the first byte to
 * the one that has the last.
 */
import { answer, asked, execute, onHosts, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server) {
    yield* server.persist(96, 64);
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 96, bytes));
    yield* asked(link);
  }, { at: 96 }),
});
