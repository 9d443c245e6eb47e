/**
 * The record is promised when its WRITE has completed. Wrong: the ACK of a WRITE is the card's,
 * which sends it before the data has left its buffers.
 */
import { execute, onHosts, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 0, bytes));
  }),
});
