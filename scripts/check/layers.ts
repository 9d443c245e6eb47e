import { floorsBelow } from "./floors.ts";
import { isTest, touchesWorld } from "./tree.ts";

/** As written. Paths are relative to the repository, lines count from 1. */
export interface Import {
  readonly file: string;
  readonly line: number;
  readonly specifier: string;
  /** Null for a package or a built-in module. */
  readonly target: string | null;
}

export interface Breach {
  readonly file: string;
  readonly line: number;
  readonly found: string;
  readonly allowed: string;
}

/** Besides dot files. */
export const TOP_LEVEL: readonly string[] = [
  "console",
  "deno.json",
  "deno.lock",
  "docker",
  "fabric",
  "LICENSE",
  "nodes",
  "README.md",
  "scripts",
  "tests",
];

const DEVICES = "nodes/(?:host|rnic|switch)/";

const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  "fabric/": [],
  "fabric/bus/": ["cbor-x", "@nats-io/nats-core", "zod"],
  // SHA-256 of a file in parts.
  "fabric/files/": ["node:crypto"],
  "fabric/rack/scenario/": ["zod", "js-yaml"],
  // Of zod only types: `console/ui/bundle_test.ts` holds the size of the page.
  "console/ui/": ["preact", "@preact/signals", "uplot", "yaml", "zod", "esbuild", "node:module"],
  "nodes/": [],
  "nodes/native_records.ts": ["node:zlib"],
  "console/api/": ["zod"],
  "console/plot/": ["@observablehq/plot", "linkedom"],
};

const TEST_PACKAGES: readonly string[] = [
  "@std/testing/bdd",
  "ajv",
  "fast-check",
  "node:assert/strict",
];

function isPage(file: string): boolean {
  return file.startsWith("console/ui/") && !isTest(file) && file !== "console/ui/bundle.ts";
}

function allowedFolders(file: string): readonly string[] | null {
  if (file.startsWith("fabric/")) return ["fabric/"];
  if (isPage(file)) return ["console/ui/", "console/api/", "fabric/"];
  if (file.startsWith("console/")) return ["console/", "fabric/", "nodes/"];
  const device = file.match(new RegExp(`^${DEVICES}`));
  if (device !== null) return ["fabric/", device[0]];
  // Files directly in nodes/ combine the three kinds of devices.
  if (file.startsWith("nodes/")) return ["fabric/", "nodes/"];
  return null;
}

function allowedPackages(file: string): readonly string[] | null {
  const folder = Object.keys(PACKAGES).filter((name) => file.startsWith(name))
    .sort((a, b) => b.length - a.length)[0];
  if (folder === undefined) return null;
  const own = PACKAGES[folder] ?? [];
  return isTest(file) ? [...own, ...TEST_PACKAGES] : own;
}

function ownFolder(target: string): string | null {
  // Protocol state is written only in its folder.
  return target === "nodes/rnic/state/writable.ts" ? "nodes/rnic/state/" : null;
}

function listOf(names: readonly string[]): string {
  return names.length === 0 ? "no package" : names.join(", ");
}

function checkFile(found: Import, target: string): Breach | null {
  const { file, line } = found;
  const folders = allowedFolders(file);
  if (folders !== null && !folders.some((folder) => target.startsWith(folder))) {
    return { file, line, found: `imports ${target}`, allowed: `only ${folders.join(" and ")}` };
  }
  if (isTest(target) && !isTest(file)) {
    return { file, line, found: `imports the test ${target}`, allowed: "only tests import tests" };
  }
  const folder = ownFolder(target);
  if (folder !== null && !file.startsWith(folder)) {
    return { file, line, found: `imports ${target}`, allowed: `only in ${folder}` };
  }
  const below = isTest(file) ? null : floorsBelow(file, target);
  if (below !== null) {
    return { file, line, found: `imports ${target}`, allowed: `only ${below}` };
  }
  const isEntry = touchesWorld(target) && /main\.ts$/.test(target);
  if (isEntry && /^(fabric|nodes)\//.test(file) && !touchesWorld(file) && !isTest(file)) {
    return { file, line, found: `imports the entry point ${target}`, allowed: "pure files only" };
  }
  return null;
}

function checkPackage({ file, line, specifier }: Import): Breach | null {
  if (/^(npm|jsr|https?):/.test(specifier)) {
    const allowed = 'a name from "imports" in deno.json, where its version is pinned';
    return { file, line, found: `imports ${specifier}`, allowed };
  }
  const packages = allowedPackages(file);
  if (packages === null) return null;
  // `cbor-x/index-no-eval` is a module of the package `cbor-x`.
  if (packages.some((name) => specifier === name || specifier.startsWith(name + "/"))) return null;
  return { file, line, found: `imports ${specifier}`, allowed: listOf(packages) };
}

/**
 * Null where the import is permitted. A specifier that deno.json maps to a project file
 * (`@std/testing/bdd`) counts as its package.
 */
export function checkImport(found: Import): Breach | null {
  const isPath = /^(\.\.?|file:)\//.test(found.specifier);
  if (isPath && found.target !== null) return checkFile(found, found.target);
  if (isPath) {
    const { file, line, specifier } = found;
    return { file, line, found: `imports ${specifier}`, allowed: "files of this repository" };
  }
  return checkPackage(found);
}

export function strayNames(names: readonly string[]): string[] {
  return names.filter((name) => !name.startsWith(".") && !TOP_LEVEL.includes(name)).sort();
}

/**
 * Of production files, including type imports: each as its files in order, the largest first. A
 * circle is a strongly connected component (Tarjan, 1972).
 */
export function circlesOf(imports: readonly Import[]): string[][] {
  const targets = new Map<string, string[]>();
  for (const { file, target } of imports) {
    if (target === null || isTest(file) || isTest(target) || target === file) continue;
    const own = targets.get(file);
    if (own === undefined) targets.set(file, [target]);
    else own.push(target);
  }
  const circles: string[][] = [];
  const number = new Map<string, number>(), lowest = new Map<string, number>();
  const stack: string[] = [], onStack = new Set<string>();
  function visit(file: string): void {
    number.set(file, number.size);
    lowest.set(file, number.get(file)!);
    stack.push(file);
    onStack.add(file);
    for (const target of targets.get(file) ?? []) {
      if (!number.has(target)) visit(target);
      if (!onStack.has(target)) continue;
      lowest.set(file, Math.min(lowest.get(file)!, lowest.get(target)!));
    }
    if (lowest.get(file) !== number.get(file)) return;
    const circle = stack.splice(stack.lastIndexOf(file));
    for (const each of circle) onStack.delete(each);
    if (circle.length > 1) circles.push(circle.sort());
  }
  for (const file of targets.keys()) if (!number.has(file)) visit(file);
  return circles.sort((x, y) => y.length - x.length || (x[0]! < y[0]! ? -1 : 1));
}
