/**
 * What several topics of the API share. The schemas of this folder say all that goes over HTTP: the server
 * checks requests with them, OpenAPI is made from them, and the page takes their types (`import type` only:
 * zod itself is too large for a page).
 */
import { z } from "zod";

/** Picoseconds of virtual time. */
export const time = z.number().int().min(0).describe("picoseconds of virtual time");

/** Null stands for "never": JSON has no infinity. */
export const timeOrNever = time.nullable().describe("picoseconds of virtual time; null: never");

/** A device, a process or a cable: the server looks it up in the rack's own before it does anything. */
export const name = z.string().min(1).max(200);

/**
 * A schema with a name, or null. (`nullable()` of one would come into the OpenAPI document as a type that
 * refuses null.)
 */
export function orNull<Schema extends z.ZodType>(schema: Schema) {
  return z.union([schema, z.null()]);
}

/** Absent or there, as in our types. The maker of the OpenAPI document does not know zod's exactOptional. */
export function maybe<Schema extends z.ZodType>(schema: Schema) {
  return schema.optional() as unknown as z.ZodExactOptional<Schema>;
}

export const seed = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** One refused input: where, what was found, what was expected. */
export const problem = z.object({
  file: z.string().optional(),
  line: z.number().int().optional().describe("in the file, from 1"),
  column: z.number().int().optional(),
  path: z.string().describe("a member of the request or of the scenario; empty for all of it"),
  found: z.string(),
  expected: z.string().describe("empty where `found` suffices"),
}).meta({ id: "Problem" });

/** The kinds of errors: what a caller would do differently. */
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

export const apiError = z.object({
  error: z.object({
    kind: z.enum(ERROR_KINDS),
    message: z.string(),
    problems: z.array(problem).describe("of refused input; else empty"),
    exitCode: z.number().int().describe("with which the command `rack` would end"),
  }),
}).meta({ id: "Error" });
export type ApiError = z.infer<typeof apiError>;

/** The answer to a change that has nothing to tell. */
export const done = z.object({ done: z.literal(true) }).meta({ id: "Done" });
