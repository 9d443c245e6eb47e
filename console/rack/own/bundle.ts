/**
 * A user's own program as one module without imports: its file with all that it imports. The text
 * is loaded where nothing is allowed, any number of times; see `nodes/host/own_programs.ts`.
 */
import { SHADOWED } from "../../../nodes/host/own_programs.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { PROBE_BEGINS } from "./frames.ts";
import { PATIENCE_MS } from "../../../fabric/base/patience.ts";
import { isAsleep, processorMs } from "../../base/process_stat.ts";
import { RackError } from "../../base/rack_error.ts";
import { fromFileUrl, projectFile, toFileUrl } from "../../base/paths.ts";
import { v8Flags } from "../../base/v8_flags.ts";

/** The fields of an error of esbuild that are used here. */
interface BundleError {
  readonly text: string;
  readonly location: {
    readonly file: string;
    readonly line: number;
    readonly column: number;
  } | null;
}

/** Stands for the program's own file, in whose path esbuild would turn `\\` into `/`. */
const ENTRY = "own-program";
const MAP_MARK = "//# sourceMappingURL=data:application/json;base64,";

/** Whether the first instance of a program stops a debugger; name of a variable of the module. */
const IS_FIRST = "rackmeshIsFirst$";
const STOP = `if (${IS_FIRST}) { ${IS_FIRST} = false; debugger; } `;

export interface BundleOptions {
  /** The first instance stops at the file's first line, where a debugger has attached. */
  readonly stops?: boolean | undefined;
}

/**
 * The module text: its default export makes an instance of the program, `Instantiate` of
 * `own_programs.ts`. A source map in it names the user's files, for stacks and debuggers.
 * @throws Refusal where a file cannot be read or parsed, or imports what is not a file.
 */
export async function bundleProgram(
  path: string,
  { stops = false }: BundleOptions = {},
): Promise<string> {
  // Loaded for own programs only.
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
      // What a protocol imports by name, wherever its file is.
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

export interface FindOptions extends BundleOptions {
  /** Gives up trying the program. */
  readonly signal?: AbortSignal | undefined;
}

/** How much processor time the top level of a program may take, in ms. */
const TOP_LEVEL_MS = 10_000;
const LOOK_MS = 100;

/** What is known of a program that has been tried. */
export interface Probed {
  /** Why it cannot be loaded. */
  readonly why?: string;
  /** Whether it exports `recover` or `check`. */
  readonly isHooked: boolean;
}

/**
 * Makes one instance of a bundled program, in a process without any right.
 * @param options.processorMs what the program's top level may use of a processor.
 * @throws Refusal where that fails, the top level has used so much, or it waits: its process has slept for half of the
 *   patience, or longer, when that ends. RackError where the process does not answer though it is ready to go on: then
 *   the machine, not the program, holds it up. The signal's reason.
 */
export async function probeProgram(
  text: string,
  { path, processorMs: mostMs = TOP_LEVEL_MS, patienceMs = PATIENCE_MS, onStart, signal }: {
    readonly path: string;
    readonly processorMs?: number;
    /** In wall ms. */
    readonly patienceMs?: number;
    /** Told the process: a test stops it. */
    readonly onStart?: (pid: number) => void;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<Probed> {
  signal?.throwIfAborted();
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "--no-prompt", "--cached-only", "--deny-import"],
      v8Flags(),
      ...["--config", fromFileUrl(projectFile("deno.json"))],
      fromFileUrl(projectFile("console/rack/own/probe_main.ts")),
    ],
    stdin: "piped",
    stdout: "piped",
    // What the top level prints is shown when the program runs.
    stderr: "piped",
  }).spawn();
  onStart?.(child.pid);
  const input = new Blob([text]).stream().pipeTo(child.stdin).catch(() => {});
  const errors = new Response(child.stderr).text();
  let said = "", begunAtMs: number | undefined;
  let late: "program" | "asleep" | "process" | "aborted" | undefined;
  // Looks in a row that found it asleep: one alone, on a busy machine, may find it waiting for a thread of its own.
  let sleptLooks = 0;
  let deadline = performance.now() + patienceMs;
  const watch = setInterval(() => {
    const usedMs = processorMs(child.pid);
    sleptLooks = begunAtMs !== undefined && isAsleep(child.pid) ? sleptLooks + 1 : 0;
    if (signal?.aborted) late = "aborted";
    else if (begunAtMs !== undefined && usedMs !== undefined && usedMs - begunAtMs > mostMs) {
      late = "program";
    } else if (performance.now() > deadline) {
      if (sleptLooks * LOOK_MS >= patienceMs / 2) late = "asleep";
      else if (sleptLooks === 0) late = "process";
    }
    if (late === undefined) return;
    clearInterval(watch);
    child.kill("SIGKILL");
  }, LOOK_MS);
  try {
    for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) {
      said += part;
      if (begunAtMs !== undefined || !said.startsWith(PROBE_BEGINS)) continue;
      begunAtMs = processorMs(child.pid);
      deadline = performance.now() + patienceMs;
    }
  } finally {
    clearInterval(watch);
  }
  const { success, code } = await child.status;
  await input;
  const printed = (await errors).trim();
  // Ctrl-C in a terminal ends the child too.
  if (late === "aborted" || (!success && signal?.aborted)) throw signal!.reason;
  if (late === "process") {
    const found = `Found that the process that loads ${path} has not answered for ` +
      `${patienceMs / 1_000} s, in which its program used no more of a processor than it may`;
    throw new RackError(`${found}: expected an answer; the machine is stopped or overloaded`);
  }
  const ended = late === "program"
    ? `its top level has not ended after ${mostMs / 1_000} s of processor time`
    : late === "asleep"
    ? `its top level waits: it has not ended after ${patienceMs / 1_000} s, in which it slept`
    : `its process ends with code ${code}: ${printed}`;
  const probed: Probed = success && late === undefined
    ? JSON.parse(said.slice(PROBE_BEGINS.length))
    : { why: ended, isHooked: false };
  const { why } = probed;
  if (why !== undefined) throw refusal("", { found: `Cannot load ${path}: ${why}` });
  return probed;
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

/** A path as esbuild writes it, relative to the root. */
function absolute(file: string): string {
  return `/${file.replace(/^\/+/, "")}`;
}

/** On the first line, so that all others keep their numbers. */
function stopping(contents: string): string {
  const at = contents.startsWith("#!") ? contents.indexOf("\n") + 1 : 0;
  return contents.slice(0, at) + STOP + contents.slice(at);
}

/**
 * Wraps the program into a function; all of it begins on the first line, so that the map holds.
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
