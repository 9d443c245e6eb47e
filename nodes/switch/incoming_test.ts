import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NEVER } from "../../fabric/base/time.ts";
import { IncomingFrames } from "./incoming.ts";
import { Bench, FRAME_PS, frameTo, LATENCY_PS, macOf, planWith } from "./switch_testing.ts";

const FRAME = frameTo(macOf(3));

describe("IncomingFrames", () => {
  it("gives frames back by the time of their tails, then in the order of their heads", () => {
    const frames = new IncomingFrames();
    for (const [at, from] of [[30, 0], [10, 1], [30, 2], [20, 3]] as const) {
      frames.hold({ at, from, to: 9, frame: FRAME });
    }
    assert.equal(frames.nextAt, 10);
    assert.deepEqual(frames.takeComplete(20).map(({ from }) => from), [1, 3]);
    assert.equal(frames.cutOff(2), 1);
    assert.deepEqual(frames.takeComplete(30).map(({ from }) => from), [0]);
    assert.equal(frames.nextAt, NEVER);
  });
});

describe("a cut-through switch between ports of different rates", () => {
  // Ports 0 and 1 have 100 Gb/s, 2 has 40, 3 has 400.
  const plan = planWith({ portRates: [100e9, 100e9, 40e9, 400e9] });

  it("stores a frame for a faster port until its tail has come, and no other", () => {
    const bench = new Bench(plan);
    const departures = [1, 2, 3].map((to) => {
      bench.arrive(0, 0, frameTo(macOf(to)), FRAME_PS);
      bench.runBefore(2 * FRAME_PS);
      return bench.sent.at(-1)!.departAt;
    });
    assert.deepEqual(departures, [LATENCY_PS, LATENCY_PS, FRAME_PS + LATENCY_PS]);
  });

  it("keeps the order of an input's frames for one port", () => {
    const bench = new Bench(plan);
    const frames = [600, 1226, 200].map((length) => frameTo(macOf(3), length));
    let now = 0;
    for (const frame of frames) {
      const tailPs = frame.bytes.length * 80;
      bench.arrive(now, 1, frame, tailPs);
      now += tailPs;
    }
    bench.runBefore(NEVER);
    assert.deepEqual(bench.sent.map(({ message }) => message), frames);
  });

  it("drops what has no tail when the input's cable goes down", () => {
    const bench = new Bench(plan);
    bench.arrive(0, 0, frameTo(macOf(3)), FRAME_PS);
    bench.arrive(1, 1, frameTo(macOf(3)), FRAME_PS);
    bench.link(FRAME_PS / 2, 0, false);
    bench.runBefore(NEVER);
    assert.equal(bench.sent.length, 1);
    assert.equal(bench.count("droppedLinkDown"), 1);
  });

  it("stores nothing where all ports have one rate", () => {
    const bench = new Bench(planWith());
    bench.arrive(0, 0, frameTo(macOf(3)), FRAME_PS);
    assert.equal(bench.sent[0]!.departAt, LATENCY_PS);
  });
});
