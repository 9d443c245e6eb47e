/**
 * WRITE and SEND; the server flushes the record's length less one. Wrong: 65 bytes have two lines.
 */
import { answer, asked, execute, onHosts, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server) {
    yield* server.persist(0, 65 - 1);
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 0, bytes));
    yield* asked(link);
  }, { length: 65 }),
});
