/**
 * The client prepares its next record in the buffer while the card has yet to fetch the first one.
 * Wrong: a buffer is the card's until the completion.
 */
import { completed, onHosts, post, read, record, serve, storing, write } from "./prelude.ts";

export default onHosts({
  b: serve(),
  a: storing(function* (link, bytes) {
    const { cpu } = link.context;
    yield* post(link, [write(link, 0, bytes), read(link, 0)]);
    cpu.store(link.mr.address, record(2, bytes.length));
    yield* completed(link);
  }, { length: 512 }),
});
