import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { TimedRecord } from "../../fabric/audit.ts";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { RoundOutcome } from "./progress.ts";
import { progressFindings, referenceOf } from "./progress.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import type { Life } from "../checks/lives.ts";

type Report = FinalReply["reports"][number];

function result(node: string, value: Record<string, unknown>, time = 1_000): Report {
  return { time, node, topic: "result", value };
}

function finalOf(reports: readonly Report[]): FinalReply {
  const counts = {
    statistics: {},
    linkFaults: [],
    refused: 0,
    refusedOn: [],
    sent: 0,
    residentBytes: 0,
  };
  return { partition: "p", ...counts, reports };
}

const UNDISTURBED = referenceOf({
  finals: [
    finalOf([
      result("a", { program: "put", status: "done", startPs: 300 }, 900),
      result("c", { program: "log", status: "done", startPs: 200 }, 800),
      result("d", { program: "./mine.ts" }, 700),
      result("d", { program: "./mine.ts" }, 800),
    ]),
  ],
  virtualPs: 5_000,
});

const TEXT = `name: rack
hosts: { a: {}, b: {}, c: {}, d: {}, e: {} }
programs:
  - { on: c, run: log, to: [b, d, e], restart: true }
  - { on: d, program: ./mine.ts }
`;
const PLAN = makePlan(variants(parseScenario(TEXT, "rack.yaml"))[0]!);
const ALWAYS = { from: 0, to: Infinity };
/** Killed and back again. */
const TWICE = [{ from: 0, to: 500 }, { from: 700, to: Infinity }];

interface Befell {
  readonly lives?: Readonly<Record<string, readonly Life[]>>;
  readonly linkFaults?: RackPlan["linkFaults"];
  /** Hosts whose process was seen to end, as often as it was. */
  readonly died?: readonly string[];
}

function findings(reports: readonly Report[], befell: Befell = {}): string[] {
  const { lives = {}, linkFaults = [], died = [] } = befell;
  const events = died.map((name) => ({ kind: "died", name, pid: 1, detail: "SIGKILL" }));
  const plan = { ...PLAN, linkFaults };
  const all = new Map(PLAN.nodes.map(({ name }) => [name, lives[name] ?? [ALWAYS]]));
  const round = { finals: [finalOf(reports)], events, record: { plan, lives: all } };
  return progressFindings(round as unknown as RoundOutcome, UNDISTURBED)
    .map(({ check, text }) => `${check}: ${text}`);
}

const PUT = result("a", { program: "put", status: "failed", error: "RETRY_EXC_ERR" });
const LOG = result("c", { program: "log", status: "done" });
const MINE = result("d", { program: "./mine.ts" });

describe("referenceOf", () => {
  it("says when programs are at work: from the first start to the last result", () => {
    assert.deepEqual([UNDISTURBED.from, UNDISTURBED.length], [200, 900]);
  });

  it("takes the whole run where no program says when it was done", () => {
    const { from, length, busy } = referenceOf({ finals: [finalOf([])], virtualPs: 5_000 });
    assert.deepEqual([from, length, busy], [0, 5_000, { from: 0, to: 5_000 }]);
  });

  it("says when data is on its way: from the first write to the last word about one", () => {
    const noted = (time: number, note: TimedRecord["note"]): TimedRecord => {
      return { time, node: "a", by: "a", note };
    };
    const bytes = new Uint8Array(8);
    const notes = [
      noted(10, { kind: "visible", id: 0 }),
      noted(400, { kind: "writes", id: 1, on: "b", at: 0, bytes }),
      noted(410, { kind: "writes", id: 2, on: "b", at: 8, bytes }),
      noted(500, { kind: "persistent", id: 1, promised: true }),
      noted(600, { kind: "writes", id: 3, on: "b", at: 16, bytes }),
    ];
    const ran = { finals: [finalOf([PUT])], virtualPs: 5_000, record: { notes } };
    assert.deepEqual(referenceOf(ran).busy, { from: 400, to: 500 });
  });
});

describe("progressFindings", () => {
  it("is content with a put that was cut off, and a log that is done", () => {
    assert.deepEqual(findings([PUT, LOG, MINE]), []);
  });

  it("names who never came to an end", () => {
    const expected = ["makes-progress: a reported 0 results, undisturbed 1"];
    assert.deepEqual(findings([LOG, MINE]), expected);
  });

  it("expects nothing of a program whose host was killed, unless it starts again", () => {
    assert.deepEqual(findings([LOG, MINE], { lives: { a: TWICE } }), []);
    const expected = ["makes-progress: c reported 0 results, undisturbed 1"];
    assert.deepEqual(findings([PUT, MINE], { lives: { c: TWICE } }), expected);
    assert.deepEqual(findings([PUT, MINE], { lives: { c: [{ from: 0, to: 500 }] } }), []);
  });

  it("expects nothing of a host that was killed when all was over: nothing is on record of that", () => {
    assert.deepEqual(findings([LOG, MINE], { died: ["a"] }), []);
    const expected = ["makes-progress: c reported 0 results, undisturbed 1"];
    assert.deepEqual(findings([PUT, MINE], { died: ["b"] }), expected);
    assert.deepEqual(findings([PUT, MINE], { lives: { c: TWICE }, died: ["c"] }), expected);
    assert.deepEqual(findings([PUT, MINE], { lives: { c: TWICE }, died: ["c", "c"] }), []);
  });

  it("expects nothing of a host whose card has no power in the end", () => {
    assert.deepEqual(findings([LOG, MINE], { lives: { "a-rnic": [{ from: 0, to: 500 }] } }), []);
  });

  it("expects what is shipped to see that its card failed, and nothing of a user's program", () => {
    const lives = { "a-rnic": TWICE, "d-rnic": TWICE };
    assert.deepEqual(findings([PUT, LOG], { lives }), []);
    const expected = ["makes-progress: a reported 0 results, undisturbed 1"];
    assert.deepEqual(findings([LOG, MINE], { lives }), expected);
    const missing = ["makes-progress: d reported 0 results, undisturbed 1"];
    assert.deepEqual(findings([PUT, LOG], { lives: { "b-rnic": TWICE } }), missing);
  });

  it("lets a user's program give up before its last result, and no program without any", () => {
    assert.deepEqual(findings([PUT, LOG, MINE]), []);
    const expected = ["makes-progress: d reported 0 results, undisturbed 1"];
    assert.deepEqual(findings([PUT, LOG]), expected);
  });

  it("lets a log give up only where something was wrong for as long as it is patient", () => {
    const late = 200_000 * PS_PER_US;
    const value = { program: "log", status: "failed", error: "no quorum" };
    const failed = result("c", value, late);
    const expected = ["makes-progress: c: log: no quorum, though all was well"];
    assert.deepEqual(findings([PUT, failed, MINE]), expected);
    assert.deepEqual(findings([PUT, failed, MINE], { lives: { b: TWICE } }), expected);
    const lately = [{ from: 0, to: late - 5 }, { from: late - 2, to: Infinity }];
    assert.deepEqual(findings([PUT, failed, MINE], { lives: { b: lately } }), []);
    const cut = { id: 0, action: "cut", cable: 1, direction: "both", at: 5 } as const;
    assert.deepEqual(findings([PUT, failed, MINE], { linkFaults: [cut] }), []);
    const healed = [cut, { ...cut, id: 1, action: "heal", at: 9 } as const];
    assert.deepEqual(findings([PUT, failed, MINE], { linkFaults: healed }), expected);
    const loss = { id: 0, action: "loss", cable: 1, direction: "a", at: 5, until: 9 } as const;
    assert.deepEqual(findings([PUT, failed, MINE], { linkFaults: [loss] }), expected);
  });

  it("takes a shipped program's exception for a finding, and a user's for his own affair", () => {
    const thrown = (program: string): Report => {
      return { time: 1, node: "a", topic: "program-failed", value: { program, message: "oops" } };
    };
    const expected = ["programs-run-through: a: put#1: oops"];
    assert.deepEqual(findings([PUT, LOG, MINE, thrown("put#1")]), expected);
    assert.deepEqual(findings([PUT, LOG, MINE, thrown("./mine.ts#1")]), []);
  });
});
