/** Partition.advance: how far it goes, in which order, and where it stops. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { EVENT_KINDS } from "./event_queue.ts";
import { NEVER, type Time } from "../base/time.ts";
import {
  createRig,
  frame,
  leastPs,
  messageFromC,
  type Moment,
  PROCESSING_PS,
  type Script,
} from "./partition_testing.ts";

/** A deadline at `at`, whatever arrives before or with it, and none after it. */
const wakesAt = (at: Time): Script => ({ now, input }) =>
  now > at || input.kind === "wake" || input.kind === "writeback" ? NEVER : at;

describe("Partition.advance", () => {
  it("lets happen what is before the horizon, and nothing that is at it", () => {
    const { partition, heard } = createRig({ scripts: { a: wakesAt(9_000) } });
    partition.accept(messageFromC(9_000));
    assert.deepEqual(partition.advance(9_000), { events: 2, reached: 9_000 });
    assert.deepEqual(heard, ["a/0 power @0", "b/0 power @0"]);
    assert.equal(partition.next, 9_000);
    assert.deepEqual(partition.advance(9_001), { events: 2, reached: 9_001 });
    assert.deepEqual(heard.slice(2), ["b/0 message:1 @9000", "a/0 wake @9000"]);
  });

  it("lets nothing happen at the instant at which what was sent may be answered", () => {
    const answerPs = leastPs("b") + leastPs("c");
    const sends: Script = ({ input, out, now }) => {
      if (input.kind === "power") out.send(1, frame(), now + PROCESSING_PS.b!);
    };
    for (const [at, happens] of [[answerPs - 1, true], [answerPs, false]] as const) {
      const scripts = { a: wakesAt(at), b: sends };
      const { partition, heard } = createRig({ scripts, returnDelay: () => leastPs("c") });
      assert.equal(partition.advance(NEVER).reached, answerPs, "the horizon is the answer's");
      assert.equal(heard.includes(`a/0 wake @${at}`), happens, `at ${at}`);
      // With the next grant it does happen: the limit is that of one advance.
      partition.advance(NEVER);
      assert.ok(heard.includes(`a/0 wake @${at}`));
    }
  });

  it("stops at the earliest answer of several, whichever was sent last", () => {
    const returnDelay = () => leastPs("c");
    const scripts = {
      b: ({ input, out, now }: Moment) => {
        if (input.kind !== "power") return;
        for (const extra of [0, 500]) out.send(1, frame(extra), now + PROCESSING_PS.b!);
      },
    };
    const { partition } = createRig({ scripts, returnDelay });
    assert.equal(partition.advance(NEVER).reached, leastPs("b") + leastPs("c"));
  });

  it("does not stop for what is sent inside the partition", () => {
    const scripts = {
      a: ({ input, out, now }: Moment) => {
        if (input.kind === "power") out.send(0, frame(), now + PROCESSING_PS.a!);
      },
    };
    const { partition, heard } = createRig({ scripts, returnDelay: () => 1 });
    assert.equal(partition.advance(NEVER).reached, NEVER);
    assert.equal(heard.at(-1), `b/0 message:0 @${leastPs("a")}`);
  });

  it("serves a deadline after all that arrives at its instant, and a writeback after both", () => {
    const at = 9_000;
    const { partition, heard } = createRig({
      scripts: { a: wakesAt(at), b: wakesAt(at) },
      plan: { writebacks: [{ at, node: "a", from: 0, to: 8, buffered: false }] },
    });
    partition.accept(messageFromC(at));
    const program = { run: "get", at: 0, service: false, options: {} };
    for (const counter of [7, 8]) partition.run("b", { time: at, counter, program });
    partition.advance(NEVER);
    assert.deepEqual(heard.slice(2), [
      `b/0 run @${at}`,
      `b/0 run @${at}`,
      `b/0 message:1 @${at}`,
      `a/0 wake @${at}`,
      `b/0 wake @${at}`,
      `a/0 writeback @${at}`,
    ]);
  });

  it("serves a deadline again that the node sets for the same instant, and refuses an earlier one", () => {
    let more = 2;
    const again: Script = ({ input, now }) =>
      input.kind === "power" ? 9_000 : --more > 0 ? now : NEVER;
    const { partition, heard } = createRig({ scripts: { a: again } });
    partition.advance(NEVER);
    assert.deepEqual(heard.slice(2), ["a/0 wake @9000", "a/0 wake @9000"]);
    const back: Script = ({ input, now }) => input.kind === "power" ? 9_000 : now - 1;
    const late = createRig({ scripts: { a: back } });
    assert.throws(() => late.partition.advance(NEVER), /a wants to wake at 8999 ps, before now/);
  });

  it("ends with the instant of the event that takes the wanted step, and goes on with the next", () => {
    const steps: Script = ({ input, out }) => {
      if (input.kind === "message") out.trace({ step: "S907", text: "" });
    };
    const { partition, heard } = createRig({ scripts: { b: steps } });
    for (const [at, counter] of [[8_000, 1], [9_000, 1], [9_000, 2], [9_001, 1]] as const) {
      partition.accept(messageFromC(at, { counter }));
    }
    const seen: string[] = [];
    const stops = (node: string, { step }: { step: string }) => {
      seen.push(`${node}:${step}`);
      return seen.length === 2;
    };
    assert.equal(partition.advance(NEVER, { stopOn: stops }).reached, 9_001);
    const twice = ["b/0 message:1 @9000", "b/0 message:1 @9000"];
    assert.deepEqual(heard.slice(2), ["b/0 message:1 @8000", ...twice]);
    assert.deepEqual(partition.advance(NEVER), { events: 1, reached: NEVER });
    assert.deepEqual(seen, ["b:S907", "b:S907", "b:S907"]);
  });

  it("ends with the instant of the last event that it may process", () => {
    const { partition, heard } = createRig({});
    for (const [at, counter] of [[8_000, 1], [9_000, 1], [9_000, 2], [9_500, 1]] as const) {
      partition.accept(messageFromC(at, { counter }));
    }
    // Two nodes get power at 0.
    const first = partition.advance(NEVER, { eventsMost: 4 });
    assert.deepEqual(first, { events: 5, reached: 9_500 }, "an instant is whole");
    assert.deepEqual(partition.advance(NEVER, { eventsMost: 1 }), { events: 1, reached: NEVER });
    assert.equal(heard.at(-1), "b/0 message:1 @9500");
  });

  it("refuses what departs sooner than the node's processing allows, and a port that there is not", () => {
    const send = (port: number, afterPs: Time): Script => ({ now, out }) =>
      void out.send(port, frame(), now + afterPs);
    const early = createRig({ scripts: { a: send(0, PROCESSING_PS.a! - 1) } });
    assert.throws(() => early.partition.advance(NEVER), /a sends at 999 ps, earlier/);
    const nowhere = createRig({ scripts: { a: send(1, PROCESSING_PS.a!) } });
    assert.throws(() => nowhere.partition.advance(NEVER), /a has no port 1/);
  });
});

describe("Partition", () => {
  it("knows the last event that happened, the last that was looked at, and the next", () => {
    const { partition } = createRig({ scripts: { a: wakesAt(9_000) } });
    // It was meant for a life that is not there: looked at, and heard by no node.
    partition.accept(messageFromC(5_000, { targetLife: 1 }));
    partition.advance(6_000);
    assert.deepEqual([partition.now, partition.ran, partition.next], [0, 5_000, 9_000]);
    partition.advance(NEVER);
    assert.deepEqual([partition.now, partition.ran, partition.next], [9_000, 9_000, NEVER]);
    assert.equal(partition.events, 3);
  });

  it("gives traces and reports the time at which they were made", () => {
    const told: unknown[] = [];
    const speaks: Script = ({ out }) => {
      assert.ok(out.tracing);
      out.trace({ step: "S907", text: "" });
      out.report("result", 7);
    };
    const { partition } = createRig({
      scripts: { b: speaks },
      onTrace: (time, node, { step }) => told.push([time, node, step]),
      onReport: (time, node, topic, value) => told.push([time, node, topic, value]),
    });
    partition.accept(messageFromC(9_000));
    partition.advance(NEVER);
    assert.deepEqual(told.slice(2), [[9_000, "b", "S907"], [9_000, "b", "result", 7]]);
  });

  it("has no step made while none is wanted", () => {
    const told: Time[] = [];
    let isTraced = false;
    const speaks: Script = ({ out }) => {
      if (out.tracing) out.trace({ step: "S907", text: "" });
    };
    const { partition } = createRig({
      scripts: { b: speaks },
      onTrace: (time) => told.push(time),
      isTraced: () => isTraced,
    });
    for (const [at, wanted] of [[5_000, false], [6_000, true], [7_000, false]] as const) {
      isTraced = wanted;
      partition.accept(messageFromC(at));
      partition.advance(at + 1);
    }
    assert.deepEqual(told, [6_000]);
  });

  it("tells what a device is doing, and is none the wiser", () => {
    const { partition } = createRig({ scripts: { a: wakesAt(9_000) } });
    partition.advance(6_000);
    const digests = partition.digestStates();
    const asked = partition.inspect({ node: "a" });
    assert.deepEqual(partition.inspect({ node: "a" }), asked);
    assert.equal(asked.reachedPs, 6_000);
    const [a, ...others] = asked.devices;
    assert.deepEqual(others, []);
    assert.partialDeepStrictEqual(a, { node: "a", kind: "switch", life: 0, hasPower: true });
    assert.deepEqual(a!.ports.map(({ peer, up }) => [peer, up]), [["b", true]]);
    assert.deepEqual(partition.inspect().devices.map(({ node }) => node), ["a", "b"]);
    assert.deepEqual([partition.digestStates(), partition.next], [digests, 9_000]);
  });

  it("refuses an event for a node that does not live here", () => {
    const { partition } = createRig();
    partition.accept(messageFromC(1, { target: 2, kind: EVENT_KINDS.message }));
    assert.throws(() => partition.advance(NEVER), /does not live here/);
  });
});
