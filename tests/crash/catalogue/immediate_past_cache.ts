/**
 * WRITE WITH IMMEDIATE without DDIO; the server's CPU takes it and answers. Right: DMA writes of
 * one link stay in order, so that record is in memory before its completion.
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
