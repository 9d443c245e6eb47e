/**
 * Clover's clients write a new version out of place and link it to the chain of versions by
 * COMPARE AND SWAP, one-sided; its data nodes have no CPU. Recovery follows the links. What breaks
 * if a line is left out: clover_unpushed.
 */
import {
  acknowledge,
  BROKEN,
  compareSwap,
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
  write,
} from "./prelude.ts";

export default onHosts({
  b: serve(),
  *a(context) {
    const link = yield* dial(context);
    yield* execute(link, write(link, 128, record(1)), read(link, 128));
    yield* execute(link, compareSwap(link, 0, 0n, 1n), read(link, 0));
    acknowledge(link, 1);
  },
});

export const recover = recovering((memory) =>
  memory.load(0, 8).every((byte) => byte === 0) ? NOTHING : recordAt(memory, 128) || BROKEN
);

export const check = newestSurvives;
