/**
 * WRITE, and a READ of its last byte behind it: the appliance method. Right where DMA goes past
 * the cache: the READ pushes the WRITE into memory.
 */
import { execute, onHosts, read, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 0, bytes), read(link, bytes.length - 1));
  }),
});
