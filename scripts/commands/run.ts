import type { Command } from "commander";
import { EXIT } from "../../fabric/base/exit.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { INSPECTOR_PORT } from "../../console/scenarios/new_protocol.ts";
import { runScenario } from "../../console/rack/run_scenario.ts";
import { rackProcessArgs } from "../../console/base/v8_flags.ts";
import { watchFiles } from "../../console/base/watch_files.ts";
import { plainly } from "../../console/reports/json.ts";
import { countOf } from "../../console/checks/finding.ts";
import { runSuites } from "../../console/reports/junit/suites.ts";
import type { RunReport } from "../../console/reports/method_report.ts";
import type { JudgedVariant } from "../../console/reports/run_checks.ts";
import { verdictOf } from "../../console/reports/run_summary.ts";
import { runText } from "../../console/reports/report_text.ts";
import { painted } from "./colour.ts";
import { onInterrupt } from "./interrupt.ts";
import { JunitFile, type JunitFlags } from "../../console/reports/junit/file.ts";
import { addJunitOption, given, whole } from "./options.ts";
import {
  addAtOnceOptions,
  addCheckOption,
  addElsewhereOption,
  addRackOptions,
  type AtOnceFlags,
  atOnceOf,
  checkedScenario,
  type CheckFlags,
  type ElsewhereFlags,
  elsewhereOf,
  mannerOf,
  type RackFlags,
} from "./rack_options.ts";
import { print, Progress, say } from "./output.ts";

interface RunFlags extends RackFlags, CheckFlags, JunitFlags, AtOnceFlags, ElsewhereFlags {
  readonly delay?: string;
  readonly faults?: string;
  readonly claims?: boolean;
  readonly inspectBrk?: string | true;
  readonly watch?: boolean;
}

export function addRun(program: Command): void {
  const run = addRackOptions(program.command("run <scenario>"));
  addJunitOption(addElsewhereOption(addCheckOption(addAtOnceOptions(run, "variants"))))
    .description("bring the rack up, run the scenario to its end, report, take it down")
    .option("--delay <ms>", "let every process wait up to so long before each span (for tests)")
    .option("--faults <file>", "replay what a run's faults.jsonl recorded of power and cables")
    .option("--claims", "judge what methods claim as though it were promised")
    .option(
      "--inspect-brk [port]",
      `with --pack all: stop in your own program for a debugger at this port (${INSPECTOR_PORT})`,
    )
    .option("--watch", "run again whenever the scenario or a program of your own changes")
    .addHelpText(
      "after",
      "\nExample:\n  rack run scripts/scenarios/persist_pair.yaml --input ./data.bin",
    )
    .action(runIt);
}

async function runIt(path: string, flags: RunFlags): Promise<void> {
  if (flags.watch) return await runOnChanges(path, flags);
  const manner = mannerOf(flags);
  const { faults: faultsFile, claims, json: quiet = false } = flags;
  const inspect = inspectedPort(flags);
  const atOnce = atOnceOf(flags, manner.prepare.packing);
  const junit = await JunitFile.open(flags, `rack run ${path}`);
  const judged: JudgedVariant[] = [];
  const scenario = await junit.of(checkedScenario(path, flags));
  const progress = new Progress({ quiet: quiet || inspect !== undefined });
  const running = runScenario(scenario, {
    ...manner,
    prepare: { ...manner.prepare, native: { kind: "run", onNotice: quiet ? () => {} : say } },
    ...given({ faultsFile, claims, inspect }),
    ...elsewhereOf(flags),
    ...atOnce,
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
    onInterrupted: (report) => {
      progress.clear();
      show(report, flags);
    },
  }).finally(() => progress.clear());
  const report = await junit.of(running);
  await junit.write(runSuites(report, judged));
  show(report, flags);
  Deno.exitCode = CODES[verdictOf(report)];
}

const CODES = { holds: EXIT.done, fails: EXIT.failed, unchecked: EXIT.unclear } as const;

function show(report: RunReport, { json, trace = false }: RunFlags): void {
  if (json) return print(JSON.stringify(report, plainly));
  for (const text of runText(report, { paint: painted, isTraced: trace })) print(text);
}

/** For a debugger, where one is asked for. @throws Refusal */
function inspectedPort({ inspectBrk, pack }: RunFlags): number | undefined {
  if (inspectBrk === undefined) return undefined;
  if (pack !== "all") {
    const found = `together with --pack ${pack}`;
    throw refusal("--inspect-brk", { found, expected: "--pack all: one process, one debugger" });
  }
  const port = inspectBrk === true
    ? INSPECTOR_PORT
    : whole("--inspect-brk", inspectBrk, { least: 0, most: 65_535 });
  try {
    Deno.listen({ hostname: "127.0.0.1", port }).close();
  } catch (cause) {
    const why = (cause as Error).message;
    const found = `${port}, at which nothing can listen (${why})`;
    throw refusal("--inspect-brk", { found, expected: "a free port, or 0 for any", cause });
  }
  return port;
}

/** In a process of its own for each change, until it is interrupted. */
async function runOnChanges(scenario: string, flags: RunFlags): Promise<void> {
  // Refused once, not at each change.
  mannerOf(flags);
  const { filesOfScenario } = await import("../../console/rack/own/types/check_scenario.ts");
  const signal = onInterrupt("ending the run");
  const interrupted = new Promise<"interrupted">((resolve) =>
    signal.addEventListener("abort", () => resolve("interrupted"))
  );
  const inputs = flags.input === undefined ? [] : [await Deno.realPath(flags.input)];
  let known: readonly string[] = [];
  while (!signal.aborted) {
    const files = await filesOfScenario(scenario, flags.allowRead);
    // While the scenario is wrong, a change of its earlier files counts as well.
    known = files.length > 1 ? files : [...new Set([...known, ...files])];
    const watched = watchFiles([...known, ...inputs]);
    const child = new Deno.Command(Deno.execPath(), {
      args: rackProcessArgs("scripts/rack.ts", Deno.args.filter((word) => word !== "--watch")),
      stdin: "null",
    }).spawn();
    const isOver = await Promise.race([child.status, watched.changed, interrupted]);
    if (typeof isOver === "string") end(child);
    await child.status;
    if (typeof isOver !== "string") {
      say(`waits for a change of ${countOf(known.length + inputs.length, "file")}; Ctrl-C ends it`);
    }
    const changed = await Promise.race([watched.changed, interrupted]);
    watched.close();
    if (!signal.aborted) say(`${changed} has changed: running again`);
  }
}

function end(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGTERM");
  } catch (error) {
    // It has ended meanwhile.
    if (!(error instanceof TypeError)) throw error;
  }
}
