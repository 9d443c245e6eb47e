/**
 * Schemas of all HTTP messages: the server checks requests with them, OpenAPI is made from them,
 * the page takes their types (`import type` only: zod is too large for a page).
 */
import { z } from "zod";
import {
  NAME_LETTERS_MAX,
  type OptionRow,
  type OptionTable,
  ORDER_NAMES,
  orderName,
  type OrderOf,
  type ValueKind,
  type ValuesOf,
} from "../../fabric/rack/plan/option_rows.ts";
import { SCENARIO_BYTES_MAX } from "./page_terms.ts";
import { formatProblem, Refusal } from "../../fabric/rack/plan/problem.ts";

export const time = z.number().int().min(0).describe("picoseconds of virtual time");

/** JSON has no infinity. */
export const timeOrNever = time.nullable().describe("picoseconds of virtual time; null: never");

/** The server looks the name up in the rack's own before it does anything. */
export const name = z.string().min(1).max(NAME_LETTERS_MAX);

/** Of an amount or a span of time as it is typed: `1%`, `5us`. */
export const amount = z.string().max(40);

/** The label of one of a run's variants: the choices that a scenario leaves. A word of a sweep. */
export const label = z.string().max(400);

/** A scenario's, in YAML. */
export const scenarioYaml = z.string().max(SCENARIO_BYTES_MAX);

/**
 * `nullable()` of a schema with a name would come into the OpenAPI document as a type that refuses
 * null.
 */
export function orNull<Schema extends z.ZodType>(schema: Schema) {
  return z.union([schema, z.null()]);
}

/** The maker of the OpenAPI document does not know zod's exactOptional. */
export function maybe<Schema extends z.ZodType>(schema: Schema) {
  return schema.optional() as unknown as z.ZodExactOptional<Schema>;
}

type Frozen<T> = T extends object ? { readonly [Key in keyof T]: Frozen<T[Key]> } : T;
export type Plain<Schema extends z.ZodType> = Frozen<z.output<Schema>>;

export const seed = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

function valueOf(kind: ValueKind): z.ZodType {
  switch (kind.type) {
    case "whole":
    case "size": {
      const number = z.number().int().min(kind.least).max(kind.most);
      return kind.multipleOf === undefined ? number : number.multipleOf(kind.multipleOf);
    }
    case "time":
      return time;
    case "wall-time":
      return z.number().int().min(1);
    case "word":
      return z.enum(kind.words);
    case "host":
      return z.union([z.enum(kind.words), z.strictObject({ host: name })]);
    case "switch":
      return z.boolean();
  }
}

type Fields<Values> = {
  [Name in keyof Values]-?: z.ZodOptional<z.ZodType<Exclude<Values[Name], undefined>>>;
};

/** The members of an order that give the options of a table: see `orderName`. */
export function orderFields<Table extends OptionTable>(table: Table): Fields<OrderOf<Table>> {
  const fields = Object.entries(table).map(([name, row]: [string, OptionRow]) => {
    const { what, normal } = row,
      about = normal === undefined ? what : `${what}; default ${normal}`;
    return [orderName(name, row), valueOf(row).optional().describe(about)];
  });
  return Object.fromEntries(fields);
}

/** In the query of an address numbers are text. */
export function queryFields<Table extends OptionTable>(table: Table): Fields<ValuesOf<Table>> {
  const fields = Object.entries(table).map(([name, row]: [string, OptionRow]) => {
    const { what, ...kind } = row;
    const isNumber = kind.type === "whole" || kind.type === "size";
    const value = isNumber ? z.coerce.number().int().min(kind.least).max(kind.most) : valueOf(kind);
    return [name, value.optional().describe(what)];
  });
  return Object.fromEntries(fields);
}

/** A rule between members of an order, for zod. @param check throws a Refusal, which becomes the issues. */
export function rule<Order>(check: (order: Order) => void) {
  return (order: Order, context: z.RefinementCtx) => {
    try {
      check(order);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      for (const { path, found, expected } of error.inNames(ORDER_NAMES).problems) {
        const message = formatProblem({ path: "", found, expected });
        const at = path === "" ? [] : [path];
        context.addIssue({ code: "custom", path: at, message, params: { found, expected } });
      }
    }
  };
}

/** One refused input: where, what was found, what was expected. */
export const problem = z.object({
  file: z.string().optional(),
  line: z.number().int().optional().describe("in the file, from 1"),
  column: z.number().int().optional(),
  path: z.string().describe("a member of the request or of the scenario; empty for all of it"),
  found: z.string(),
  expected: z.string().describe("empty where `found` suffices"),
}).meta({ id: "Problem" });

const ERROR_KINDS = [
  "bad-request",
  "not-signed-in",
  "not-allowed",
  "wrong-host",
  "not-found",
  "refused",
  "failed",
  "too-large",
  "too-many",
  "no-answer",
  "internal",
] as const;

/** RFC 9457, with members of our own. */
export const apiError = z.object({
  type: z.string().describe("a URI: `urn:rackmesh:` and the kind"),
  title: z.string().describe("of the kind, for people"),
  status: z.number().int().describe("as the answer's"),
  detail: z.string().describe("what was found, and what was expected"),
  kind: z.enum(ERROR_KINDS),
  problems: z.array(problem).describe("of refused input; else empty"),
  exitCode: z.number().int().describe("with which the command `rack` would end"),
}).meta({ id: "ProblemDetails" });
export type ApiError = z.infer<typeof apiError>;
export const PROBLEM_TYPE = "application/problem+json";

export const done = z.object({ done: z.literal(true) }).meta({ id: "Done" });
