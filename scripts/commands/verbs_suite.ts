/** `rack verbs-test`: rdma-core's own tests of libibverbs, on a host of a rack. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/base/exit.ts";
import { formatTime } from "../../fabric/base/time.ts";
import { countOf } from "../../console/checks/finding.ts";
import { plainly } from "../../console/reports/json.ts";
import { tableText } from "../../console/reports/table.ts";
import { runVerbsTests, type VerbsTestReport } from "../../console/verbs_suite/run.ts";
import { knownSkip } from "../../console/verbs_suite/skips.ts";
import { fileOf } from "../../console/verbs_suite/suite.ts";
import { painted } from "./colour.ts";
import { onInterrupt } from "./interrupt.ts";
import { given } from "./options.ts";
import { print, Progress, say } from "./output.ts";

interface VerbsTestFlags {
  readonly tests?: string;
  readonly json?: boolean;
}

export function addVerbsTest(program: Command): void {
  program.command("verbs-test [name...]")
    .description("rdma-core's own tests of libibverbs, unmodified, on a host of a rack")
    .option("--tests <dir>", "rdma-core's tests; else those of Debian's package rdma-core")
    .option("--json", "print the result as JSON")
    .addHelpText(
      "after",
      `
Each test of the files that are not for one vendor's cards has to pass, or to skip for its known reason,
which is said. Anything else is a difference, and the command ends with 1. A name is a file (qp), a class
(qp.QPTest) or a test; without one all run, in half a minute. It needs Debian's packages rdma-core and
python3-pyverbs; the tests' whole output is kept (rack logs RUN).

Example:
  rack verbs-test
  rack verbs-test pd mr.MRTest`,
    )
    .action(verbsTest);
}

async function verbsTest(words: string[], { tests, json: quiet = false }: VerbsTestFlags) {
  const progress = new Progress({ quiet });
  const report = await runVerbsTests({
    words,
    ...given({ from: tests }),
    signal: onInterrupt("ending the run"),
    onNotice: quiet ? () => {} : say,
    onStart: ({ id }) => quiet || say(`run ${id}`),
    onProgress: (title, share) => progress.show(title, share),
  }).finally(() => progress.clear());
  if (quiet) print(JSON.stringify(report, plainly));
  else for (const line of reportLines(report)) print(line);
  if (report.differences.length > 0 || report.stale.length > 0) Deno.exitCode = EXIT.failed;
}

function* reportLines(report: VerbsTestReport): Iterable<string> {
  const { tests, differences, stale } = report;
  yield tableText(COLUMNS, filesOf(report));
  const reasons = Map.groupBy(
    tests.filter((one) => one.outcome === "skip"),
    ({ test }) => knownSkip(test)?.why ?? "",
  );
  reasons.delete("");
  if (reasons.size > 0) yield "";
  for (const [why, skipped] of reasons) yield `${skipped.length} skipped: ${why}`;
  for (const { test, outcome, said = "", expected, why } of differences) {
    const what = outcome === "none" ? "did not end" : `came to ${outcome}`;
    const known = why === undefined ? expected : `${expected}, as ${why}`;
    yield `\n${painted("FAIL")} ${test} ${what}: expected ${known}`;
    if (said !== "") yield said.replaceAll(/^/gm, "  ");
  }
  for (const pattern of stale) {
    yield `\n${painted("FAIL")} ${pattern} is known to skip, and there is no such test`;
  }
  const verdict = differences.length + stale.length === 0
    ? `${painted("ok")} ${countOf(tests.length, "test")}, all as known`
    : `${countOf(differences.length + stale.length, "difference")} in ${
      countOf(tests.length, "test")
    }`;
  yield `\n${verdict}; ${formatTime(report.virtualPs)} of virtual time, digest ${report.digest}`;
  yield `kept in ${report.directory}`;
}

interface FileRow {
  readonly file: string;
  readonly passed: number;
  readonly skipped: number;
  readonly differing: number;
}

const COLUMNS = [
  { title: "file", value: ({ file }: FileRow) => file },
  { title: "pass", value: ({ passed }: FileRow) => String(passed) },
  { title: "skip", value: ({ skipped }: FileRow) => String(skipped) },
  { title: "differ", value: ({ differing }: FileRow) => String(differing) },
];

function filesOf({ tests, differences }: VerbsTestReport): FileRow[] {
  const byFile = Map.groupBy(tests, ({ test }) => fileOf(test));
  return [...byFile].map(([file, ones]) => ({
    file: file.replace(/^test_/, ""),
    passed: ones.filter(({ outcome }) => outcome === "pass").length,
    skipped: ones.filter(({ outcome }) => outcome === "skip").length,
    differing: differences.filter(({ test }) => fileOf(test) === file).length,
  }));
}
