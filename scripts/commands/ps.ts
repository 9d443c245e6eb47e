/** `rack ps`: the processes of a running rack, and its virtual time. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { clockDocument, clockText } from "../../console/rack/live/clock_text.ts";
import { processesOf, type RunningProcess } from "../../console/rack/live/processes.ts";
import { findUp } from "../../console/rack/live/racks.ts";
import { type Column, tableText } from "../../console/reports/table.ts";
import { addRunOption, type RunFlag } from "./options.ts";
import { print } from "./output.ts";

type PsFlags = RunFlag & { readonly json?: boolean };

export function addPs(program: Command): void {
  addRunOption(program.command("ps"))
    .description("the processes of the rack that is up, and its virtual time")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", "\nExample:\n  rack ps --json")
    .action(async (flags: PsFlags) => {
      Deno.exitCode = await ps(flags);
    });
}

async function ps({ run, json }: PsFlags): Promise<number> {
  const rack = await findUp(run);
  const { id, directory } = rack;
  const { processes, clock } = await processesOf(rack);
  if (json) {
    const time = clock === undefined ? null : clockDocument(clock);
    print(JSON.stringify({ run: id, directory, clock: time, processes }));
  } else {
    const time = clock === undefined ? "the clock does not answer" : clockText(clock);
    print(`${id}: ${time}\n${tableText(COLUMNS, processes)}`);
  }
  return EXIT.done;
}

const COLUMNS: readonly Column<RunningProcess>[] = [
  { title: "name", value: ({ name }) => name },
  { title: "kind", value: ({ kind }) => kind },
  { title: "pid", value: ({ alive, pid }) => alive ? pid : "" },
  {
    title: "state",
    value: ({ alive, status }) => alive ? status ?? "up" : status === "dead" ? "no power" : "gone",
  },
  {
    title: "MB",
    value: ({ residentBytes }) => residentBytes,
    text: ({ alive, residentBytes }) => alive ? (residentBytes / 1e6).toFixed(0) : "",
  },
  { title: "devices", value: ({ nodes }) => nodes.join(" ") },
];
