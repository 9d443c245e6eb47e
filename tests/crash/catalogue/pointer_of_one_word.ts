/**
 * Offset and length are packed into one word, which is changed in place when the record is
 * persistent.
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
      yield* execute(link, write(link, 256 * n, record(n, 64 * n)), read(link, 0));
      yield* execute(link, write(link, 0, word(65_536 * 256 * n + 64 * n)), read(link, 0));
      acknowledge(link, n);
    }
  },
});

export const recover = recovering((memory) => {
  const packed = memory.word(0), at = Math.floor(packed / 65_536), length = packed % 65_536;
  return packed === 0 ? NOTHING : recordAt(memory, at, { length }) || BROKEN;
});

export const check = newestSurvives;
