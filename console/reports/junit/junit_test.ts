/** The documents that a CI reads. */
import { strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RoundReport } from "../../chaos/campaign.ts";
import type { Explored } from "../../explore/report.ts";
import type { MatrixCell } from "../../explore/matrix.ts";
import type { Counterexample, Verdict } from "../../explore/types.ts";
import { parseScenario } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../../fabric/rack/scenario/variants.ts";
import { junitXml } from "./xml.ts";
import { chaosSuites, exploreSuites, matrixSuites } from "./suites.ts";

describe("JUnit's XML", () => {
  it("has suites with their counts, and cases with what became of them", () => {
    const problem = {
      kind: "failure",
      type: "t",
      message: "one\ntwo",
      text: "one\ntwo\nthree",
    } as const;
    const document = junitXml("rack run x.yaml", [
      {
        name: "ddio on",
        classname: "x",
        wallMs: 1_234,
        properties: { seed: "7" },
        cases: [{ name: "holds", output: "12 writes" }, { name: "fails", problem }, {
          name: "plain",
        }],
      },
      {
        name: "ddio off",
        classname: "x",
        cases: [{
          name: "told",
          wallMs: 20,
          problem: { kind: "error", type: "u", message: "why" },
        }],
      },
    ]);
    equal(
      document,
      `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="rack run x.yaml" tests="4" failures="1" errors="1" time="1.254">
  <testsuite name="ddio on" tests="3" failures="1" errors="0" skipped="0" time="1.234">
    <properties>
      <property name="seed" value="7"/>
    </properties>
    <testcase classname="x" name="holds" time="0.000">
      <system-out>12 writes</system-out>
    </testcase>
    <testcase classname="x" name="fails" time="0.000">
      <failure type="t" message="one&#10;two">one
two
three</failure>
    </testcase>
    <testcase classname="x" name="plain" time="0.000"/>
  </testsuite>
  <testsuite name="ddio off" tests="1" failures="0" errors="1" skipped="0" time="0.020">
    <testcase classname="x" name="told" time="0.020">
      <error type="u" message="why">why</error>
    </testcase>
  </testsuite>
</testsuites>
`,
    );
  });

  it("has what programs said without breaking: markup, quotes, and what is no character of XML", () => {
    const said = `<a b="c">&amp; ]]> \u0000\u001b[1m\ud800 é 😀`;
    const document = junitXml("x", [{
      name: "s",
      classname: "s",
      cases: [{ name: "c", problem: { kind: "failure", type: "t", message: said } }],
    }]);
    const text = "&lt;a b=QcQ&gt;&amp;amp; ]]&gt; \ufffd\ufffd[1m\ufffd é 😀";
    equal(
      document.split("\n")[4],
      `      <failure type="t" message="${text.replaceAll("Q", "&quot;")}">${
        text.replaceAll("Q", '"')
      }</failure>`,
    );
  });
});

/** Each case of suites: `suite: kind type: message`. */
function casesOf(suites: ReturnType<typeof exploreSuites>): string {
  return suites.flatMap(({ name, cases }) =>
    cases.map(({ name: each, problem }) =>
      `${name}: ${each} ${problem ? `${problem.kind} ${problem.type}: ${problem.message}` : "ok"}`
    )
  ).join("\n");
}

describe("the suites of an exploration", () => {
  const explored = (label: string, verdict: Verdict["verdict"], why?: string): Explored => {
    const [variant] = variants(parseScenario("name: x\nhosts: { a: {} }\n", "x.yaml"));
    const counterexample: Counterexample = {
      ...{ hosts: ["b"], atPs: 2_000_000, checker: "check", found: "a record is lost" },
      ...{ writebacks: [], faults: [], isReplayable: true, places: [], promised: [] },
      ...{ ladder: "", operation: null },
    };
    return {
      ...{ label, variant: variant!, faults: null },
      verdict: {
        ...{ verdict, hosts: ["b"], instants: 1, crashPoints: 1, continuations: 0, bounded: 0 },
        ...{ paths: 0, covered: [], again: { recoveries: 0, cut: 0, ways: 0 } },
        ...{ exhaustive: true, judgedBy: ["check"], writes: 1, promises: 1, wallMs: 10 },
        ...{ perSecond: 1, ...(why !== undefined && { why }) },
        counterexample: verdict === "unsafe" ? counterexample : null,
      },
      command: verdict === "unsafe" ? "rack run x.yaml --faults f" : null,
    };
  };

  it("fail where a promise is broken, and have errors where nothing can be told", () => {
    const all = [
      explored("1", "safe"),
      explored("2", "unsafe"),
      explored("3", "failed", "a is wrong"),
      explored("4", "partial", "its time is over"),
      explored("5", "unchecked"),
    ];
    const suites = exploreSuites({ scenario: "x", seed: 7, explored: all, isWhole: true });
    const name = "power-failure-at-every-instant";
    equal(
      casesOf(suites),
      [
        `1: ${name} ok`,
        `2: ${name} failure unsafe: the power of b fails at 2 us: check: a record is lost`,
        `3: ${name} failure failed: a is wrong`,
        `4: ${name} error partial: not all: its time is over`,
        `5: ${name} error unchecked: nothing was promised`,
      ].join("\n"),
    );
    equal(suites[1]!.cases[0]!.problem!.text!.endsWith("  rack run x.yaml --faults f"), true);
  });

  it("have an error for variants that were not explored", () => {
    const one = { scenario: "x", seed: 7, explored: [explored("1", "safe")], isWhole: false };
    const missing = "other variants: power-failure-at-every-instant error partial: " +
      "it was stopped before all variants were explored";
    equal(casesOf(exploreSuites(one)), `1: power-failure-at-every-instant ok\n${missing}`);
    equal(casesOf(exploreSuites({ ...one, explored: [], isWhole: true })), missing);
  });
});

describe("the suite of a campaign", () => {
  const round = (number: number, result: Partial<RoundReport>) =>
    ({
      ...{ round: number, what: "w", outcome: "held", findings: [], untold: null, wallMs: 5 },
      ...{ command: "rack run r.yaml", blows: [{ what: "kills b" }], ...result },
    }) as unknown as RoundReport;

  it("has a case for each round, and an error where there is none", () => {
    const of = { scenario: "x", seed: 7 };
    const findings = [{
      check: "silent-without-power",
      text: "b sends",
    }] as RoundReport["findings"];
    const suites = chaosSuites(of, [
      round(0, {}),
      round(1, { outcome: "broken", findings }),
      round(2, { outcome: "broken" }),
      round(3, { outcome: "untold", untold: "No end after 90 s" }),
    ]);
    equal(
      casesOf(suites),
      [
        "x: round 0 ok",
        "x: round 1 failure silent-without-power: silent-without-power: b sends",
        "x: round 2 failure broken: it did not hold",
        "x: round 3 error untold: No end after 90 s",
      ].join("\n"),
    );
    equal(suites[0]!.cases[1]!.output, "w\nkills b\nrack run r.yaml");
    equal(casesOf(chaosSuites(of, [])), "x: rounds error untold: no round was begun");
  });
});

describe("the suites of the matrix", () => {
  const counterexample: Counterexample = {
    ...{ hosts: ["b"], atPs: 3_000_000, checker: "survives", found: "12 B are lost" },
    ...{ writebacks: [], faults: [], isReplayable: true, places: [], promised: [] },
    ...{ ladder: "", operation: null },
  };
  const cell = (method: MatrixCell["method"], ddio: "on" | "off", unsafe: boolean): MatrixCell => ({
    ...{ method, update: "single", arch: "ddio", ddio, domain: "adr", receiveBuffer: "dram" },
    ...{ safe: !unsafe, crashPoints: 9, counterexample: unsafe ? counterexample : null },
  });
  const cells = [
    cell("write-read", "off", false),
    cell("write-read", "on", true),
    cell("write-send", "on", false),
  ];

  it("are one of each method with a case of each cell; an unsafe one fails with its counterexample", () => {
    equal(
      casesOf(matrixSuites(cells, 0)),
      [
        "write-read: single, adr, ddio, ddio off, receive dram ok",
        "write-read: single, adr, ddio, ddio on, receive dram failure unsafe: " +
        "the power of b fails at 3 us: survives: 12 B are lost",
        "write-send: single, adr, ddio, ddio on, receive dram ok",
      ].join("\n"),
    );
  });

  it("say how many cells were left where the command was stopped", () => {
    equal(
      casesOf(matrixSuites(cells, 5)).split("\n").at(-1),
      "other cells: cells error partial: it was stopped before 5 cells were explored",
    );
  });
});
