/**
 * Tailwind replicates RAMCloud's log by one-sided WRITEs into buffers of its backups that survive;
 * each record has a checksum, by which recovery finds the last whole one. What breaks if a line is
 * left out: tailwind_without_checksum.
 */
import {
  acknowledge,
  dial,
  execute,
  joined,
  newestSurvives,
  NOTHING,
  onHosts,
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
      yield* execute(link, write(link, 72 * (n - 1), joined(bytes, word(sumOf(bytes)))));
      acknowledge(link, n);
    }
  },
});

export const recover = recovering((memory) => {
  let newest = NOTHING;
  for (let at = 0; memory.word(at + 64) === sumOf(memory.load(at, 64)); at += 72) {
    newest = recordAt(memory, at);
  }
  return newest;
});

export const check = newestSurvives;
