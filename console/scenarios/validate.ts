import { notRestarted, type PlanWarning } from "../../fabric/rack/plan/not_restarted.ts";
import { isMapping } from "../../fabric/base/mapping.ts";
import { valueAt } from "../../fabric/rack/scenario/reading.ts";
import { isOwnProgram } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { formatPath, type Path } from "../../fabric/rack/scenario/yaml_source.ts";
import { type Problem, Refusal, showFound } from "../../fabric/rack/plan/problem.ts";
import { findProgram, lacksInput, prepare } from "../rack/prepare.ts";
import type { Reach } from "./read_door.ts";
import type { ScenarioSource } from "./scenario_source.ts";

export interface ValidScenario {
  readonly file: string;
  readonly name: string;
  readonly seed: number;
  readonly hosts: number;
  readonly nodes: number;
  readonly runs: readonly string[];
  /** Those that run, each once: shipped ones by name, others by path. */
  readonly programs: readonly string[];
  readonly faults: number;
  /** Hosts whose `put` has no file yet: `--input` names one. */
  readonly needsInput: readonly string[];
  /** Legal settings that the user may not have intended. */
  readonly warnings: readonly PlanWarning[];
}

/**
 * Checks and resolves a scenario, and loads own programs.
 * @throws Refusal with all problems, those of a value with its line; the signal's reason.
 */
export async function validateScenario(
  source: ScenarioSource,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<ValidScenario> {
  const { path: file, scenario } = source;
  const problems = await programProblems(source, signal);
  if (problems.length > 0) throw new Refusal(problems);
  const needsInput = new Set<string>();
  const prepared = await prepare(source, {
    packing: "node",
    signal,
    native: { kind: "look" },
    change: (program) => {
      if (!lacksInput(program, undefined)) return program;
      needsInput.add(program.on);
      return undefined;
    },
  });
  // Labels of the scenario as it stands: without a put, fewer methods are varied.
  const runs = variants(scenario).map(({ label }) => label);
  const { name, seed, hosts, programs, faults, linkFaults, deviceFaults } = scenario;
  return {
    file,
    name,
    seed,
    hosts: hosts.length,
    nodes: prepared[0]!.plan.nodes.length,
    runs,
    programs: [...new Set(programs.map(({ run }) => run))],
    faults: faults.length + linkFaults.length + deviceFaults.length,
    needsInput: [...needsInput],
    warnings: notRestarted(prepared[0]!.plan),
  };
}

async function programProblems(
  reach: ScenarioSource,
  signal: AbortSignal | undefined,
): Promise<Problem[]> {
  const { path: file, yaml: source } = reach;
  const problems: Problem[] = [];
  const seen = new Set<string>();
  for (const path of [...programPaths(source.data), ...rulePaths(source.data)]) {
    const run = valueAt(source.data, path);
    if (typeof run !== "string" || !isOwnProgram(run) || seen.has(run)) continue;
    seen.add(run);
    for (const { found, expected } of await problemsWith(run, reach, signal)) {
      problems.push({
        file,
        ...source.locate(path),
        path: formatPath(path),
        found: `${showFound(run)} (${found.replace(`Program ${run}: `, "")})`,
        expected: expected === "" ? "a program that can be loaded" : expected,
      });
    }
  }
  return problems;
}

function programPaths(data: unknown): Path[] {
  return listAt(data, "programs").map((item, i) => {
    return ["programs", i, isMapping(item) && "run" in item ? "run" : "program"];
  });
}

/** C-04 */
function rulePaths(data: unknown): Path[] {
  return listAt(data, "shared").map((item, i) => {
    const judge = valueAt(item, ["judge"]);
    return ["shared", i, "judge", ...(isMapping(judge) ? ["rule"] : [])];
  });
}

function listAt(data: unknown, key: string): readonly unknown[] {
  return (valueAt(data, [key]) ?? []) as readonly unknown[];
}

async function problemsWith(
  run: string,
  reach: Reach,
  signal: AbortSignal | undefined,
): Promise<readonly Problem[]> {
  try {
    await findProgram(run, reach, { signal });
    return [];
  } catch (error) {
    if (error instanceof Refusal) return error.problems;
    throw error;
  }
}
