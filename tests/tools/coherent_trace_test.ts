/**
 * Ladders of accesses to shared regions (C-06 to C-08): each step that the document has is there, in its order, on
 * both buses and on the wire.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { perfettoOf } from "../../fabric/capture/perfetto.ts";
import { accessesOf, accessLadderOf } from "../../fabric/trace/access_ladder.ts";
import { type AccessFigure, accessText } from "../../fabric/trace/access_steps.ts";
import { stepProblem } from "../../fabric/trace/predicate.ts";
import { type Ladder, readTrace } from "../../fabric/trace/trace.ts";
import { ladderText } from "../../fabric/trace/trace_text.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const PS_PER_US: Time = 1e6;
const WORD = (value: number) => new Uint8Array(8).fill(value);

/** Loads and stores of one line, one after the other, far apart. */
function* alternate({ cpu }: ProgramContext): Steps<void> {
  const region = yield* cpu.region("s");
  const at = function* (us: number): Steps<void> {
    yield* cpu.sleep(us * PS_PER_US - cpu.now);
  };
  if (cpu.host === "b") {
    yield* at(1000);
    yield* region.load(0, 8);
    yield* at(1010);
    yield* region.store(0, WORD(1));
    yield* at(1030);
    yield* region.load(0, 8);
  } else {
    yield* at(1020);
    yield* region.load(0, 8);
    yield* at(1040);
    yield* region.store(0, WORD(2));
  }
}

function run(placement: AccessFigure) {
  const rack = new SimulatedRack(
    `
name: coherent-ladder
seed: 5
defaults: { attach: coherent }
hosts: { a: {}, b: {} }
shared:
  - { name: s, home: a, far: [b], memory: dram, bytes: 4KiB, placement: ${placement}, lease: 10ms }
programs: [{ on: all, program: ./alternate.ts }]
`,
    { trace: true, programs: { "./alternate.ts": alternate } },
  ).run();
  const lines = rack.traces.map(({ time, node, step }) => ({ time, node, ...step }));
  const trace = readTrace(lines, rack.plan);
  const ladders = accessesOf(trace).map((each) => accessLadderOf(trace, each));
  return { rack, ladders };
}

/** Numbers of the document's steps in these paragraphs, in order. */
function stepsFrom(first: number, last: number): string[] {
  const numbers: string[] = [];
  for (let paragraph = first; paragraph <= last; paragraph++) {
    for (let place = 1; place <= 9; place++) numbers.push(`00${paragraph}.${place}`);
  }
  return numbers.filter((number) => accessText(number) !== undefined);
}

const numbered = ({ rows }: Ladder) =>
  rows.map(({ step }) => step).filter((step) => accessText(step) !== undefined);

describe("the ladder of an access to a shared region", () => {
  it("C-06, C-08: has the document's steps where the copy is kept locally", () => {
    const { ladders } = run("local");
    const [load, store, home, again, taken] = ladders.map(numbered);
    assert.deepEqual(load, ["0057.1", "0057.2", "0057.3", "0058.1", "0058.2", "0059.1", "0059.2"]);
    // A write in E: the answer to the far card does not wait for the notice to the CPU.
    assert.deepEqual(
      store,
      ["0057.1", "0057.2", "0057.3", "0058.1", "0058.2", "0059.1", "0060.1", "0059.2"],
    );
    assert.deepEqual(home, ["0061.1", "0061.2"]);
    // Shared, and valid: read from the local cache.
    assert.deepEqual(again, ["0057.1", "0057.2", "0059.1", "0059.2"]);
    assert.deepEqual(taken, ["0061.1", "0061.2"]);
    assert.deepEqual([...new Set(ladders.flatMap(numbered))].sort(), stepsFrom(56, 61));
  });

  it("C-07, C-08: has the document's steps where the copy is kept remotely", () => {
    const { ladders } = run("remote");
    const [load, store, home, again, taken] = ladders.map(numbered);
    const asked = ["0063.1", "0063.2", "0063.3", "0064.1", "0064.2", "0064.3"];
    assert.deepEqual(load, [...asked, "0065.1"]);
    assert.deepEqual(store, [...asked, "0065.2", "0065.1", "0065.3"]);
    assert.deepEqual(home, ["0067.1", "0067.2", "0067.3", "0067.4"]);
    // Shared, and valid: nothing leaves the far card, and no figure's request is made.
    assert.equal(again!.length, 2);
    assert.deepEqual(taken, ["0067.1", "0067.2", "0067.3", "0067.4"]);
    assert.deepEqual([...new Set([load, store, home].flat())].sort(), stepsFrom(62, 67));
  });

  it("C-01, C-02: draws each message from who sends it to who gets it, and ends with the core", () => {
    const { ladders } = run("remote");
    const [load] = ladders;
    const arrows = load!.rows.flatMap(({ step, node, to }) =>
      to === undefined ? [] : [`${step} ${node}→${to}`]
    );
    assert.deepEqual(arrows, [
      "0063.1 b→b-rnic",
      "0063.2 b-rnic→a-rnic",
      "0063.3 a-rnic→a",
      "0064.1 a→a-rnic",
      "0064.2 a-rnic→b-rnic",
      "wire-Complete b-rnic→a-rnic",
      "0065.1 b-rnic→b",
    ]);
    assert.match(load!.conclusion.text, /the access is done/);
    assert.match(ladderText(load!), /keeps the copy and its state in the remote cache: .*IS → S/);
    // Its own steps can be waited for by their names.
    for (const step of ["core-load", "home-store", "core-answer", "/sends GetS", "state"]) {
      assert.equal(stepProblem(step), undefined, step);
    }
  });
});

interface Drawn {
  readonly ph: string;
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur?: number;
  readonly args?: { readonly name?: string; readonly lines?: number };
}

describe("a coherent run in Perfetto", () => {
  it("C-01, C-05, C-07: has a track for each line of both caches, a slice for each state, and how many are there", () => {
    const { rack } = run("remote");
    const index = new Map(rack.plan.nodes.map(({ name }, i) => [name, i]));
    const events = rack.traces.map(({ time, node: name, step }, event) => {
      const node = index.get(name)!;
      return { time, node, seen: [{ kind: "step" as const, time, node, event, step }] };
    });
    const text = [...perfettoOf([{ label: "", plan: rack.plan, events }])].join("");
    const { traceEvents } = JSON.parse(text) as { traceEvents: Drawn[] };
    const pidOf = (node: string) => 1 + index.get(node)!;
    const statesOf = (node: string, cache: string) => {
      const name = `${cache}: region 0 line 0`;
      const tracks = traceEvents.filter((each) =>
        each.ph === "M" && each.pid === pidOf(node) && each.args?.name?.startsWith(name)
      );
      return traceEvents.filter((each) =>
        each.ph === "X" && tracks.some(({ pid, tid }) => pid === each.pid && tid === each.tid)
      ).map((each) => each.name);
    };
    assert.deepEqual(statesOf("b-rnic", "remote-cache"), ["IS", "S", "SM", "M", "S"]);
    assert.deepEqual(statesOf("a-rnic", "directory"), ["S{1}", "X(1)", "S{1}"]);
    assert.deepEqual(statesOf("a", "LLC"), ["S", "M"]);
    const counts = traceEvents.filter(({ ph, name }) =>
      ph === "C" && name === "remote-cache: lines"
    );
    assert.deepEqual(counts.map(({ args }) => args?.lines), [1, 0]);
  });

  it("C-06: the same of the local cache", () => {
    const { rack } = run("local");
    const states = rack.traces.flatMap(({ step: { cached } }) =>
      cached?.cache === "local-cache" ? [cached.state] : []
    );
    assert.deepEqual(states, ["IS", "S", "SM", "M", "S", "I"]);
  });
});
