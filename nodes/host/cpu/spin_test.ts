import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { areOnlySpinsDue, Spins } from "./spin.ts";

type Poller = Parameters<Spins["end"]>[0];

/** A thread of a core whose polls end at 100, 110, 120 … up to 1000; or one that does something else. */
function thread(
  order: number,
  { core = { index: 0, busyUntil: 100, cpuPs: 0 }, kind = "spin", isSpinning = true }: {
    readonly core?: Poller["core"];
    readonly kind?: string;
    readonly isSpinning?: boolean;
  } = {},
): Poller {
  return {
    plan: { name: `t${order}` },
    core,
    account: { paidPs: 0 },
    order,
    wait: { kind },
    spin: isSpinning ? { firstAt: 100, roundPs: 10 } : undefined,
    resumeAt: 1_000,
    readyAt: 1_000,
    paidAt: 100,
  };
}

describe("Spins", () => {
  it("has a thread go on with the poll that it would have under way, at the cost of those before", () => {
    for (
      const [now, end] of [[90, 100], [100, 100], [101, 110], [110, 110], [995, 1_000]] as const
    ) {
      const task = thread(1);
      const busy: number[][] = [];
      const spins = new Spins(({ busyUntil, from = 0 }) => void busy.push([from, busyUntil]));
      spins.interrupt([task], now);
      assert.deepEqual([task.resumeAt, task.core.busyUntil, task.account.paidPs], [
        end,
        end,
        end - 100,
      ]);
      assert.deepEqual(busy, end === 100 ? [] : [[100, end]]);
      assert.equal(task.spin, undefined);
      assert.equal(spins.eventAt, now);
    }
  });

  it("of one instant, polls of threads before the one that has done something else came before it", () => {
    const ends = (readyAt: number, now: number) => {
      const spins = new Spins(undefined);
      const tasks = [thread(3), thread(7)];
      spins.interruptOthers(tasks, thread(5), { readyAt, now });
      return tasks.map(({ resumeAt }) => resumeAt);
    };
    assert.deepEqual(ends(120, 120), [130, 120]);
    // One that became ready earlier had its turn before all of them.
    assert.deepEqual(ends(110, 120), [120, 120]);
    assert.deepEqual(ends(115, 115), [120, 120]);
  });
});

describe("areOnlySpinsDue", () => {
  const core = () => ({ index: 0, busyUntil: 0, cpuPs: 0 });

  it("is so where each thread that is due polls alone on its core", () => {
    const first = thread(1, { core: core() }), second = thread(2, { core: core() });
    assert.equal(areOnlySpinsDue([first, second], [first, second]), true);
    assert.equal(areOnlySpinsDue([], [first]), true);
    const works = thread(3, { core: core(), kind: "time", isSpinning: false });
    assert.equal(areOnlySpinsDue([first, works], [first]), false);
  });

  it("is not so where it shares its core with another loop of polls, whichever of them is passed over", () => {
    const shared = core();
    const first = thread(1, { core: shared }), second = thread(2, { core: shared });
    assert.equal(areOnlySpinsDue([first], [first, second]), false);
    const steps = thread(3, { core: shared, isSpinning: false });
    assert.equal(areOnlySpinsDue([steps], [first]), false);
    assert.equal(areOnlySpinsDue([steps], []), true);
  });
});
