import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import {
  countBytes,
  createRateLimiter,
  isRecovered,
  stageOf,
  takeNotification,
  timerEvent,
  updateAlpha,
} from "./dcqcn.ts";
import type { DcqcnParameters } from "../../../fabric/rack/plan/plan.ts";
import type { RateLimiter } from "../state/congestion_state.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

const LINE = 100e9;
/** Round numbers, so that rows can be computed by hand. */
const PARAMETERS: DcqcnParameters = {
  g: 1 / 16,
  cnpIntervalPs: 50 * PS_PER_US,
  alphaTimerPs: 55 * PS_PER_US,
  rateTimerPs: 55 * PS_PER_US,
  byteCounterBytes: 10_000_000,
  fastRecovery: 5,
  additiveBps: 40e6,
  hyperBps: 400e6,
  minBps: 100e6,
  decreaseIntervalPs: 4 * PS_PER_US,
};

function limiter(given: Partial<RateLimiter> = {}): RateLimiter {
  return { ...createRateLimiter(PARAMETERS, { now: 0, lineBps: LINE }), ...given };
}

describe("takeNotification", () => {
  const rows: readonly (readonly [name: string, before: Partial<RateLimiter>, current: number])[] =
    [
      ["the first one halves the line's rate, as alpha is 1", {}, 50e9],
      ["alpha 1/2 takes a quarter", { alpha: 0.5, currentBps: 40e9 }, 30e9],
      ["alpha 0 takes nothing", { alpha: 0, currentBps: 40e9 }, 40e9],
      ["the least rate is kept", { currentBps: 150e6 }, 100e6],
    ];
  for (const [name, before, current] of rows) {
    it(name, () => {
      const one = limiter(before);
      const target = one.currentBps;
      assert.equal(takeNotification(one, PARAMETERS, 0), true);
      assert.deepEqual([one.currentBps, one.targetBps], [current, target]);
    });
  }

  it("cuts once in 4 us, and starts both counters and the timer anew", () => {
    const one = limiter({ timerEvents: 3, byteEvents: 2, bytes: 77 });
    takeNotification(one, PARAMETERS, 1_000);
    assert.deepEqual([one.timerEvents, one.byteEvents, one.bytes], [0, 0, 0]);
    assert.equal(one.increaseAt, 1_000 + 55 * PS_PER_US);
    assert.equal(takeNotification(one, PARAMETERS, 1_000 + 4 * PS_PER_US - 1), false);
    assert.equal(one.currentBps, 50e9);
    assert.equal(takeNotification(one, PARAMETERS, 1_000 + 4 * PS_PER_US), true);
    assert.equal(one.currentBps, 25e9);
  });
});

describe("updateAlpha", () => {
  it("decays by g, and by notifications goes towards 1", () => {
    const one = limiter({ alpha: 0.5, notified: true });
    updateAlpha(one, PARAMETERS);
    assert.equal(one.alpha, 0.5 * 15 / 16 + 1 / 16);
    updateAlpha(one, PARAMETERS);
    assert.equal(one.alpha, (0.5 * 15 / 16 + 1 / 16) * 15 / 16, "the notification counts once");
    assert.equal(one.alphaAt, 3 * 55 * PS_PER_US);
  });
});

describe("stageOf", () => {
  const rows = [
    [1, 0, "fast-recovery"],
    [5, 5, "fast-recovery"],
    [6, 0, "additive-increase"],
    [6, 5, "additive-increase"],
    [0, 6, "additive-increase"],
    [6, 6, "hyper-increase"],
  ] as const;
  for (const [timer, bytes, stage] of rows) {
    it(`${timer} of the timer and ${bytes} of the byte counter: ${stage}`, () => {
      assert.equal(stageOf({ timer, bytes }, PARAMETERS.fastRecovery), stage);
    });
  }
});

describe("timerEvent", () => {
  it("recovers half of what is missing five times, then adds R_AI", () => {
    const one = limiter();
    takeNotification(one, PARAMETERS, 0);
    const rates = [75e9, 87.5e9, 93.75e9, 96.875e9, 98.4375e9];
    for (const rate of rates) {
      timerEvent(one, PARAMETERS, LINE);
      assert.deepEqual([one.currentBps, one.targetBps], [rate, 100e9]);
    }
    assert.equal(one.increaseAt, 6 * 55 * PS_PER_US);
    const slow = limiter({ currentBps: 10e9, targetBps: 10e9, timerEvents: 5 });
    timerEvent(slow, PARAMETERS, LINE);
    assert.deepEqual([slow.targetBps, slow.currentBps], [10.04e9, 10.02e9]);
    Object.assign(slow, { byteEvents: 6 });
    timerEvent(slow, PARAMETERS, LINE);
    assert.deepEqual([slow.targetBps, slow.currentBps], [10.44e9, 10.23e9]);
  });

  it("never goes beyond the line", () => {
    const one = limiter({ currentBps: 99e9, targetBps: 99.99e9, timerEvents: 9, byteEvents: 9 });
    for (let i = 0; i < 20; i++) timerEvent(one, PARAMETERS, LINE);
    assert.equal(one.targetBps, LINE);
    assert.equal(isRecovered(one, LINE), true);
  });
});

describe("countBytes", () => {
  it("spaces frames by what they take at the current rate", () => {
    const one = limiter({ currentBps: 10e9 });
    countBytes(one, PARAMETERS, { now: 1_000, bytes: 1_250, lineBps: LINE });
    assert.equal(one.mayBeginAt, 1_000 + PS_PER_US);
    countBytes(one, PARAMETERS, { now: 2_000, bytes: 1_250, lineBps: LINE });
    assert.equal(one.mayBeginAt, 1_000 + 2 * PS_PER_US);
  });

  it("makes an event every 10 MB", () => {
    const one = limiter();
    takeNotification(one, PARAMETERS, 0);
    countBytes(one, PARAMETERS, { now: 0, bytes: 9_999_999, lineBps: LINE });
    assert.deepEqual([one.byteEvents, one.currentBps], [0, 50e9]);
    countBytes(one, PARAMETERS, { now: 0, bytes: 10_000_001, lineBps: LINE });
    assert.deepEqual([one.byteEvents, one.currentBps, one.bytes], [2, 87.5e9, 0]);
  });
});

describe("a limiter, whatever happens", () => {
  it("keeps its rate between the least and the line's, and alpha between 0 and 1", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(3), { maxLength: 300 }), (events) => {
        const one = limiter();
        let now = 0;
        for (const event of events) {
          now += 10 * PS_PER_US;
          if (event === 0) takeNotification(one, PARAMETERS, now);
          else if (event === 1) updateAlpha(one, PARAMETERS);
          else if (event === 2) timerEvent(one, PARAMETERS, LINE);
          else countBytes(one, PARAMETERS, { now, bytes: 5_000_000, lineBps: LINE });
          assert.ok(one.currentBps >= PARAMETERS.minBps && one.currentBps <= LINE);
          assert.ok(one.targetBps >= one.currentBps && one.targetBps <= LINE);
          assert.ok(one.alpha >= 0 && one.alpha <= 1);
        }
      }),
      seeded(),
    );
  });
});
