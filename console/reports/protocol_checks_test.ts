import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { HistoryLog } from "../explore/history.ts";
import type { Check, CrashView, Recover } from "../../nodes/host/recovery/protocol.ts";
import type { OwnProgram } from "../../nodes/host/own_programs.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import type { FaultPlan } from "../../fabric/rack/plan/plan.ts";
import type { TimedRecord } from "../../fabric/audit.ts";
import { imageOf, recordOf } from "../checks/record_testing.ts";
import { endOf, findingsOf, judgeProtocols } from "./protocol_checks.ts";

const view: CrashView = { cut: [], at: 0, hosts: {}, reports: [], notes: [] };

function findings(answer: unknown): readonly string[] {
  return findingsOf((() => answer) as Check, view);
}

describe("what a user's check answers", () => {
  it("is nothing, one thing or several, in words", () => {
    assert.deepEqual(findings(undefined), []);
    assert.deepEqual(findings([]), []);
    assert.deepEqual(findings("b has nothing"), ["b has nothing"]);
    assert.deepEqual(findings(["one", "two"]), ["one", "two"]);
  });

  it("is wrong itself where it is anything else, so that `true` is never taken for all is well", () => {
    for (const answer of [true, false, 5, 0, "", { broken: 1 }, [1], ["one", ""]]) {
      const [text, ...more] = findings(answer);
      assert.match(text!, /check answers .*: expected what is wrong, in words/);
      assert.deepEqual(more, []);
    }
  });

  it("is that it throws, where it does", () => {
    const check: Check = () => {
      throw new Error("no such host");
    };
    const [text] = findingsOf(check, view);
    assert.match(text!, /^check throws no such host \(protocol_checks_test\.ts:\d+:\d+\)$/);
    const none: Check = ({ hosts }) => void hosts.z!.scm(0, 8);
    const read = /^check throws Cannot read .*'scm'\) \(protocol_checks_test\.ts:\d+:\d+\)$/;
    assert.match(findingsOf(none, view)[0]!, read);
  });

  it("is that it reads what is no part of a host's SCM, with the line that does", () => {
    const read = (offset: unknown, length: unknown) => {
      const check: Check = ({ hosts: { b } }) => void b!.scm(offset as number, length as number);
      return seen([], { check }).verdicts[0]!.findings.join();
    };
    const at = /^check throws EINVAL: scm at protocol_checks_test\.ts:\d+:\d+: /;
    for (
      const [offset, length, text] of [
        [undefined, 8, "offset is not given"],
        [-8, 8, "offset is -8"],
        [0, NaN, "length is NaN"],
        [0, 8n, "length is 8n, a bigint"],
        [65_532, 8, "8 B at 65532: expected a part of the SCM of b, 65536 B"],
      ] as const
    ) {
      const said = read(offset, length);
      assert.match(said, at);
      assert.ok(said.replace(at, "").startsWith(text), said);
    }
    assert.equal(read(65_528, 8), "");
  });
});

const TEXT = `
name: two
hosts: { a: {}, b: { scm: { size: 64KiB } } }
programs: [{ on: b, program: ./mine.ts, keeps: 3 }]
`;
const PLAN = makePlan(variants(parseScenario(TEXT, "two.yaml"))[0]!);
const KILL: FaultPlan = { at: 400, action: "kill", node: "b" };
const BACK: FaultPlan = { at: 500, action: "start", node: "b" };
/** What b has said before its power failed, and at its boot and after it. */
const SAID = { time: 300, node: "b", topic: "stored", value: { count: 7 } };
const recoveredAt = (time: number, recovered: unknown) => {
  return { time, node: "b", topic: "recovered", value: { program: "./mine.ts", recovered } };
};

/** The first byte of b's SCM counts what it keeps. */
const OWN: OwnProgram = {
  *program() {},
  // deno-lint-ignore require-yield -- it only looks
  *recover({ cpu }) {
    return cpu.load(cpu.scm.address, 1)[0];
  },
};

/** What a check sees of a run in which b keeps 7, and 9 in the end. */
function seen(power: readonly FaultPlan[], own: Partial<OwnProgram> = {}) {
  const views: CrashView[] = [];
  const check: Check = (view) => void views.push(view);
  const reports = [SAID, recoveredAt(600, 7), { ...SAID, time: 900, value: { count: 9 } }];
  const b = imageOf({ 0: Uint8Array.of(9) });
  const record = recordOf({ plan: PLAN, reports, power, b });
  const verdicts = judgeProtocols(
    endOf(record, { "./mine.ts": () => ({ ...OWN, check, ...own }) }),
  );
  return { view: views[0], verdicts };
}

function told({ cut, at, hosts: { a, b } }: CrashView) {
  return { cut, at, survived: [a!.survived, b!.survived], recovered: b!.recovered };
}

describe("the rack at the end of a run, as a user's check sees it", () => {
  it("has a host without power, which recovers from what its SCM holds, and says since when", () => {
    const { view, verdicts } = seen([KILL]);
    assert.deepEqual(told(view!), { cut: ["b"], at: 400, survived: [true, false], recovered: 9 });
    assert.deepEqual(verdicts, [{
      program: "./mine.ts",
      by: "check",
      at: { node: "b", time: 400 },
      findings: [],
      unknown: [],
      sawCut: true,
    }]);
  });

  it("has cut no host that is back, which has the answer of its last boot", () => {
    const { view, verdicts } = seen([KILL, BACK]);
    assert.deepEqual(told(view!), { cut: [], at: 900, survived: [true, false], recovered: 7 });
    assert.equal(verdicts[0]!.sawCut, true);
    const again = seen([KILL, BACK, { ...KILL, at: 1000 }, { ...BACK, at: 1100 }]);
    assert.equal(
      again.view!.hosts["b"]!.recovered,
      undefined,
      "its last boot has not answered yet",
    );
    const gone = seen([KILL, BACK, { ...KILL, at: 1000 }]);
    assert.deepEqual(
      told(gone.view!),
      { cut: ["b"], at: 1000, survived: [true, false], recovered: 9 },
    );
  });

  it("is judged by noted operations without a check, of a host that has no power", () => {
    const by = "b/0/./mine.ts#0", of = { on: "b", object: "kept", type: "counter" } as const;
    const notes: TimedRecord[] = [
      {
        time: 100,
        node: "b",
        by,
        note: { kind: "operation", id: 1, ...of, call: "add", value: 9 },
      },
      { time: 200, node: "b", by, note: { kind: "operation-end", id: 1 } },
    ];
    const judged = (kept: number, power: readonly FaultPlan[]) => {
      const b = imageOf({ 0: Uint8Array.of(kept) });
      // deno-lint-ignore require-yield -- it only looks
      const recover: Recover = function* ({ cpu }) {
        return { objects: { kept: cpu.load(cpu.scm.address, 1)[0] } };
      };
      const record = { ...recordOf({ plan: PLAN, reports: [], power, b }), notes };
      return judgeProtocols(endOf(record, { "./mine.ts": () => ({ ...OWN, recover }) }));
    };
    assert.deepEqual(judged(9, [KILL]), [
      {
        program: "./mine.ts",
        by: "operations",
        at: { node: "b", time: 400 },
        findings: [],
        unknown: [],
        sawCut: true,
      },
    ]);
    assert.match(
      judged(8, [KILL])[0]!.findings[0]!,
      /^b recovers kept as 8: no order of its 1 ended/,
    );
    // What it has recovered at its boot says nothing of its operations since.
    assert.deepEqual(judged(8, [KILL, BACK])[0]!.findings, []);
  });

  it("is whole at its end where nothing happened", () => {
    const { view, verdicts } = seen([]);
    const { recovered: _, ...others } = told(view!);
    assert.deepEqual(others, { cut: [], at: 900, survived: [true, true] });
    assert.equal(verdicts[0]!.sawCut, false);
    assert.deepEqual(view!.hosts["b"]!.options, { keeps: 3 });
    assert.deepEqual(view!.hosts["a"]!.options, {});
  });

  it("has the memory that the recovery leaves, and the run's stays as it is", () => {
    const check: Check = ({ hosts }) => `${hosts["b"]!.scm(0, 2)}`;
    const { verdicts } = seen([KILL], {
      *recover({ cpu }) {
        yield* cpu.ntStore(cpu.scm.address + 1, Uint8Array.of(5));
      },
      check,
    });
    assert.deepEqual(verdicts[0]!.findings, ["9,5"]);
  });

  it("is judged though nothing checks it, where a recovery fails", () => {
    const { check: _, ...bare } = OWN;
    const judged = (recover: OwnProgram["recover"]) => {
      const own = { "./mine.ts": () => ({ ...bare, ...(recover && { recover }) }) };
      return judgeProtocols(endOf(recordOf({ plan: PLAN, power: [KILL] }), own));
    };
    assert.deepEqual(judged(OWN.recover), []);
    // deno-lint-ignore require-yield -- it fails at once
    const [failed] = judged(function* () {
      throw new Error("no log");
    });
    assert.match(
      failed!.findings.join(),
      /^recover failed on b: no log \(protocol_checks_test\.ts:/,
    );
    const [endless] = judged(function* ({ cpu }) {
      for (;;) yield* cpu.settle();
    });
    assert.match(endless!.findings.join(), /recover failed on b: .* waits without end/);
  });

  it("tells a log what a recovery does", () => {
    const log = new HistoryLog();
    const end = endOf(recordOf({ plan: PLAN, power: [KILL] }), {
      "./mine.ts": () => ({
        *program() {},
        *recover({ cpu }) {
          yield* cpu.ntStore(cpu.scm.address, Uint8Array.of(1));
        },
      }),
    });
    const hosts = new Map(end.hosts).set("b", { ...end.hosts.get("b")!, log });
    assert.deepEqual(judgeProtocols({ ...end, hosts }), []);
    assert.deepEqual(log.entries.map(({ kind }) => kind), ["durable"]);
  });
});
