import type { Command } from "commander";
import { formatTime } from "../../../fabric/base/time.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { findUp } from "../../../console/rack/live/racks.ts";
import {
  type Checkpoint,
  checkpointNames,
  checkpointsIn,
  deleteCheckpoint,
} from "../../../console/replay/checkpoints.ts";
import { takeCheckpoint } from "../../../console/replay/resume/take_checkpoint.ts";
import { placeOf } from "../../../console/replay/source.ts";
import { type Column, tableText } from "../../../console/reports/table.ts";
import { onInterrupt } from "../interrupt.ts";
import { given, timeOf, VARIANT_OPTION } from "../options.ts";
import { printResult, Progress } from "../output.ts";

interface CheckpointFlags {
  readonly name?: string;
  readonly at?: string;
  readonly variant?: string;
  readonly list?: boolean;
  readonly delete?: string;
  readonly json?: boolean;
}

export function addCheckpoint(program: Command): void {
  program.command("checkpoint [id]")
    .description(
      "keep where a rack stands, or stood at a time: rack resume brings it up there again",
    )
    .option("--name <name>", "of the checkpoint; else c1, c2 …")
    .option("--at <time>", "a time of the run, like 2.5ms, also of one that has ended; else now")
    .option(...VARIANT_OPTION)
    .option("--list", "show the run's checkpoints, and make none")
    .option("--delete <name>", "delete one, and make none")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
A rack whose time runs stands still for a moment. A run with a checkpoint is kept until rack runs release, also when
the checkpoint is deleted. A rack that was brought up at one does not need it any more.

Example:
  rack checkpoint --name before && rack kill b
  rack resume persist-pair-2026 --at before`,
    )
    .action(checkpoint);
}

async function checkpoint(id: string | undefined, flags: CheckpointFlags): Promise<void> {
  const { name, at: when, variant, list, json } = flags;
  if (list || flags.delete !== undefined) checkAlone(flags);
  if (list) return await show(id, flags);
  if (flags.delete !== undefined) return await remove(id, flags.delete, flags);
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

/** @throws Refusal where more than one thing is to be done. */
function checkAlone({ list, delete: deleted, name, at }: CheckpointFlags): void {
  const all = { "--list": list, "--delete": deleted, "--name": name, "--at": at };
  const found = Object.entries(all).flatMap(([flag, value]) => value === undefined ? [] : [flag]);
  if (found.length > 1) throw refusal("", { found: found.join(" and "), expected: "one of them" });
}

async function runOf(id: string | undefined, { variant }: CheckpointFlags) {
  return await placeOf({ run: id ?? (await findUp()).id, ...given({ variant }) });
}

async function remove(
  id: string | undefined,
  name: string,
  flags: CheckpointFlags,
): Promise<void> {
  const { id: run, path, directory, mark } = await runOf(id, flags);
  deleteCheckpoint(directory, name);
  const stays = checkpointNames(path).length === 0 && mark !== undefined
    ? `\nnext   rack runs release ${run}, or it stays`
    : "";
  printResult(flags, { run, deleted: name }, `${name} of ${run} is deleted${stays}`);
}

async function show(id: string | undefined, flags: CheckpointFlags): Promise<void> {
  const place = await runOf(id, flags);
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
