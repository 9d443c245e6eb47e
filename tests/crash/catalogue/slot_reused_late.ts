/**
 * The same ring; the head is pushed first.
 */
import {
  acknowledge,
  BROKEN,
  dial,
  execute,
  newestSurvives,
  NOTHING,
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
    for (const n of [1, 2]) yield* execute(link, write(link, 64 * n, record(n)), read(link, 0));
    yield* execute(link, write(link, 8, word(2)), read(link, 0));
    yield* execute(link, write(link, 0, word(1)), read(link, 0));
    yield* execute(link, write(link, 64, record(3)), read(link, 0));
    yield* execute(link, write(link, 8, word(3)), read(link, 0));
    acknowledge(link, NOTHING);
  },
});

export const recover = recovering((memory) => {
  for (let n = memory.word(0) + 1; n <= memory.word(8); n++) {
    if (recordAt(memory, n % 2 === 1 ? 64 : 128) !== n) return BROKEN;
  }
  return NOTHING;
});

export const check = newestSurvives;
