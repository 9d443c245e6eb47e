/** Single values and mappings of a scenario file. */
import { z } from "zod";
import { isWhole, wholeText } from "../../base/whole_number.ts";
import { namesInRange } from "../plan/names.ts";
import { listOf, nearest } from "../plan/problem.ts";
import { expectedOf, readValue, type ValueKind } from "../plan/option_rows.ts";
import { parseDuration, parseRate } from "../plan/units.ts";

/** Part of a JSON schema; `json_schema.ts` makes a scenario's. */
export type JsonShape = Readonly<Record<string, unknown>>;

/** `shape` is the condition of `parse` as far as JSON schema can express it. */
export function leaf<T>(
  expected: string | ((found: unknown) => string),
  shape: JsonShape,
  parse: (value: unknown) => T | undefined,
) {
  const isText = typeof expected === "string";
  return z.unknown().transform((value, context): T => {
    const parsed = parse(value);
    if (parsed !== undefined) return parsed;
    context.addIssue({ code: "custom", message: isText ? expected : expected(value) });
    return z.NEVER;
  }).meta({ ...(isText && { description: expected }), ...shape });
}

export function oneOf<const T extends string>(words: readonly T[]) {
  const shape = { enum: words };
  return leaf(listOf(words), shape, (value) => words.find((word) => word === value));
}

/** The list is too long to print: the message has the most similar word, if any. */
export function nameOf<const T extends string>(words: readonly T[]) {
  const expected = (found: unknown) =>
    (typeof found === "string" ? nearest(found, words) : undefined) ?? listOf(words);
  return leaf(expected, { enum: words }, (value) => words.find((word) => word === value));
}

export function integer(least: number, most: number) {
  return leaf(
    wholeText({ least, most }),
    { type: "integer", minimum: least, maximum: most },
    (value) => isWhole(value, { least, most }) ? value : undefined,
  );
}

/** {@link POSITIVE} excludes zero. */
export const NUMBER = String.raw`\d+(\.\d+)?`;
const POSITIVE = String.raw`(?=[\d.]*[1-9])\d+(\.\d+)?`;
const TIME_UNITS = String.raw`\s*(s|ms|us|ns|ps)`;

export function textLike(...parts: readonly string[]): JsonShape {
  return { type: "string", pattern: `^${parts.join("")}$` };
}

export const DURATION_SHAPE: JsonShape = {
  anyOf: [{ enum: [0, "0"] }, textLike(NUMBER, TIME_UNITS)],
};
export function within(value: number | undefined, least: number, most: number): number | undefined {
  return value !== undefined && value >= least && value <= most ? value : undefined;
}

export function size(least: number, most: number, step = 1) {
  const bytes = { type: "integer", minimum: least, maximum: most };
  const kind = { type: "size", least, most, multipleOf: step } as const;
  return leaf(
    expectedOf(kind),
    {
      anyOf: [
        step === 1 ? bytes : { ...bytes, multipleOf: step },
        textLike(NUMBER, " ?(B|KiB|MiB|GiB)?"),
      ],
    },
    (value) => readValue(kind, value),
  );
}

export const flag = leaf(
  "true or false",
  { type: "boolean" },
  (value) => typeof value === "boolean" ? value : undefined,
);

export function valueSchema(
  kind: Exclude<ValueKind, { readonly type: "host" | "time" | "wall-time" }>,
): z.ZodType {
  switch (kind.type) {
    case "whole":
      return integer(kind.least, kind.most);
    case "size":
      return size(kind.least, kind.most, kind.multipleOf);
    case "word":
      return oneOf(kind.words);
    case "switch":
      return flag;
  }
}

export const duration = leaf("a time with its unit, like 300ns", DURATION_SHAPE, parseDuration);
export const TIME_SHAPE: JsonShape = textLike(POSITIVE, TIME_UNITS);

export function positiveTime(expected: string) {
  return leaf(
    expected,
    TIME_SHAPE,
    (value) => parseDuration(value) || undefined,
  );
}
export const latency = positiveTime(
  "a latency > 0 with its unit, like 300ns: it is the lookahead of the clock",
);
export const rate = leaf(
  "a rate > 0 with its unit, like 100Gbps",
  textLike(POSITIVE, " ?[kMGT]?bps"),
  (value) => within(parseRate(value), 1, 1e13),
);
export const TEXT_SHAPE: JsonShape = { type: "string", minLength: 1 };
export const text = leaf(
  "a text",
  TEXT_SHAPE,
  (value) => typeof value === "string" && value !== "" ? value : undefined,
);

const OWN_FILE = /^(\.{0,2}\/).*\.[jt]s$/;
export function isOwnFile(value: string): boolean {
  return OWN_FILE.test(value);
}
export const OWN_FILE_SHAPE: JsonShape = { type: "string", pattern: OWN_FILE.source };
export function ownFile(example: string) {
  return leaf(
    `the path of a file of your own, like ${example}`,
    OWN_FILE_SHAPE,
    (value) => typeof value === "string" && isOwnFile(value) ? value : undefined,
  );
}

export const WORDS = "x-words";

type Rows = Readonly<Record<string, readonly [key: string, schema: z.ZodType]>>;

type ValuesOf<R extends Rows> = { -readonly [Name in keyof R]?: z.output<R[Name][1]> };

/** Optional keys, which have other names in a plan; `or` as of {@link mapping}. */
export function renamed<const R extends Rows>(rows: R, or = "") {
  const names = Object.entries(rows);
  const shape = Object.fromEntries(names.map(([, [key, schema]]) => [key, schema.optional()]));
  return mapping(shape, or).transform((values): ValuesOf<R> =>
    Object.fromEntries(
      names.flatMap(([name, [key]]) => values[key] === undefined ? [] : [[name, values[key]]]),
    ) as ValuesOf<R>
  );
}

export function switchable<const R extends Rows>(rows: R) {
  return z.preprocess(
    (value) => value === "on" ? {} : value === "off" ? null : value,
    renamed(rows, "on, off or ").nullable(),
  ).meta({ [WORDS]: ["on", "off"] });
}

export const SHORT = "x-short";

/**
 * A mapping, or a value that is short for one: `short.schema` reads it, `short.meaning` is its
 * mapping, `short.or` names it in a message.
 */
export function orShort<T, S extends z.ZodType>(
  schema: S,
  short: {
    readonly or: string;
    readonly schema: z.ZodType<T>;
    readonly shape: JsonShape;
    readonly meaning: (value: T) => z.input<S>;
  },
) {
  const expanded = (value: unknown, context: z.RefinementCtx): unknown => {
    if (value === undefined || (typeof value === "object" && value !== null)) return value;
    const read = short.schema.safeParse(value);
    if (read.success) return short.meaning(read.data);
    context.addIssue({ code: "custom", message: `${short.or}or a mapping` });
    return z.NEVER;
  };
  return z.preprocess(expanded, schema).meta({ [SHORT]: short.shape });
}

/** Marks a message that lists a mapping's keys, to distinguish unknown keys. */
const KEYS = "keys:";

/** Without other keys; `or` names the alternatives. */
export function mapping<const Shape extends z.ZodRawShape>(shape: Shape, or = "") {
  const keys = Object.keys(shape);
  const expected = `${or}a mapping with ${listOf(keys.slice(0, 4))}${keys.length > 4 ? " …" : ""}`;
  const error = (issue: { readonly code: string }) =>
    issue.code === "unrecognized_keys" ? `${KEYS}${keys.join(" ")}` : expected;
  return z.strictObject(shape, { error });
}

export function knownKeys(message: string): readonly string[] {
  return message.startsWith(KEYS) ? message.slice(KEYS.length).split(" ") : [];
}

/** `99.9%`, in successes per million: whole numbers, as decisions depend on them (V-05). */
export const successRate = leaf(
  "a share below 100%, like 99.9%",
  textLike(String.raw`\d{1,2}(\.\d{1,4})? ?%`),
  (value) => {
    const match = typeof value === "string"
      ? /^(\d{1,2})(?:\.(\d{1,4}))? ?%$/.exec(value.trim())
      : null;
    return match === null ? undefined : Number(match[1]! + (match[2] ?? "").padEnd(4, "0"));
  },
);

export const NAMES_SHAPE: JsonShape = {
  anyOf: [{ type: "string" }, { type: "array", items: { type: "string" }, minItems: 1 }],
};

/** Of a name, a range like s1..s4, or a list of both; undefined for anything else. */
export function namesOf(value: unknown): string[] | undefined {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const isRight = list.length > 0 && list.every((each) => typeof each === "string");
  return isRight ? (list as readonly string[]).flatMap(namesInRange) : undefined;
}

/** {@link namesOf}, if no name is repeated. */
export function differentNames(value: unknown): string[] | undefined {
  const names = namesOf(value);
  return new Set(names).size === names?.length ? names : undefined;
}
