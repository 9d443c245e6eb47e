/**
 * Files of the nodes in one process: SCM, inputs, outputs. I/O; for a
 * partition's process, or a rack in one process.
 */
import type { ObservationScope, Observer } from "../fabric/capture/observation.ts";
import { recordTo } from "../fabric/capture/recording.ts";
import type { TraceStep } from "../fabric/node.ts";
import { OutputError } from "../fabric/base/run_ending_error.ts";
import { outputFile, type RunFile } from "../fabric/rack/assembly/run_file.ts";
import type { Time } from "../fabric/base/time.ts";
import type { RecordedFault } from "../fabric/clock/record.ts";
import { ScmFile } from "./host/store/scm_file.ts";
import type { Settled } from "./host/store/scm_record.ts";

/** Opens SCM files of hosts among `nodes`; the caller must `settle` them. @throws ScmFileError */
export function openStores(runFile: RunFile, nodes: readonly string[]): Map<string, ScmFile> {
  const stores = new Map<string, ScmFile>();
  for (const node of runFile.plan.nodes) {
    if (node.kind !== "host" || !nodes.includes(node.name)) continue;
    const path = `${runFile.directory}/scm/${node.name}.scm`;
    const onSettled = (fate: Settled) => recordSettled(runFile, { host: node.name, fate });
    const plan = { host: node.name, bytes: node.config.scmBytes, onSettled };
    stores.set(node.name, ScmFile.open(path, plan));
  }
  return stores;
}

export interface SettledRecord {
  readonly host: string;
  readonly fate: Settled;
}

function recordSettled({ directory }: RunFile, record: SettledRecord): void {
  if (record.fate === "none") return;
  const line = JSON.stringify(record) + "\n";
  try {
    Deno.writeTextFileSync(`${directory}/settled.jsonl`, line, { append: true, mode: 0o600 });
  } catch {
    // Only the chaos test reads this file; other writes report a full disk.
  }
}

export function readSettled(directory: string): SettledRecord[] {
  return readLines(`${directory}/settled.jsonl`).map((line) => JSON.parse(line));
}

/**
 * After a run: the last record of a killed process is kept if the process had reported it, else dropped; files of
 * processes that ended normally stay unchanged.
 * @throws ScmFileError
 */
export function settleStores(runFile: RunFile): void {
  const reported = reportedAtDeath(`${runFile.directory}/faults.jsonl`);
  for (const [host, store] of openStores(runFile, runFile.plan.nodes.map(({ name }) => name))) {
    try {
      store.settle(reported.get(host) ?? "unknown");
    } finally {
      store.close();
    }
  }
}

/** The last span that each killed process had reported, by node. */
export function reportedAtDeath(recordFile: string): Map<string, number> {
  const reported = new Map<string, number>();
  for (const line of readLines(recordFile)) {
    const { action, nodes, settledSpan } = JSON.parse(line) as RecordedFault;
    for (const node of nodes) {
      if (action === "kill") reported.set(node, settledSpan);
      if (action === "start") reported.delete(node);
    }
  }
  return reported;
}

export type RecordedKill = Pick<RecordedFault, "at" | "settledSpan">;

export function recordedKills(recordFile: string): Map<string, RecordedKill> {
  const kills = new Map<string, RecordedKill>();
  for (const line of readLines(recordFile)) {
    const { action, at, partition, incarnation, settledSpan } = JSON.parse(line) as RecordedFault;
    if (action === "kill") kills.set(`${partition} ${incarnation}`, { at, settledSpan });
  }
  return kills;
}

function readLines(path: string): string[] {
  try {
    return Deno.readTextFileSync(path).split("\n").filter((line) => line !== "");
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Files of hosts among `nodes`: by host, and name. */
export function readInputs(
  runFile: RunFile,
  nodes: readonly string[],
): Map<string, Record<string, Uint8Array>> {
  const inputs = new Map<string, Record<string, Uint8Array>>();
  for (const host of nodes) {
    const files = Object.entries(runFile.inputs[host] ?? {});
    inputs.set(
      host,
      Object.fromEntries(files.map(([name, path]) => [name, Deno.readFileSync(path)])),
    );
  }
  return inputs;
}

/** Opened first, in a run's directory. */
const OPENED = ["scm", "trace", "observed"];
export const DEVICE_WRITES: readonly string[] = [...OPENED, "outputs", "settled.jsonl"];
const LANE_OPENED = [...OPENED, "logs"];
/** A rack that shares its process with others has output files of its own. */
export const LANE_WRITES: readonly string[] = [...DEVICE_WRITES, "logs"];

/**
 * Leaves this process, for good, a device's rights: its bus, open files, new files in `outputs/` of
 * each run's directory.
 */
export async function giveUpRights(directories: readonly string[]): Promise<void> {
  for (const name of ["read", "env", "sys", "run", "ffi", "import"] as const) {
    await Deno.permissions.revoke({ name });
  }
  for (const directory of directories) {
    for (const part of LANE_OPENED) {
      await Deno.permissions.revoke({ name: "write", path: `${directory}/${part}` });
    }
  }
}

/** `{ path, bytes }`, under the run's `outputs/`. */
export function writeOutput({ directory }: RunFile, value: unknown): void {
  const { path, bytes, order } = Object(value) as Readonly<Record<string, unknown>>;
  if (typeof path !== "string" || !(bytes instanceof Uint8Array)) return;
  const file = outputFile(directory, { path, ...(typeof order === "number" && { order }) });
  try {
    Deno.writeFileSync(file, bytes, { mode: 0o600 });
  } catch (cause) {
    // Elsewhere, by what a program has made of JavaScript: its own failure, which does not end the run.
    if (cause instanceof Deno.errors.NotCapable) {
      throw new Error(new OutputError(file, cause).message, { cause });
    }
    throw new OutputError(file, cause);
  }
}

interface Closing {
  close(): void;
}

/** A line of JSON per step; a ladder tolerates that a killed process loses some. */
export function traceWriter(
  path: string,
): Closing & { write(time: Time, node: string, step: TraceStep): void } {
  const file = Deno.openSync(path, { create: true, append: true, mode: 0o600 });
  const encoder = new TextEncoder();
  return {
    write(time, node, step) {
      const line = encoder.encode(JSON.stringify({ time, node, ...step }) + "\n");
      writeWhole(file, { path, bytes: line });
    },
    close: () => file.close(),
  };
}

/** The file is new. */
export function observationWriter(path: string, scope: ObservationScope): Closing & Observer {
  const file = Deno.openSync(path, { createNew: true, write: true, mode: 0o600 });
  const observer = recordTo((bytes) => writeWhole(file, { path, bytes }), scope);
  return { ...observer, close: () => file.close() };
}

/** The prints of a rack that shares its process go to a file. A full disk ends the lines only. */
export function printer(path: string): Closing & { print(...values: unknown[]): void } {
  const file = Deno.openSync(path, { create: true, append: true, mode: 0o600 });
  const encoder = new TextEncoder();
  return {
    print(...values) {
      const words = values.map((value) => typeof value === "string" ? value : Deno.inspect(value));
      try {
        file.writeSync(encoder.encode(words.join(" ") + "\n"));
      } catch {
        // A full disk ends a process's own log, too, without an error.
      }
    },
    close: () => file.close(),
  };
}

function writeWhole(
  file: Deno.FsFile,
  { path, bytes }: { readonly path: string; readonly bytes: Uint8Array },
): void {
  try {
    for (let at = 0; at < bytes.length;) at += file.writeSync(bytes.subarray(at));
  } catch (cause) {
    throw new OutputError(path, cause);
  }
}
