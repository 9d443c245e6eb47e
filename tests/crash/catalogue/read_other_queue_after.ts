/**
 * The WRITE over one queue pair, and when it has completed the READ over another one of the same
 * card. Right on this platform: what is pushed is the bus, not a queue pair.
 */
import { completed, execute, onHosts, post, read, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(undefined, { queues: 2 }),
  a: storing(function* (link, bytes) {
    yield* execute(link, write(link, 0, bytes));
    yield* post(link, [read(link, 0)], 1);
    yield* completed(link);
  }, { queues: 2 }),
});
