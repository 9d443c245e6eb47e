/**
 * FaRM commits by WRITEs into logs of its replicas in memory that batteries keep: the card's ACK
 * is the commit, no CPU has a part in it. A record is taken if it is whole. What breaks if it runs
 * on other machines: farm_log_without_battery.
 */
import {
  acknowledge,
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

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    const bytes = record(1);
    yield* execute(link, write(link, 0, joined(bytes, word(sumOf(bytes)))));
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) =>
  memory.word(64) === sumOf(memory.load(0, 64)) ? recordAt(memory, 0) : NOTHING
);

export const check = newestSurvives;
