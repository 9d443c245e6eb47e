/**
 * WRITE of 64 bytes at 96, and SEND; the server rounds the address to a line of 64 bytes, the
 * wrong way. Wrong: the line at 64 has the first half.
 */
import { answer, asked, execute, onHosts, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server) {
    const first = Math.ceil(96 / 64) * 64;
    yield* server.persist(first, 96 + 64 - first);
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 96, bytes));
    yield* asked(link);
  }, { at: 96 }),
});
