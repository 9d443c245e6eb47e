/**
 * C-11: an access's time by module is its whole time, for each kind of access: the ladder, the program's clock and the
 * parts say the same.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { accessesOf, accessLadderOf } from "../../fabric/trace/access_ladder.ts";
import type { AccessModule } from "../../fabric/trace/access_modules.ts";
import { type Ladder, readTrace } from "../../fabric/trace/trace.ts";
import { ladderText } from "../../fabric/trace/trace_text.ts";
import type { HostPlan } from "../../fabric/rack/plan/plan.ts";
import type { Region, Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

type Op = "load" | "store" | "add" | "flush";
/** By host a, home, or b or c, far: one after the other, each of line 0. */
const STEPS: readonly (readonly [host: string, op: Op])[] = [
  ...(["load", "load", "store", "store", "add", "flush"] as const).map((op) => ["b", op] as const),
  ...(["load", "load", "store", "store", "add", "flush"] as const).map((op) => ["a", op] as const),
  ["b", "store"],
  ["a", "store"],
  ["b", "load"],
  ["a", "store"],
  ["b", "add"],
  ["a", "load"],
  // Two far cards have copies, and one takes the line from the other.
  ["b", "load"],
  ["c", "load"],
  ["a", "store"],
  ["b", "store"],
  ["c", "store"],
  ["b", "flush"],
];

function* access(region: Region, op: Op): Steps<void> {
  if (op === "load") yield* region.load(0, 8);
  else if (op === "store") yield* region.store(0, new Uint8Array(64).fill(7));
  else if (op === "add") yield* region.fetchAdd(0, 1n);
  else yield* region.flush(0, 8);
}

function* program({ cpu }: ProgramContext): Steps<void> {
  const region = yield* cpu.region("s");
  for (const [i, [host, op]] of STEPS.entries()) {
    if (host !== cpu.host) continue;
    yield* cpu.sleep((200 + 20 * i) * PS_PER_US - cpu.now);
    const from = cpu.now;
    yield* access(region, op);
    cpu.report("took", { i, tookPs: cpu.now - from });
  }
}

interface Measured {
  readonly host: string;
  readonly op: Op;
  readonly tookPs: Time;
  readonly ladder: Ladder;
  readonly modules: Readonly<Partial<Record<AccessModule, Time>>>;
}

function run(
  placement: "local" | "remote",
  memory: "scm" | "dram",
  model: "sc" | "tso" = "sc",
) {
  const rack = new SimulatedRack(
    `
name: costs
seed: 5
defaults: { attach: coherent, services: none, memory: ${model}, scm: { size: 1MiB } }
hosts: { a: {}, b: {}, c: {} }
shared:
  - { name: s, home: a, far: [b, c], memory: ${memory}, bytes: 4KiB, placement: ${placement}, lease: 10ms }
programs: [{ on: all, program: ./program.ts }]
`,
    { trace: true, programs: { "./program.ts": program } },
  ).run();
  const trace = readTrace(
    rack.traces.map(({ time, node, step }) => ({ time, node, ...step })),
    rack.plan,
  );
  const tooks = rack.reports.filter(({ topic }) => topic === "took");
  const ladders = accessesOf(trace).map((each) => accessLadderOf(trace, each));
  const all = STEPS.map(([host, op], i): Measured => {
    const tookPs = tooks.find(({ value }) => value.i === i)!.value.tookPs as Time;
    const ladder = ladders[i]!;
    const parts = (ladder.costs ?? []).map(({ module, ps }) => [module, ps] as const);
    return { host, op, tookPs, ladder, modules: Object.fromEntries(parts) };
  });
  return {
    all,
    timing: (rack.plan.nodes.find(({ name }) => name === "a")!.config as HostPlan).timing,
  };
}

describe("an access's time by module", () => {
  for (const placement of ["local", "remote"] as const) {
    for (const memory of ["dram", "scm"] as const) {
      it(`C-11: is its latency in the trace and at the program, copies ${placement}, in ${memory}`, () => {
        const { all, timing } = run(placement, memory);
        for (const [i, { host, op, tookPs, ladder, modules }] of all.entries()) {
          const what = `access ${i}: ${host} ${op}`;
          const { operation: { node, startPs }, conclusion } = ladder;
          assert.equal(node, host, what);
          const sum = Object.values(modules).reduce((total, ps) => total + ps, 0);
          assert.equal(sum, conclusion.time - startPs, what);
          // A flush at home is issued before its access, and ends with a fence of the core.
          const own = host === "a" && op === "flush" ? timing.flushIssuePs + timing.fencePs : 0;
          assert.equal(sum, tookPs - own, what);
          assert.equal(modules.waits, undefined, what);
        }
      });
    }
  }

  for (const placement of ["local", "remote"] as const) {
    it(`C-11: of a store in a buffer is from its leaving to the time when the next may leave, copies ${placement}`, () => {
      const { all, timing } = run(placement, "dram", "tso");
      for (const [i, { host, op, tookPs, ladder, modules }] of all.entries()) {
        const what = `access ${i}: ${host} ${op}`;
        const { operation: { node, startPs }, conclusion } = ladder;
        assert.equal(node, host, what);
        const sum = Object.values(modules).reduce((total, ps) => total + ps, 0);
        assert.equal(sum, conclusion.time - startPs, what);
        assert.equal(modules.waits, undefined, what);
        if (op === "store") assert.equal(tookPs, timing.storePs, what);
      }
    });
  }

  it("C-11: passes in the modules that the access needs", () => {
    const { all, timing } = run("remote", "dram");
    const first = (host: string, op: Op, skip = 0) =>
      all.filter((each) => each.host === host && each.op === op)[skip]!;
    const miss = first("b", "load");
    assert.equal(miss.modules.memory, timing.dmaReadDramPs);
    for (const module of ["network", "directory", "remote cache", "conversion", "bus"] as const) {
      assert.ok(miss.modules[module]! > 0, module);
    }
    const hit = first("b", "load", 1);
    assert.deepEqual(Object.keys(hit.modules), ["host port", "bus", "card", "remote cache"]);
    const home = first("a", "load", 1);
    assert.deepEqual(home.modules, { LLC: timing.llcHitPs });
    const store = first("a", "store", 1);
    assert.deepEqual(store.modules, { core: timing.storePs });
    // The far card's last store took the line from home: home's core waits for it, then pays for its miss.
    const taken = all[13]!;
    assert.deepEqual([taken.modules.core, taken.modules.memory], [
      timing.storePs,
      timing.dramLoadPs,
    ]);
    assert.ok(taken.modules.network! > 0);
    assert.match(ladderText(taken.ladder), /\nby module: core 5 ns \+ .*network .* = \d.*ns$/);
  });
});
