/**
 * The WRITE goes over one queue pair, its READ over another, both at once. Wrong: it is a matter
 * of time which is first.
 */
import { completed, onHosts, post, read, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(undefined, { queues: 2 }),
  a: storing(function* (link, bytes) {
    yield* post(link, [write(link, 0, bytes)]);
    yield* post(link, [read(link, 0)], 1);
    yield* completed(link);
  }, { queues: 2 }),
});
