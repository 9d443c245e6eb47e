import { answered } from "../checks/shared/answered.ts";
import { loads } from "../checks/shared/loads.ts";
import { servedInTurn } from "../checks/shared/served_in_turn.ts";
import { singleWriter } from "../checks/shared/single_writer.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import type { UnfinishedProgram } from "../../fabric/node.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { CHECKERS } from "../checks/all.ts";
import { fill, imageOf, noted, planOf, recordOf } from "../checks/record_testing.ts";
import type { Checker, RunRecord } from "../checks/run_record.ts";
import { checksOf, promisesOf } from "./run_checks.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import type { MethodRow } from "./method_row.ts";

const SURVIVES = "survives-what-was-reported", ENDS = "programs-run-through";

const [SCENARIO] = variants(parseScenario(
  `name: checked
hosts: { a: {}, b: {} }
programs:
  - { on: a, run: put, to: b, bytes: 64 }
  - { on: a, run: put, to: b, bytes: 64, name: other }
  - { on: b, run: sink }
`,
  "checked.yaml",
));
const PLAN = makePlan(SCENARIO!);

type Reports = FinalReply["reports"];
type Variant = Parameters<typeof checksOf>[0][number];

const done = (program = "put") =>
  ({ time: 9, node: "a", topic: "result", value: { program, status: "done" } }) as const;

/** A variant that has run to its end, with all results unless others are said. */
function variant(
  record: RunRecord | undefined,
  of: { readonly label?: string; readonly reports?: Reports; readonly rows?: MethodRow[] } = {},
): Variant {
  const { label = "one", reports = [done(), done()], rows = [] } = of;
  const one = { label, plan: PLAN, inputs: {} };
  const finals = [{ reports } as unknown as FinalReply];
  const said = reports.filter(({ topic }) => topic !== "unfinished");
  const seen = record && { ...record, reports: said };
  const kept = seen && { record: { reports: said, scm: seen.scm } };
  const outcome = { finals, ...kept } as unknown as Variant["outcome"];
  const promises = seen && { promises: promisesOf(seen) };
  return { one, outcome, rows, protocols: [], ...promises };
}

function checks(all: readonly Variant[], expect: readonly string[] = []) {
  return new Map(checksOf(all, { expect }).map((check) => [check.name, check]));
}

/** Those that judge lines of shared regions, by name: one that forgets `concerns` is missed. */
const ABOUT_REGIONS = [loads, singleWriter, answered, servedInTurn].map(({ name }) => name).sort();
const isAboutAll = ({ concerns }: Checker) => concerns === undefined;

const NOTHING = recordOf({ plan: PLAN });
const PROMISED = recordOf({
  plan: PLAN,
  notes: [
    noted(10, { kind: "writes", id: 0, on: "b", at: 0, bytes: fill(1) }),
    noted(20, { kind: "persistent", id: 0, promised: true }),
  ],
  b: imageOf({ 0: fill(1) }),
});

describe("checksOf", () => {
  it("P-41: makes every check of every variant, and says how much it has looked at", () => {
    const all = checks([variant(NOTHING), variant(PROMISED, { label: "other" })]);
    const names = CHECKERS.filter(isAboutAll).map(({ name }) => name);
    assert.deepEqual([...all.keys()], [...names, ENDS]);
    assert.deepEqual(all.get(SURVIVES)?.looked, ["0 writes, 0 promised", "1 write, 1 promised"]);
    for (const [name, { holds, detail }] of all) {
      assert.deepEqual([holds, detail], [true, ""], name);
    }
  });

  for (const { name, without } of CHECKERS) {
    it(`does not let ${name} hold for want of anything to look at, where it is expected`, () => {
      const calm = checks([variant(NOTHING), variant(NOTHING)], [name]);
      const { holds, detail } = calm.get(name)!;
      assert.deepEqual(
        [holds, detail],
        [false, `the scenario expects it to examine something: ${without}`],
      );
      const others = CHECKERS.filter((each) => each.name !== name && isAboutAll(each));
      for (const other of others) assert.equal(calm.get(other.name)?.holds, true, other.name);
    });
  }

  it("C-09, C-10: leaves out promises about shared regions where there is none", () => {
    const of = { region: "s", home: "a", bytes: 64, answerWithinPs: 9, homeWaitPs: 2 };
    const record = { kind: "region", ...of } as const;
    const used = recordOf({ plan: PLAN, notes: [noted(1, record)] });
    const about = CHECKERS.filter((each) => each.concerns?.(used)).map(({ name }) => name);
    assert.deepEqual(about.toSorted(), ABOUT_REGIONS);
    const [without, all] = [checks([variant(NOTHING)]), checks([variant(NOTHING), variant(used)])];
    for (const name of about) {
      assert.deepEqual([without.has(name), all.get(name)?.holds], [false, true]);
    }
  });

  it("C-09: leaves out the promise about shutdowns where no host is shut down", () => {
    const plan = planOf(["{ at: 1us, shutdown: b, within: 1us }"]);
    const shutDown = recordOf({ plan, power: plan.faults });
    const name = "shutdowns-end-in-time";
    assert.equal(checks([variant(NOTHING)]).has(name), false);
    const detail =
      "one: b: its shutdown at 1 us had 1 us and did not end: its power went off at 2 us before its shutdown had begun";
    const { holds, detail: found } = checks([variant(NOTHING), variant(shutDown)]).get(name)!;
    assert.deepEqual([holds, found], [false, detail]);
  });

  it("is content with one variant that has what is expected", () => {
    const all = checks([variant(NOTHING), variant(PROMISED), variant(NOTHING)], [SURVIVES]);
    assert.equal(all.get(SURVIVES)?.holds, true);
  });

  it("makes no check without audit records, except of what put reports itself", () => {
    assert.deepEqual([...checks([variant(undefined)]).keys()], [ENDS]);
    const row = { method: "persist-opcode", ddio: "on", from: "a", to: "b", confirmed: 4 };
    const of = (loss: MethodRow["loss"], promises = true) => {
      const rows = [{ ...row, promises, loss } as unknown as MethodRow];
      return checks([variant(undefined, { rows })]).get(SURVIVES);
    };
    assert.deepEqual(of(null)?.looked, ["4 messages of a to b confirmed"]);
    assert.equal(of(null)?.holds, true);
    assert.equal(of(null, false), undefined);
    const lost = of({ host: "b", object: "data", offset: 3, found: 0, expected: 7 });
    assert.equal(lost?.holds, false);
    assert.match(lost!.detail, /byte 3 of data on b is 0, reported persisted as 7/);
  });
});

describe("programs-run-through", () => {
  const of = (reports: Reports, record: RunRecord = NOTHING) =>
    checks([variant(record, { reports })]).get(ENDS)!;
  const failed = {
    time: 9,
    node: "a",
    topic: "program-failed",
    value: { program: "put#2", message: "broken" },
  } as const;

  it("holds where each has a result, and a service goes on", () => {
    assert.equal(of([done(), done()]).holds, true);
  });

  it("fails where one waits, and says for what, where and since when; a service may wait", () => {
    const left = {
      program: "mine.ts#1",
      serves: false,
      waitsFor: "a completion (waitCompletion)",
      since: 5_000_000,
      at: "mine.ts:7:3",
    };
    const waits = (value: UnfinishedProgram) => {
      return of([{ time: value.since, node: "a", topic: "unfinished", value }]);
    };
    assert.equal(
      waits(left).detail,
      "one: a: mine.ts#1 has not ended: it waits for a completion (waitCompletion) since 5 us, " +
        "at mine.ts:7:3",
    );
    assert.equal(waits(left).holds, false);
    assert.equal(waits({ ...left, serves: true }).holds, true);
  });

  it("fails where one was refused its connection, whatever else it says; a result may be anything", () => {
    const refused = { refused: "no-service", reason: "Rejected, reason 8" };
    const of1 = (value: unknown) => of([{ ...done(), value }]).detail;
    assert.equal(
      of1({ program: "mine", ...refused }),
      "one: a: its connection was refused: no-service: Rejected, reason 8",
    );
    for (const value of [null, 0, "no", []]) assert.equal(of1(value), "");
  });

  it("says once why one has failed", () => {
    assert.equal(of([done(), failed]).detail, "one: a: broken");
  });
});
