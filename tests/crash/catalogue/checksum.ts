/**
 * Record and checksum in one WRITE, and one flush by the server; recovery takes a record only if
 * its checksum is right.
 */
import {
  acknowledge,
  answer,
  asked,
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
  sumOf,
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
    const bytes = record(1, LENGTH);
    yield* execute(link, write(link, 0, joined(bytes, word(sumOf(bytes)))));
    yield* asked(link);
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) => {
  const isWhole = memory.word(LENGTH) === sumOf(memory.load(0, LENGTH));
  return isWhole ? recordAt(memory, 0, { length: LENGTH }) : NOTHING;
});

export const check = newestSurvives;
