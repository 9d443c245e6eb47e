/** Lives of nodes: what each hears, what it begins with, and what others notice of its end. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { digestEvent, emptyDigest, type NodeDigest } from "./digest.ts";
import type { FaultPlan } from "../rack/plan/plan.ts";
import { EVENT_KINDS } from "./event_queue.ts";
import { NEVER, type Time } from "../base/time.ts";
import {
  createRig,
  frame,
  leastPs,
  messageFromC,
  powerOfC,
  PROCESSING_PS,
  type Rig,
  type Script,
  sendsAtPower,
} from "./partition_testing.ts";

/** Power of a node goes at each odd place, and comes back at each even one. */
function powerOf(node: string, ...times: Time[]): FaultPlan[] {
  return times.map((at, i) => ({ at, action: i % 2 === 0 ? "kill" : "start", node }));
}

/** What b heard over its cable to c. */
function fromC({ heard }: Rig): string[] {
  return heard.filter((line) => line.startsWith("b/") && line.includes("message:1"));
}

describe("A message to a node", () => {
  it("is heard by the life that it was sent to, and by no other", () => {
    const rig = createRig({ plan: { faults: powerOf("b", 10_000, 20_000) } });
    for (const [counter, time] of [5_000, 15_000, 25_000, 25_001].entries()) {
      const targetLife = time === 25_001 ? 1 : 0;
      rig.partition.accept(messageFromC(time, { counter, targetLife }));
    }
    rig.partition.advance(NEVER);
    assert.deepEqual(fromC(rig), ["b/0 message:1 @5000", "b/1 message:1 @25001"]);
  });

  it("is heard from the life of the sender that the cable's end knows, and from no other", () => {
    const rig = createRig();
    const { partition } = rig;
    partition.accept(messageFromC(5_000, { sourceLife: 1 }));
    partition.accept(powerOfC(6_000, { up: false, sourceLife: 0 }));
    partition.accept(powerOfC(7_000, { up: true, sourceLife: 1 }));
    partition.accept(messageFromC(8_000, { sourceLife: 0 }));
    partition.accept(messageFromC(9_000, { sourceLife: 1 }));
    partition.advance(NEVER);
    assert.deepEqual(fromC(rig), ["b/0 message:1 @9000"]);
  });

  it("is not heard while the sender is without power, as far as the cable's end knows", () => {
    const rig = createRig();
    rig.partition.accept(powerOfC(6_000, { up: false, sourceLife: 0 }));
    rig.partition.accept(messageFromC(6_000));
    rig.partition.accept(messageFromC(7_000));
    rig.partition.advance(NEVER);
    assert.deepEqual(fromC(rig), []);
    assert.equal(rig.heard.at(-1), "b/0 down:1 @6000");
  });

  it("is heard though the sender came back while this node had no power", () => {
    const rig = createRig({ plan: { faults: powerOf("b", 5_000, 10_000) } });
    rig.partition.accept(powerOfC(6_000, { up: false, sourceLife: 0 }));
    rig.partition.accept(powerOfC(7_000, { up: true, sourceLife: 1 }));
    rig.partition.accept(messageFromC(11_000, { sourceLife: 1, targetLife: 1 }));
    rig.partition.advance(NEVER);
    assert.deepEqual(rig.heard.slice(2).filter((line) => line.startsWith("b/")), [
      "b/1 power @10000",
      "b/1 message:1 @11000",
    ]);
  });

  it("names the lives of both ends, and its number in the sender's life", () => {
    const rig = createRig({
      scripts: { b: sendsAtPower(1, 1) },
      plan: { faults: powerOf("b", 10_000, 20_000) },
    });
    rig.partition.accept(powerOfC(12_000, { up: false, sourceLife: 0 }));
    rig.partition.accept(powerOfC(13_000, { up: true, sourceLife: 4 }));
    rig.partition.advance(NEVER);
    const sent = rig.partition.takeDepartures().map(({ event }) => event)
      .filter(({ kind }) => kind === EVENT_KINDS.message);
    assert.deepEqual(
      sent.map(({ counter, sourceLife, targetLife }) => [sourceLife, targetLife, counter]),
      [[0, 0, 0], [0, 0, 1], [1, 4, 0], [1, 4, 1]],
    );
  });
});

describe("A life", () => {
  it("that is cut as it begins never does; one that begins as the one before is cut does", () => {
    const never = createRig({
      plan: { faults: [...powerOf("b", 10_000, 20_000), ...powerOf("b", 20_000)] },
    });
    never.partition.advance(NEVER);
    assert.deepEqual(never.heard.filter((line) => line.startsWith("b/")), ["b/0 power @0"]);
    const atOnce = createRig({ plan: { faults: powerOf("b", 10_000, 10_000) } });
    atOnce.partition.advance(NEVER);
    assert.deepEqual(atOnce.heard.filter((line) => line.startsWith("b/")), [
      "b/0 power @0",
      "b/1 power @10000",
    ]);
  });

  it("begins with a transmitter that is free, whatever the one before was sending", () => {
    const long = 50_000;
    const sends: Script = ({ now, life, input, out }) => {
      if (input.kind === "power") out.send(1, frame(life === 0 ? long : 0), now + PROCESSING_PS.b!);
    };
    const rig = createRig({
      scripts: { b: sends },
      plan: { faults: powerOf("b", 10_000, 20_000) },
    });
    rig.partition.advance(NEVER);
    const sent = rig.partition.takeDepartures().map(({ event }) => event)
      .filter(({ kind }) => kind === EVENT_KINDS.message);
    assert.deepEqual(sent.map(({ time }) => time), [leastPs("b") + long, 20_000 + leastPs("b")]);
  });

  it("ends with its deadline", () => {
    const rig = createRig({
      scripts: { b: ({ input, life }) => input.kind === "power" && life === 0 ? 15_000 : NEVER },
      plan: { faults: powerOf("b", 10_000, 20_000) },
    });
    rig.partition.advance(NEVER);
    assert.deepEqual(rig.heard.filter((line) => line.includes("wake")), []);
  });

  it("is announced to the other ends of its cables, except for the first one's beginning", () => {
    const rig = createRig({ plan: { faults: powerOf("b", 10_000, 20_000) } });
    rig.partition.advance(NEVER);
    // The news takes as long as anything from b does: it is no sooner than the lookahead.
    assert.deepEqual(
      rig.partition.takeDepartures().map(({ to, event: { time, sourceLife, input } }) => [
        to,
        time,
        sourceLife,
        input,
      ]),
      [
        ["c", 10_000 + leastPs("b"), 0, { kind: "link", port: 0, up: false }],
        ["c", 20_000 + leastPs("b"), 1, { kind: "link", port: 0, up: true }],
      ],
    );
    assert.deepEqual(rig.heard.filter((line) => line.startsWith("a/")).slice(1), [
      `a/0 down:0 @${10_000 + leastPs("b")}`,
      `a/0 up:0 @${20_000 + leastPs("b")}`,
    ]);
  });

  it("of another process is not cut by the plan: that process dies for real", () => {
    const rig = createRig({ plan: { faults: powerOf("b", 10_000) }, scriptedFaults: false });
    rig.partition.accept(messageFromC(15_000));
    rig.partition.advance(NEVER);
    assert.deepEqual(fromC(rig), ["b/0 message:1 @15000"]);
  });

  it("of a program is the one in which it was ordered", () => {
    const program = { run: "get", at: 0, service: false, options: {} };
    const rig = createRig({ boot: { at: 50_000, life: 3 } });
    rig.partition.run("b", { time: 50_000, counter: 0, program });
    rig.partition.advance(NEVER);
    assert.ok(rig.heard.includes("b/3 run @50000"));
    const dead = createRig({ plan: { faults: powerOf("b", 10_000, 20_000) } });
    dead.partition.run("b", { time: 30_000, counter: 0, program });
    dead.partition.advance(NEVER);
    assert.ok(!dead.heard.some((line) => line.includes("run")));
  });
});

describe("The digest of a node", () => {
  const wakesOnce: Script = ({ now, input }) => input.kind === "power" ? now + 500 : NEVER;
  const input = { power: { kind: "power" }, wake: { kind: "wake" } } as const;

  /** b's own events: kind, life, counter in that life, and when. */
  function digestOf(
    rows: readonly (readonly [kind: keyof typeof EVENT_KINDS, life: number, at: Time])[],
  ): NodeDigest {
    const digest = emptyDigest();
    for (const [kind, life, time] of rows) {
      // Of what the rows have, each life does each thing once: the counter of a power event is the life.
      const counter = kind === "wake" ? 0 : life;
      digestEvent(digest, {
        time,
        kind: EVENT_KINDS[kind],
        source: 1,
        counter,
        target: 1,
        sourceLife: life,
        targetLife: life,
        input: kind === "wake" ? input.wake : input.power,
      });
    }
    return digest;
  }

  const ofB = ({ partition }: Rig) => new Map(partition.digestStates()).get("b");
  const first = [["powerOn", 0, 0], ["wake", 0, 500]] as const;
  const second = [["powerOn", 1, 20_000], ["wake", 1, 20_500]] as const;
  const faults = powerOf("b", 10_000, 20_000);
  const scripts = { b: wakesOnce };

  it("holds what happened to each of its lives, and the end of each, counted in that life", () => {
    const rig = createRig({ scripts, plan: { faults } });
    rig.partition.advance(NEVER);
    assert.deepEqual(ofB(rig), digestOf([...first, ["powerOff", 0, 10_000], ...second]));
  });

  it("goes on from that of an earlier process", () => {
    const digest = digestOf([...first, ["powerOff", 0, 10_000]]);
    const rig = createRig({ scripts, boot: { at: 20_000, life: 1, digest } });
    rig.partition.advance(20_501);
    assert.deepEqual(ofB(rig), digestOf([...first, ["powerOff", 0, 10_000], ...second]));
  });
});

describe("What a host has made persistent", () => {
  const durable = { "b/0": [4_000, 9_999, 10_000], "b/1": [20_001, 30_000] };

  function taken({ partition }: Rig): [string, number[]][] {
    const all: [string, number[]][] = [];
    partition.takeDurable((host, writes) => all.push([host, writes.map(({ offset }) => offset)]));
    return all;
  }

  it("holds though its power fails, but for what was to be so at that instant", () => {
    const rig = createRig({ durable, plan: { faults: powerOf("b", 10_000) } });
    rig.partition.advance(NEVER);
    assert.deepEqual(taken(rig), [["b", [4_000, 9_999]]]);
    assert.deepEqual(taken(rig), [], "once");
  });

  it("is handed to its next life where it has not been fetched yet, and to the store in order", () => {
    const rig = createRig({ durable, plan: { faults: powerOf("b", 10_000, 20_000, 40_000) } });
    rig.partition.advance(NEVER);
    assert.deepEqual(rig.unsaved.get("b/1"), [4_000, 9_999]);
    assert.deepEqual(taken(rig), [["b", [4_000, 9_999, 20_001, 30_000]]]);
    const fetched = createRig({ durable, plan: { faults: powerOf("b", 10_000, 20_000) } });
    fetched.partition.advance(15_000);
    taken(fetched);
    fetched.partition.advance(NEVER);
    assert.deepEqual(fetched.unsaved.get("b/1"), []);
  });

  it("is something to wait for, as an event is", () => {
    const { partition } = createRig({ durable });
    partition.advance(4_001);
    assert.equal(partition.next, 4_000);
    partition.takeDurable(() => {});
    assert.equal(partition.next, 9_999);
  });

  it("is what was so before the instant that the partition has come to", () => {
    // Answers to what b sends may come from 10 000 ps on.
    const returnDelay = () => 10_000 - leastPs("b");
    const rig = createRig({ durable, scripts: { b: sendsAtPower(1) }, returnDelay });
    assert.equal(rig.partition.advance(50_000).reached, 10_000);
    assert.deepEqual(taken(rig), [["b", [4_000, 9_999]]]);
    rig.partition.advance(10_001);
    assert.deepEqual(taken(rig), [["b", [10_000]]]);
  });
});
