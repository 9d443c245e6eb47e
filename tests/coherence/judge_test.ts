/**
 * C-04, decision 17: what home's judge counts and decides is seen in the trace, in Perfetto and in reports, and a rule
 * of the user's own decides in its place.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { perfettoOf } from "../../fabric/capture/perfetto.ts";
import type { JudgedWindow, JudgeRule } from "../../fabric/coherence/judge_placement.ts";
import { accessesOf, accessLadderOf } from "../../fabric/trace/access_ladder.ts";
import { readTrace } from "../../fabric/trace/trace.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

/** Both load a line, home more often, and longer than the far host, whose card reports no window without an access. */
function* loads({ cpu }: ProgramContext): Steps<void> {
  const region = yield* cpu.region("s");
  yield* cpu.sleep(200 * PS_PER_US - cpu.now);
  const [every, count] = cpu.host === "a" ? [4, 75] : [16, 12];
  for (let i = 0; i < count; i++) {
    yield* region.load(0, 8);
    yield* cpu.sleep(every * PS_PER_US);
  }
}

function run({ judge, rule }: { readonly judge: string; readonly rule?: JudgeRule }) {
  const programs: Record<string, Program> = { "./loads.ts": loads };
  if (rule !== undefined) programs["./rule.ts"] = rule as unknown as Program;
  const rack = new SimulatedRack(
    `
name: judge
seed: 5
defaults: { attach: coherent, services: none }
hosts: { a: {}, b: {} }
shared: [{ name: s, home: a, far: [b], memory: dram, bytes: 4KiB, judge: ${judge} }]
programs: [{ on: all, program: ./loads.ts }]
`,
    { trace: true, programs },
  );
  return rack.run();
}

describe("the judge of placements", () => {
  it("C-04: each window is traced with its counts and what follows, each move is reported", () => {
    const rack = run({ judge: "{ margin: 50, windows: 1, window: 40us }" });
    const judged = rack.traces.filter(({ step: { step } }) => step === "judge");
    assert.ok(judged.length >= 4);
    const [first] = judged;
    assert.match(
      first!.step.text,
      /^judges s by the rule: \d+ accesses of home, [23] of far in 40 us: moves its copies from remote to local$/,
    );
    const { judged: seen } = first!.step;
    assert.deepEqual([seen?.region, seen?.name, seen?.place], [0, "s", "local"]);
    const moved = rack.reports.filter(({ topic }) => topic === "region-moved");
    assert.deepEqual(
      moved.map((
        { node, value: { place, home, far, windowPs } },
      ) => [node, place, home, far, windowPs]),
      [["a", "local", seen!.home, seen!.far, 40 * PS_PER_US]],
    );
    const done = rack.traces.filter(({ step: { step } }) => step === "judge-moved");
    assert.deepEqual(done.map(({ step: { text } }) => text), [
      "its card has moved the copies of s to local",
    ]);
    const { ["region.s.windows"]: windows, regionMoves } = rack.simulator.statistics()["a"]!;
    assert.deepEqual([windows, regionMoves], [judged.length, 1]);
  });

  it("C-04: Perfetto has a counter of each window's accesses, and a slice for each placement", () => {
    const rack = run({ judge: "{ windows: 1, window: 40us }" });
    const index = new Map(rack.plan.nodes.map(({ name }, i) => [name, i]));
    const events = rack.traces.map(({ time, node, step }) => ({
      time,
      node: index.get(node)!,
      seen: [{ kind: "step" as const, step }],
    }));
    const { traceEvents } = JSON.parse(
      [...perfettoOf([{ plan: rack.plan, events }] as never)].join(""),
    );
    const named = (name: string) =>
      traceEvents.filter((each: { name: string }) => each.name === name);
    const judged = rack.traces.filter(({ step: { step } }) => step === "judge");
    const counters = named("s: accesses a window");
    assert.equal(counters.length, judged.length);
    assert.deepEqual(Object.keys(counters[0].args), ["home", "far"]);
    assert.equal(named("local").length, 1);
  });

  it("C-04: a decision meanwhile stands in the ladder of an access", () => {
    const rack = run({ judge: "{ windows: 1, window: 40us }" });
    const lines = rack.traces.map(({ time, node, step }) => ({ time, node, ...step }));
    const begin = lines.findIndex(({ step }) => step === "core-load");
    const judged = lines.find(({ step }) => step === "judge")!;
    const ladderWith = (region: number) => {
      const other = { ...judged, time: lines[begin]!.time, judged: { ...judged.judged!, region } };
      const trace = readTrace(lines.toSpliced(begin + 1, 0, other), rack.plan);
      const access = accessesOf(trace).find(({ from }) => from === begin)!;
      return accessLadderOf(trace, access).rows.map(({ step }) => step);
    };
    assert.equal(ladderWith(0)[1], "judge");
    assert.ok(!ladderWith(1).includes("judge"), "one about another region");
  });

  it("C-04: the rule of a file decides, with what was counted", () => {
    const seen: JudgedWindow[] = [];
    const rule: JudgeRule = (window) => {
      seen.push(window);
      return seen.length % 2 === 0 ? "remote" : "local";
    };
    const rack = run({ judge: "{ rule: ./rule.ts, window: 40us }", rule });
    const moved = rack.reports.filter(({ topic }) => topic === "region-moved");
    assert.ok(moved.length >= 3);
    assert.deepEqual(
      moved.map(({ value }) => value.place),
      moved.map((_, i) => i % 2 === 0 ? "local" : "remote"),
    );
    assert.deepEqual([seen[0]!.region, seen[0]!.windowPs, seen[0]!.isFresh], ["s", 40e6, true]);
    const text = rack.traces.find(({ step: { step } }) => step === "judge")!.step.text;
    assert.match(text, /^judges s by \.\/rule\.ts: /);
  });

  it("C-04: a rule that answers no place fails the run, with its region", () => {
    const rack = run({ judge: "./rule.ts", rule: () => undefined as unknown as "local" });
    const failed = rack.reports.filter(({ topic }) => topic === "program-failed");
    assert.equal(failed.length, 1);
    assert.match(
      JSON.stringify(failed[0]!.value),
      /Cannot judge region s: its rule answers undefined: expected/,
    );
  });
});
