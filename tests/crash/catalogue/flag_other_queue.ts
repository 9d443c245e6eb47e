/**
 * The record goes over one queue pair, the flag over another, at once. Wrong: a flag of eight
 * bytes overtakes a long record.
 */
import {
  acknowledge,
  BROKEN,
  completed,
  dial,
  newestSurvives,
  NOTHING,
  onHosts,
  post,
  read,
  record,
  recordAt,
  recovering,
  serve,
  word,
  write,
} from "./prelude.ts";

const LENGTH = 512;

export default onHosts({
  b: serve(undefined, { queues: 2 }),
  *a(context) {
    const link = yield* dial(context, { queues: 2 });
    yield* post(link, [write(link, 64, record(1, LENGTH)), read(link, 64)]);
    yield* post(link, [write(link, 0, word(1)), read(link, 0)], 1);
    yield* completed(link);
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) =>
  memory.word(0) === 0 ? NOTHING : recordAt(memory, 64, { length: LENGTH }) || BROKEN
);

export const check = newestSurvives;
