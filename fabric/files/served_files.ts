/**
 * Files of one machine that others may read over the bus (`file_service.ts`): of a folder, and of a
 * run's plan. I/O.
 */
import { createHash } from "node:crypto";
import { nodesOf, planFor, type RunFile } from "../rack/assembly/run_file.ts";
import { sleep } from "../bus/wall_time.ts";
import { ifThere, readInto } from "./reading.ts";

/** `name`: a path with `/`, below the folder. */
export interface ServedFile {
  readonly name: string;
  readonly bytes: number;
  /** Wall time of this machine: another value is another content. */
  readonly changedMs: number;
}

export interface OpenFile extends Disposable {
  readonly bytes: number;
  /** Fills the buffer from a byte on; less at the end only. */
  readAt(at: number, buffer: Uint8Array): number;
}

export interface FileSet {
  /** In the order of names ({@link byName}), by which a reader asks for those after one. */
  list(): ServedFile[];
  /** Undefined where there is none of that name. */
  open(name: string): OpenFile | undefined;
}

/**
 * What is below some parts of a folder, and nothing else of it: a run's folder has credentials, too.
 * @param parts files, and folders with all that is below them.
 */
export function filesIn(directory: string, parts: readonly string[]): FileSet {
  return {
    list: () => parts.flatMap((part) => listed(directory, part)).sort(byName),
    open(name) {
      const isServed = parts.some((part) => name === part || name.startsWith(`${part}/`));
      const path = `${directory}/${name}`;
      return isServed && isBelow(name) && !hasLink(directory, name) ? openFile(path) : undefined;
    },
  };
}

/** A link may lead out of the folder. */
function hasLink(directory: string, name: string): boolean {
  const [real, folder] = [`${directory}/${name}`, directory]
    .map((path) => ifThere(() => Deno.realPathSync(path)));
  return real !== undefined && real !== `${folder}/${name}`;
}

/** Whether the path names something below a folder. */
export function isBelow(name: string): boolean {
  return name.split("/").every((word) => word !== "" && word !== "." && word !== "..");
}

/** Among the files of a plan: the run file for all, and the inputs and programs of one user. */
export const PLAN_FILE = "run.json", OWN_FILE = "own.json";

/** In {@link OWN_FILE}: the run file's, with names of files of the plan as paths of inputs. */
export type OwnPart = Pick<RunFile, "inputs" | "programs">;

/**
 * What the processes of a user (`access.ts`) start from. A device gets its own inputs and programs,
 * others get all.
 */
export function filesOfPlan(runFile: RunFile): (user: string) => FileSet {
  // Two megabytes where the rack is large, for hundreds of users.
  let common: Uint8Array | undefined;
  const commonText = () => {
    const none = { directory: "", inputs: {}, programs: {} };
    return common ??= new TextEncoder().encode(JSON.stringify({ ...runFile, ...none }));
  };
  return (user) => {
    const nodes = nodesOf(runFile, user);
    const own = nodes === undefined ? runFile : planFor(runFile, nodes);
    const places = new Map<string, string>();
    const inputs = Object.fromEntries(
      Object.entries(own.inputs).map(([host, files]) => [
        host,
        Object.fromEntries(
          Object.entries(files).map(([name, path], i) => {
            const place = `inputs/${host}/${i}`;
            places.set(place, path);
            return [name, place];
          }),
        ),
      ]),
    );
    const part: OwnPart = { inputs, programs: own.programs };
    const texts: Readonly<Record<string, () => Uint8Array>> = {
      [OWN_FILE]: () => new TextEncoder().encode(JSON.stringify(part)),
      [PLAN_FILE]: commonText,
    };
    return {
      list: () =>
        [
          ...[...places].flatMap(([name, path]) => statOf(path, name)),
          ...Object.entries(texts).map(([name, text]) => {
            return { name, bytes: text().length, changedMs: 0 };
          }),
        ].sort(byName),
      open(name) {
        const text = Object.hasOwn(texts, name) ? texts[name]!() : undefined;
        if (text !== undefined) return inMemory(text);
        const path = places.get(name);
        return path === undefined ? undefined : openFile(path);
      },
    };
  };
}

function inMemory(text: Uint8Array): OpenFile {
  return {
    bytes: text.length,
    readAt(at, buffer) {
      const part = text.subarray(at, at + buffer.length);
      buffer.set(part);
      return part.length;
    },
    [Symbol.dispose]: () => {},
  };
}

function byName(one: ServedFile, other: ServedFile): number {
  return one.name < other.name ? -1 : 1;
}

function listed(directory: string, name: string): ServedFile[] {
  const path = `${directory}/${name}`;
  const entries = ifThere(() => [...Deno.readDirSync(path)]);
  if (entries === undefined) return statOf(path, name, Deno.lstatSync);
  return entries.flatMap((entry) =>
    entry.isSymlink ? [] : listed(directory, `${name}/${entry.name}`)
  );
}

function statOf(
  path: string,
  name: string,
  look: (path: string) => Deno.FileInfo = Deno.statSync,
): ServedFile[] {
  const stat = ifThere(() => look(path));
  if (stat === undefined || !stat.isFile) return [];
  return [{ name, bytes: stat.size, changedMs: stat.mtime?.getTime() ?? 0 }];
}

/** Undefined where there is none. */
export function openFile(path: string): OpenFile | undefined {
  const stat = ifThere(() => Deno.statSync(path));
  if (stat === undefined || !stat.isFile) return undefined;
  const file = ifThere(() => Deno.openSync(path));
  if (file === undefined) return undefined;
  return {
    bytes: file.statSync().size,
    readAt(at, buffer) {
      file.seekSync(at, Deno.SeekMode.Start);
      return readInto(file, buffer);
    },
    [Symbol.dispose]: () => file.close(),
  };
}

const HASH_STEP_BYTES = 4 << 20;

/**
 * SHA-256 of a file's first bytes, in hexadecimal digits; undefined where it has fewer. Other work
 * of the process goes on meanwhile.
 */
export async function hashOf(file: OpenFile, bytes: number): Promise<string | undefined> {
  const hash = createHash("sha256"), buffer = new Uint8Array(Math.min(bytes, HASH_STEP_BYTES));
  for (let at = 0; at < bytes;) {
    const part = buffer.subarray(0, Math.min(buffer.length, bytes - at));
    const length = file.readAt(at, part);
    if (length < part.length) return undefined;
    hash.update(part);
    at += length;
    await sleep(0);
  }
  return hash.digest("hex");
}
