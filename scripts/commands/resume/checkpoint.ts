/** `rack checkpoint`: where a rack stands, kept so that it can be brought up there again. */
import type { Command } from "commander";
import { formatTime } from "../../../fabric/base/time.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { findUp } from "../../../console/rack/live/racks.ts";
import { type Checkpoint, checkpointsIn } from "../../../console/replay/checkpoints.ts";
import { takeCheckpoint } from "../../../console/replay/resume/take_checkpoint.ts";
import { placeOf } from "../../../console/replay/source.ts";
import { type Column, tableText } from "../../../console/reports/table.ts";
import { onInterrupt } from "../interrupt.ts";
import { given, timeOf } from "../options.ts";
import { printResult, Progress } from "../output.ts";

interface CheckpointFlags {
  readonly name?: string;
  readonly at?: string;
  readonly variant?: string;
  readonly list?: boolean;
  readonly json?: boolean;
}

export function addCheckpoint(program: Command): void {
  program.command("checkpoint [id]")
    .description(
      "keep where a rack stands, or stood at a time: rack resume brings it up there again",
    )
    .option("--name <name>", "of the checkpoint; else c1, c2 …")
    .option("--at <time>", "a time of the run, like 2.5ms, also of one that has ended; else now")
    .option("--variant <name>", "of a run with several: its name, or its number from 1")
    .option("--list", "show the run's checkpoints, and make none")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
A rack whose time runs stands still for a moment. A run with a checkpoint is kept until rack runs release.

Example:
  rack checkpoint --name before && rack kill b
  rack resume persist-pair-2026 --at before`,
    )
    .action(checkpoint);
}

async function checkpoint(id: string | undefined, flags: CheckpointFlags): Promise<void> {
  const { name, at: when, variant, list, json } = flags;
  if (list) return await show(id, flags);
  const at = when === undefined ? undefined : timeOf("--at", when);
  const progress = new Progress({ quiet: json === true });
  const { run, checkpoint } = await takeCheckpoint({
    ...given({ run: id, variant, name, at }),
    signal: onInterrupt("ending the replay"),
    onProgress: ({ atPs, endPs }) =>
      progress.show("Replaying", endPs === null || endPs === 0 ? 0 : Math.min(1, atPs / endPs)),
  }).finally(() => progress.clear());
  const document = { run, ...documentOf(checkpoint) };
  const text = [
    `${checkpoint.name}: ${run} at ${formatTime(checkpoint.at)}, ${checkpoint.events} events`,
    `next   rack resume ${run} --at ${checkpoint.name}`,
  ].join("\n");
  printResult(flags, document, text);
}

function documentOf({ name, at, taken, events, digest }: Checkpoint) {
  return { checkpoint: name, atPs: at, taken, events, digest };
}

async function show(id: string | undefined, flags: CheckpointFlags): Promise<void> {
  const { name, at, variant } = flags;
  if (name !== undefined || at !== undefined) {
    const found = `--list and ${name === undefined ? "--at" : "--name"}`;
    throw refusal("", { found, expected: "one of them" });
  }
  const place = await placeOf({ run: id ?? (await findUp()).id, ...given({ variant }) });
  const all = checkpointsIn(place.directory);
  const document = { run: place.id, checkpoints: all.map(documentOf) };
  const text = all.length === 0 ? `${place.id} has no checkpoint` : tableText(COLUMNS, all);
  printResult(flags, document, text);
}

const COLUMNS: readonly Column<Checkpoint>[] = [
  { title: "checkpoint", value: ({ name }) => name },
  { title: "virtual time", value: ({ at }) => at, text: ({ at }) => formatTime(at) },
  { title: "events", value: ({ events }) => events },
  { title: "digest", value: ({ digest }) => digest ?? "" },
  { title: "taken", value: ({ taken }) => taken },
];
