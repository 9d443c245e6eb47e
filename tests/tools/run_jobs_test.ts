/** Variants and combinations in several processes: the reports are the same for any number of them. */
import { deepStrictEqual as same, rejects, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { runScenario, type RunScenarioOptions } from "../../console/rack/run_scenario.ts";
import { plainly } from "../../console/reports/json.ts";
import type { RunReport } from "../../console/reports/method_report.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

const SCENARIO = `
name: three
seed: 3
hosts: { a: {}, b: { scm: { size: 1MiB } } }
programs:
  - { on: a, to: b, run: put, bytes: 8KiB, size: 4KiB, method: [write-read, send-flush, persist-opcode] }
`;

/** All of it but wall times, names and memory, as `rack run --json` has it. */
function documentOf(report: RunReport): unknown {
  const apart = new Set(["wallMs", "run", "directory", "residentBytes"]);
  const plain = (name: string, value: unknown) =>
    apart.has(name) ? undefined : plainly(name, value);
  return JSON.parse(JSON.stringify(report, plain));
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-jobs-" });
  try {
    return await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function ran(
  scenario: string,
  options: Omit<RunScenarioOptions, "prepare" | "directory">,
): Promise<RunReport> {
  return await inFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/three.yaml`, scenario);
    const prepare = { packing: "all" } as const;
    return await runScenario(await readScenario(`${folder}/three.yaml`), {
      prepare,
      directory: `${folder}/run`,
      ...options,
    });
  });
}

describe("rack run --pack all --jobs", () => {
  it("reports the same with any number of processes, variant by variant in their order", async () => {
    const reports: unknown[] = [];
    for (const jobs of [1, 2]) {
      const judged: string[] = [];
      const report = await ran(SCENARIO, { jobs, onJudged: ({ one }) => judged.push(one.label) });
      equal(report.checks.every(({ holds }) => holds), true);
      same(judged, ["write-read", "send-flush", "persist-opcode"]);
      reports.push(documentOf(report));
    }
    same(reports[1], reports[0]);
  });

  it("ends its processes when it is interrupted, and reports on what had ended", async () => {
    const interrupt = new AbortController();
    const reports: RunReport[] = [];
    // Processes get a variant at a time from here, so that most are still to come when the first one is judged.
    const many = SCENARIO.replace(/method: \[.*\]/, "method: all").replace(
      "b: {",
      "b: { ddio: both,",
    );
    const running = ran(many, {
      jobs: 2,
      signal: interrupt.signal,
      onJudged: () => interrupt.abort(new Error("interrupted")),
      onInterrupted: (report) => void reports.push(report),
    });
    await rejects(running, /interrupted/);
    const broken = reports[0]!.checks.filter(({ holds }) => !holds).map(({ name }) => name);
    same(broken, ["all-variants-run"]);
  });
});
