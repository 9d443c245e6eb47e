/**
 * A record is overwritten by a new one in its place, and read back. Wrong: what is longer than a
 * word is torn.
 */
import {
  acknowledge,
  dial,
  execute,
  newestSurvives,
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
      yield* execute(link, write(link, 0, record(n)), read(link, 0));
      acknowledge(link, n);
    }
  },
});

export const recover = recovering((memory) => recordAt(memory, 0));

export const check = newestSurvives;
