/**
 * asymnvm_log without its log: both words are changed in their places.
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
  recovering,
  serve,
  word,
  write,
} from "./prelude.ts";

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    yield* execute(link, write(link, 0, word(7)), write(link, 128, word(7)), read(link, 0));
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) => {
  const [one, other] = [memory.word(0), memory.word(128)];
  return one !== other ? BROKEN : one === 7 ? 1 : NOTHING;
});

export const check = newestSurvives;
