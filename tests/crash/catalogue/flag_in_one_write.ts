/**
 * Record and flag are one WRITE of 128 bytes, the flag in its last eight. Wrong with DDIO: the two
 * lines leave the cache in any order.
 */
import {
  acknowledge,
  answer,
  asked,
  BROKEN,
  dial,
  execute,
  joined,
  newestSurvives,
  NOTHING,
  onHosts,
  record,
  recordAt,
  recovering,
  serve,
  word,
  write,
} from "./prelude.ts";

const LENGTH = 120;

export default onHosts({
  b: serve(function* (server) {
    yield* server.persist(0, 128);
    yield* answer(server);
  }),
  *a(context) {
    const link = yield* dial(context);
    yield* execute(link, write(link, 0, joined(record(1, LENGTH), word(1))));
    yield* asked(link);
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) =>
  memory.word(LENGTH) === 0 ? NOTHING : recordAt(memory, 0, { length: LENGTH }) || BROKEN
);

export const check = newestSurvives;
