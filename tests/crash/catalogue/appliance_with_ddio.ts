/**
 * The appliance method on a server with DDIO. Wrong: the READ pushes the WRITE out of the I/O
 * controller only as far as the cache.
 */
import { execute, onHosts, read, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 0, bytes), read(link, bytes.length - 1));
  }),
});
