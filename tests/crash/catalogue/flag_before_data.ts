/**
 * A valid flag goes before its record, each by a WRITE, and a READ behind both. Wrong: a power
 * failure between the two leaves a flag that says that an empty record is there.
 */
import { acknowledge, BROKEN, dial, execute, isSame, newestSurvives, NOTHING } from "./prelude.ts";
import { onHosts, read, record, recovering, serve, word, write } from "./prelude.ts";

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    yield* execute(link, write(link, 64, word(1)), write(link, 0, record(1)), read(link, 0));
    acknowledge(link, 1);
  },
});

export const recover = recovering(({ load, word }) => {
  if (word(64) === 0) return NOTHING;
  return isSame(load(0, 64), record(1)) ? 1 : BROKEN;
});

export const check = newestSurvives;
