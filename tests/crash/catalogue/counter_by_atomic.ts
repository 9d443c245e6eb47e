/**
 * A counter in SCM by FETCH AND ADD; its answer is taken for persistence. Wrong: the card answers
 * with what was there.
 */
import {
  acknowledge,
  dial,
  execute,
  fetchAdd,
  newestSurvives,
  onHosts,
  recovering,
  serve,
} from "./prelude.ts";

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    yield* execute(link, fetchAdd(link, 0, 1n));
    acknowledge(link, 1);
  },
});

export const recover = recovering(({ load }) => {
  const words = new BigUint64Array(load(0, 8).slice().buffer);
  return Number(words[0]);
});

export const check = newestSurvives;
