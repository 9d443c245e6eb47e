/**
 * WRITE WITH IMMEDIATE; the server's CPU takes it and answers. Wrong with DDIO: visible is not
 * persistent.
 */
import { answer, execute, onHosts, received, serve, storing, writeWith } from "./prelude.ts";

export default onHosts({
  b: serve(function* (server) {
    yield* answer(server);
  }),
  a: storing(function* (link, bytes) {
    yield* execute(link, writeWith(link, 0, bytes, 0));
    yield* received(link);
  }),
});
