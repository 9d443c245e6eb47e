/**
 * A record goes to a redo log and is committed by a word; the place is written and pushed, and the
 * log is truncated then. Recovery applies a log that is committed.
 */
import {
  acknowledge,
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
    yield* execute(link, write(link, 64, record(1)), read(link, 64));
    yield* execute(link, write(link, 128, word(1)), read(link, 128));
    acknowledge(link, 1);
    yield* execute(link, write(link, 0, record(1)), read(link, 0));
    yield* execute(link, write(link, 128, word(0)), read(link, 128));
  },
});

export const recover = recovering(function* (memory) {
  if (memory.word(128) === 1) yield* memory.persist(0, memory.load(64, 64));
  return Math.max(NOTHING, recordAt(memory, 0));
});

export const check = newestSurvives;
