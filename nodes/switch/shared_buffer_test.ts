/** The limits of what may wait, to the byte. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { seeded } from "../../fabric/base/property_testing.ts";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import {
  createSharedBuffer,
  fullFor,
  occupy,
  type Passage,
  type SharedBuffer,
  vacate,
} from "./shared_buffer.ts";
import { planWith, PORTS, RATE } from "./switch_testing.ts";

const LOSSLESS = 3;
const XOFF = 1_000, XON = 600, HEADROOM = 500;

type Pfc = NonNullable<NonNullable<SwitchPlan["congestion"]>["pfc"]>;

function bufferOf(change: Partial<SwitchPlan> = {}, rules: Partial<Pfc> = {}): SharedBuffer {
  const port = { bitsPerSecond: RATE, headroomBytes: HEADROOM };
  const pfc: Pfc = {
    lossless: 1 << LOSSLESS,
    threshold: { kind: "static", xoffBytes: XOFF, xonBytes: XON },
    mac: 1,
    ports: Array.from({ length: PORTS }, () => port),
    ...rules,
  };
  return createSharedBuffer(planWith({ congestion: { ecn: null, pfc }, ...change }));
}

function hasRoom(buffer: SharedBuffer, frame: Passage): boolean {
  return fullFor(buffer, frame) === undefined;
}

function passage(bytes: number, given: Partial<Passage> = {}): Passage {
  return { from: 0, to: 3, priority: LOSSLESS, bytes, ...given };
}

describe("a lossless priority of an input port", () => {
  it("is not to be paused at XOFF, and is from the first byte above it on", () => {
    const buffer = bufferOf();
    assert.equal(occupy(buffer, passage(XOFF)), false, "at XOFF");
    assert.equal(occupy(buffer, passage(1)), true, "one byte above");
    assert.equal(occupy(buffer, passage(1)), true, "and it stays so");
  });

  it("may go on at XON, not one byte above it", () => {
    const buffer = bufferOf();
    occupy(buffer, passage(XOFF));
    assert.equal(vacate(buffer, passage(XOFF - XON - 1)), false, "one byte above");
    assert.equal(vacate(buffer, passage(1)), true, "at XON");
    assert.equal(vacate(buffer, passage(1)), true, "and below");
  });

  it("has the headroom on top of XOFF, to the last byte", () => {
    const buffer = bufferOf();
    occupy(buffer, passage(XOFF));
    assert.equal(hasRoom(buffer, passage(HEADROOM)), true);
    assert.equal(fullFor(buffer, passage(HEADROOM + 1)), "headroom");
    occupy(buffer, passage(HEADROOM));
    assert.equal(hasRoom(buffer, passage(1)), false);
    vacate(buffer, passage(1));
    assert.equal(hasRoom(buffer, passage(1)), true);
  });

  it("is counted by itself: other inputs and priorities do not fill it, outputs make no difference", () => {
    const buffer = bufferOf();
    occupy(buffer, passage(XOFF));
    assert.equal(occupy(buffer, passage(XOFF, { from: 1 })), false);
    assert.equal(occupy(buffer, passage(9_999, { priority: LOSSLESS + 1 })), false);
    assert.equal(occupy(buffer, passage(1, { to: 2 })), true);
  });
});

describe("lossy frames", () => {
  const lossy = (bytes: number, to = 3) => passage(bytes, { priority: 0, to });

  it("have their output queue's bytes to the last, and never ask for a pause", () => {
    const buffer = bufferOf({ queueBytes: 100 });
    assert.equal(hasRoom(buffer, lossy(100)), true);
    assert.equal(fullFor(buffer, lossy(101)), "queue");
    assert.equal(occupy(buffer, lossy(100)), false);
    assert.equal(hasRoom(buffer, lossy(1)), false);
    assert.equal(hasRoom(buffer, lossy(100, 2)), true, "another output's queue");
    assert.equal(vacate(buffer, lossy(1)), false);
    assert.equal(hasRoom(buffer, lossy(1)), true);
  });

  it("share the switch's memory, without its headroom, with all other frames to the last byte", () => {
    const pool = 150;
    const buffer = bufferOf({ queueBytes: 100, bufferBytes: PORTS * HEADROOM + pool });
    occupy(buffer, lossy(100));
    assert.equal(hasRoom(buffer, lossy(50, 2)), true);
    assert.equal(fullFor(buffer, lossy(51, 2)), "pool");
    assert.equal(occupy(buffer, passage(50)), false, "a lossless frame takes the rest");
    assert.equal(hasRoom(buffer, lossy(1, 2)), false);
    assert.equal(occupy(buffer, passage(1)), true, "the pool is empty: headroom, and a pause");
    assert.equal(vacate(buffer, passage(51)), true);
    assert.equal(hasRoom(buffer, lossy(50, 2)), true);
  });

  it("have a share of what is free where the switch has an alpha", () => {
    const buffer = bufferOf({ alpha: 1 / 2, bufferBytes: PORTS * HEADROOM + 1_000 });
    assert.equal(fullFor(buffer, lossy(501)), "share");
    occupy(buffer, lossy(500));
    assert.equal(hasRoom(buffer, lossy(1)), false, "the threshold has sunk to 250");
    assert.equal(hasRoom(buffer, lossy(250, 2)), true);
    assert.equal(hasRoom(buffer, lossy(251, 2)), false);
  });

  it("have reserved bytes that nothing else takes", () => {
    const buffer = bufferOf({ reservedBytes: 40, bufferBytes: PORTS * (HEADROOM + 80) + 100 });
    occupy(buffer, lossy(140));
    assert.equal(hasRoom(buffer, lossy(1)), false);
    assert.equal(hasRoom(buffer, lossy(40, 2)), true);
    assert.equal(hasRoom(buffer, lossy(41, 2)), false);
    assert.equal(occupy(buffer, passage(40)), false, "a group has its own, too");
    assert.equal(occupy(buffer, passage(1)), true);
  });
});

describe("a dynamic threshold", () => {
  const POOL = 8_000, OFFSET = 300;
  const dynamic = () =>
    bufferOf({ bufferBytes: PORTS * HEADROOM + POOL }, {
      threshold: { kind: "dynamic", alpha: 1 / 8, xonOffsetBytes: OFFSET },
    });

  it("is alpha of what is free: a group is paused at the first byte above it", () => {
    const buffer = dynamic();
    assert.equal(occupy(buffer, passage(1_000)), false, "an eighth of 8000");
    assert.equal(occupy(buffer, passage(1, { from: 1 })), false);
    assert.equal(occupy(buffer, passage(1)), true);
  });

  it("sinks as other groups fill the pool", () => {
    const buffer = dynamic();
    occupy(buffer, passage(1_000));
    assert.equal(occupy(buffer, passage(875, { from: 1 })), false, "an eighth of 7000");
    assert.equal(occupy(buffer, passage(766, { from: 2 })), true, "not of 6125, which is 765");
  });

  it("lets a group go on so much below it, without headroom in use", () => {
    const buffer = dynamic();
    occupy(buffer, passage(1_200));
    assert.equal(buffer.headroomBytes[LOSSLESS], 200);
    assert.equal(vacate(buffer, passage(200)), false, "875 is the threshold, 1000 wait");
    // 638 wait, and the threshold is an eighth of 7362: 920. 939 of it would be too much.
    assert.equal(vacate(buffer, passage(361)), false, "639 and the offset are above 920");
    assert.equal(vacate(buffer, passage(20)), true);
  });

  it("lets no group go on with headroom in use, however much the pool has got free since", () => {
    const buffer = dynamic();
    occupy(buffer, passage(7_200, { priority: 0 }));
    assert.equal(occupy(buffer, passage(400)), true);
    assert.equal(buffer.headroomBytes[LOSSLESS], 300, "an eighth of 800 is in the pool");
    vacate(buffer, passage(7_200, { priority: 0 }));
    assert.equal(vacate(buffer, passage(299)), false);
    assert.equal(vacate(buffer, passage(1)), true);
  });

  it("lets a group with nothing in the pool go on, however little is free", () => {
    const buffer = dynamic();
    for (const to of [0, 1, 2, 3]) occupy(buffer, passage(2_000, { priority: 0, to }));
    assert.equal(occupy(buffer, passage(100)), true);
    assert.equal(vacate(buffer, passage(100)), true);
  });
});

describe("headroom", () => {
  it("is each port's own, unless all share a pool of it", () => {
    for (const [headroomPoolBytes, others] of [[undefined, 500], [700, 200]] as const) {
      const buffer = bufferOf({}, headroomPoolBytes === undefined ? {} : { headroomPoolBytes });
      for (const from of [0, 1]) occupy(buffer, passage(XOFF, { from }));
      occupy(buffer, passage(HEADROOM));
      assert.equal(hasRoom(buffer, passage(others, { from: 1 })), true);
      assert.equal(hasRoom(buffer, passage(others + 1, { from: 1 })), false);
      vacate(buffer, passage(1));
      const isFree = hasRoom(buffer, passage(others + 1, { from: 1 }));
      assert.equal(isFree, headroomPoolBytes !== undefined, "what one gives back others have");
    }
  });
});

describe("a shared buffer, whatever comes and goes", () => {
  it("holds no more than its memory, and is empty when all has left", () => {
    const threshold = fc.constantFrom<Pfc["threshold"]>(
      { kind: "static", xoffBytes: XOFF, xonBytes: XON },
      { kind: "dynamic", alpha: 1 / 4, xonOffsetBytes: 100 },
    );
    const frame = fc.record({
      from: fc.nat(PORTS - 1),
      to: fc.nat(PORTS - 1),
      priority: fc.constantFrom(0, LOSSLESS),
      bytes: fc.integer({ min: 60, max: 900 }),
    });
    const rules = fc.record({ threshold, pool: fc.constantFrom(undefined, 600) });
    fc.assert(
      fc.property(rules, fc.array(fc.option(frame, { nil: null })), (rule, events) => {
        const memory = 6_000;
        const buffer = bufferOf({ bufferBytes: memory, reservedBytes: 100, alpha: 2 }, {
          threshold: rule.threshold,
          ...(rule.pool !== undefined && { headroomPoolBytes: rule.pool }),
        });
        const inside: Passage[] = [];
        const leave = () => {
          const frame = inside.shift();
          return frame === undefined ? undefined : vacate(buffer, frame);
        };
        for (const event of events) {
          if (event === null) leave();
          else if (hasRoom(buffer, event)) {
            occupy(buffer, event);
            inside.push(event);
          }
          const sum = inside.reduce((bytes, each) => bytes + each.bytes, 0);
          assert.equal(buffer.bytes, sum);
          assert.ok(sum <= memory);
          assert.ok(buffer.sharedUsed >= 0 && buffer.sharedUsed <= buffer.sharedBytes);
          assert.ok(buffer.headroomUsed <= (rule.pool ?? PORTS * HEADROOM));
        }
        while (inside.length > 0) leave();
        assert.deepEqual([buffer.bytes, buffer.sharedUsed, buffer.headroomUsed], [0, 0, 0]);
      }),
      seeded(),
    );
  });

  it("lets every group go on that is empty", () => {
    for (const kind of ["static", "dynamic"] as const) {
      const buffer = bufferOf({ bufferBytes: PORTS * HEADROOM + 1_000 }, {
        threshold: kind === "static"
          ? { kind, xoffBytes: XOFF, xonBytes: 0 }
          : { kind, alpha: 1 / 128, xonOffsetBytes: 9_999 },
      });
      occupy(buffer, passage(400));
      occupy(buffer, passage(600, { priority: 0 }));
      assert.equal(vacate(buffer, passage(400)), true, kind);
    }
  });
});
