/**
 * The same log; recovery takes the records before number `tail - 1`. Wrong: the newest one is
 * lost, in each recovery.
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
    yield* execute(link, write(link, 64, record(1)), read(link, 64));
    yield* execute(link, write(link, 0, word(1)), read(link, 0));
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) => {
  let newest = NOTHING;
  for (let i = 0; i < memory.word(0) - 1; i++) newest = recordAt(memory, 64 + 64 * i) || BROKEN;
  return newest;
});

export const check = newestSurvives;
