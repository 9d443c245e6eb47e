/** Checks a test's question: its options, and the scenario with the test's changes. */
import { z } from "zod";
import { type Problem, Refusal, showFound } from "../../fabric/rack/plan/problem.ts";
import {
  expectedOf,
  type OptionTable,
  readValue,
  type ValueOf,
  valuesIn,
  type ValuesOf,
} from "../../fabric/rack/plan/option_rows.ts";
import { CHOICES } from "../../fabric/rack/plan/vocabulary.ts";
import { CLAIMS, EXPLORE_OPTIONS, refuseNothing, VERDICTS } from "../api/options.ts";
import type { PrepareOptions } from "../rack/prepare.ts";
import type { Reach } from "../scenarios/read_door.ts";
import { dumped, withAbsolutePaths } from "../scenarios/run_text.ts";
import { readScenario, type ScenarioSource, sourceOf } from "../scenarios/scenario_source.ts";
import { placesOf, withValues } from "../sweep/places.ts";

/** The options of a table, each as a test writes it. */
function fieldsOf<Table extends OptionTable>(table: Table) {
  const fields = Object.entries(table).map(([name, row]) => {
    const value = z.unknown().transform((given, context) => {
      const read = readValue(row, given);
      if (read !== undefined) return read;
      context.addIssue({ code: "custom", message: expectedOf(row, given) });
      return z.NEVER;
    });
    return [name, value.optional()];
  });
  return Object.fromEntries(fields) as {
    [Name in keyof Table]: z.ZodOptional<z.ZodType<ValueOf<Table[Name]>>>;
  };
}

/** Of `RackTestOptions`. */
const common = {
  scenario: z.string(),
  faults: z.array(z.record(z.string(), z.unknown())).default([]),
  set: z.record(z.string(), z.json()).default({}),
  ...fieldsOf(CHOICES),
  ...fieldsOf({ claims: CLAIMS }),
  input: z.string().optional(),
  allowRead: z.array(z.string()).default([]),
  check: z.boolean().default(true),
};

// A test has the same verdict on every machine: `limit` ends it, no wall time.
const { for: _, ...TESTED } = EXPLORE_OPTIONS;

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
      verdict: z.enum(VERDICTS).optional(),
      ...fieldsOf(TESTED),
    }),
  }),
]);

export type CheckedQuestion = z.infer<typeof question>;

/** @throws Refusal with every option that is wrong. */
export function readQuestion(asked: unknown): CheckedQuestion {
  const { success, data, error } = question.safeParse(asked);
  if (!success) throw new Refusal(error.issues.map((issue) => problemOf(issue, asked)));
  if (data.kind === "explore") {
    refuseNothing(exploreValues(data.options));
  }
  return data;
}

export function exploreValues(
  options: Extract<CheckedQuestion, { readonly kind: "explore" }>["options"],
): ValuesOf<typeof EXPLORE_OPTIONS> {
  return valuesIn(EXPLORE_OPTIONS, options);
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
  { scenario, faults, set, allowRead = [] }:
    & Pick<CheckedQuestion["options"], "scenario" | "faults" | "set">
    & Partial<Pick<CheckedQuestion["options"], "allowRead">>,
): Promise<ChangedScenario> {
  const source = await readScenario(scenario, { allowRead });
  const words = Object.entries(set);
  if (faults.length === 0 && words.length === 0) return { source, folder: undefined };
  const data = source.yaml.data as Mapping;
  const values = words.map(([word, value]) => {
    return { places: placesOf(word, data), data: value };
  });
  // Where it would write captures is not the test's concern.
  const { capture: _, ...changed } = withValues(data, values);
  const own = Array.isArray(changed["faults"]) ? changed["faults"] : [];
  const text = dumped({
    ...withAbsolutePaths(changed, source),
    ...(faults.length > 0 && { faults: [...own, ...faults] }),
  });
  const changedSource = readChanged(text, { ...source, own: own.length });
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-test-" });
  const path = `${folder}/${source.scenario.name}.yaml`;
  await Deno.writeTextFile(path, text, { mode: 0o600 });
  return { source: { ...changedSource, path }, folder };
}

type Mapping = Record<string, unknown>;

/**
 * Problems of a text that its user never saw are those of the option that made it.
 * @param own how many faults are the scenario's: those of the test come after them.
 */
function readChanged(
  text: string,
  { base, allowRead, own }: Reach & { readonly own: number },
): ScenarioSource {
  try {
    return sourceOf(text, { path: "", base, allowRead });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal(error.problems.map(({ path, found, expected }) => {
      const [all, index, rest] = /^faults\[(\d+)\](.*)$/.exec(path) ?? [];
      const named = all === undefined ? path : `faults[${Number(index) - own}]${rest}`;
      return { path: named, found, expected };
    }));
  }
}

/** The choices of a run. */
export function choicesOf(options: CheckedQuestion["options"]): PrepareOptions {
  const { input } = options;
  return {
    packing: "all",
    isTyped: true,
    ...valuesIn(CHOICES, options),
    ...(input !== undefined && { input }),
  };
}
