/**
 * The record is promised when its WRITE has completed. Right on a server of which every buffer
 * keeps its content (`domain: wsp`), as FaRM's machines with their batteries do; on others it is
 * write_only.
 */
import { execute, onHosts, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 0, bytes));
  }),
});
