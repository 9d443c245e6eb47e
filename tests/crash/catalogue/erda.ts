/**
 * Erda writes a value and its checksum to a log by one one-sided WRITE, its place before in an
 * atomic word of the metadata, which names the newest and the previous version. A reader that
 * finds a wrong checksum takes the previous one. What breaks if the previous version is not kept:
 * erda_without_previous. A READ pushes before the acknowledgement, which is this catalogue's and
 * not the paper's.
 */
import {
  acknowledge,
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
  sumOf,
  word,
  write,
} from "./prelude.ts";

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    for (const n of [1, 2]) {
      const bytes = record(n);
      const value = write(link, 128 * n, joined(bytes, word(sumOf(bytes))));
      yield* execute(link, write(link, 0, word(n)), value, read(link, 0));
      acknowledge(link, n);
    }
  },
});

export const recover = recovering((memory) => {
  for (let n = memory.word(0); n > 0; n--) {
    if (memory.word(128 * n + 64) === sumOf(memory.load(128 * n, 64))) {
      return recordAt(memory, 128 * n);
    }
  }
  return NOTHING;
});

export const check = newestSurvives;
