/**
 * The appliance method with DDIO on a server with eADR. Right: the cache belongs to the
 * persistence domain.
 */
import { execute, onHosts, read, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 0, bytes), read(link, bytes.length - 1));
  }),
});
