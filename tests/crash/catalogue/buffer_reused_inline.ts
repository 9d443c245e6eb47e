/**
 * The same with a record that goes inline. Right: the buffer is the program's again at once.
 */
import { completed, onHosts, post, read, record, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(),
  a: storing(function* (link, bytes) {
    const { cpu } = link.context;
    yield* post(link, [write(link, 0, bytes), read(link, 0)]);
    cpu.store(link.mr.address, record(2, bytes.length));
    yield* completed(link);
  }, { length: 128 }),
});
