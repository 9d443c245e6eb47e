/**
 * The files of the nodes in one process: SCM, inputs, outputs, the user's programs. One of the few
 * files of `nodes/` that does I/O; used by a partition's process and by the rack in one process.
 */
import type { ObservationScope, Observer } from "../fabric/capture/observation.ts";
import { recordTo } from "../fabric/capture/recording.ts";
import type { TraceStep } from "../fabric/node.ts";
import type { RunFile } from "../fabric/rack/run_file.ts";
import type { Time } from "../fabric/time/time.ts";
import type { RecordedFault } from "../fabric/time/record.ts";
import type { Program } from "./host/program.ts";
import { ScmFile } from "./host/scm_file.ts";

/** A file that was named is not what it should be. */
export class InputError extends Error {
  override readonly name = "InputError";
}

/** Opens the SCM file of each host among `nodes`. `settle` must follow. @throws ScmFileError */
export function openStores(runFile: RunFile, nodes: readonly string[]): Map<string, ScmFile> {
  const stores = new Map<string, ScmFile>();
  for (const node of runFile.plan.nodes) {
    if (node.kind !== "host" || !nodes.includes(node.name)) continue;
    const path = `${runFile.directory}/scm/${node.name}.scm`;
    stores.set(node.name, ScmFile.open(path, { host: node.name, bytes: node.config.scmBytes }));
  }
  return stores;
}

/**
 * After a run: lets each SCM file say what survived. What a killed process wrote last counts if it had
 * reported it, and did not happen if not; the files of processes that ended in order stay as they are.
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

/** Node → the last span that its process had reported when it died, where that is how it ended. */
export function reportedAtDeath(recordFile: string): Map<string, number> {
  const reported = new Map<string, number>();
  for (const line of readLines(recordFile)) {
    const { action, nodes, settledSpan } = JSON.parse(line) as RecordedFault;
    for (const node of nodes) {
      if (action === "kill") reported.set(node, settledSpan);
      else reported.delete(node);
    }
  }
  return reported;
}

/** `partition incarnation` → the last span that this process had reported when it was killed. */
export function recordedKills(recordFile: string): Map<string, number> {
  const kills = new Map<string, number>();
  for (const line of readLines(recordFile)) {
    const { action, partition, incarnation, settledSpan } = JSON.parse(line) as RecordedFault;
    if (action === "kill") kills.set(`${partition} ${incarnation}`, settledSpan);
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

/** Reads the files that programs on the hosts among `nodes` were given, by host and name. */
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

/** Imports the user's own programs: each is its module's default export. */
export async function importPrograms(runFile: RunFile): Promise<Record<string, Program>> {
  const programs: Record<string, Program> = {};
  for (const [name, path] of Object.entries(runFile.programs)) {
    const module = await importProgram(path);
    if (typeof module.default !== "function") {
      throw new InputError(`${path} has no default export that is a function: expected a program`);
    }
    programs[name] = module.default as Program;
  }
  return programs;
}

/** @throws InputError with what is wrong with it, where it cannot be loaded or ends while it is. */
async function importProgram(path: string): Promise<{ readonly default?: unknown }> {
  try {
    return await import(new URL(path, "file:///").href);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new InputError(`Cannot load ${path}: ${why}`, { cause: error });
  }
}

/** Writes a file that a program made: `{ path, bytes }`, under the run's `outputs/`. */
export function writeOutput(runFile: RunFile, value: unknown): void {
  const { path, bytes } = value as { path?: unknown; bytes?: unknown };
  if (typeof path !== "string" || !(bytes instanceof Uint8Array)) return;
  Deno.writeFileSync(`${runFile.directory}/outputs/${path.replaceAll(/[^\w.-]/g, "_")}`, bytes);
}

/** One line of JSON per step; what is not yet written is lost with the process, as a ladder may be. */
export function traceWriter(path: string): (time: Time, node: string, step: TraceStep) => void {
  const file = Deno.openSync(path, { create: true, append: true });
  const encoder = new TextEncoder();
  return (time, node, step) => {
    file.writeSync(encoder.encode(JSON.stringify({ time, node, ...step }) + "\n"));
  };
}

/** Keeps what a process observes, as `recording.ts` says, in a file that is not there yet. */
export function observationWriter(path: string, scope: ObservationScope): Observer {
  const file = Deno.openSync(path, { createNew: true, write: true });
  return recordTo((block) => {
    for (let at = 0; at < block.length;) at += file.writeSync(block.subarray(at));
  }, scope);
}
