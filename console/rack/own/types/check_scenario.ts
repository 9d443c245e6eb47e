import { Refusal } from "../../../../fabric/rack/plan/problem.ts";
import { isOwnProgram } from "../../../../fabric/rack/scenario/parse_scenario.ts";
import { readScenario, type ScenarioSource } from "../../../scenarios/scenario_source.ts";
import { findProgramFile } from "../../prepare.ts";
import { type CheckedTypes, type CheckOptions, checkTypes, ownFilesOf } from "./check_types.ts";

/**
 * Checks the types of a scenario's own programs, or of one program by its path.
 * @param more programs beside the scenario's.
 * @returns undefined where it has none.
 * @throws Refusal for a scenario that cannot be read, and with all that is wrong in programs.
 */
export async function checkScenarioTypes(
  scenario: ScenarioSource | string,
  { more = [], ...options }: CheckOptions & { readonly more?: readonly string[] } = {},
): Promise<CheckedTypes | undefined> {
  const programs = typeof scenario === "string"
    ? [await findProgramFile(scenario, Deno.cwd())]
    : await programsOf(scenario, more);
  return programs.length === 0 ? undefined : await checkTypes(programs, options);
}

/**
 * The scenario, its own programs with their imports, and their `deno.json`; for a scenario that
 * cannot be read, itself.
 */
export async function filesOfScenario(scenario: string): Promise<string[]> {
  const folder = await Deno.realPath(scenario.replace(/[^/]*$/, "") || ".");
  const file = `${folder}/${scenario.replace(/.*\//, "")}`;
  try {
    return [file, ...await ownFilesOf(await programsOf(await readScenario(scenario), []))];
  } catch (error) {
    if (error instanceof Refusal) return [file];
    throw error;
  }
}

async function programsOf(
  { base, scenario: { programs, shared, coherence } }: ScenarioSource,
  more: readonly string[],
): Promise<string[]> {
  const named = [
    ...programs.map(({ run }) => run),
    ...shared.flatMap(({ judge }) => judge?.rule ?? []),
    ...more,
    ...(coherence === undefined ? [] : [coherence]),
  ];
  const runs = new Set(named.filter(isOwnProgram));
  const files: string[] = [];
  for (const run of runs) files.push(await findProgramFile(run, base));
  return [...new Set(files)];
}
