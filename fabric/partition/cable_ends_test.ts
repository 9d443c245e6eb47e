/** Ends of cables that are cut, have faults, or lost their other end: what nodes notice, and what is counted. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import { NEVER, type Time } from "../base/time.ts";
import {
  createRig,
  frame,
  LATENCY_PS,
  leastPs,
  messageFromC,
  powerOfC,
  PROCESSING_PS,
  type Rig,
  type Script,
} from "./partition_testing.ts";

/** The cable between a and b is 0, the one between b and c is 1. */
function fault(
  id: number,
  action: LinkFaultPlan["action"],
  of: Partial<LinkFaultPlan> & { readonly at: Time },
): LinkFaultPlan {
  return { id, action, cable: 1, direction: "both", ...of };
}

/** Sends a frame over `port` at each of these instants. */
function sendsAt(port: number, ...times: Time[]): Script {
  return ({ now, input, out }) => {
    if (input.kind === "wake") out.send(port, frame(), now + PROCESSING_PS.b!);
    return times.find((at) => input.kind === "wake" ? at > now : at >= now) ?? NEVER;
  };
}

const linkNews = ({ heard }: Rig) => heard.filter((line) => /(up|down):/.test(line));
/** Of the cable to c alone. */
const newsOfC = (rig: Rig) => linkNews(rig).filter((line) => line.includes(":1 "));
const departures = ({ partition }: Rig) =>
  partition.takeDepartures().flatMap(({ event: { time, input } }) =>
    input.kind === "message" ? [time] : []
  );

describe("A cable that is cut", () => {
  it("is noticed at each end as late as a failure of the other end would be", () => {
    const rig = createRig({
      plan: {
        linkFaults: [
          fault(0, "cut", { at: 10_000, cable: 0 }),
          fault(1, "heal", { at: 50_000, cable: 0 }),
        ],
      },
    });
    rig.partition.advance(NEVER);
    assert.deepEqual(linkNews(rig), [
      `b/0 down:0 @${10_000 + leastPs("a")}`,
      `a/0 down:0 @${10_000 + leastPs("b")}`,
      `b/0 up:0 @${50_000 + leastPs("a")}`,
      `a/0 up:0 @${50_000 + leastPs("b")}`,
    ]);
  });

  it("loses what arrives and what is sent once its end has noticed, and counts it", () => {
    const noticed = 10_000 + leastPs("c");
    const rig = createRig({
      scripts: { b: sendsAt(1, noticed, 60_000) },
      plan: {
        linkFaults: [
          fault(3, "cut", { at: 10_000 }),
          fault(5, "heal", { at: 40_000 }),
        ],
      },
    });
    for (const [counter, at] of [noticed - 1, noticed, 60_000].entries()) {
      rig.partition.accept(messageFromC(at, { counter }));
    }
    rig.partition.advance(NEVER);
    assert.deepEqual(rig.heard.filter((line) => line.includes("message")), [
      `b/0 message:1 @${noticed - 1}`,
      "b/0 message:1 @60000",
    ]);
    assert.deepEqual(departures(rig), [60_000 + leastPs("b")]);
    assert.deepEqual(rig.partition.linkFaultCounts(), [
      { fault: 3, direction: "b->c", seen: 1, hit: 1 },
      { fault: 3, direction: "c->b", seen: 1, hit: 1 },
    ]);
  });

  it("is not what a frame is counted to that is lost as the other end has no power", () => {
    const linkFaults = [fault(0, "cut", { at: 10_000 }), fault(1, "heal", { at: 20_000 })];
    const rig = createRig({ scripts: { b: sendsAt(1, 50_000) }, plan: { linkFaults } });
    rig.partition.accept(powerOfC(40_000, { up: false, sourceLife: 0 }));
    rig.partition.accept(messageFromC(50_000));
    rig.partition.advance(NEVER);
    assert.deepEqual(departures(rig), []);
    assert.ok(rig.partition.linkFaultCounts().every(({ seen, hit }) => seen + hit === 0));
  });

  it("hides the other end's power, and is no news where the link is down or stays so", () => {
    const rig = createRig({
      plan: {
        linkFaults: [
          fault(0, "cut", { at: 10_000 }),
          fault(1, "heal", { at: 40_000 }),
        ],
      },
    });
    rig.partition.accept(powerOfC(30_000, { up: false, sourceLife: 0 }));
    rig.partition.accept(powerOfC(70_000, { up: true, sourceLife: 1 }));
    rig.partition.advance(NEVER);
    assert.deepEqual(linkNews(rig), [`b/0 down:1 @${10_000 + leastPs("c")}`, "b/0 up:1 @70000"]);
  });

  it("of one way is noticed by no node, and neither is its heal", () => {
    const linkFaults = [
      fault(0, "cut", { at: 10_000, direction: "a" }),
      fault(1, "heal", { at: 40_000, direction: "a" }),
    ];
    // Cable 1 has b at its end `a`: what b sends is lost, what c sends arrives.
    const rig = createRig({
      scripts: { b: sendsAt(1, 9_999, 10_000, 40_000) },
      plan: { linkFaults },
    });
    rig.partition.accept(messageFromC(20_000));
    rig.partition.advance(NEVER);
    assert.deepEqual(linkNews(rig), []);
    assert.deepEqual(departures(rig), [9_999 + leastPs("b"), 40_000 + leastPs("b")]);
    assert.ok(rig.heard.includes("b/0 message:1 @20000"));
    const other = linkFaults.map((each) => ({ ...each, direction: "b" as const }));
    const theirs = createRig({ scripts: { b: sendsAt(1, 10_000) }, plan: { linkFaults: other } });
    theirs.partition.advance(NEVER);
    assert.deepEqual(departures(theirs), [10_000 + leastPs("b")], "c's way is c's to lose");
  });
});

describe("A node that gets power", () => {
  const boot = { at: 100_000, life: 1 };

  it("finds the network cable cut, in whichever order cuts and heals were added", () => {
    const history = [
      fault(0, "cut", { at: 10_000 }),
      fault(1, "heal", { at: 20_000 }),
      fault(2, "cut", { at: 30_000 }),
    ];
    for (const linkFaults of [history, history.toReversed()]) {
      const rig = createRig({ boot, plan: { linkFaults } });
      rig.partition.advance(NEVER);
      assert.deepEqual(newsOfC(rig), ["b/1 down:1 @100000"]);
      const healed = [...linkFaults, fault(3, "heal", { at: 40_000 })];
      for (const told of [healed, healed.toReversed()]) {
        const whole = createRig({ boot, plan: { linkFaults: told } });
        whole.partition.advance(NEVER);
        assert.deepEqual(newsOfC(whole), []);
      }
    }
  });

  it("has nothing to do before, whatever its cables did", () => {
    const linkFaults = [fault(0, "cut", { at: 10_000 }), fault(1, "heal", { at: 20_000 })];
    const { partition } = createRig({ boot, plan: { linkFaults } });
    assert.equal(partition.next, boot.at);
  });

  it("takes what was noticed last at its cable's end, and no older notice that comes after it", () => {
    const rig = createRig({ boot });
    rig.partition.noteLink(powerOfC(60_000, { up: true, sourceLife: 1 }));
    rig.partition.noteLink(powerOfC(50_000, { up: false, sourceLife: 0 }));
    rig.partition.accept(messageFromC(110_000, { sourceLife: 1, targetLife: 1 }));
    rig.partition.advance(NEVER);
    assert.deepEqual(newsOfC(rig), []);
    assert.equal(rig.heard.at(-1), "b/1 message:1 @110000");
  });

  it("finds the other end of a cable without power, of a bus as well", () => {
    for (const kind of ["network", "bus"] as const) {
      const rig = createRig({ boot, cable: { kind } });
      rig.partition.noteLink(powerOfC(50_000, { up: false, sourceLife: 0 }));
      rig.partition.advance(NEVER);
      assert.deepEqual(newsOfC(rig), ["b/1 down:1 @100000"]);
    }
  });

  it("gets no link-down event of a cable whose other end comes back at that very instant", () => {
    // a's news stand before what b finds, as the source is lower.
    const rig = createRig({
      plan: {
        faults: [
          { at: 10_000, action: "kill", node: "a" },
          { at: 20_000, action: "kill", node: "b" },
          { at: 30_000, action: "start", node: "a" },
          { at: 30_000 + leastPs("a"), action: "start", node: "b" },
        ],
      },
    });
    rig.partition.advance(30_001 + leastPs("a"));
    const at = 30_000 + leastPs("a");
    assert.deepEqual(linkNews(rig).filter((line) => line.startsWith("b/1")), [`b/1 up:0 @${at}`]);
  });

  it("counts what cables do from 0, and while it has none it counts nothing", () => {
    const times = [5_000, 30_000, 105_000];
    const rig = createRig({
      scripts: { b: sendsAt(1, ...times) },
      plan: {
        linkFaults: [fault(0, "loss", { at: 0, nth: 2 }), fault(1, "cut", { at: 10_000 })],
        faults: [
          { at: 50_000, action: "kill", node: "b" },
          { at: 100_000, action: "start", node: "b" },
        ],
      },
    });
    rig.partition.accept(messageFromC(20_000));
    rig.partition.accept(messageFromC(120_000, { targetLife: 1 }));
    const counts = () =>
      rig.partition.linkFaultCounts().map(({ fault: id, direction, seen, hit }) =>
        `${id} ${direction} ${hit} of ${seen}`
      );
    rig.partition.advance(50_000);
    assert.deepEqual(counts(), ["0 b->c 0 of 1", "1 b->c 1 of 1", "1 c->b 1 of 1"]);
    rig.partition.advance(100_000);
    assert.deepEqual(counts(), []);
    rig.partition.advance(110_000);
    assert.deepEqual(counts(), ["0 b->c 0 of 0", "1 b->c 1 of 1", "1 c->b 0 of 0"]);
  });
});

describe("A frame that is not as it should be", () => {
  /** When frames sent at these instants over the cable from b to c are there, less their way. */
  function arrivals(linkFaults: LinkFaultPlan[], ...times: Time[]): Time[] {
    const rig = createRig({ scripts: { b: sendsAt(1, ...times) }, plan: { linkFaults } });
    rig.partition.advance(NEVER);
    return departures(rig).map((at) => at - PROCESSING_PS.b! - 1 - LATENCY_PS);
  }

  /** Where two would lie on each other, the second one is there at the first one's heels. */
  function assertArrivals(got: Time[], expected: readonly Time[]): void {
    const isNear = got.length === expected.length &&
      got.every((at, i) => at >= expected[i]! && at <= expected[i]! + 2);
    assert.ok(isNear, `${got} instead of ${expected}`);
  }

  it("is late together with all behind it: a delay keeps the order", () => {
    const delay = fault(0, "delay", { at: 0, nth: 1, delayPs: 700 });
    assertArrivals(arrivals([delay], 1_000, 1_100, 5_000), [1_700, 1_700, 5_000]);
  });

  it("is late alone where it is reordered by time", () => {
    const late = fault(0, "reorder", { at: 0, nth: 1, holdPs: 700 });
    assertArrivals(arrivals([late], 1_000, 1_100, 5_000), [1_100, 1_700, 5_000]);
  });

  it("waits until so many have overtaken it, and is there no sooner than the last of them", () => {
    const held = fault(0, "reorder", { at: 0, nth: 1, overtakenBy: 2, holdPs: 1_000_000 });
    assertArrivals(arrivals([held], 1_000, 1_100, 5_000, 9_000), [1_100, 5_000, 5_000, 9_000]);
  });

  it("is not overtaken by one that is itself reordered", () => {
    const linkFaults = [
      fault(0, "reorder", { at: 0, nth: 1, overtakenBy: 1, holdPs: 1_000_000 }),
      fault(1, "reorder", { at: 0, nth: 2, holdPs: 200 }),
    ];
    assertArrivals(arrivals(linkFaults, 1_000, 1_100, 5_000), [1_300, 5_000, 5_000]);
  });

  it("goes on once after its longest wait, as late as anything that leaves the node then", () => {
    const held = fault(0, "reorder", { at: 0, nth: 1, overtakenBy: 1, holdPs: 90_000 });
    assertArrivals(arrivals([held], 1_000, 200_000), [91_000, 200_000]);
  });

  it("is there twice where it is doubled", () => {
    const twice = fault(0, "duplicate", { at: 0, nth: 1 });
    assertArrivals(arrivals([twice], 1_000, 5_000), [1_000, 1_000, 5_000]);
  });

  it("goes on as it was damaged", () => {
    const damage = fault(0, "corrupt", { at: 0, nth: 2 });
    const rig = createRig({ scripts: { b: sendsAt(1, 0, 1_000) }, plan: { linkFaults: [damage] } });
    rig.partition.advance(NEVER);
    const sums = rig.partition.takeDepartures().map(({ event: { input } }) =>
      input.kind === "message" && input.message.kind === "frame"
        ? input.message.bytes.reduce((sum, byte) => sum + byte, 0)
        : NaN
    );
    assert.equal(sums[0], 0);
    assert.ok(sums[1]! > 0, "one bit of it was turned over");
  });

  it("that waits is lost with a cut, and does not go on behind what comes after the heal", () => {
    const linkFaults = [
      fault(0, "reorder", { at: 0, nth: 1, overtakenBy: 1, holdPs: 1_000_000 }),
      fault(1, "cut", { at: 10_000 }),
      fault(2, "heal", { at: 30_000 }),
    ];
    assertArrivals(arrivals(linkFaults, 1_000, 60_000), [60_000]);
  });
});
