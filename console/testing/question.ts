/** What a test has asked, checked: its options, and the scenario with what it changes. */
import { z } from "zod";
import { parseTime, type Time } from "../../fabric/base/time.ts";
import { wholeText } from "../../fabric/base/whole_number.ts";
import { type Problem, Refusal, showFound } from "../../fabric/rack/plan/problem.ts";
import { parseSize } from "../../fabric/rack/plan/units.ts";
import { PUT_METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { EXPLORE_NUMBERS, type ExploreNumber } from "../api/explore_options.ts";
import { cutOf, exploreOptions, refuseNothing } from "../explore/options.ts";
import type { ExploreOptions } from "../explore/types.ts";
import type { PrepareOptions } from "../rack/prepare.ts";
import { dumped, withAbsolutePaths } from "../scenarios/run_text.ts";
import { readScenario, type ScenarioSource, sourceOf } from "../scenarios/scenario_source.ts";
import { placesOf, withValues } from "../sweep/places.ts";

const whole = (least: number, most: number) =>
  z.int(`expected ${wholeText({ least, most })}`).min(least).max(most);
const time = z.string().transform((text, context): Time => {
  const ps = parseTime(text);
  if (ps !== undefined) return ps;
  context.addIssue({ code: "custom", message: "expected a time such as 40us" });
  return z.NEVER;
});
const size = z.union([z.number(), z.string()]).transform((given, context): number => {
  const bytes = parseSize(given);
  if (bytes !== undefined && bytes >= 64 && bytes <= 2 ** 20) return bytes;
  context.addIssue({ code: "custom", message: "expected 64 to 1MiB, such as 4096 or 4KiB" });
  return z.NEVER;
});

/** Of `RackTestOptions`. */
const common = {
  scenario: z.string(),
  seed: whole(0, Number.MAX_SAFE_INTEGER).optional(),
  faults: z.array(z.record(z.string(), z.unknown())).default([]),
  set: z.record(z.string(), z.json()).default({}),
  method: z.enum(PUT_METHODS).optional(),
  ddio: z.enum(["on", "off"]).optional(),
  size: size.optional(),
  depth: whole(1, 256).optional(),
  input: z.string().optional(),
  claims: z.boolean().default(false),
  check: z.boolean().default(true),
};

function bound(option: keyof typeof EXPLORE_NUMBERS) {
  const { least, most, multipleOf = 1 }: ExploreNumber = EXPLORE_NUMBERS[option];
  const expected = `expected a multiple of ${multipleOf}`;
  return whole(least, most).multipleOf(multipleOf, expected).optional();
}

const question = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("run"),
    options: z.strictObject({
      ...common,
      // The test's own end reads it.
      fails: z.array(z.string()).optional(),
      capture: z.boolean().default(false),
    }),
  }),
  z.strictObject({
    kind: z.literal("explore"),
    options: z.strictObject({
      ...common,
      verdict: z.enum(["safe", "unsafe", "partial", "failed", "unchecked"]).optional(),
      cut: z.string().optional(),
      choices: bound("choices"),
      tear: bound("tear"),
      cuts: bound("cuts"),
      preemptions: bound("preemptions"),
      stall: time.optional(),
      interleavings: bound("interleavings"),
      from: time.optional(),
      until: time.optional(),
      limit: bound("limit"),
      robust: z.boolean().default(false),
    }),
  }),
]);

export type CheckedQuestion = z.infer<typeof question>;

/** @throws Refusal with every option that is wrong. */
export function readQuestion(asked: unknown): CheckedQuestion {
  const { success, data, error } = question.safeParse(asked);
  if (!success) throw new Refusal(error.issues.map((issue) => problemOf(issue, asked)));
  if (data.kind === "explore") {
    refuseNothing(exploreOptionsOf(data.options), (option) => option);
  }
  return data;
}

/** What a test asks of the explorer. */
export function exploreOptionsOf(
  options: Extract<CheckedQuestion, { readonly kind: "explore" }>["options"],
): ExploreOptions {
  const { cut, choices, tear, cuts, preemptions, stall, interleavings } = options;
  const { from, until, limit, claims, robust } = options;
  return exploreOptions({
    ...{ cut: cut === undefined ? undefined : cutOf(cut), choices, tear, cuts, preemptions, stall },
    ...{ interleavings, from, until, limit, claims, robust },
  });
}

function problemOf(issue: z.core.$ZodIssue, asked: unknown): Problem {
  const path = issue.path.filter((part) => part !== "options").join(".");
  const value = issue.path.reduce((at, part) => Object(at)[part], asked);
  if (issue.code === "unrecognized_keys") {
    return { path, found: `the option ${issue.keys.join(", ")}`, expected: "one that there is" };
  }
  const expected = issue.message.replace(/^.*?expected /s, "").replaceAll("|", ", ");
  return { path, found: showFound(value), expected };
}

export interface ChangedScenario {
  readonly source: ScenarioSource;
  /** The folder of a copy with the test's changes, which its user removes; undefined: the user's own file. */
  readonly folder: string | undefined;
}

/**
 * The scenario with a test's faults and words: a copy with absolute paths where it has any.
 * @throws Refusal for a scenario that is wrong by itself, then for one that is so with the changes.
 */
export async function changedScenario(
  { scenario, faults, set }: Pick<CheckedQuestion["options"], "scenario" | "faults" | "set">,
): Promise<ChangedScenario> {
  const source = await readScenario(scenario);
  const words = Object.entries(set);
  if (faults.length === 0 && words.length === 0) return { source, folder: undefined };
  const data = source.yaml.data as Mapping;
  const values = words.map(([word, value]) => {
    return { places: placesNamed(word, data), data: value };
  });
  // Where it would write captures is not the test's concern.
  const { capture: _, ...changed } = withValues(data, values);
  const own = Array.isArray(changed["faults"]) ? changed["faults"] : [];
  const text = dumped({
    ...withAbsolutePaths(changed, source.base),
    ...(faults.length > 0 && { faults: [...own, ...faults] }),
  });
  const changedSource = readChanged(text, { base: source.base, own: own.length });
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-test-" });
  const path = `${folder}/${source.scenario.name}.yaml`;
  await Deno.writeTextFile(path, text, { mode: 0o600 });
  return { source: { ...changedSource, path }, folder };
}

type Mapping = Record<string, unknown>;

function placesNamed(word: string, data: Mapping) {
  return asOption("set", () => placesOf(word, data), (path) => path.replace(/^--vary /, ""));
}

/** @param own how many faults are the scenario's: those of the test come after them. */
function readChanged(
  text: string,
  { base, own }: { readonly base: string; readonly own: number },
): ScenarioSource {
  return asOption("", () => sourceOf(text, { path: "", base }), (path) => {
    const [all, index, rest] = /^faults\[(\d+)\](.*)$/.exec(path) ?? [];
    return all === undefined ? path : `faults[${Number(index) - own}]${rest}`;
  });
}

/** Problems of a text that its user never saw, as those of the option that made it. */
function asOption<Result>(
  option: string,
  work: () => Result,
  named: (path: string) => string,
): Result {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal(error.problems.map(({ path, found, expected }) => {
      return { path: `${option} ${named(path)}`.trim(), found, expected };
    }));
  }
}

/** The choices of a run. */
export function choicesOf(
  { seed, method, ddio, size, depth, input }: CheckedQuestion["options"],
): PrepareOptions {
  return {
    packing: "all",
    isTyped: true,
    ...(seed !== undefined && { seed }),
    ...(method !== undefined && { method }),
    ...(ddio !== undefined && { ddio }),
    ...(size !== undefined && { size }),
    ...(depth !== undefined && { depth }),
    ...(input !== undefined && { input }),
  };
}
