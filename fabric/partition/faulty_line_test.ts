/** What the far end of a cable hears when the cable does wrong: which frames, and never two at once. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { toyRack } from "../runner/clock_testing.ts";
import { addLinkFault, createDirectionFaults, decideFate } from "../link/fault.ts";
import { wireBytes } from "../link/link.ts";
import type { Frame, Node } from "../node.ts";
import { directionName } from "../rack/plan/cable_names.ts";
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import { Simulator } from "./simulator.ts";
import { NEVER, PS_PER_US, type Time, transferTime } from "../base/time.ts";
import { seeded } from "../base/property_testing.ts";

const BITS_PER_SECOND = 100e9;
const PROCESSING_PS = 1_000;
/** A frame of this many bytes takes 100 ns of the line: 24 are FCS, preamble and gap. */
const LENGTH = 1226;
const FRAME_PS = 100_000;

/** A frame that a node hands to its transmitter. Frames of one node differ in length. */
interface Sending {
  readonly at: Time;
  readonly length: number;
}

/** A frame at the far end: when its first and its last bit pass. */
interface Arrived {
  readonly length: number;
  readonly startPs: Time;
  readonly endPs: Time;
}

type Fault = Partial<LinkFaultPlan> & Pick<LinkFaultPlan, "action">;
type Mode = "cut-through" | "store-and-forward";

/** n00 is end a of the only cable, n01 end b. */
function pairPlan(faults: readonly Fault[], mode: Mode = "store-and-forward"): RackPlan {
  const cable = {
    kind: "network",
    a: { node: "n00", port: 0 },
    b: { node: "n01", port: 0 },
    latencyPs: 5_000,
    bitsPerSecond: BITS_PER_SECOND,
  } as const;
  const plan = toyRack(3, { names: ["n00", "n01"], cables: [cable], mode: () => mode });
  const linkFaults = faults.map((fault, id): LinkFaultPlan => ({
    cable: 0,
    direction: "both",
    at: 0,
    ...fault,
    id,
  }));
  return { ...plan, linkFaults };
}

/** Both ends send these, in order. @returns what `hears` gets, in the order of arrival. */
function arrivals(plan: RackPlan, sendings: readonly Sending[], hears = "n01"): Arrived[] {
  const heard: Arrived[] = [];
  const create = (name: string): Node => {
    const waiting = [...sendings];
    return {
      name,
      kind: "switch",
      processingPs: PROCESSING_PS,
      step(now, input, out) {
        if (input.kind === "message" && name === hears) {
          const { bytes } = input.message as Frame;
          const endPs = now + input.tailPs;
          const startPs = endPs - durationOf(bytes.length);
          heard.push({ length: bytes.length, startPs, endPs });
        }
        while (waiting.length > 0 && waiting[0]!.at <= now) {
          const { length } = waiting.shift()!;
          out.send(0, frameOf(length), now + PROCESSING_PS);
        }
      },
      wakeAt: () => waiting[0]?.at ?? NEVER,
      statistics: () => ({}),
    };
  };
  new Simulator({ plan, create }).run();
  return heard;
}

function frameOf(length: number): Frame {
  return { kind: "frame", bytes: new Uint8Array(length) };
}

function durationOf(length: number): Time {
  return transferTime(wireBytes(frameOf(length)), BITS_PER_SECOND);
}

/** So many frames back to back; each is one byte longer than the one before it. */
function train(count: number): Sending[] {
  return Array.from({ length: count }, (_, i) => ({ at: PS_PER_US, length: LENGTH + i }));
}

/** What arrives of a {@link train}, by each frame's place in it. */
function order(heard: readonly Arrived[]): number[] {
  return heard.map(({ length }) => length - LENGTH);
}

function assertOneAfterTheOther(heard: readonly Arrived[]): void {
  let freeAt = 0;
  for (const { startPs, endPs } of heard) {
    assert.ok(
      startPs >= freeAt,
      `a frame begins at ${startPs} ps, the line is free at ${freeAt} ps`,
    );
    freeAt = endPs;
  }
}

for (const mode of ["store-and-forward", "cut-through"] as const) {
  describe(`what a ${mode} receiver hears over a cable that does wrong`, () => {
    const [onTime] = arrivals(pairPlan([], mode), train(1));

    it("is a duplicate behind the last bit of its original, and the next frame behind that", () => {
      const heard = arrivals(pairPlan([{ action: "duplicate", nth: 1 }], mode), train(2));
      assert.deepEqual(order(heard), [0, 0, 1]);
      assert.equal(heard[0]!.endPs, onTime!.endPs);
      assert.equal(heard[1]!.startPs, onTime!.endPs);
      assert.equal(heard[2]!.startPs, onTime!.endPs + FRAME_PS);
    });

    it("is a frame that was held back behind the one that passed it, before the next", () => {
      const reorder: Fault = { action: "reorder", nth: 1, overtakenBy: 1 };
      const heard = arrivals(pairPlan([reorder], mode), train(3));
      assert.deepEqual(order(heard), [1, 0, 2]);
      assert.equal(heard[1]!.startPs, heard[0]!.endPs);
      assert.equal(heard[2]!.startPs, heard[1]!.endPs);
    });

    it("is a frame that was held back for a time, between two others", () => {
      const reorder: Fault = { action: "reorder", nth: 1, holdPs: 3 * FRAME_PS };
      const sendings = train(6).map((each, i) => ({ ...each, at: each.at + i * FRAME_PS }));
      const heard = arrivals(pairPlan([reorder], mode), sendings);
      assert.deepEqual(order(heard), [1, 2, 0, 3, 4, 5]);
      assertOneAfterTheOther(heard);
      assert.equal(heard[3]!.startPs, heard[2]!.endPs, "what it lies in the way of waits");
    });

    it("is frames in order and at the line's rate where each has another delay", () => {
      const delay: Fault = { action: "delay", delayPs: 1, jitterPs: 10 * FRAME_PS };
      const heard = arrivals(pairPlan([delay], mode), train(40));
      assert.deepEqual(order(heard), [...Array(40).keys()]);
      assertOneAfterTheOther(heard);
      assert.ok(heard.some(({ startPs }, i) => i > 0 && startPs > heard[i - 1]!.endPs), "a gap");
    });

    it("is a frame at a lower rate, as a whole, and the next behind it at the cable's own", () => {
      const rate: Fault = { action: "rate", nth: 1, bitsPerSecond: BITS_PER_SECOND / 10 };
      const heard = arrivals(pairPlan([rate], mode), train(2));
      assert.deepEqual(order(heard), [0, 1]);
      assert.equal(heard[0]!.endPs, onTime!.startPs + 10 * FRAME_PS);
      assert.equal(heard[1]!.startPs, heard[0]!.endPs);
    });

    it("is both of a frame that is doubled and held back", () => {
      for (const held of [{ overtakenBy: 1 }, { holdPs: FRAME_PS }]) {
        const reorder: Fault = { action: "reorder", nth: 1, ...held };
        const plan = pairPlan([{ action: "duplicate", nth: 1 }, reorder], mode);
        const heard = arrivals(plan, train(3));
        assert.deepEqual(order(heard).toSorted(), [0, 0, 1, 2]);
        assertOneAfterTheOther(heard);
      }
    });
  });
}

describe("a fault of one direction", () => {
  for (const action of ["loss", "cut"] as const) {
    it(`(${action}) takes what its end sends, and nothing of what comes the other way`, () => {
      const reached = (direction: "a" | "b" | "both") => {
        const plan = pairPlan([{ action, direction, at: 1 }]);
        return ["n00", "n01"].filter((name) => arrivals(plan, train(2), name).length === 2);
      };
      assert.deepEqual(reached("a"), ["n00"]);
      assert.deepEqual(reached("b"), ["n01"]);
      assert.deepEqual(reached("both"), []);
    });
  }
});

describe("a cable with any mixture of faults", () => {
  const anyFault: fc.Arbitrary<Fault> = fc.record({
    action: fc.constantFrom("loss", "corrupt", "duplicate", "reorder", "delay"),
    direction: fc.constantFrom("a", "both"),
    at: fc.nat(2 * PS_PER_US),
    until: fc.integer({ min: 2 * PS_PER_US + 1, max: 20 * PS_PER_US }),
    share: fc.double({ min: 0.05, max: 1, noNaN: true }),
    delayPs: fc.nat(PS_PER_US),
    jitterPs: fc.nat(PS_PER_US),
    holdPs: fc.integer({ min: 1, max: PS_PER_US }),
  }, { requiredKeys: ["action"] }).chain((fault) =>
    fault.action === "reorder"
      ? fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined })
        .map((overtakenBy) => overtakenBy === undefined ? fault : { ...fault, overtakenBy })
      : fc.constant(fault)
  );
  /** Some back to back, some apart. */
  const anySendings = fc.uniqueArray(
    fc.record({
      length: fc.integer({ min: 14, max: 4_200 }),
      gapPs: fc.oneof(fc.constant(0), fc.nat(5 * FRAME_PS)),
    }),
    { selector: ({ length }) => length, minLength: 1, maxLength: 40 },
  ).map((frames) => {
    let at = PS_PER_US;
    return frames.map(({ length, gapPs }): Sending => ({ length, at: at += gapPs }));
  });

  it("delivers what the faults leave of the frames, none earlier, no two at once", () => {
    fc.assert(
      fc.property(
        fc.array(anyFault, { minLength: 1, maxLength: 4 }),
        anySendings,
        fc.constantFrom<Mode>("store-and-forward", "cut-through"),
        (faults, sendings, mode) => {
          const plan = pairPlan(faults, mode);
          const heard = arrivals(plan, sendings);
          assertOneAfterTheOther(heard);
          const { copies, inOrder } = expected(plan, sendings);
          assert.deepEqual(heard.map(({ length }) => length).toSorted(), copies.toSorted());
          const kept = heard.map(({ length }) => length).filter((each) => inOrder.includes(each));
          assert.deepEqual([...new Set(kept)], inOrder);
          const healthy = arrivals(pairPlan([], mode), sendings);
          for (const { length, startPs } of heard) {
            assert.ok(startPs >= healthy.find((each) => each.length === length)!.startPs);
          }
        },
      ),
      seeded({ seed: 20_011, numRuns: 300 }),
    );
  });

  /** By their lengths: each frame as often as it arrives, and those that nothing holds back. */
  function expected(plan: RackPlan, sendings: readonly Sending[]) {
    const name = directionName(plan, { cable: 0, from: "a" });
    const faults = createDirectionFaults({ seed: plan.seed, name });
    for (const fault of plan.linkFaults ?? []) addLinkFault(faults, fault, 0);
    const copies: number[] = [], inOrder: number[] = [];
    for (const { at, length } of sendings) {
      const { lost, doubled, overtakenBy, holdPs } = decideFate(faults, at, frameOf(length));
      if (lost) continue;
      copies.push(...(doubled ? [length, length] : [length]));
      if (overtakenBy === 0 && holdPs === 0) inOrder.push(length);
    }
    return { copies, inOrder };
  }
});
