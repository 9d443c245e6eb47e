/**
 * A record, a flag that says that it is valid, and a READ behind both, with one doorbell. Right
 * without DDIO, on a platform that keeps the order of DMA writes.
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
    yield* execute(link, write(link, 0, record(1)), write(link, 64, word(1)), read(link, 0));
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) =>
  memory.word(64) === 0 ? NOTHING : recordAt(memory, 0) || BROKEN
);

export const check = newestSurvives;
