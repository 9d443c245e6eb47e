/**
 * Copy on write with one place: the new record goes where the old one is. Wrong: until the pointer
 * changes the old one must stay.
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
      yield* execute(link, write(link, 64, record(n)), read(link, 64));
      yield* execute(link, write(link, 0, word(n)), read(link, 0));
      acknowledge(link, n);
    }
  },
});

export const recover = recovering((memory) => {
  const n = memory.word(0);
  return n === 0 ? NOTHING : recordAt(memory, 64) === n ? n : BROKEN;
});

export const check = newestSurvives;
