/**
 * Types of the user's own programs, checked before anything runs: `deno check` in a child, and a rule
 * about steps that nothing does. No program is loaded for it. What was found is kept in the cache,
 * and holds as long as no file of the programs' module graph has changed, this clone's included.
 */
import { PATIENCE_MS } from "../../../../fabric/base/patience.ts";
import { formatProblem, type Problem, Refusal } from "../../../../fabric/rack/plan/problem.ts";
import { RackError } from "../../../base/rack_error.ts";
import { fromFileUrl, projectFile, ROOT } from "../../../base/paths.ts";
import { keepChecked, keptCheck, keyOf } from "./check_cache.ts";
import { configFor, type EditorConfig } from "./editor_config.ts";
import { problemOf, type TypeError, typeErrorsIn } from "./type_errors.ts";
import { exportedSteps } from "./exported_steps.ts";
import { type Exported, RULE } from "./unused_steps.ts";

export interface CheckOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called before programs are checked that have changed. */
  readonly onBegin?: () => void;
}

/** Programs whose types hold. */
export interface CheckedTypes {
  /** The user's files: the programs and what they import. */
  readonly files: readonly string[];
  /** Whether nothing has changed since they were checked. */
  readonly isKept: boolean;
}

/**
 * Checks programs, by the `compilerOptions` and imports of the `deno.json` above each.
 * @param programs absolute paths. @throws Refusal with all that is wrong, by file and line.
 */
export async function checkTypes(
  programs: readonly string[],
  { signal, onBegin }: CheckOptions = {},
): Promise<CheckedTypes> {
  const byConfig = new Map<string, { config: EditorConfig; programs: string[] }>();
  for (const program of programs.toSorted()) {
    const config = await configFor(program);
    const group = byConfig.get(config.id) ?? { config, programs: [] };
    group.programs.push(program);
    byConfig.set(config.id, group);
  }
  const files: string[] = [], problems: Problem[] = [];
  let isKept = true;
  for (const group of byConfig.values()) {
    const key = await keyOf(group.programs, group.config.id);
    let checked = await keptCheck(key);
    if (checked === undefined) {
      if (isKept) onBegin?.();
      isKept = false;
      checked = await checkedAnew(key, { ...group, signal });
    }
    files.push(...checked.own);
    problems.push(...checked.problems);
  }
  if (problems.length > 0) throw new Refusal(problems.map(called));
  return { files, isKept };
}

/** The user's files that programs consist of, as far as they are there, and their `deno.json`. */
export async function ownFilesOf(programs: readonly string[]): Promise<string[]> {
  const files = new Set(programs);
  for (const program of programs) {
    const config = await configFor(program);
    if (config.path !== undefined && isOwn(config.path)) files.add(config.path);
    const { modules } = await graphOf([program], config, undefined);
    for (const module of modules.filter(isOwn)) files.add(module);
  }
  return [...files];
}

/** What people call the file of a problem. */
function called(problem: Problem): Problem {
  const here = `${Deno.cwd()}/`;
  if (!problem.file?.startsWith(here)) return problem;
  return { ...problem, file: problem.file.slice(here.length) };
}

interface Group {
  readonly config: EditorConfig;
  readonly programs: readonly string[];
  readonly signal: AbortSignal | undefined;
}

async function checkedAnew(key: string, { config, programs, signal }: Group) {
  const { modules, isWhole } = await graphOf(programs, config, signal);
  const own = modules.filter(isOwn);
  const [errors, unused] = await Promise.all([
    compilerErrors(programs, config, signal),
    // A file with an error of syntax has no tree: the compiler tells of it.
    isWhole ? unusedCalls(own, config, signal) : [],
  ]);
  const wrong = errors.filter(({ code, file }) => code === "" || file === undefined || isOwn(file));
  const all = [...wrong.map((error) => problemOf(error, (file) => file)), ...unused];
  // One line tells of one mistake once: the compiler finds it at several columns, and the rule again.
  const problems = [...new Map(all.map((problem) => [formatProblem(problem), problem])).values()];
  const checked = { own, problems };
  // What is missing has no content by which to see that it has come.
  if (isWhole) await keepChecked(key, { ...checked, modules });
  return checked;
}

/** Whether the file is the user's: compiler options of their own may complain of the clone's. */
function isOwn(file: string): boolean {
  return !/^(fabric|nodes|console)\//.test(file.slice(ROOT.length + 1)) ||
    !file.startsWith(`${ROOT}/`);
}

/** Every file that the programs reach by imports, of types as well. */
async function graphOf(
  programs: readonly string[],
  config: EditorConfig,
  signal: AbortSignal | undefined,
) {
  const modules = new Set<string>();
  let isWhole = true;
  for (const program of programs) {
    const { stdout, stderr } = await deno(["info", "--json", ...config.flags, program], signal);
    const found = graphIn(stdout);
    if (found === undefined) throw new RackError(`Cannot list what ${program} imports: ${stderr}`);
    for (const { local, error } of found) {
      if (error !== undefined) isWhole = false;
      else if (local) modules.add(local);
    }
  }
  return { modules: [...modules], isWhole };
}

interface GraphModule {
  readonly local?: string | null;
  readonly error?: string;
}

function graphIn(text: string): readonly GraphModule[] | undefined {
  try {
    const { modules } = JSON.parse(text) as { readonly modules?: readonly GraphModule[] };
    return modules;
  } catch {
    return undefined;
  }
}

async function compilerErrors(
  programs: readonly string[],
  config: EditorConfig,
  signal: AbortSignal | undefined,
): Promise<TypeError[]> {
  const args = ["check", "--quiet", "--cached-only", ...config.flags, ...programs];
  const { success, stderr } = await deno(args, signal);
  const errors = typeErrorsIn(stderr);
  if (success || errors.length > 0) return success ? [] : errors;
  throw new RackError(`Cannot check the types of ${programs.join(", ")}: ${stderr.trim()}`);
}

interface LintReport {
  readonly diagnostics: readonly {
    readonly filename: string;
    readonly range: { readonly start: { readonly line: number; readonly col: number } };
    readonly message: string;
    readonly code: string;
  }[];
}

async function unusedCalls(
  own: readonly string[],
  config: EditorConfig,
  signal: AbortSignal | undefined,
): Promise<Problem[]> {
  const files = own.filter((file) => /\.[mc]?[jt]s$/.test(file));
  if (files.length === 0) return [];
  const exported: Record<string, readonly string[]> = {};
  for (const file of files) exported[file] = exportedSteps(await Deno.readTextFile(file));
  const rules = await config.writeRules(pluginText(exported), RULE);
  const { stdout, stderr } = await deno(["lint", "--json", "--config", rules, ...files], signal);
  const report = lintReportIn(stdout);
  if (report === undefined) {
    throw new RackError(`Cannot look for calls without yield* in ${files.join(", ")}: ${stderr}`);
  }
  return report.diagnostics.filter(({ code }) => code === RULE)
    .map(({ filename, range: { start }, message }) => ({
      file: filename.startsWith("file:") ? fromFileUrl(new URL(filename)) : filename,
      line: start.line,
      column: start.col + 1,
      path: "",
      found: `a call of ${message} without yield*, which does nothing`,
      expected: `yield* ${message}(…)`,
    }));
}

function lintReportIn(text: string): LintReport | undefined {
  try {
    return JSON.parse(text) as LintReport;
  } catch {
    return undefined;
  }
}

function pluginText(exported: Exported): string {
  const rule = projectFile("console/rack/own/types/unused_steps.ts").href;
  return `import { unusedSteps } from ${JSON.stringify(rule)};\n` +
    `export default unusedSteps(${JSON.stringify(exported)});\n`;
}

async function deno(args: readonly string[], signal: AbortSignal | undefined) {
  const late = AbortSignal.timeout(PATIENCE_MS);
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...args],
    env: { NO_COLOR: "1" },
    stdin: "null",
    signal: signal === undefined ? late : AbortSignal.any([signal, late]),
  }).output();
  signal?.throwIfAborted();
  if (late.aborted) {
    const found = `deno ${args[0]} has not ended after ${PATIENCE_MS / 1_000} s`;
    throw new RackError(`Found that ${found}: expected an answer; --no-check goes on without`);
  }
  const decoder = new TextDecoder();
  return { success, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}
