/** Native programs on a simulated rack: compiled from C, with the library of this tree in them. */
import assert from "node:assert/strict";
import { basename } from "node:path";
import { isThere } from "../../console/base/files.ts";
import { nativeLibrary } from "../../console/rack/native/library.ts";
import { ROOT } from "../../console/base/paths.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { recordingPort } from "../../nodes/host/native/recording_port.ts";
import { createNativePort } from "../../nodes/native_process.ts";
import { openRecord, readRecords, Records } from "../../nodes/native_records.ts";
import { SimulatedRack } from "./simulated_rack.ts";

/** The reason why native programs cannot run on this machine; undefined where they can. */
export async function nativeMissing(): Promise<string | undefined> {
  try {
    await nativeLibrary();
    return undefined;
  } catch (error) {
    if (error instanceof Refusal) return error.message;
    throw error;
  }
}

/** Copies the built library into a cache for commands, whose first one would build it anew. */
export async function giveLibrary({ cache }: { readonly cache: string }): Promise<void> {
  const library = await nativeLibrary(), folder = `${cache}/native`;
  await Deno.mkdir(folder, { mode: 0o700 });
  await Deno.copyFile(library, `${folder}/${basename(library)}`);
}

/** Compiles a program of `tests/native/programs/` into a folder, once. @returns its path. */
export function compiled(
  folder: string,
  source: string,
  libraries: readonly string[] = [],
): string {
  const file = `${folder}/${source.replace(/\.c$/, "")}`;
  if (isThere(file)) return file;
  const path = `${ROOT}/tests/native/programs/${source}`;
  const args = ["-O2", "-Wall", "-Wextra", "-Werror", "-o", file, path, ...libraries];
  const { success, stderr } = new Deno.Command("cc", { args }).outputSync();
  assert.ok(success, new TextDecoder().decode(stderr));
  return file;
}

export interface NativeRun {
  readonly rack: SimulatedRack;
  /** Lines of output, by host. */
  readonly lines: Readonly<Record<string, readonly string[]>>;
  /** Lines with their instants, exit codes and the end: equal for equal runs. */
  readonly transcript: readonly string[];
}

/**
 * Runs a scenario whose native programs are named by paths.
 * @param env of each of them.
 */
export async function runNative(
  folder: string,
  scenario: string,
  { env = {}, until, record, library, change = (plan) => plan }: {
    readonly env?: Readonly<Record<string, string>>;
    readonly until?: number;
    /** In place of that of each run. */
    readonly library?: string;
    /** A directory for its record. */
    readonly record?: string;
    readonly change?: (plan: RackPlan) => RackPlan;
  } = {},
): Promise<NativeRun> {
  const preloaded = library ?? await nativeLibrary();
  const directory = await Deno.makeTempDir({ dir: folder, prefix: "run-" });
  const rack = new SimulatedRack(scenario, {
    native(host, life) {
      const port = createNativePort({
        library: preloaded,
        directory: `${directory}/${host}.${life}`,
      });
      if (record === undefined) return port;
      return recordingPort(port, { open: ({ name }) => openRecord(record, { host, life, name }) });
    },
    change: (plan) => change(withFiles(plan, env)),
  });
  return ran(rack, until);
}

/**
 * Replays a run from its record: no binary of it is on this machine.
 * @param record the directory in which {@link runNative} has left it.
 * @throws ReplayError
 */
export function replayNative(
  record: string,
  scenario: string,
  { until, change = (plan) => plan }: {
    readonly until?: number;
    readonly change?: (plan: RackPlan) => RackPlan;
  } = {},
): NativeRun {
  const records = new Records(readRecords(record));
  const rack = new SimulatedRack(scenario, {
    native: (host, life) => records.port(host, life),
    change: (plan) => change(withFiles(plan, {}, "/nowhere")),
  });
  return ran(rack, until);
}

function ran(rack: SimulatedRack, until: number | undefined): NativeRun {
  rack.run(until);
  const lines: Record<string, string[]> = {}, transcript: string[] = [];
  for (const { time, node, topic, value } of rack.reports) {
    if (topic === "log") (lines[node] ??= []).push(String(value.text));
    const { text, program, code, message } = value;
    transcript.push(`${time} ${node} ${topic} ${program} ${text ?? code ?? message ?? ""}`);
  }
  return { rack, lines, transcript: [...transcript, `end ${rack.simulator.now}`] };
}

/** Gives native programs their files and environment. @param file of each; else the first word of its command. */
export function withFiles(
  plan: RackPlan,
  env: Readonly<Record<string, string>>,
  file?: string,
): RackPlan {
  const nodes = plan.nodes.map((node) => {
    if (node.kind !== "host") return node;
    const programs = node.config.programs.map((program) => {
      const { native } = program;
      if (native === undefined) return program;
      return { ...program, native: { ...native, env, file: file ?? native.argv[0]! } };
    });
    return { ...node, config: { ...node.config, programs } };
  });
  return { ...plan, nodes };
}
