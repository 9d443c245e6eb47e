import type { Command } from "commander";
import { quoted } from "../../../console/base/command_line.ts";
import { commitHere } from "../../../console/base/version.ts";
import { countOf } from "../../../console/checks/finding.ts";
import { captionOf } from "../../../console/sweep/caption.ts";
import { aboutRuns, distributionChart, latenciesOf } from "../../../console/sweep/distribution.ts";
import { measureKept } from "../../../console/sweep/kept.ts";
import { checkOutputs, writePlot, writeText } from "../../../console/sweep/outputs.ts";
import { onInterrupt } from "../interrupt.ts";
import { print, Progress, say } from "../output.ts";
import { addPictureOptions, FIGURES, type PictureFlags, show } from "./picture.ts";

interface PlotFlags extends PictureFlags {
  readonly distribution?: boolean;
}

export function addPlot(program: Command): void {
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

async function plotIt(runs: readonly string[], flags: PlotFlags): Promise<void> {
  checkOutputs(flags);
  if (flags.distribution) return await distribution(runs, flags);
  const kept = await measureKept(runs);
  const { measured: { dimensions, points }, scenarios, seeds } = kept;
  const document = { runs: kept.runs, scenarios, seeds, dimensions, points };
  await show(kept, { flags, document });
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
