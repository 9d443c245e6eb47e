/**
 * AsymNVM's front end appends a transaction's memory log to the back end's NVM by one WRITE with a
 * checksum, and the back end applies it later. Here two words are changed together. What breaks
 * without the log: asymnvm_in_place.
 */
import {
  acknowledge,
  BROKEN,
  dial,
  execute,
  joined,
  newestSurvives,
  NOTHING,
  onHosts,
  read,
  recovering,
  serve,
  sumOf,
  word,
  write,
} from "./prelude.ts";

const NEW = joined(word(7), word(7));

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    yield* execute(link, write(link, 256, joined(NEW, word(sumOf(NEW)))), read(link, 256));
    acknowledge(link, 1);
    yield* execute(link, write(link, 0, word(7)), read(link, 0));
    yield* execute(link, write(link, 128, word(7)), read(link, 128));
  },
});

export const recover = recovering(function* (memory) {
  const log = memory.load(256, 16);
  if (memory.word(272) === sumOf(log)) {
    yield* memory.persist(0, log.slice(0, 8));
    yield* memory.persist(128, log.slice(8));
  }
  const [one, other] = [memory.word(0), memory.word(128)];
  return one !== other ? BROKEN : one === 7 ? 1 : NOTHING;
});

export const check = newestSurvives;
