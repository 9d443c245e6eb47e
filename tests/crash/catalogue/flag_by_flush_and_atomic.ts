/**
 * WRITE, FLUSH, ATOMIC WRITE of the flag, FLUSH, with one doorbell: the standard's own pattern.
 */
import {
  acknowledge,
  atomicWrite,
  BROKEN,
  dial,
  execute,
  flush,
  newestSurvives,
  NOTHING,
  onHosts,
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
    yield* execute(
      link,
      write(link, 0, record(1)),
      flush(link, 0, 64),
      atomicWrite(link, 64, 1),
      flush(link, 64, 8),
    );
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) =>
  memory.word(64) === 0 ? NOTHING : recordAt(memory, 0) || BROKEN
);

export const check = newestSurvives;
