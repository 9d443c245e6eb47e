/** The compiler has one thread: in a process of its own, Ctrl-C is heard meanwhile. */
import { formatProblem, type Problem } from "../../../../fabric/rack/plan/problem.ts";
import { answerConfined } from "../answer.ts";
import { compile, type Compiled } from "./compiler.ts";
import { unusedSteps } from "./unused_steps.ts";
import { problemOf } from "./words.ts";

export interface TypesJob {
  readonly programs: readonly string[];
  /** Each `deno.json` above them, the nearest first. */
  readonly configs: readonly string[];
  readonly library: string;
  /** Only their files are asked for. */
  readonly isListed: boolean;
}

export interface TypesAnswer {
  readonly own: readonly string[];
  readonly configs: readonly string[];
  readonly modules: readonly string[];
  readonly isWhole: boolean;
  readonly problems: readonly Problem[];
}

/**
 * Each problem once: the compiler may report a line that the rule about steps reports, too, or
 * report it for two columns.
 */
function problemsOf(compiled: Compiled, config: string | undefined): Problem[] {
  const { program, own, wrong } = compiled;
  const torn = own.flatMap((file) => program.getSyntacticDiagnostics(file));
  const errors = torn.length > 0
    ? torn
    : own.flatMap((file) => program.getSemanticDiagnostics(file));
  const all = [
    // The compiler has no place for an option that it does not know.
    ...wrong.map((error) => ({ ...(config && { file: config }), ...problemOf(compiled, error) })),
    ...errors.map((error) => problemOf(compiled, error)),
    ...(torn.length > 0 ? [] : own.flatMap((file) => unusedSteps(file, compiled))),
  ];
  return [...new Map(all.map((problem) => [formatProblem(problem), problem])).values()];
}

function answerTo({ programs, isListed, ...options }: TypesJob): TypesAnswer {
  const compiled = compile(programs, options);
  const { own, typedElsewhere, configs, modules, isWhole } = compiled;
  return {
    own: [...own.map(({ fileName }) => fileName), ...typedElsewhere],
    configs,
    // A folder above may become a workspace.
    modules: [...modules, ...typedElsewhere, ...options.configs],
    isWhole,
    problems: isListed ? [] : problemsOf(compiled, options.configs[0]),
  };
}

if (import.meta.main) await answerConfined((job: TypesJob) => Promise.resolve(answerTo(job)));
