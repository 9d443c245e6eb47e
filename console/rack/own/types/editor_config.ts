/**
 * How `deno check` sees a program: by the `deno.json` above it, as an editor does, but with the doors of
 * this clone, which is what runs it.
 */
import { refusal } from "../../../../fabric/rack/plan/problem.ts";
import { textIfThere, writeWhole } from "../../../base/files.ts";
import { cacheFolder, projectFile, toFileUrl } from "../../../base/paths.ts";
import { digestOf } from "./check_cache.ts";

export interface EditorConfig {
  /** Two programs with the same id are seen alike. */
  readonly id: string;
  /** The configuration's file, where there is one. */
  readonly path: string | undefined;
  /** Flags of `deno check` and `deno info`. */
  readonly flags: readonly string[];
  /** Writes a configuration with this plugin and its only rule: its path. */
  writeRules(plugin: string, rule: string): Promise<string>;
}

type Names = Readonly<Record<string, string>>;

interface ImportMap {
  readonly imports?: Names;
  readonly scopes?: Readonly<Record<string, Names>>;
}

interface Config extends ImportMap {
  readonly importMap?: string;
}

/** @throws Refusal where the `deno.json` cannot be read. */
export async function configFor(program: string): Promise<EditorConfig> {
  const path = configAbove(program);
  const text = path === undefined ? "" : textIfThere(path) ?? "";
  const map = JSON.stringify(await importMapOf(path, text));
  const id = await digestOf([path ?? "", text, map]);
  const folder = cacheFolder("types");
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const mapPath = `${folder}/imports-${await digestOf([map])}.json`;
  if (textIfThere(mapPath) !== map) writeWhole(mapPath, map);
  return {
    id,
    path,
    flags: [
      "--no-lock",
      "--no-remote",
      "--node-modules-dir=none",
      ...(path === undefined ? ["--no-config"] : ["--config", path]),
      ...["--import-map", mapPath],
    ],
    async writeRules(plugin, rule) {
      const name = await digestOf([plugin, rule]);
      const file = `${folder}/rules-${name}`;
      writeWhole(`${file}.ts`, plugin);
      const lint = { plugins: [`./rules-${name}.ts`], rules: { tags: [], include: [rule] } };
      writeWhole(`${file}.json`, JSON.stringify({ lint }));
      return `${file}.json`;
    },
  };
}

/** The nearest `deno.json` or `deno.jsonc` above a file. */
function configAbove(file: string): string | undefined {
  for (let folder = file; folder !== "";) {
    folder = folder.slice(0, folder.lastIndexOf("/"));
    for (const name of ["deno.json", "deno.jsonc"]) {
      if (textIfThere(`${folder}/${name}`) !== undefined) return `${folder}/${name}`;
    }
  }
  return undefined;
}

/** The names of the user's configuration, and over them the doors of this clone. */
async function importMapOf(path: string | undefined, text: string): Promise<ImportMap> {
  const own = path === undefined ? {} : await namesIn(path, text);
  const clone = projectFile("deno.json");
  const { imports = {} } = absolute(JSON.parse(await Deno.readTextFile(clone)), clone);
  const doors = Object.entries(imports).filter(([name]) => /^rackmesh(\/|$)/.test(name));
  return {
    imports: { ...own.imports, ...Object.fromEntries(doors) },
    scopes: { ...own.scopes, [projectFile("").href]: imports },
  };
}

async function namesIn(path: string, text: string): Promise<ImportMap> {
  const config = await jsonc(text, path) as Config;
  if (config.importMap === undefined) return absolute(config, toFileUrl(path));
  const place = new URL(config.importMap, toFileUrl(path));
  const map = textIfThere(decodeURIComponent(place.pathname));
  return map === undefined ? {} : absolute(await jsonc(map, place.pathname) as ImportMap, place);
}

/** JSON with comments and trailing commas. @throws Refusal */
async function jsonc(text: string, path: string): Promise<unknown> {
  try {
    return JSON.parse(text);
  } catch {
    // It has comments, or trailing commas.
  }
  const { transformSync } = await import("esbuild");
  try {
    // As it prints it, an object has its keys' quotes, and neither comments nor trailing commas.
    const { code } = transformSync(`(${text}\n)`, {
      minifyWhitespace: true,
      charset: "utf8",
      logLevel: "silent",
    });
    return JSON.parse(code.trim().replace(/^\(/, "").replace(/\);?$/, ""));
  } catch (cause) {
    throw refusal("", { found: `Cannot read ${path}`, expected: "JSON with comments", cause });
  }
}

function absolute({ imports = {}, scopes = {} }: ImportMap, base: URL): ImportMap {
  const names = (map: Names) =>
    Object.fromEntries(
      Object.entries(map).map(([name, place]) =>
        [name, /^\.{0,2}\//.test(place) ? new URL(place, base).href : place] as const
      ),
    );
  return {
    imports: names(imports),
    scopes: Object.fromEntries(
      Object.entries(scopes).map(([scope, map]) =>
        [new URL(scope, base).href, names(map)] as const
      ),
    ),
  };
}
