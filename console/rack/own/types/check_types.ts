/**
 * Types of the user's own programs, checked by TypeScript's compiler in a process of its own; no
 * program is loaded for it. Results are cached, and hold as long as no file of the programs' module
 * graph has changed, this clone's included.
 */
import { PATIENCE_MS } from "../../../../fabric/base/patience.ts";
import { type Problem, Refusal } from "../../../../fabric/rack/plan/problem.ts";
import { RackError } from "../../../base/rack_error.ts";
import { cacheFolder } from "../../../base/paths.ts";
import { isThere, textIfThere, writeWhole } from "../../../base/files.ts";
import { isBelow, outside, type Reach } from "../../../scenarios/read_door.ts";
import { askConfined, flagsOf } from "../confined.ts";
import { keepChecked, keptCheck, keyOf } from "./check_cache.ts";
import type { TypesAnswer, TypesJob } from "./compile_main.ts";

export interface CheckOptions {
  /** What the programs may consist of; absent: anything. */
  readonly reach?: Reach;
  readonly signal?: AbortSignal | undefined;
  readonly onBegin?: () => void;
}

export interface CheckedTypes {
  readonly files: readonly string[];
  /** Unchanged since they were checked. */
  readonly isKept: boolean;
}

/**
 * Checks programs, by the `compilerOptions` and imports of the `deno.json` above each.
 * @param programs absolute paths.
 * @throws Refusal with all that is wrong, by file and line.
 */
export async function checkTypes(
  programs: readonly string[],
  { signal, onBegin, reach }: CheckOptions = {},
): Promise<CheckedTypes> {
  const files: string[] = [], problems: Problem[] = [];
  let isKept = true;
  for (const group of byConfig(programs)) {
    const key = await keyOf(group.programs, group.configs);
    let checked = await keptCheck(key);
    if (checked === undefined) {
      if (isKept) onBegin?.();
      isKept = false;
      const found = await ask({ ...group, isListed: false }, signal);
      // A missing file has no content by which its arrival can be detected.
      if (found.isWhole) {
        await keepChecked(key, { ...found, modules: [...found.configs, ...found.modules] });
      }
      checked = found;
    }
    // Before anything is said of what is in them.
    const far = checked.own.find((file) => reach !== undefined && !isBelow(file, reach));
    if (far !== undefined) throw outside(far, reach!, `An import of ${group.programs.join(", ")}`);
    files.push(...checked.own);
    problems.push(...checked.problems);
  }
  if (problems.length > 0) throw new Refusal(problems.map(called));
  return { files, isKept };
}

/** Files of the user that programs consist of, as far as they are there, and their `deno.json`. */
export async function ownFilesOf(programs: readonly string[]): Promise<string[]> {
  const files = new Set(programs);
  for (const group of byConfig(programs)) {
    const { own, configs } = await ask({ ...group, isListed: true }, undefined);
    // A missing folder that the configuration names cannot be watched.
    const watched = configs.filter((file) => isThere(file.slice(0, file.lastIndexOf("/")) || "/"));
    for (const file of [...own, ...watched]) files.add(file);
  }
  return [...files];
}

type Group = Pick<TypesJob, "programs" | "configs">;

function byConfig(programs: readonly string[]): readonly Group[] {
  const groups = Map.groupBy(programs.toSorted(), (file) => JSON.stringify(configsAbove(file)));
  return [...groups].map(([configs, programs]) => ({ configs: JSON.parse(configs), programs }));
}

function configsAbove(file: string): string[] {
  const configs: string[] = [];
  for (let folder = file; folder !== "";) {
    folder = folder.slice(0, folder.lastIndexOf("/"));
    const name = ["deno.json", "deno.jsonc"].find((each) =>
      textIfThere(`${folder}/${each}`) !== undefined
    );
    if (name !== undefined) configs.push(`${folder}/${name}`);
  }
  return configs;
}

function called(problem: Problem): Problem {
  const here = `${Deno.cwd()}/`;
  if (!problem.file?.startsWith(here)) return problem;
  return { ...problem, file: problem.file.slice(here.length) };
}

async function ask(
  job: Omit<TypesJob, "library">,
  signal: AbortSignal | undefined,
): Promise<TypesAnswer> {
  const late = AbortSignal.timeout(PATIENCE_MS);
  try {
    return await askConfined<TypesAnswer>({
      module: "console/rack/own/types/compile_main.ts",
      programs: job.programs,
      // The compiler looks at the environment, and at what machine it is on.
      flags: [...flagsOf({ reads: "all" }), "--allow-env", "--allow-sys"],
      job: { ...job, library: await libraryFile() },
      signal: signal === undefined ? late : AbortSignal.any([signal, late]),
    });
  } catch (error) {
    if (!late.aborted || signal?.aborted) throw error;
    const found = `the check of types has not ended after ${PATIENCE_MS / 1_000} s`;
    throw new RackError(`Found that ${found}: expected an answer; --no-check goes on without`);
  }
}

/** The types of Deno, which this version prints once into the cache. */
async function libraryFile(): Promise<string> {
  const folder = cacheFolder("types"), path = `${folder}/deno-${Deno.version.deno}.d.ts`;
  if (isThere(path)) return path;
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["types"],
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  if (!success) throw new RackError(`Cannot list the types of Deno: ${decoder.decode(stderr)}`);
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  writeWhole(path, decoder.decode(stdout));
  return path;
}
