/** `rack sweep`: a scenario with every combination of values, as a table and a picture; `rack plot`: kept runs. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { optionWords, quoted } from "../../console/base/command_line.ts";
import { commitHere } from "../../console/base/version.ts";
import { countOf } from "../../console/checks/finding.ts";
import { labelOf } from "../../console/sweep/combinations.ts";
import { captionOf } from "../../console/sweep/caption.ts";
import { chartOf, type Choice, figureOf } from "../../console/sweep/choose.ts";
import { aboutRuns, distributionChart, latenciesOf } from "../../console/sweep/distribution.ts";
import { type KeptMeasured, measuredSweep, measureKept } from "../../console/sweep/kept.ts";
import { checkOutputs, type Outputs, writePlot, writeText } from "../../console/sweep/outputs.ts";
import { LIMIT_MS, runSweep } from "../../console/sweep/run_sweep.ts";
import { sweepCsv, sweepTable } from "../../console/sweep/sweep_table.ts";
import { interruptedCode, onInterrupt } from "./interrupt.ts";
import { given, whole } from "./options.ts";
import { print, Progress, say } from "./output.ts";

interface PictureFlags extends Outputs {
  readonly x?: string;
  readonly y?: string;
  readonly by?: string;
  readonly json?: boolean;
}

interface SweepFlags extends PictureFlags {
  readonly vary: readonly string[];
  readonly input?: string;
  readonly jobs?: string;
  readonly limit?: string;
}

interface PlotFlags extends PictureFlags {
  readonly distribution?: boolean;
}

const NAMES = `
NAME is the path of a word, such as hosts.b.ddio, fabric.mtu, programs[0].depth or seed; * stands for every key
or number in its place. The end of a path is enough where only one place has it: depth. VALUEs are written as
in the scenario; 1..10 stands for ten whole numbers.`;

const FIGURES = `
--x, --by: what varies, by its name, or what tells the transfers of a run apart: method, ddio, from, to …
--y: a figure of the report as rack run --json names it, with or without its unit: latencyPs.median, median,
throughput. Without them x is the first thing that varies whose values are numbers, y what the report leads
with, and everything else but the seed makes a line. What makes none is folded: median, least and greatest.`;

export function addSweep(program: Command): void {
  const sweep = program.command("sweep <scenario>")
    .description("run a scenario with every combination of values, and compare the figures")
    .option(
      "--vary <name=values>",
      "a word of the scenario, and its values: depth=1,4,16; again for another",
      (text: string, before: readonly string[]) => [...before, text],
      [],
    )
    .option("--input <file>", "the file that `put` writes")
    .option("--jobs <n>", "combinations at a time; else as many as there are cores")
    .option("--limit <s>", `seconds after which a combination is ended (${LIMIT_MS / 1_000})`);
  addPictureOptions(sweep).addHelpText(
    "after",
    `${NAMES}\n${FIGURES}

Every combination runs in one process of its own. The sweep is kept: rack plot draws it again. A combination
that fails, loses data or comes to no end says so in its row, and the exit code is 1.

Example:
  rack sweep scripts/scenarios/persist_pair.yaml --input ./data.bin \\
    --vary depth=1,4,16 --vary ddio=on,off --plot latency.svg
  rack sweep scripts/scenarios/incast.yaml --vary 'programs[*].depth=1,2,4,8' --y throughput`,
  ).action(runIt);
  const plot = program.command("plot <runs...>")
    .description("compare kept runs, or draw a kept sweep again")
    .option("--distribution", "the latencies of all operations, from a replay of each run");
  addPictureOptions(plot).addHelpText(
    "after",
    `${FIGURES}

Runs are told apart by the words in which their scenarios differ, else by their names.

Example:
  rack plot persist-pair-20260101 persist-pair-20260102 --plot compared.svg
  rack plot sweep-persist-pair-20260101 --x size --by method,ddio --plot size.html`,
  ).action(plotIt);
}

function addPictureOptions(command: Command): Command {
  return command
    .option("--x <name>", "the horizontal axis")
    .option("--y <figure>", "the vertical axis")
    .option("--by <names>", "what makes a line, such as method,ddio")
    .option("--plot <file>", "write a picture: FILE.svg or FILE.html")
    .option("--csv <file>", "write all figures of all points: FILE.csv")
    .option("--json", "one JSON document on stdout");
}

function choiceOf({ x, y, by }: PictureFlags): Choice {
  return { x, y, by: by?.split(",").filter((name) => name !== "") };
}

async function runIt(scenario: string, flags: SweepFlags): Promise<void> {
  const { vary, input, plot, csv, json: quiet = false } = flags;
  checkOutputs({ plot, csv });
  const limit = whole("--limit", flags.limit ?? String(LIMIT_MS / 1_000), {
    least: 1,
    most: 86_400,
  });
  const jobs = flags.jobs === undefined
    ? undefined
    : whole("--jobs", flags.jobs, { least: 1, most: 1_024 });
  const progress = new Progress({ quiet });
  const sweep = await runSweep(scenario, {
    vary,
    limitMs: limit * 1_000,
    ...given({ input, jobs }),
    signal: onInterrupt("ending the combinations that run"),
    onCount: ({ count, jobs }) => {
      if (!quiet) say(`${countOf(count, "combination")}, ${jobs} at a time`);
    },
    onProgress: (title, share) => progress.show(title, share),
  }).finally(() => progress.clear());
  const { run, combinations, wallMs } = sweep;
  const kept = measuredSweep(sweep);
  const done = combinations.filter(({ state }) => state === "done").length;
  const failed = combinations.filter(({ state }) => state === "failed").length;
  if (failed > 0) Deno.exitCode = EXIT.failed;
  for (const { state, values, error } of combinations) {
    if (state === "failed") say(`FAIL ${labelOf(values)}: ${error}`);
  }
  const isWhole = interruptedCode() === undefined;
  const { dimensions, points } = kept.measured;
  const left = combinations.length - done - failed;
  const counts = [
    `${done} of ${combinations.length} done`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(left > 0 ? [`${left} not run to the end`] : []),
  ];
  say(
    `${counts.join(", ")} in ${(wallMs / 1_000).toFixed(1)} s; rack plot ${run} draws them again`,
  );
  // A name that is none is refused here: by then it has been said how to go on.
  await show(kept, {
    flags: isWhole ? flags : { ...flags, plot: undefined, csv: undefined },
    document: { ...sweep, dimensions, points },
  });
}

async function plotIt(runs: readonly string[], flags: PlotFlags): Promise<void> {
  checkOutputs(flags);
  if (flags.distribution) return await distribution(runs, flags);
  const kept = await measureKept(runs);
  const { measured: { dimensions, points }, scenarios, seeds } = kept;
  const document = { runs: kept.runs, scenarios, seeds, dimensions, points };
  await show(kept, { flags, document });
}

/** A table or a document on stdout, and the files. @throws Refusal for a name that is none. */
async function show(
  kept: KeptMeasured,
  { flags, document }: {
    readonly flags: PictureFlags;
    readonly document: unknown;
  },
): Promise<void> {
  const { measured, scenarios } = kept, { plot, csv, json } = flags;
  if (json) print(JSON.stringify(document));
  else if (measured.points.length + measured.missing.length > 0) {
    print(sweepTable(measured, figureOf(measured, flags.y)));
  }
  if (csv !== undefined) {
    await writeText(csv, sweepCsv(measured));
    say(`figures ${csv}`);
  }
  const { x, y, by } = flags;
  if (plot === undefined) return;
  const words = optionWords({ x, y, by }), made = [kept.command, ...words].join(" ");
  const chart = chartOf(measured, {
    choice: choiceOf(flags),
    title: scenarios.join(", "),
    caption: captionOf({ ...kept, commit: kept.commit ?? commitHere() ?? null, command: made }),
  });
  await writePlot(plot, chart);
  say(`picture ${plot}`);
}

async function distribution(
  runs: readonly string[],
  { plot, csv, json }: PlotFlags,
): Promise<void> {
  const progress = new Progress({ quiet: json === true });
  const all = await latenciesOf(runs, {
    signal: onInterrupt("ending the replay"),
    onProgress: (title, share) => progress.show(title, share),
  }).finally(() => progress.clear());
  const rows = all.flatMap(({ run, variant, latenciesPs }) =>
    latenciesPs.map((latency) => [run, variant, latency].join(","))
  );
  const lines = all.map(({ run, variant, latenciesPs }) => {
    const count = countOf(latenciesPs.length, "operation");
    return [run, variant, count].filter((text) => text !== "").join(": ");
  });
  if (json) print(JSON.stringify(all));
  else for (const line of lines) print(line);
  if (csv !== undefined) {
    await writeText(csv, ["run,variant,latencyPs", ...rows].join("\r\n") + "\r\n");
    say(`figures ${csv}`);
  }
  if (plot === undefined) return;
  const about = await aboutRuns(runs);
  const command = ["rack plot", ...runs.map(quoted), "--distribution"].join(" ");
  const caption = captionOf({ ...about, commit: commitHere() ?? null, command });
  await writePlot(plot, distributionChart(all, { title: about.scenarios.join(", "), caption }));
  say(`picture ${plot}`);
}
