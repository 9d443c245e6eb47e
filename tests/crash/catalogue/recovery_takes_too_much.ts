/**
 * A log of slots and a tail. The client keeps the order; recovery does not look at the tail.
 * Wrong: a slot in the middle of its write is not empty either.
 */
import {
  acknowledge,
  dial,
  execute,
  newestSurvives,
  onHosts,
  read,
  record,
  recordAt,
  recovering,
  serve,
  word,
  write,
} from "./prelude.ts";

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    yield* execute(link, write(link, 64, record(1)), read(link, 64));
    yield* execute(link, write(link, 0, word(1)), read(link, 0));
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) => recordAt(memory, 64));

export const check = newestSurvives;
