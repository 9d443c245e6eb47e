/**
 * A user's own program as one module without imports. The text is loaded where nothing is allowed,
 * any number of times; see `nodes/host/own_programs.ts`.
 */
import { SHADOWED } from "../../../nodes/host/own_programs.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { fromFileUrl, projectFile, toFileUrl } from "../../base/paths.ts";

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
  /** At the file's first line, the first instance waits for a debugger's user. */
  readonly stops?: boolean | undefined;
}

/**
 * The module text: its default export makes an instance of the program, `Instantiate` of
 * `own_programs.ts`. A source map in it names the user's files, for stacks and debuggers.
 * @throws Refusal where a file cannot be read or parsed, or imports something other than a file.
 */
export async function bundleProgram(
  path: string,
  { stops = false }: BundleOptions = {},
): Promise<string> {
  const { buildSync } = await import("esbuild");
  const contents = await readProgram(path);
  try {
    const { outputFiles } = buildSync({
      // As text: in the path of an entry, esbuild takes `?` and `#` for the beginning of a suffix.
      stdin: {
        contents: stops ? stopping(contents) : contents,
        resolveDir: path.slice(0, path.lastIndexOf("/")) || "/",
        sourcefile: ENTRY,
        loader: path.endsWith(".js") ? "js" : "ts",
      },
      bundle: true,
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
    return moduleText(outputFiles[0]!.text, { path, ...(stops && { contents }) });
  } catch (error) {
    const [first] = (error as { readonly errors?: readonly BundleError[] }).errors ?? [];
    if (first === undefined) throw error;
    throw refusal("", { found: `Cannot load ${path}: ${errorText(first)}`, cause: error });
  }
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
