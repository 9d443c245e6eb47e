/** A capture of one cable, and its history, against what the run itself counts. */
import assert from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { readCapture } from "../support/pcapng_reader.ts";
import { ReplayEngine } from "../../console/replay/engine.ts";
import type { ReplayJob } from "../../console/replay/job.ts";
import type { Loaded } from "../../console/replay/recording.ts";

const SCENARIO = "name: pair\nhosts: { a: {}, b: {} }\n" +
  "programs:\n  - { on: a, run: put, to: b, method: write-flush, bytes: 64KiB, depth: 4 }\n" +
  "faults: [{ link: a-rnic/tor, loss: 20%, from: 150us, until: 180us }]\n";
const LOADED: Loaded = { own: {}, inputs: new Map(), replace: (create) => create };
const CABLE = "a-rnic/tor";

async function engineOf(): Promise<ReplayEngine> {
  const plan = makePlan(variants(parseScenario(SCENARIO, "test.yaml"))[0]!);
  const job: Omit<ReplayJob, "runFile"> = {
    ...{ run: "test", variant: "", plan, orders: [], known: [], until: null },
    ...{ unknownEnd: "", expectedPs: null, isLive: false },
  };
  const engine = new ReplayEngine(job as ReplayJob, LOADED);
  await engine.run(null, () => {});
  return engine;
}

it("cableCapture has each frame of the cable at either end, with its steps, and no other cable's", async () => {
  const engine = await engineOf(), { endPs: to } = engine.timeline();
  const { bytes, frames: count } = engine.cableCapture({ cable: CABLE, from: 0, to });
  const { ports, frames } = readCapture(bytes);
  assert.deepEqual(ports, ["a-rnic:1", "tor:0"]);
  assert.equal(frames.length, count);
  const { cables } = await engine.snapshot(to, { exact: false });
  for (const [from, port] of [["a-rnic", "a-rnic:1"], ["tor", "tor:0"]]) {
    const sent = frames.filter((frame) => frame.port === port && frame.direction === "out");
    const known = cables.find((each) =>
      each.kind === "network" && each.from === from &&
      (each.to === "tor" || each.to === "a-rnic")
    )!;
    assert.equal(sent.length, known.sent);
    assert.equal(sent.reduce((sum, { bytes }) => sum + bytes.length, 0), known.sentBytes);
  }
  assert.ok(frames.some(({ comment }) => /S\d{3}/.test(comment)), "its steps stand beside a frame");
  assert.ok(frames.some(({ comment }) => /lost/.test(comment)), "what the cable does to it, too");
});

it("cableCapture takes a stretch, or the last frames of it, and numbers what it refers to", async () => {
  const engine = await engineOf(), { endPs } = engine.timeline();
  const stampsOf = (bytes: Uint8Array<ArrayBuffer>) =>
    readCapture(bytes).frames.map(({ stamp, port, direction }) => `${stamp} ${port} ${direction}`);
  const all = stampsOf(engine.cableCapture({ cable: CABLE, from: 0, to: endPs }).bytes);
  const instantOf = (row: string) => 1_000 * Number(row.split(" ")[0]);
  const from = instantOf(all[20]!), to = instantOf(all[60]!);
  const stretch = engine.cableCapture({ cable: CABLE, from, to });
  const isIn = (row: string) => instantOf(row) >= from && instantOf(row) < to;
  // What has not arrived by its end is not seen there.
  const within = all.filter(isIn), got = stampsOf(stretch.bytes);
  assert.ok(got.length > 10 && got.length < all.length);
  assert.deepEqual(within.slice(0, got.length - 2), got.slice(0, -2));
  const last = engine.cableCapture({ cable: CABLE, from: 0, to: endPs, last: 7 });
  assert.deepEqual(stampsOf(last.bytes), all.slice(-7));
  const comments = readCapture(stretch.bytes).frames.map(({ comment }) => comment).join("\n");
  assert.doesNotMatch(comments, /undefined/);
});

it("cableCapture refuses what is no cable, and an instant that is to come", async () => {
  const engine = await engineOf(), { endPs: to } = engine.timeline();
  assert.throws(() => engine.cableCapture({ cable: "a-rnic/b", from: 0, to }), /a-rnic\/tor/);
  assert.throws(() => engine.cableCapture({ cable: "a-rnic->tor", from: 0, to }), /both/);
  assert.throws(() => engine.cableCapture({ cable: CABLE, from: 0, to: to + 1e12 }), /an instant/);
  assert.throws(() => engine.cableCapture({ cable: CABLE, from: to, to: 5 }), /before/);
});

it("cableHistory adds up to what the cable has carried", async () => {
  const engine = await engineOf(), { endPs: to } = engine.timeline();
  const { at, directions } = engine.cableHistory(CABLE);
  assert.deepEqual(at, at.toSorted((x, y) => x - y));
  const { cables } = await engine.snapshot(to, { exact: false });
  for (const { from, sentBytes, queuedBytes } of directions) {
    const known = cables.find((each) =>
      each.kind === "network" && each.from === from &&
      (each.to === "tor" || each.to === "a-rnic")
    )!;
    const sum = sentBytes.reduce<number>((sum, bytes) => sum + (bytes ?? 0), 0);
    // The last frames come behind the last sample.
    assert.ok(
      sum > 0.8 * known.sentBytes && sum <= known.sentBytes,
      `${sum} of ${known.sentBytes}`,
    );
    assert.equal(queuedBytes === undefined, from === "a-rnic");
  }
});
