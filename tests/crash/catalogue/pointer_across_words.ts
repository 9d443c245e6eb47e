/**
 * The pointer of one word lies at offset 4. Wrong: what is atomic is an aligned word.
 */
import {
  acknowledge,
  BROKEN,
  dial,
  execute,
  joined,
  newestSurvives,
  onHosts,
  read,
  recovering,
  serve,
  word,
  write,
} from "./prelude.ts";

const AT_POINTER = 60;

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    const packed = joined(word(1).subarray(4), word(1).subarray(4));
    yield* execute(link, write(link, AT_POINTER, packed), read(link, 0));
    acknowledge(link, 1);
  },
});

export const recover = recovering(({ load }) => {
  const [high, low] = [load(AT_POINTER, 4), load(AT_POINTER + 4, 4)].map((part) => part[3]!);
  return high === low ? high : BROKEN;
});

export const check = newestSurvives;
