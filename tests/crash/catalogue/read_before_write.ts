/**
 * READ and WRITE with one doorbell, in the wrong order. Wrong: both complete, and nothing has
 * pushed the WRITE.
 */
import { execute, onHosts, read, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(),
  a: storing(function* (link, bytes) {
    yield* execute(link, read(link, 0), write(link, 0, bytes));
  }),
});
