import type { Command } from "commander";
import { optionWords } from "../../../console/base/command_line.ts";
import { commitHere } from "../../../console/base/version.ts";
import { captionOf } from "../../../console/sweep/caption.ts";
import { chartOf, type Choice, figureOf } from "../../../console/sweep/choose.ts";
import type { KeptMeasured } from "../../../console/sweep/kept.ts";
import { type Outputs, writePlot, writeText } from "../../../console/sweep/outputs.ts";
import { sweepCsv, sweepTable } from "../../../console/sweep/sweep_table.ts";
import { print, say } from "../output.ts";

export interface PictureFlags extends Outputs {
  readonly x?: string;
  readonly y?: string;
  readonly by?: string;
  readonly json?: boolean;
}

export const FIGURES = `
--x, --by: what varies, by its name, or what tells the transfers of a run apart: method, ddio, from, to …
--y: a figure of the report as rack run --json names it, with or without its unit: latencyPs.median, median,
throughput. Without them x is the first thing that varies whose values are numbers, y what the report leads
with, and everything else but the seed makes a line. What makes none is folded: median, least and greatest.`;

export function addPictureOptions(command: Command): Command {
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

/** A table or a document on stdout, and the files. @throws Refusal for a name that is none. */
export async function show(
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
  if (measured.points.length === 0) return say(`no picture ${plot}: no combination has an end`);
  const words = optionWords({ x, y, by }), made = [kept.command, ...words].join(" ");
  const chart = chartOf(measured, {
    choice: choiceOf(flags),
    title: scenarios.join(", "),
    caption: captionOf({ ...kept, commit: kept.commit ?? commitHere() ?? null, command: made }),
  });
  await writePlot(plot, chart);
  say(`picture ${plot}`);
}
