/**
 * WRITE, and the standard's FLUSH behind it. Right: its answer says that the range is persistent,
 * and here, without DDIO, no CPU has a part in it.
 */
import { execute, flush, onHosts, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 0, bytes), flush(link, 0, bytes.length));
  }),
});
