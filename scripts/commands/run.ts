/** `rack run`: starts a rack, runs it to the end, reports, takes it down. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { runScenario } from "../../console/rack/run_scenario.ts";
import { plainly } from "../../console/reports/json.ts";
import { countOf } from "../../console/checks/finding.ts";
import { runSuites } from "../../console/reports/junit/suites.ts";
import type { JudgedVariant } from "../../console/reports/run_checks.ts";
import { runText } from "../../console/reports/report_text.ts";
import { painted } from "./colour.ts";
import { onInterrupt } from "./interrupt.ts";
import { JunitFile, type JunitFlags } from "../../console/reports/junit/file.ts";
import {
  addCheckOption,
  addJunitOption,
  addRackOptions,
  type CheckFlags,
  checkTypesFirst,
  given,
  mannerOf,
  type RackFlags,
  whole,
} from "./options.ts";
import { print, Progress, say } from "./output.ts";

interface RunFlags extends RackFlags, CheckFlags, JunitFlags {
  readonly delay?: string;
  readonly faults?: string;
  readonly claims?: boolean;
}

export function addRun(program: Command): void {
  addJunitOption(addCheckOption(addRackOptions(program.command("run <scenario>"))))
    .description("bring the rack up, run the scenario to its end, report, take it down")
    .option("--delay <ms>", "let every process wait up to so long before each span (for tests)")
    .option("--faults <file>", "replay what a run's faults.jsonl recorded of power and cables")
    .option("--claims", "judge what methods claim as though it were promised")
    .addHelpText(
      "after",
      "\nExample:\n  rack run scripts/scenarios/persist_pair.yaml --input ./data.bin",
    )
    .action(run);
}

async function run(scenario: string, flags: RunFlags): Promise<void> {
  const manner = mannerOf(flags);
  const { faults: faultsFile, claims, json: quiet = false } = flags;
  const junit = await JunitFile.open(flags, `rack run ${scenario}`);
  const judged: JudgedVariant[] = [];
  await junit.of(checkTypesFirst(scenario, flags));
  const progress = new Progress({ quiet });
  const running = runScenario(scenario, {
    ...manner,
    ...given({ faultsFile, claims }),
    delayMsMax: whole("--delay", flags.delay ?? "0", { least: 0, most: 1_000 }),
    signal: onInterrupt(flags.pack === "all" ? "ending the run" : "taking the rack down"),
    onStart: ({ seed, id, removed }) => {
      if (quiet) return;
      say(`seed ${seed}, run ${id}`);
      if (removed.length > 0) say(`${countOf(removed.length, "old run")} removed: see rack runs`);
    },
    onProgress: (title, share) => progress.show(title, share),
    onStall: (text) => {
      progress.clear();
      say(text);
    },
    onLog: (text) => {
      progress.clear();
      say(text);
    },
    onCapturing: () => void onInterrupt("leaving the captures"),
    onJudged: (variant) => void judged.push(variant),
  }).finally(() => progress.clear());
  const report = await junit.of(running);
  await junit.write(runSuites(report, judged));
  if (quiet) print(JSON.stringify(report, plainly));
  else {
    const isTraced = flags.trace === true;
    for (const text of runText(report, { paint: painted, isTraced })) print(text);
  }
  if (!report.checks.every(({ holds }) => holds)) Deno.exitCode = EXIT.failed;
}
