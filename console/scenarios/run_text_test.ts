import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { formatExact, parseTime } from "../../fabric/base/time.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import type { LinkFaultPlan } from "../../fabric/rack/plan/link_plan.ts";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { lacksInput } from "../rack/prepare.ts";
import { type ByHand, chosenText, withByHand } from "./run_text.ts";

const TEXT = `
name: pair
seed: 7
hosts:
  a: {}
  b: { ddio: both, scm: { size: 1MiB } }
  c: { ddio: off }
programs:
  - { on: a, run: put, to: b, method: all, depth: 16, size: 4KiB, bytes: 64KiB }
  - { on: c, run: put, to: b, method: write-read, file: ./x.bin }
  - { on: c, run: put, to: b }
  - { on: c, program: ./own.ts }
faults:
  - { at: 40us, kill: b }
  - { at: 50us, start: b }
expect: [survives-what-was-reported]
`;

function planOf(text: string): RackPlan {
  const [only, ...others] = variants(parseScenario(text, ""));
  assert.deepEqual(others, []);
  return makePlan(only!);
}

describe("chosenText", () => {
  const change = (program: Parameters<typeof lacksInput>[0]) =>
    lacksInput(program, undefined) ? undefined : program;

  it("makes one run of several: choices where the scenario varies, paths absolute", () => {
    const variant = { method: "persist-opcode" as const, ddio: "on" as const, seed: 11 };
    const scenario = parseScenario(
      chosenText(TEXT, { base: "/base", allowRead: [], variant, change }),
      "",
    );
    const { programs, hosts, seed, expect } = scenario;
    assert.deepEqual([seed, expect, scenario.faults.length], [11, [], 2]);
    assert.deepEqual(hosts.map(({ ddio }) => ddio), ["on", "on", "off"]);
    assert.deepEqual(
      programs.map(({ run, options }) => [run, options["method"], options["file"]]),
      [
        ["put", ["persist-opcode"], undefined],
        ["put", ["write-read"], "/base/x.bin"],
        ["/base/own.ts", undefined, undefined],
      ],
    );
  });

  it("C-04: has the rules of judges at absolute paths", () => {
    const shared = (judge: string) =>
      `name: x\ndefaults: { attach: coherent }\nhosts: { a: {}, b: {} }\n` +
      `shared: [{ name: s, home: a, far: [b], bytes: 64, judge: ${judge} }]\n`;
    const variant = { method: "write-flush" as const, ddio: "off" as const, seed: 1 };
    for (const judge of ["./r.ts", "{ rule: ./r.ts, margin: 1 }"]) {
      const text = chosenText(shared(judge), { base: "/base", allowRead: [], variant });
      assert.equal(parseScenario(text, "").shared[0]!.judge?.rule, "/base/r.ts", judge);
    }
  });

  it("has a choice everywhere where the scenario varies nothing", () => {
    const text = TEXT.replace("method: all", "method: write-only").replace(
      "ddio: both",
      "ddio: on",
    );
    const variant = { method: null, ddio: null, seed: 1 };
    const chosen = chosenText(text, {
      base: "/",
      allowRead: [],
      variant,
      ddio: "off",
      method: "write-flush",
    });
    const { programs, hosts } = parseScenario(chosen, "");
    assert.deepEqual(hosts.map(({ ddio }) => ddio), ["off", "off", "off"]);
    assert.deepEqual(programs.slice(0, 2).map(({ options }) => options["method"]), [
      ["write-flush"],
      ["write-flush"],
    ]);
    // What was not chosen is as it was.
    assert.equal(
      parseScenario(chosenText(text, { base: "/", allowRead: [], variant }), "").expect.length,
      1,
    );
  });
});

describe("withByHand", () => {
  const chosen = chosenText(TEXT, {
    base: "/",
    allowRead: [],
    variant: { method: "write-read", ddio: "on", seed: 7 },
    change: (program) => program.on === "a" ? program : undefined,
  });
  const plan = planOf(chosen);
  const nothing: ByHand = {
    ...{ faults: [], linkFaults: [], writebacks: [], holds: [], stalls: [], morePrograms: [] },
    ...{ programs: [], shutdowns: [], inexact: [], onRecord: { nodes: [], before: 0 } },
  };

  it("writes faults so that the scenario reads the same again", () => {
    const link = { cable: plan.cables.findIndex(({ kind }) => kind === "network") };
    const common = { ...link, direction: "both" as const };
    const linkFaults: LinkFaultPlan[] = [
      { id: 0, action: "cut", at: 60_000_001, ...common },
      { id: 1, action: "heal", at: 61_000_000, ...common },
      { id: 2, action: "loss", at: 62, share: 0.01, until: 90_000_000, only: "request", ...common },
      { id: 3, action: "delay", at: 63_000_000, delayPs: 5_000_000, jitterPs: 7, ...common },
      { id: 4, action: "corrupt", at: 64_000_000, ...link, direction: "a", count: 3, sealed: true },
      {
        id: 5,
        action: "reorder",
        at: 65_000_000,
        ...link,
        direction: "b",
        overtakenBy: 2,
        holdPs: 9,
      },
      { id: 6, action: "duplicate", at: 66_000_000, ...common, nth: 5 },
    ].toSorted((x, y) => x.at - y.at).map((each, id) => ({ ...each, id } as LinkFaultPlan));
    const { text, faults } = withByHand(chosen, {
      run: "pair-1",
      plan,
      byHand: {
        ...nothing,
        linkFaults,
        faults: [
          // As planned: on record like the others.
          { at: 40_000_000, action: "kill", node: "b" },
          { at: 50_000_000, action: "start", node: "b" },
          { at: 50_000_000, action: "start", node: "b-rnic" },
          { at: 70_123_456, action: "kill", node: "tor" },
        ],
      },
    });
    assert.equal(faults, 8);
    const again = planOf(text);
    assert.deepEqual(again.linkFaults, linkFaults);
    assert.deepEqual(again.faults, [...plan.faults, {
      at: 70_123_456,
      action: "kill",
      node: "tor",
    }]);
    assert.deepEqual({ ...again, faults: [], linkFaults: [] }, {
      ...plan,
      faults: [],
      linkFaults: [],
    });
  });

  it("writes kills and starts of one instant, cards of dead hosts, and programs that were added", () => {
    const power = (...lines: string[]) =>
      lines.map((line) => {
        const [us, action, node] = line.split(" ");
        return { at: Number(us) * 1e6, action: action as "kill" | "start", node: node! };
      });
    const common = { run: "chaos-1", plan };
    const faults = power("30 kill b", "30 start b", "35 kill a", "36 kill a-rnic", "40 kill b")
      .concat(power("50 start b", "60 start a-rnic", "61 start a"));
    const put = { to: "b", name: "x", bytes: 64, method: "send-flush" };
    const morePrograms = [{ on: "c", run: "put", at: 7, options: put }];
    const said = withByHand(chosen, { ...common, byHand: { ...nothing, faults, morePrograms } });
    assert.deepEqual(said.notes, []);
    assert.deepEqual(planOf(said.text).faults, faults);
    assert.match(said.text, /\{ on: c, run: put, at: 0.000007us, to: b, name: x, bytes: 64/);
    // Random streams are named after the numbers of cables' faults, which are in the order of the orders.
    const link = { cable: plan.cables.findIndex(({ kind }) => kind === "network"), share: 0.5 };
    const linkFaults: LinkFaultPlan[] = [
      { ...link, id: 0, action: "loss", at: 20_000_000, direction: "both" },
      { ...link, id: 1, action: "corrupt", at: 10_000_000, direction: "both" },
    ];
    const { text } = withByHand(chosen, { ...common, byHand: { ...nothing, linkFaults } });
    assert.deepEqual(planOf(text).linkFaults, linkFaults);
    // The host is dead by the plan's kill at 40 us, and has power again by its start at 50 us.
    const before = power("10 kill b", "45 start b");
    const byHand = { ...nothing, faults: before, onRecord: { nodes: ["b"], before: 51e6 } };
    const moot = withByHand(chosen, { ...common, byHand });
    assert.deepEqual([moot.notes, planOf(moot.text).faults], [[], before]);
    // A card stays dead in a machine whose power returns, also by a start that was planned.
    for (const stays of [power("1 kill c-rnic", "2 kill c", "3 start c"), offAtPlanned()]) {
      const after = { ...nothing, faults: stays, onRecord: { nodes: ["b", "c"], before: 51e6 } };
      const kept = withByHand(chosen, { ...common, byHand: after });
      assert.deepEqual([kept.notes, planOf(kept.text).faults], [[], stays]);
    }
    function offAtPlanned() {
      return power("40 kill b", "41 kill b-rnic", "50 start b");
    }
  });

  it("C-09: writes an orderly shutdown as one, which another power failure may have cut short", () => {
    const common = { run: "pair-1", plan };
    const order = { host: "c", at: 10e6, offAt: 20e6 };
    const shutdownsOf = (faults: FaultPlan[], more: Partial<ByHand> = {}) => {
      const byHand = { ...nothing, faults, shutdowns: [order], ...more };
      const { text, notes } = withByHand(chosen, { ...common, byHand });
      const said = planOf(text).nodes.flatMap((node) =>
        node.kind === "host" ? node.config.shutdowns ?? [] : []
      );
      return { said, notes, faults: planOf(text).faults };
    };
    const kill = (at: number): FaultPlan => ({ at, action: "kill", node: "c" });
    const ended = shutdownsOf([kill(20e6)]);
    assert.deepEqual(ended.said, [{ at: 10e6, offAt: 20e6 }]);
    assert.deepEqual(ended.faults, [kill(20e6), ...plan.faults]);
    assert.equal(ended.notes.length, 1);
    assert.match(ended.notes[0]!, /The order by which c was shut down is an event of the run/);
    assert.deepEqual(shutdownsOf([kill(13e6)]).said, [{ at: 10e6, offAt: 13e6 }]);
    // The rack went down before: its power failure is in the text alone.
    const begun = shutdownsOf([]);
    assert.deepEqual(begun.said, [{ at: 10e6, offAt: 20e6 }]);
    assert.match(begun.notes[1]!, /In it, and did not happen: kill c at 20us/);
  });

  it("C-09: writes a shutdown of the scenario as it was, which a kill by hand has cut short", () => {
    const text = chosen.replace(
      /faults:\n.*\n.*\n/,
      "faults:\n  - { at: 10us, shutdown: c, within: 9us }\n",
    );
    const planned = planOf(text);
    const faults: FaultPlan[] = [{ at: 12e6, action: "kill", node: "c" }];
    const byHand = { ...nothing, faults, onRecord: { nodes: ["c"], before: 99e6 } };
    const said = withByHand(text, { run: "pair-1", plan: planned, byHand });
    assert.deepEqual(planOf(said.text).faults, faults);
    assert.match(said.text, /\{ at: 10us, shutdown: c, within: 2us \}/);
    assert.deepEqual(said.notes, []);
  });

  it("says what no fault can say", () => {
    const byHand = { ...nothing, programs: [{ host: "a", run: "put" }], inexact: ["a was lost"] };
    const { text, faults, notes } = withByHand(chosen, { run: "pair-1", plan, byHand });
    assert.equal(faults, 0);
    assert.match(notes[0]!, /1 started by order \(put on a\)/);
    assert.match(notes[1]!, /cannot be replayed exactly: a was lost/);
    for (const note of notes) assert.ok(text.includes(`# ${note}\n`));
    assert.doesNotMatch(text, /comes to the same digest/);
    assert.deepEqual(planOf(text), plan);
  });
});

describe("formatExact", () => {
  it("is read as the same time", () => {
    for (const ps of [1, 999_999, 1_000_000, 457_552_182, 3_600_000_000_000_001]) {
      assert.equal(parseTime(formatExact(ps)), ps);
    }
  });
});
