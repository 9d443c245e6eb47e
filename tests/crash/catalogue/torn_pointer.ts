/**
 * A pointer of two words, offset and length, is changed in place. Wrong: recovery may find the new
 * offset with the old length.
 */
import {
  acknowledge,
  BROKEN,
  dial,
  execute,
  joined,
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
      yield* execute(link, write(link, 256 * n, record(n, 64 * n)), read(link, 0));
      yield* execute(link, write(link, 0, joined(word(256 * n), word(64 * n))), read(link, 0));
      acknowledge(link, n);
    }
  },
});

export const recover = recovering((memory) => {
  const at = memory.word(0), length = memory.word(8);
  if (at === 0 && length === 0) return NOTHING;
  return at % 256 === 0 && length === at / 4 ? recordAt(memory, at, { length }) || BROKEN : BROKEN;
});

export const check = newestSurvives;
