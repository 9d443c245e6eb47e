/** Reads values of a scenario by path and schema; reports problems with their position in the file. */
import type { z } from "zod";
import { listOf, nearest, showFound } from "../plan/problem.ts";
import { knownKeys } from "./values.ts";
import type { Path, YamlSource } from "./yaml_source.ts";

/** Reports that the value (or, with `key`, the key) at `path` is wrong. */
export type Report = (
  path: Path,
  problem: { readonly found: string; readonly expected: string; readonly key?: boolean },
) => void;

/** The file being read, and its problems. */
export interface Reading {
  readonly source: YamlSource;
  readonly report: Report;
}

/** The value at `path` by its schema; undefined where it is invalid, which is reported. */
export function read<T>(reading: Reading, path: Path, schema: z.ZodType<T>): T | undefined {
  const result = schema.safeParse(valueAt(reading.source.data, path));
  if (result.success) return result.data;
  for (const issue of result.error.issues) {
    const at = [...path, ...issue.path.map((part) => typeof part === "symbol" ? "" : part)];
    if (issue.code === "unrecognized_keys") {
      checkKeys(reading, at, { found: issue.keys, known: knownKeys(issue.message) });
    } else {
      const found = showFound(valueAt(reading.source.data, at));
      reading.report(at, { found, expected: issue.message });
    }
  }
  return undefined;
}

/** Reports unknown keys, each with the most similar known one. */
export function checkKeys(
  { report }: Reading,
  path: Path,
  keys: { readonly found: readonly string[]; readonly known: readonly string[] },
): void {
  for (const key of keys.found) {
    if (keys.known.includes(key)) continue;
    const expected = nearest(key, keys.known) ?? listOf(keys.known);
    report([...path, key], { found: "an unknown key", expected, key: true });
  }
}

/** Paths of the items of an optional list. */
export function readList(reading: Reading, path: Path): { path: Path }[] {
  const value = valueAt(reading.source.data, path);
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value.map((_, i) => ({ path: [...path, i] }));
  reading.report(path, { found: showFound(value), expected: "a list" });
  return [];
}

export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function valueAt(data: unknown, path: Path): unknown {
  let value = data;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) {
      return undefined;
    }
    value = (value as Record<string | number, unknown>)[part];
  }
  return value;
}
