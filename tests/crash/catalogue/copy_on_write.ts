/**
 * A new record is written beside the old one and pushed; then the pointer's word is changed.
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
    for (const n of [1, 2]) {
      yield* execute(link, write(link, 64 * n, record(n)), read(link, 64 * n));
      yield* execute(link, write(link, 0, word(n)), read(link, 0));
      acknowledge(link, n);
    }
  },
});

export const recover = recovering((memory) => {
  const n = memory.word(0);
  return n === 0 ? NOTHING : recordAt(memory, 64 * n) || BROKEN;
});

export const check = newestSurvives;
