/** Reads values of a scenario by path and schema; reports problems with their position in the file. */
import { isMapping } from "../../base/mapping.ts";
import type { z } from "zod";
import { namesInRange, rangeExpected } from "../plan/names.ts";
import { listOf, nearest, showFound } from "../plan/problem.ts";
import { knownKeys } from "./values.ts";
import type { Path, YamlSource } from "./yaml_source.ts";

export type Report = (
  path: Path,
  problem: { readonly found: string; readonly expected: string; readonly key?: boolean },
) => void;

export interface Reading {
  readonly source: YamlSource;
  readonly report: Report;
}

/** An invalid value is reported, and undefined. */
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

export function checkKnown(
  name: string,
  { path, known, kind, place = "many" }: {
    readonly path: Path;
    readonly known: readonly string[];
    readonly kind: string;
    readonly place?: "one" | "many";
  },
  report: Report,
): boolean {
  if (known.includes(name)) return true;
  const range = rangeExpected(name, place);
  if (range !== undefined) {
    report(path, { found: showFound(name), expected: range });
    return false;
  }
  const near = nearest(name, known);
  const some = known.length <= 8 ? listOf(known) : kind;
  const expected = near === undefined ? `${kind} of this rack (${some})` : `${near}, ${kind}`;
  report(path, { found: showFound(name), expected });
  return false;
}

export function readList(reading: Reading, path: Path): { path: Path }[] {
  const value = valueAt(reading.source.data, path);
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value.map((_, i) => ({ path: [...path, i] }));
  reading.report(path, { found: showFound(value), expected: "a list" });
  return [];
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

/** In the names' order; names of a range have one path. */
export function namePaths(data: unknown, path: Path): Path[] {
  const given = valueAt(data, path);
  const places: [unknown, Path][] = Array.isArray(given)
    ? given.map((each, i) => [each, [...path, i]])
    : [[given, path]];
  return places.flatMap(([each, at]) => Array.from({ length: countNames(each) }, () => at));
}

function countNames(value: unknown): number {
  return typeof value === "string" ? namesInRange(value).length : 1;
}

/**
 * The value at `path` stands for several: its key, the value or the item of a list has a range of
 * names.
 */
export function isOfRange(data: unknown, path: Path): boolean {
  const item = typeof path[1] === "number" ? valueAt(data, path.slice(0, 2)) : undefined;
  const names = [...path, valueAt(data, path), ...(isMapping(item) ? Object.values(item) : [])];
  return names.some((name) => countNames(name) > 1);
}
