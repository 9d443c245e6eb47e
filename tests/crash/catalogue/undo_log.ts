/**
 * The old record goes to a log with a mark of its own; then the place is overwritten, and the mark
 * is cleared. Recovery puts the old record back where the mark is set.
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
    yield* execute(link, write(link, 0, record(1)), read(link, 0));
    yield* execute(link, write(link, 192, word(1)), read(link, 0));
    acknowledge(link, 1);
    yield* execute(link, write(link, 64, record(1)), read(link, 64));
    yield* execute(link, write(link, 128, word(1)), read(link, 128));
    yield* execute(link, write(link, 0, record(2)), read(link, 0));
    yield* execute(link, write(link, 128, word(0)), read(link, 128));
    acknowledge(link, 2);
  },
});

export const recover = recovering(function* (memory) {
  if (memory.word(192) === 0) return NOTHING;
  if (memory.word(128) === 1) yield* memory.persist(0, memory.load(64, 64));
  return recordAt(memory, 0);
});

export const check = newestSurvives;
