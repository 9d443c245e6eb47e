/**
 * A user's own program as one module without imports. The text is loaded where nothing is allowed,
 * any number of times; see `nodes/host/own_programs.ts`.
 */
import { resolve } from "node:path";
import { SHADOWED } from "../../../nodes/host/own_programs.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { fromFileUrl, projectFile, ROOT, toFileUrl } from "../../base/paths.ts";
import { isBelow, outside, type Reach, refuseSecret } from "../../scenarios/read_door.ts";

interface BundleError {
  readonly text: string;
  readonly location: {
    readonly file: string;
    readonly line: number;
    readonly column: number;
  } | null;
}

/** esbuild would turn `\\` in the program's path into `/`. */
const ENTRY = "own-program";
const MAP_MARK = "//# sourceMappingURL=data:application/json;base64,";

/** The first instance of a program stops a debugger. */
const IS_FIRST = "rackmeshIsFirst$";
const STOP = `if (${IS_FIRST}) { ${IS_FIRST} = false; debugger; } `;

export interface BundleOptions {
  /** What the program may import besides this clone's public modules. */
  readonly reach: Reach;
  /** At the file's first line, the first instance waits for a debugger's user. */
  readonly stops?: boolean | undefined;
}

/**
 * The module text: its default export makes an instance of the program, `Instantiate` of
 * `own_programs.ts`. A source map in it names the user's files, for stacks and debuggers.
 * @throws Refusal where a file cannot be read or parsed, imports something other than a file, or one
 * that the scenario may not read.
 */
export async function bundleProgram(
  path: string,
  { stops = false, reach }: BundleOptions,
): Promise<string> {
  const { buildSync } = await import("esbuild");
  const contents = await readProgram(path);
  try {
    const { outputFiles, metafile } = buildSync({
      // As text: in the path of an entry, esbuild takes `?` and `#` for the beginning of a suffix.
      stdin: {
        contents: stops ? stopping(contents) : contents,
        resolveDir: path.slice(0, path.lastIndexOf("/")) || "/",
        sourcefile: ENTRY,
        loader: path.endsWith(".js") ? "js" : "ts",
      },
      bundle: true,
      metafile: true,
      // A protocol imports this module by name, wherever its file is.
      alias: { rackmesh: fromFileUrl(projectFile("nodes/protocol.ts")) },
      write: false,
      format: "cjs",
      platform: "neutral",
      target: "esnext",
      // An async function, or import(), becomes one that uses Promise, which programs may not use.
      supported: {
        "async-await": false,
        "async-generator": false,
        "for-await": false,
        "dynamic-import": false,
      },
      sourcemap: "inline",
      sourcesContent: stops,
      charset: "utf8",
      absWorkingDir: "/",
      outfile: "/program.js",
      tsconfigRaw: "{}",
      logLevel: "silent",
    });
    const imported = Object.keys(metafile.inputs).filter((file) => !isEntry(file)).map(absolute);
    for (const file of imported) refuseOutside(file, { path, reach });
    for (const file of imported) if (!isOurs(file)) reach.onRead?.(file);
    return moduleText(outputFiles[0]!.text, { path, ...(stops && { contents }) });
  } catch (error) {
    const [first] = (error as { readonly errors?: readonly BundleError[] }).errors ?? [];
    if (first === undefined) throw error;
    // What is wrong in a file says what is in it, and what cannot be found, what is not there.
    refuseMistaken(first, { path, reach });
    throw refusal("", { found: `Cannot load ${path}: ${errorText(first)}`, cause: error });
  }
}

function isOurs(file: string): boolean {
  return ["nodes", "fabric"].some((folder) => file.startsWith(`${ROOT}/${folder}/`));
}

interface Importer {
  readonly path: string;
  readonly reach: Reach;
}

function refuseOutside(file: string, { path, reach }: Importer): void {
  if (!isOurs(file) && !isBelow(file, reach)) throw outside(file, reach, `An import of ${path}`);
  refuseSecret(file, `An import of ${path}`);
}

function refuseMistaken({ text, location }: BundleError, importer: Importer): void {
  if (location !== null && !isEntry(location.file)) {
    refuseOutside(absolute(location.file), importer);
  }
  const wanted =
    /^(?:Could not resolve|No loader is configured for .* files:|Cannot read file) "?([^"]+)"?/
      .exec(text)?.[1];
  if (wanted === undefined || !/^[./]/.test(wanted)) return;
  const from = location === null || isEntry(location.file)
    ? importer.path
    : absolute(location.file);
  refuseOutside(resolve(from, "..", wanted), importer);
}

async function readProgram(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    throw refusal("", { found: `Cannot load ${path}: ${(cause as Error).message}`, cause });
  }
}

function errorText({ text, location }: BundleError): string {
  const why = /^Top-level await/.test(text)
    ? "found await at its top level, where no virtual time passes"
    : text;
  if (location === null) return why;
  const { file, line, column } = location;
  const place = `${line}:${column + 1}`;
  return `${why} at ${isEntry(file) ? place : `${absolute(file)}:${place}`}`;
}

function isEntry(file: string): boolean {
  return absolute(file).endsWith(`/${ENTRY}`);
}

function absolute(file: string): string {
  return `/${file.replace(/^\/+/, "")}`;
}

/** On the first line, so that all others keep their numbers. */
function stopping(contents: string): string {
  const at = contents.startsWith("#!") ? contents.indexOf("\n") + 1 : 0;
  return contents.slice(0, at) + STOP + contents.slice(at);
}

/**
 * All of the function begins on the first line, so that the map holds.
 * @param entry.contents the user's file, where the map has the contents of files.
 */
function moduleText(
  bundled: string,
  { path, contents }: { readonly path: string; readonly contents?: string },
): string {
  const at = bundled.lastIndexOf(MAP_MARK);
  const map = JSON.parse(
    new TextDecoder().decode(Uint8Array.fromBase64(bundled.slice(at + MAP_MARK.length).trim())),
  ) as { sources: string[]; sourcesContent?: (string | null)[] };
  // They are relative to the root, and percent-encoded.
  const sources = map.sources.map((source) =>
    isEntry(source) ? toFileUrl(path).href : new URL(source, "file:///").href
  );
  const sourcesContent = contents === undefined ? undefined : map.sourcesContent
    ?.map((text, i) => isEntry(map.sources[i]!) ? contents : text);
  const shown = { ...map, sources, ...(sourcesContent && { sourcesContent }) };
  const encoded = new TextEncoder().encode(JSON.stringify(shown)).toBase64();
  // The inner block lets the program declare what it may not use.
  const isFirst = contents === undefined ? "" : `let ${IS_FIRST} = true;`;
  const head = `${isFirst}export default function instance(module, exports, { ${
    SHADOWED.join(", ")
  } }) {{`;
  return `${head}${bundled.slice(0, at)}}}\n${MAP_MARK}${encoded}\n`;
}
