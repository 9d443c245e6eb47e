/** Native programs on a simulated rack: compiled from C, with the library of this tree in them. */
import assert from "node:assert/strict";
import { nativeLibrary } from "../../console/rack/native/library.ts";
import { ROOT } from "../../console/base/paths.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { createNativePort } from "../../nodes/native_process.ts";
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

/** Compiles a program of `tests/native/programs/` into a folder. @returns its path. */
export function compiled(
  folder: string,
  source: string,
  libraries: readonly string[] = [],
): string {
  const file = `${folder}/${source.replace(/\.c$/, "")}`;
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
  { env = {}, until }: {
    readonly env?: Readonly<Record<string, string>>;
    readonly until?: number;
  } = {},
): Promise<NativeRun> {
  const library = await nativeLibrary();
  const directory = await Deno.makeTempDir({ dir: folder, prefix: "run-" });
  const rack = new SimulatedRack(scenario, {
    native: (host, life) =>
      createNativePort({ library, directory: `${directory}/${host}.${life}` }),
    change: (plan) => withFiles(plan, env),
  });
  rack.run(until);
  const lines: Record<string, string[]> = {}, transcript: string[] = [];
  for (const { time, node, topic, value } of rack.reports) {
    if (topic === "log") (lines[node] ??= []).push(String(value.text));
    const { text, program, code, message } = value;
    transcript.push(`${time} ${node} ${topic} ${program} ${text ?? code ?? message ?? ""}`);
  }
  return { rack, lines, transcript: [...transcript, `end ${rack.simulator.now}`] };
}

function withFiles(plan: RackPlan, env: Readonly<Record<string, string>>): RackPlan {
  const nodes = plan.nodes.map((node) => {
    if (node.kind !== "host") return node;
    const programs = node.config.programs.map((program) => {
      const { native } = program;
      if (native === undefined) return program;
      return { ...program, native: { ...native, env, file: native.argv[0]! } };
    });
    return { ...node, config: { ...node.config, programs } };
  });
  return { ...plan, nodes };
}
