/**
 * Two slots in turn, each a record with a sequence number of one byte in the word behind it;
 * recovery takes the slot with the greater number. Wrong: it wraps.
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
  word,
  write,
} from "./prelude.ts";

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    for (const [i, sequence] of [254, 255, 0].entries()) {
      const slot = 128 * (i % 2);
      yield* execute(link, write(link, slot, record(i + 1)), read(link, slot));
      yield* execute(link, write(link, slot + 64, word(256 + sequence)), read(link, slot));
      if (i > 0) acknowledge(link, i + 1);
    }
  },
});

export const recover = recovering((memory) => {
  const [zero, one] = [memory.word(64), memory.word(192)] as [number, number];
  if (zero === 0 && one === 0) return NOTHING;
  return recordAt(memory, zero % 256 > one % 256 ? 0 : 128);
});

export const check = newestSurvives;
