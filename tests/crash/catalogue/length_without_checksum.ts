/**
 * Record and its length in one WRITE, the length first; recovery takes a record if its length is
 * not 0. Wrong: a commit record needs a checksum, or a write of its own behind the record.
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
    yield* execute(link, write(link, 0, joined(word(64), record(1))), read(link, 0));
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) =>
  memory.word(0) === 0 ? NOTHING : recordAt(memory, 8) || BROKEN
);

export const check = newestSurvives;
