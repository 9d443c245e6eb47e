import {
  deepStrictEqual as same,
  notDeepStrictEqual,
  ok,
  strictEqual as equal,
} from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FlipPlan } from "../../../fabric/rack/plan/plan.ts";
import { createFlips, type Flip, flipped, flipStatistics } from "./flips.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";

const DATA = Uint8Array.from({ length: 64 }, (_, i) => 5 * i);

function made(plans: readonly Partial<FlipPlan>[], seed = 1): Flip[] {
  const flips = plans.map((plan, id) => ({ id, where: "buffer", at: 0, ...plan }) as const);
  return createFlips(rnicPlan("b", { flips }), { name: "b.rnic", seed });
}

/** Which of so many pieces are damaged, one after the other at times 0, 1, 2 … */
function hits(flips: readonly Flip[], pieces: number): number[] {
  const found: number[] = [];
  for (let now = 0; now < pieces; now++) {
    if (flipped({ flips, now }, "buffer", DATA) !== DATA) found.push(now);
  }
  return found;
}

function bitsChanged(bytes: Uint8Array): number {
  let bits = 0;
  for (const [i, byte] of bytes.entries()) {
    for (let rest = byte ^ DATA[i]!; rest !== 0; rest &= rest - 1) bits++;
  }
  return bits;
}

describe("flipped", () => {
  it("V-08 (in part): gives back the very bytes where the plan has no fault", () => {
    const flips = createFlips(rnicPlan("b"), { name: "b.rnic", seed: 1 });
    equal(flipped({ flips, now: 5 }, "bus", DATA), DATA);
    same(flipStatistics(flips), {});
  });

  it("V-08: turns over one bit of a copy for each fault, and never of the bytes given", () => {
    const before = DATA.slice();
    for (const count of [1, 2, 3]) {
      const flips = made(Array.from({ length: count }, () => ({})), 11);
      const damaged = flipped({ flips, now: 0 }, "buffer", DATA);
      ok(damaged !== DATA);
      equal(bitsChanged(damaged) % 2, count % 2);
      ok(bitsChanged(damaged) <= count);
    }
    same(DATA, before);
  });

  it("V-08: damages where the plan says, and data only", () => {
    const flips = made([{ where: "bus" }]);
    equal(flipped({ flips, now: 0 }, "buffer", DATA), DATA);
    equal(flipped({ flips, now: 0 }, "checked", DATA), DATA);
    const nothing = new Uint8Array(0);
    equal(flipped({ flips, now: 0 }, "bus", nothing), nothing);
    same(flipStatistics(flips), { flip0Seen: 0, flip0Hit: 0 });
    ok(flipped({ flips, now: 0 }, "bus", DATA) !== DATA);
    same(flipStatistics(flips), { flip0Seen: 1, flip0Hit: 1 });
  });

  it("V-08: damages when the plan says: in its time, the nth, so many, a share", () => {
    same(hits(made([{ at: 3, until: 6 }]), 9), [3, 4, 5]);
    same(hits(made([{ at: 3, nth: 2 }]), 9), [4]);
    same(hits(made([{ count: 2 }]), 9), [0, 1]);
    const share = hits(made([{ share: 0.25 }]), 400).length;
    ok(share > 60 && share < 140, `${share} of 400`);
    same(hits(made([{ share: 0 }]), 50), []);
  });

  it("V-08: does the same with the same seed, and draws nothing from another fault's stream", () => {
    const plan = { share: 0.3 };
    same(hits(made([plan], 7), 100), hits(made([plan], 7), 100));
    notDeepStrictEqual(hits(made([plan], 7), 100), hits(made([plan], 8), 100));
    const [alone] = made([plan], 7), both = made([plan, { share: 0.5 }], 7);
    hits([alone!], 100);
    hits(both, 100);
    same([alone!.seen, alone!.hit], [both[0]!.seen, both[0]!.hit]);
  });
});
