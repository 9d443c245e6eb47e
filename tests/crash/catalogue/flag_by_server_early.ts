/**
 * A record by a WRITE; the server stores the flag, flushes both, and answers. Wrong: one flush of
 * two lines is no order of the two.
 */
import {
  acknowledge,
  answer,
  asked,
  BROKEN,
  dial,
  execute,
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

export default onHosts({
  b: serve(function* (server) {
    server.store(64, word(1));
    yield* server.persist(0, 128);
    yield* answer(server);
  }),
  *a(context) {
    const link = yield* dial(context);
    yield* execute(link, write(link, 0, record(1)));
    yield* asked(link);
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) =>
  memory.word(64) === 0 ? NOTHING : recordAt(memory, 0) || BROKEN
);

export const check = newestSurvives;
