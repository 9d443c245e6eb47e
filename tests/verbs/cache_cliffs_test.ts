/** throughput against the number of queue pairs, and against registered memory. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type CliffRun, runCliff } from "../../scripts/bench/cliffs.ts";

/** Queues that the card caches here, and pages: small, as the curve is one of their ratio. */
const QUEUES = 64, PAGES = 512;

function run(more: Partial<CliffRun> & Pick<CliffRun, "qps">) {
  const busy = { programs: 12, depth: 16, messages: 1_440, bytes: 4096, seed: 7 } as const;
  return runCliff({ ...busy, queueEntries: QUEUES, ...more });
}

describe("caches of the card", () => {
  it("Q-07, Q-11: message rate is flat while queue pairs fit, and with twice as many lower by what is published", () => {
    const [few, fit, twice] = [12, 48, 2 * QUEUES + 4].map((qps) => run({ qps }));
    const ratio = (to: typeof few) => to!.messagesPerSecond / few!.messagesPerSecond;
    assert.ok(Math.abs(ratio(fit) - 1) < 0.02, `${ratio(fit)} of few`);
    // "Commercial RNIC's performance drops by 47 % when there are a few thousand connections" (A Scalable RDMA
    // Network Interface Card with Efficient Cache Management, ISCAS'23, abstract): in the range. The programs'
    // completion queues take twelve of the 64 entries, and miss, too; `scripts/bench/RESULTS.md` has the curve of
    // the profile's card, where they weigh nothing.
    assert.ok(ratio(twice) > 0.4 && ratio(twice) < 0.66, `${ratio(twice)} of few`);
    assert.ok(few!.queueReads < 0.1 && twice!.queueReads > 0.7);
    const areas = run({ qps: 2 * QUEUES + 4, layout: "areas" });
    assert.ok(areas.queueReads > 2.5 * twice!.queueReads, "three reads for one");
    assert.ok(areas.messagesPerSecond < 0.8 * twice!.messagesPerSecond);
  });

  it("Q-07, Q-11: the rate is flat while translations of registered memory fit, and falls beyond", () => {
    const [some, fits, four] = [PAGES / 4, PAGES, 4 * PAGES].map((pages) =>
      run({
        qps: 4,
        programs: 1,
        depth: 4,
        messages: 640,
        bytes: pages * 4096,
        translationEntries: PAGES + 64,
      })
    );
    const ratio = (to: typeof some) => to!.messagesPerSecond / some!.messagesPerSecond;
    assert.ok(Math.abs(ratio(fits) - 1) < 0.02, `${ratio(fits)} of some`);
    assert.equal(fits!.translationReads, 0);
    // A DMA read of 0.5 µs more for three in four, in a message of 1.4 µs that is waited for.
    assert.ok(ratio(four) > 0.7 && ratio(four) < 0.9, `${ratio(four)} of some`);
    assert.ok(four!.translationReads > 0.6 && four!.translationReads < 0.9);
  });
});
