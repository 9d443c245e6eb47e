/** What a test sees of a run and of an exploration, and what fails it. */
import { deepStrictEqual as same, strictEqual as equal, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { RackFailure } from "./failure.ts";
import { RackExploration, RackRun } from "./results.ts";
import type { Explored, RunAnswer, VariantAnswer, Verdict } from "./types.ts";

const variant: VariantAnswer = {
  label: "log",
  digest: "d",
  virtualPs: 9,
  reports: [
    { time: 1, node: "a", topic: "result", value: { count: 3n } },
    { time: 2, node: "b", topic: "result", value: "other" },
    { time: 3, node: "a", topic: "note", value: null },
  ],
  memory: {
    b: {
      address: 0x1000,
      length: 64,
      regions: { log: { at: 8, bytes: 16 } },
      pieces: [[4, Uint8Array.of(1, 2, 3, 4, 5, 6)], [20, Uint8Array.of(7, 8, 9, 10, 11)]],
    },
  },
};

function answer(
  { holds = true, variants = [variant] }: {
    readonly holds?: boolean;
    readonly variants?: readonly VariantAnswer[];
  } = {},
): RunAnswer {
  const check = { promise: "", looked: [], detail: holds ? "" : "3 records of 4" };
  return {
    kind: "run",
    text: "FAIL protocol-holds: 3 records of 4",
    variants,
    report: {
      ...{ run: "r", scenario: "log", seed: 7, digest: "d", virtualPs: 9, events: 1 },
      ...{ directory: "/runs/r", methods: [], results: [] },
      checks: [{ ...check, name: "protocol-holds", holds }],
    },
  };
}

/** @returns the failure's message, and its code behind it. */
function failureOf(work: () => unknown): string {
  let text = "";
  throws(work, (error) => {
    if (!(error instanceof RackFailure)) return false;
    text = `${error.message} (${error.code})`;
    return true;
  });
  return text;
}

describe("a run that a test made", () => {
  it("fails it with the command's text where a check fails that it does not expect", () => {
    const text = "FAIL protocol-holds: 3 records of 4";
    equal(
      failureOf(() => RackRun.of(answer({ holds: false }), {})),
      `The run does not hold: protocol-holds\n${text} (1)`,
    );
    equal(
      failureOf(() => RackRun.of(answer(), { fails: ["protocol-holds"] })),
      `Found that protocol-holds holds: expected that it fails\n${text} (1)`,
    );
    equal(
      failureOf(() => RackRun.of(answer(), { fails: ["protocol-hold"] })),
      "Found no check protocol-hold: expected protocol-holds (64)",
    );
    const run = RackRun.of(answer({ holds: false }), { fails: ["protocol-holds"] });
    equal(run.check("protocol-holds").detail, "3 records of 4");
  });

  it("fails it with code 2 where nothing was done, but for a check that is broken", () => {
    const unchecked = (holds: boolean): RunAnswer => {
      const { report, ...given } = answer({ holds });
      const nothing = [{ variant: "log", why: "nothing was done" }];
      return { ...given, report: { ...report, unchecked: nothing } };
    };
    const text = "FAIL protocol-holds: 3 records of 4";
    equal(
      failureOf(() => RackRun.of(unchecked(true), {})),
      `The run says nothing of log: nothing was done\n${text} (2)`,
    );
    for (const fails of [[], ["unchecked"]]) {
      equal(
        failureOf(() => RackRun.of(unchecked(false), { fails })),
        `The run does not hold: protocol-holds\n${text} (1)`,
      );
    }
    equal(RackRun.of(unchecked(true), { fails: ["unchecked"] }).digest, "d");
  });

  it("has reports by topic and node, and values as they were reported", () => {
    const run = RackRun.of(answer(), {});
    same(run.results("a"), [{ count: 3n }]);
    same(run.reports("result").map(({ node }) => node), ["a", "b"]);
    same(run.reports(undefined, "a").map(({ time }) => time), [1, 3]);
  });

  it("has memory by address and by region, with zeros where nothing was written", () => {
    const memory = RackRun.of(answer(), {}).memory("b");
    same([...memory.region("log")], [5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9, 10]);
    same([...memory.read(0x1000, 6)], [0, 0, 0, 0, 1, 2]);
    equal(memory.read(0x1000 + 64, 0).length, 0);
    for (const [address, length] of [[0xfff, 2], [0x1000 + 60, 5]] as const) {
      const found = `${length} B at 0x${address.toString(16)} in the SCM of b`;
      equal(
        failureOf(() => memory.read(address, length)),
        `Found no ${found}: expected places from 0x1000 to 0x1040 (64)`,
      );
    }
    equal(failureOf(() => memory.region("lag")), "Found no region lag of b: expected log (64)");
    equal(
      failureOf(() => RackRun.of(answer(), {}).memory("c")),
      "Found no host c: expected b (64)",
    );
  });

  it("has no packets where none were kept, and asks which of several variants is meant", () => {
    equal(
      failureOf(() => RackRun.of(answer(), {}).packets()),
      "Found no packets: expected a run with `capture: true` (64)",
    );
    const run = RackRun.of(answer({ variants: [variant, { ...variant, label: "two" }] }), {});
    equal(
      failureOf(() => run.memory("b")),
      'Found 2 variants: expected that one is meant: variant("log"), variant("two") (64)',
    );
    equal(run.variant("two").results("a").length, 1);
    equal(failureOf(() => run.variant("x")), 'Found no variant "x": expected "log", "two" (64)');
  });
});

describe("an exploration that a test made", () => {
  const explored = (verdict: Verdict): Explored => {
    const counts = {
      instants: 1,
      crashPoints: 1,
      writes: 1,
      promises: 1,
      exhaustive: true,
      judgedBy: ["check"],
    };
    return {
      label: "log",
      verdict,
      why: "",
      hosts: [],
      ...counts,
      counterexample: null,
      command: null,
    };
  };
  const of = (verdicts: readonly Verdict[], expected?: Verdict) =>
    RackExploration.of(
      { kind: "explore", text: "TEXT", explored: verdicts.map(explored) },
      expected === undefined ? {} : { verdict: expected },
    );

  it("is safe, or as the test says; all else fails it, and so does nothing at all", () => {
    equal(of(["safe", "safe"]).explored.length, 2);
    equal(of(["unsafe"], "unsafe").text, "TEXT");
    equal(
      failureOf(() => of(["safe", "unsafe"])),
      "Found that log is unsafe: expected safe\nTEXT (1)",
    );
    equal(failureOf(() => of(["partial"])), "Found that log is partial: expected safe\nTEXT (2)");
    equal(
      failureOf(() => of(["unchecked"])),
      "Found that log is unchecked: expected safe\nTEXT (2)",
    );
    equal(
      failureOf(() => of(["safe"], "unsafe")),
      "Found that log is safe: expected unsafe\nTEXT (2)",
    );
    equal(failureOf(() => of([])), "Found that : expected safe\nTEXT (2)");
  });
});
