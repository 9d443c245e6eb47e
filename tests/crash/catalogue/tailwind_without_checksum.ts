/**
 * tailwind without its checksums, on a server without batteries and with READs behind the records:
 * recovery takes records up to the first empty word.
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
  write,
} from "./prelude.ts";

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    for (const n of [1, 2]) {
      yield* execute(link, write(link, 64 * (n - 1), record(n)), read(link, 0));
      acknowledge(link, n);
    }
  },
});

export const recover = recovering((memory) => {
  let newest = NOTHING;
  for (let at = 0; memory.word(at) !== 0; at += 64) newest = recordAt(memory, at);
  return newest;
});

export const check = newestSurvives;
