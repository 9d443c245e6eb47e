/**
 * The server applies the log to its place, flushes it, and truncates the log then.
 */
import {
  acknowledge,
  answer,
  asked,
  dial,
  newestSurvives,
  NOTHING,
  onHosts,
  record,
  recordAt,
  recovering,
  serve,
  word,
} from "./prelude.ts";

export default onHosts({
  b: serve(function* (server, text) {
    server.store(64, text);
    yield* server.persist(64, 64);
    server.store(128, word(1));
    yield* server.persist(128, 8);
    yield* answer(server);
    server.store(0, text);
    yield* server.persist(0, 64);
    server.store(128, word(0));
    yield* server.persist(128, 8);
  }),
  *a(context) {
    const link = yield* dial(context);
    yield* asked(link, record(1));
    acknowledge(link, 1);
  },
});

export const recover = recovering(function* (memory) {
  if (memory.word(128) === 1) yield* memory.persist(0, memory.load(64, 64));
  return Math.max(NOTHING, recordAt(memory, 0));
});

export const check = newestSurvives;
