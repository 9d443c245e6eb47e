/**
 * The record comes in a SEND; the server copies it to its place and answers. Wrong: the flush has
 * been forgotten.
 */
import { answer, asked, onHosts, serve, storing } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server, text) {
    server.store(0, text);
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* asked(link, bytes);
  }),
});
