/**
 * Where in a scenario a name stands: `hosts.b.ddio` and `programs[0].depth` by their path, `*` for every
 * key or index in its place (`leaf-*`: for those that begin so), and the end of a path (`depth`, `b.ddio`) where
 * only one place has it.
 */
import { listOf, nearest } from "../../fabric/rack/plan/problem.ts";
import { varyRefusal } from "./vary.ts";
import { PROGRAMS } from "../../fabric/rack/plan/vocabulary.ts";
import type { JsonShape } from "../../fabric/rack/scenario/values.ts";
import { SECTIONS } from "../../fabric/rack/scenario/schema.ts";
import { scenarioJsonSchema } from "../../fabric/rack/scenario/json_schema.ts";
import { isMapping } from "../../fabric/base/mapping.ts";
import { formatPath, type Path } from "../../fabric/rack/scenario/yaml_source.ts";

type Mapping = Record<string, unknown>;

const SHOWN_MAX = 8;
const EVERY_PROGRAM = ["at", "restart", "service"];

/**
 * At least one place. A name that begins with a section is a whole path, and need not be written in
 * the scenario. Any other is the end of the path of a word that is written in it, or else of one
 * that could be.
 * @param data of the scenario, as YAML has it.
 * @throws Refusal with the candidates where there are none or several.
 */
export function placesOf(name: string, data: Mapping): Path[] {
  const first = /^[^.[]+/.exec(name)?.[0] ?? "";
  if (Object.hasOwn(SECTIONS, first)) return wholePaths(name, data);
  const written = endingIn(name, writtenIn(data));
  if (written.length > 0) return [theOnly(name, { paths: written, data, are: "stands" })];
  const possible = possibleIn(data), free = endingIn(name, possible);
  if (free.length > 0) return [theOnly(name, { paths: free, data, are: "could stand" })];
  const known = [...new Set([...writtenIn(data), ...possible].map((path) => String(path.at(-1))))];
  const near = nearest(name, known);
  const expected = near ??
    `a word of the scenario, or its path, such as programs[0].depth${ofOwnProgram(name, data)}`;
  throw varyRefusal({ name, found: "no word of this scenario", expected });
}

/** Own programs do not declare their options: an unwritten one is named by its whole path. */
function ofOwnProgram(word: string, { programs }: Mapping): string {
  if (!/^[A-Za-z]\w*$/.test(word) || !Array.isArray(programs)) return "";
  const own = programs.findIndex((item) => isMapping(item) && Object.hasOwn(item, "program"));
  return own < 0 ? "" : `; an option that is not written there, as programs[${own}].${word}`;
}

function endingIn(name: string, paths: readonly Path[]): Path[] {
  const wanted = `.${name}`;
  return paths.filter((path) => `.${formatPath(path)}`.endsWith(wanted));
}

function theOnly(
  name: string,
  { paths, data, are }: {
    readonly paths: readonly Path[];
    readonly data: Mapping;
    readonly are: string;
  },
): Path {
  if (paths.length === 1) return paths[0]!;
  const texts = paths.map(formatPath), all = allOf(paths, data);
  const more = texts.length > SHOWN_MAX ? [`${texts.length - SHOWN_MAX} more`] : [];
  const choices = [...texts.slice(0, SHOWN_MAX), ...more];
  throw varyRefusal({
    name,
    found: `a word that ${are} at ${paths.length} places`,
    expected: `${listOf(choices)}${all === undefined ? "" : `, or ${all} for all`}`,
  });
}

function allOf(paths: readonly Path[], data: Mapping): string | undefined {
  const one = paths[0]!, texts = paths.map(formatPath).join();
  const starred = one.slice(1, -1).map((part, i) => {
    const [before, after] = [one.slice(0, i + 1), one.slice(i + 2)].map(formatPath);
    return `${before}${typeof part === "number" ? "[*]" : ".*"}.${after}`;
  });
  return starred.find((text) => starredPaths(text, data).map(formatPath).join() === texts);
}

function wholePaths(name: string, data: Mapping): Path[] {
  if (!name.includes("*")) return walk(name, data);
  const found = starredPaths(name, data);
  if (found.length > 0) return found;
  const word = /^programs\[\*\]\.(.*)$/.exec(name)?.[1] ?? "";
  const expected = `a path in which * has something to stand for${ofOwnProgram(word, data)}`;
  throw varyRefusal({ name, found: "no word of this scenario", expected });
}

/**
 * `*` leaves out items that cannot have the word: `programs[*].depth` a program without a depth.
 */
function starredPaths(name: string, data: Mapping): Path[] {
  const known = new Set([...writtenIn(data), ...possibleIn(data)].map(formatPath));
  return walk(name, data).filter((path) => known.has(formatPath(path)));
}

interface Reached {
  readonly path: Path;
  readonly value: unknown;
}

function walk(name: string, data: Mapping): Path[] {
  let reached: Reached[] = [{ path: [], value: data }], rest = name;
  while (rest !== "") {
    const { key, length } = nextKey(rest, reached);
    if (key === "") {
      const expected = "one such as hosts.b.ddio or programs[0].depth";
      throw varyRefusal({ name, found: "no path", expected });
    }
    rest = rest.slice(length).replace(/^\./, "");
    reached = reached.flatMap(({ path, value }) =>
      keysAt(key, { path, value }, name).map((part) => ({
        path: [...path, part],
        value: (value as Mapping | undefined)?.[part],
      }))
    );
  }
  return reached.map(({ path }) => path);
}

/** An existing key may contain dots: `h1..h8`. */
function nextKey(
  rest: string,
  reached: readonly Reached[],
): { readonly key: string; readonly length: number } {
  const [item, index] = /^\[(\d+|\*)\]/.exec(rest) ?? [];
  if (item !== undefined && index !== undefined) return { key: index, length: item.length };
  const keys = reached.flatMap(({ value }) => isMapping(value) ? Object.keys(value) : []);
  const known = keys.filter((key) =>
    rest.startsWith(key) && /^([.[]|$)/.test(rest.slice(key.length))
  )
    .sort((x, y) => y.length - x.length);
  const key = known[0] ?? /^[^.[]+/.exec(rest)?.[0] ?? "";
  return { key, length: key.length };
}

function keysAt(key: string, { path, value }: Reached, name: string): (string | number)[] {
  if (key === "*" && Array.isArray(value)) return [...value.keys()];
  if (key.includes("*") && !Array.isArray(value)) {
    const isLike = new RegExp(`^${key.split("*").map((part) => RegExp.escape(part)).join(".*")}$`);
    return isMapping(value) ? Object.keys(value).filter((each) => isLike.test(each)) : [];
  }
  if (!Array.isArray(value)) return [key];
  if (/^\d+$/.test(key) && Number(key) < value.length) return [Number(key)];
  const expected = `an item of ${formatPath(path)} by its number, from 0 to ${value.length - 1}`;
  throw varyRefusal({ name, found: `a path with ${JSON.stringify(key)}`, expected });
}

function writtenIn(value: unknown, path: Path = []): Path[] {
  const parts = Array.isArray(value)
    ? [...value.keys()]
    : isMapping(value)
    ? Object.keys(value)
    : [];
  return parts.flatMap((part) => {
    const own = [...path, part];
    return [own, ...writtenIn((value as Mapping)[part], own)];
  });
}

function possibleIn(data: Mapping): Path[] {
  const { properties, definitions } = scenarioJsonSchema() as {
    readonly properties: Readonly<Record<string, JsonShape>>;
    readonly definitions: Readonly<Record<string, JsonShape>>;
  };
  const host = wordsOf(definitions["host"]!);
  const hosts = isMapping(data["hosts"]) ? Object.keys(data["hosts"]) : [];
  const programs: readonly unknown[] = Array.isArray(data["programs"]) ? data["programs"] : [];
  return [
    ...["seed", "profile", "until"].map((key) => [key]),
    ...wordsOf(properties["fabric"]!).map((path) => ["fabric", ...path]),
    ...host.map((path) => ["defaults", ...path]),
    ...hosts.flatMap((name) => host.map((path) => ["hosts", name, ...path])),
    ...programs.flatMap((item, i) => {
      const run = isMapping(item) ? String(item["run"] ?? item["program"]) : "";
      const own = Object.hasOwn(PROGRAMS, run) ? Object.keys(PROGRAMS[run]!) : [];
      return [...EVERY_PROGRAM, ...own].map((key) => ["programs", i, key]);
    }),
  ];
}

function wordsOf(shape: JsonShape): Path[] {
  const { properties = {}, anyOf = [] } = shape as {
    readonly properties?: Readonly<Record<string, JsonShape>>;
    readonly anyOf?: readonly JsonShape[];
  };
  const own = Object.entries(properties).flatMap(([key, inner]) => [
    [key],
    ...wordsOf(inner).map((path) => [key, ...path]),
  ]);
  return [...own, ...anyOf.flatMap(wordsOf)];
}

/** A copy of a scenario's data with a value at each place; mappings on the way are made. */
export function withValues(
  data: Mapping,
  values: readonly { readonly places: readonly Path[]; readonly data: unknown }[],
): Mapping {
  // An alias stands at several places: only one of them may change.
  const copy = JSON.parse(JSON.stringify(data));
  for (const { places, data: value } of values) for (const place of places) put(copy, place, value);
  return copy;
}

function put(data: Mapping, path: Path, value: unknown): void {
  let at: Mapping = data;
  for (const part of path.slice(0, -1)) {
    const next = at[part];
    if (!isMapping(next) && !Array.isArray(next)) at[part] = {};
    at = at[part] as Mapping;
  }
  at[path.at(-1)!] = value;
}
