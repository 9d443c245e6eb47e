import type { Command } from "commander";
import { EXIT } from "../../fabric/base/exit.ts";
import { clockDocument, clockText } from "../../console/rack/live/clock_text.ts";
import { processesOf, type RunningProcess } from "../../console/rack/live/processes.ts";
import { lockText, readLock } from "../../console/rack/live/lock.ts";
import { findUp, isAttached, type RackUp } from "../../console/rack/live/racks.ts";
import { checkpointNames } from "../../console/replay/checkpoints.ts";
import { type Column, tableText } from "../../console/reports/table.ts";
import { addLiveOptions, type LiveFlags } from "./options.ts";
import { print } from "./output.ts";

export function addPs(program: Command): void {
  addLiveOptions(program.command("ps"))
    .description("the processes of the rack that is up, and its virtual time")
    .addHelpText(
      "after",
      "\nExit codes: 0; 2 its clock does not answer.\n\nExample:\n  rack ps --json",
    )
    .action(ps);
}

async function ps({ run, json }: LiveFlags): Promise<void> {
  const rack = await findUp(run);
  const { id, directory } = rack;
  const { processes, clock } = await processesOf(rack);
  const checkpoints = checkpointNames(directory), lock = readLock(directory);
  if (json) {
    const time = clock === undefined ? null : clockDocument(clock);
    print(
      JSON.stringify({
        run: id,
        directory,
        clock: time,
        processes,
        checkpoints,
        lock: lock ?? null,
      }),
    );
  } else {
    const time = clock !== undefined ? clockText(clock) : silence(rack);
    const kept = checkpoints.length === 0 ? "" : `\ncheckpoints: ${checkpoints.join(", ")}`;
    const locked = lock?.isLocked ? `\n${lockText(id, lock)}` : "";
    print(`${id}: ${time}\n${tableText(COLUMNS, processes)}${kept}${locked}`);
  }
  if (clock === undefined) Deno.exitCode = EXIT.unclear;
}

function silence(rack: RackUp): string {
  return isAttached(rack)
    ? `the clock does not answer: the rack is down, or its servers cannot be reached; rack down --run ${rack.id} lets go of it`
    : "the clock does not answer";
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
