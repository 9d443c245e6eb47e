import { Refusal } from "../../../../fabric/rack/plan/problem.ts";
import { isOwnProgram } from "../../../../fabric/rack/scenario/parse_scenario.ts";
import { readScenario, type ScenarioSource } from "../../../scenarios/scenario_source.ts";
import { findProgramFile, reachOfProgram } from "../../prepare.ts";
import { type CheckedTypes, type CheckOptions, checkTypes, ownFilesOf } from "./check_types.ts";

/**
 * Checks the types of a scenario's own programs, or of one program by its path.
 * @param more programs beside the scenario's.
 * @returns undefined where it has none.
 * @throws Refusal for a scenario that cannot be read, and with all that is wrong in programs.
 */
export async function checkScenarioTypes(
  scenario: ScenarioSource | string,
  { more = [], ...options }: Omit<CheckOptions, "reach"> & { readonly more?: readonly string[] } =
    {},
): Promise<CheckedTypes | undefined> {
  const reach = typeof scenario === "string" ? reachOfProgram(scenario) : scenario;
  const programs = typeof scenario === "string"
    ? [findProgramFile(scenario, reach)]
    : programsOf(scenario, more);
  return programs.length === 0 ? undefined : await checkTypes(programs, { ...options, reach });
}

/**
 * The scenario, its own programs with their imports, and their `deno.json`; for a scenario that
 * cannot be read, itself.
 */
export async function filesOfScenario(
  scenario: string,
  allowRead: readonly string[] = [],
): Promise<string[]> {
  const folder = await Deno.realPath(scenario.replace(/[^/]*$/, "") || ".");
  const file = `${folder}/${scenario.replace(/.*\//, "")}`;
  try {
    return [file, ...await ownFilesOf(programsOf(await readScenario(scenario, { allowRead }), []))];
  } catch (error) {
    if (error instanceof Refusal) return [file];
    throw error;
  }
}

function programsOf(source: ScenarioSource, more: readonly string[]): string[] {
  const { programs, shared, coherence } = source.scenario;
  const named = [
    ...programs.map(({ run }) => run),
    ...shared.flatMap(({ judge }) => judge?.rule ?? []),
    ...more,
    ...(coherence === undefined ? [] : [coherence]),
  ];
  const runs = new Set(named.filter(isOwnProgram));
  return [...new Set([...runs].map((run) => findProgramFile(run, source)))];
}
