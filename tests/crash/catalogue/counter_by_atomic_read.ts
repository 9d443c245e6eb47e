/**
 * A counter in SCM by FETCH AND ADD, and a READ behind it.
 */
import {
  acknowledge,
  dial,
  execute,
  fetchAdd,
  newestSurvives,
  onHosts,
  read,
  recovering,
  serve,
} from "./prelude.ts";

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    yield* execute(link, fetchAdd(link, 0, 1n), read(link, 0));
    acknowledge(link, 1);
  },
});

export const recover = recovering(({ load }) => {
  const words = new BigUint64Array(load(0, 8).slice().buffer);
  return Number(words[0]);
});

export const check = newestSurvives;
