/**
 * Prints each violation of `layers.ts` in the import graph of `deno info`, and code that nothing
 * uses (`exports.ts`). Exit code 1 where there is one.
 */
import { deadIn, namesOf } from "./exports.ts";
import { checkImport, circlesOf, type Import, strayNames } from "./layers.ts";
import { ROOT } from "../../console/base/paths.ts";
import { CIRCLES } from "./floors.ts";
import { pathInTree } from "./tree.ts";

export interface Graph {
  readonly modules: readonly {
    readonly specifier: string;
    readonly error?: string;
    readonly dependencies?: readonly {
      readonly specifier: string;
      readonly code?: Resolution;
      readonly type?: Resolution;
    }[];
  }[];
}

interface Resolution {
  readonly specifier?: string;
  readonly error?: string;
  readonly span: { readonly start: { readonly line: number } };
}

function pathOf(specifier: string): string | null {
  if (!specifier.startsWith("file://")) return null;
  const path = decodeURIComponent(new URL(specifier).pathname);
  const inTree = pathInTree(path);
  return inTree === path ? null : inTree;
}

/** `type` resolutions count like any other. */
export function importsOf(graph: Graph): Import[] {
  const imports: Import[] = [];
  for (const module of graph.modules) {
    const file = pathOf(module.specifier);
    if (file === null) continue;
    for (const dependency of module.dependencies ?? []) {
      const resolution = dependency.code ?? dependency.type;
      imports.push({
        file,
        line: (resolution?.span.start.line ?? 0) + 1,
        specifier: dependency.specifier,
        target: pathOf(resolution?.specifier ?? ""),
      });
    }
  }
  return imports;
}

/** Their imports would be missed. */
export function unreadable(graph: Graph): string[] {
  return graph.modules.filter((module) => module.error !== undefined)
    .map((module) => `${pathOf(module.specifier) ?? module.specifier}: ${module.error}`);
}

async function typescriptFiles(folder: string): Promise<string[]> {
  const files: string[] = [];
  for await (const entry of Deno.readDir(folder)) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory && !entry.name.startsWith(".") && entry.name !== "node_modules") {
      files.push(...await typescriptFiles(path));
    } else if (entry.isFile && /\.tsx?$/.test(entry.name)) {
      files.push(path);
    }
  }
  return files.sort();
}

/** `deno info` takes a single root module. */
async function graphOf(files: readonly string[]): Promise<Graph> {
  const root = await Deno.makeTempFile({ prefix: "rackmesh-layers-", suffix: ".ts" });
  try {
    const urls = files.map((file) => new URL(`file://${encodeURI(file)}`).href);
    await Deno.writeTextFile(root, urls.map((url) => `import "${url}";\n`).join(""));
    const command = new Deno.Command(Deno.execPath(), {
      args: ["info", "--json", "--config", `${ROOT}/deno.json`, root],
      stderr: "inherit",
    });
    const { success, stdout } = await command.output();
    if (!success) throw new Error("Cannot check the layers: `deno info` failed");
    return JSON.parse(new TextDecoder().decode(stdout));
  } finally {
    await Deno.remove(root);
  }
}

/** No entry point or no other file uses them. */
async function deadCode(files: readonly string[], imports: readonly Import[]): Promise<string[]> {
  const targets = new Map(
    imports.map(({ file, specifier, target }) => [`${file} ${specifier}`, target ?? undefined]),
  );
  const modules = await Promise.all(
    files.map(async (path) => namesOf(pathInTree(path), await Deno.readTextFile(path))),
  );
  return deadIn(modules, (specifier, from) => targets.get(`${from} ${specifier}`));
}

async function main(): Promise<number> {
  const files = await typescriptFiles(ROOT);
  const graph = await graphOf(files);
  const imports = importsOf(graph);
  const names: string[] = [];
  for await (const entry of Deno.readDir(ROOT)) names.push(entry.name);
  const lines = [
    ...unreadable(graph),
    ...imports.map(checkImport).filter((breach) => breach !== null)
      .map(({ file, line, found, allowed }) =>
        `${file}:${line}: ${found}; allowed here: ${allowed}`
      ).sort(),
    ...circlesOf(imports).filter((circle) =>
      !CIRCLES.some((known) => circle.every((file) => known.includes(file)))
    ).map((files) => `These files import each other in a circle: ${files.join(", ")}`),
    ...strayNames(names).map((name) => `${name}: not a name of the top level`),
    ...await deadCode(files, imports),
  ];
  for (const line of lines) console.error(line);
  if (lines.length > 0) return 1;
  console.log(`layers: ${imports.length} imports, none out of line`);
  return 0;
}

if (import.meta.main) Deno.exit(await main());
