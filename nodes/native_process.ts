/**
 * The processes of a host's native programs: a folder with pipes for each, and blocking reads and
 * writes on them, so that a program's turn is a call (see `host/native/port.ts`). One of the few files
 * of `nodes/` with I/O.
 */
import { joined, viewOf } from "../fabric/base/slab.ts";
import { ifThere } from "../fabric/files/reading.ts";
import { MESSAGE, MESSAGES } from "./host/native/requests.ts";
import {
  FILE_BYTES,
  LEASE_CHARACTERS,
  LEASE_VARIABLE,
  type NativePort,
  type NativeProcess,
  type NativeStart,
  type NativeThread,
} from "./host/native/port.ts";

/** Bytes of a word of a message. */
const WORD = 8;
/** The kernel's default of a pipe: longer pieces of memory go in several messages. */
const PIECE_BYTES = 1 << 16;
/** Real time that a program has to end after it has let go of its pipes or they of it. */
const END_MS = 5_000;
const KILLED = 128 + 9;
/** Bytes for the paths of a program's folder and library in its environment. */
const PATHS_ROOM = 1_024;

/**
 * `$1` is the program's folder, the rest its command. The first shell has the program's status, and takes with it
 * what the program has started. The second one reads what never comes: where its pipe ends, the host's process has
 * ended, whatever of, and it takes all with it. A parent's death as a signal (`PR_SET_PDEATHSIG`) would miss those
 * that a sandbox has begun and not yet told to die with their parent.
 */
const LAUNCH = `cd "$1" || exit; shift; exec 9<&0
{ read _; kill -KILL 0; } <&9 9<&- &
( exec 9<&- </dev/null >stdout 2>stderr; ulimit -f ${FILE_BYTES / 512}
  exec "$@" 3>requests 4<replies )
echo $? >status; kill -KILL $!; wait $!; kill -KILL 0`;

/** What of this machine starts a program, by the names in the shell's text and below. */
export const NATIVE_COMMANDS = ["sh", "mkfifo", "env"] as const;

export interface NativeOptions {
  /** The preloaded library. */
  readonly library: string;
  /** Each program has a folder in it, by its name. */
  readonly directory: string;
  /** In front of the program's command, as `bwrap` with its arguments; @param folder its own. */
  readonly wrap?: (folder: string) => readonly string[];
}

/** Needs the right to run `sh`, and to read and write `directory`. */
export function createNativePort(options: NativeOptions): NativePort {
  return { start: (start) => new PipedProcess(options, start) };
}

class PipedProcess implements NativeProcess {
  readonly main: Pipes;
  readonly first: Uint8Array<ArrayBuffer> | undefined;
  readonly #folder: string;
  readonly #status: string;
  /** The launcher's number, and that of the session with all of the program's processes. */
  readonly #session: number;
  /** The guard's pipe: its end is the end of all of them. */
  readonly #alive: WritableStream<Uint8Array>;
  readonly #outputs: Record<"stdout" | "stderr", { readonly file: Deno.FsFile; read: number }>;
  readonly #children: Pipes[] = [];
  #code: number | undefined;

  constructor({ library, directory, wrap }: NativeOptions, { name, file, argv, env }: NativeStart) {
    const folder = `${directory}/${name}`;
    Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
    const pipes = ["requests", "replies"].map((pipe) => `${folder}/${pipe}`);
    makePipes(pipes);
    const [typed = "", ...given] = argv;
    // Its working folder is another one than that from which a path was typed.
    const nameAsTyped = typed.includes("/") ? file : typed;
    const home = env["HOME"] ?? folder;
    const variables = Object.entries({
      PATH: "/usr/local/bin:/usr/bin:/bin",
      LANG: "C.UTF-8",
      ...env,
      HOME: home,
      LD_PRELOAD: library,
      RACKMESH_NATIVE: `3,4${spacesBehind(home, library)}`,
      RACKMESH_NAME: nameAsTyped,
      // Of one length, too.
      [LEASE_VARIABLE]: (env[LEASE_VARIABLE] ?? "on").padEnd(LEASE_CHARACTERS),
    }).map(([key, value]) => `${key}=${value}`);
    const command = [...wrap?.(folder) ?? [], "env", "-i", ...variables, file, ...given];
    const child = new Deno.Command("sh", {
      args: ["-c", LAUNCH, "sh", folder, ...command],
      stdin: "piped",
      stdout: "null",
      stderr: "null",
      // A session of its own: Ctrl-C reaches the command, and the end of its pipe the program.
      detached: true,
    }).spawn();
    child.unref();
    this.#alive = child.stdin;
    this.#session = child.pid;
    this.#status = `${folder}/status`;
    this.#folder = folder;
    this.main = new Pipes(pipes[0]!, pipes[1]!);
    const outputOf = (stream: string) => ({
      file: Deno.openSync(`${folder}/${stream}`, { read: true }),
      read: 0,
    });
    this.#outputs = { stdout: outputOf("stdout"), stderr: outputOf("stderr") };
    this.first = this.main.next();
  }

  /** Its parent has made and opened the child's pipes. */
  fork(pid: number): NativeProcess {
    const pipes = ["requests", "replies"].map((pipe) => `${this.#folder}/${pipe}.${pid}`);
    const main = new Pipes(pipes[0]!, pipes[1]!);
    for (const pipe of pipes) Deno.removeSync(pipe);
    this.#children.push(main);
    return {
      main,
      first: undefined,
      output: (stream, bytes) => this.output(stream, bytes),
      fork: (grandchild) => this.fork(grandchild),
      end: () => 0,
      kill: () => main.close(),
    };
  }

  output(stream: "stdout" | "stderr", upTo = Infinity): Uint8Array<ArrayBuffer> {
    const output = this.#outputs[stream], parts: Uint8Array[] = [];
    while (output.read < upTo) {
      const part = new Uint8Array(Math.min(PIECE_BYTES, upTo - output.read));
      const count = output.file.readSync(part);
      if (count === null || count === 0) break;
      output.read += count;
      parts.push(part.subarray(0, count));
    }
    return joined(parts);
  }

  /** A program that goes on without its pipes, by an exec for one, is killed. */
  end(): number {
    if (this.#code !== undefined) return this.#code;
    for (const pipes of [this.main, ...this.#children]) pipes.close();
    const code = this.#awaitStatus();
    if (code === undefined) killSession(this.#session);
    // The guard is gone by now, so that there is nothing to flush.
    this.#alive.close().catch(() => {});
    return this.#code = code ?? KILLED;
  }

  /** Undefined where none comes: the shell writes it when the program has ended. */
  #awaitStatus(): number | undefined {
    const until = performance.now() + END_MS, clock = new Int32Array(new SharedArrayBuffer(4));
    for (let waitMs = 1; performance.now() < until; waitMs = Math.min(2 * waitMs, 20)) {
      const text = ifThere(() => Deno.readTextFileSync(this.#status));
      if (text?.endsWith("\n")) return Number(text);
      Atomics.wait(clock, 0, 0, waitMs);
    }
    return undefined;
  }

  /** It waits for a reply, and the pipe's end kills it: a sandbox may hide its number. */
  kill(): void {
    this.end();
  }
}

/** The two pipes of a process. */
class Pipes implements NativeThread {
  readonly #requests: Deno.FsFile;
  readonly #replies: Deno.FsFile;
  #buffer = new Uint8Array(PIECE_BYTES);
  /** Messages that wait for the next resumption, and their bytes. */
  #out = new Uint8Array(PIECE_BYTES);
  #outUsed = 0;

  /** Waits until the process has opened them. */
  constructor(requests: string, replies: string) {
    this.#requests = Deno.openSync(requests, { read: true });
    this.#replies = Deno.openSync(replies, { write: true });
  }

  resume(reply: Uint8Array, thread = 0): Uint8Array<ArrayBuffer> | undefined {
    return this.#send({ kind: MESSAGES.reply, address: thread }, reply) ? this.next() : undefined;
  }

  read(address: number, length: number): Uint8Array<ArrayBuffer> | undefined {
    const bytes = new Uint8Array(length);
    for (let at = 0; at < length; at += PIECE_BYTES) {
      const piece = Math.min(PIECE_BYTES, length - at);
      const isSent = this.#send({ kind: MESSAGES.read, address: address + at }, undefined, piece);
      const status = isSent ? this.#take(WORD) : undefined;
      // No bytes follow an error.
      if (status === undefined || wordOf(viewOf(status)) !== 0) return undefined;
      const found = this.#take(piece);
      if (found === undefined) return undefined;
      bytes.set(found, at);
    }
    return bytes;
  }

  write(address: number, bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      const piece = bytes.subarray(at, at + PIECE_BYTES);
      this.#put({ kind: MESSAGES.write, address: address + at }, piece.length, piece);
    }
  }

  awaitEnd(real: number): void {
    this.#put({ kind: MESSAGES.ended, address: real }, 0, NO_BYTES);
  }

  close(): void {
    for (const file of [this.#requests, this.#replies]) {
      try {
        file.close();
      } catch (error) {
        if (!(error instanceof Deno.errors.BadResource)) throw error;
      }
    }
  }

  /** @returns whether the program has taken it: false where it has ended. */
  #send(
    message: { readonly kind: number; readonly address: number },
    bytes: Uint8Array = NO_BYTES,
    length = bytes.length,
  ): boolean {
    this.#put(message, length, bytes);
    const all = this.#out.subarray(0, this.#outUsed);
    this.#outUsed = 0;
    try {
      for (let at = 0; at < all.length;) at += this.#replies.writeSync(all.subarray(at));
      return true;
    } catch (error) {
      if (error instanceof Deno.errors.BrokenPipe) return false;
      throw error;
    }
  }

  /** Appends a message to those that go with the next one that has to. */
  #put(
    { kind, address }: { readonly kind: number; readonly address: number },
    length: number,
    bytes: Uint8Array,
  ): void {
    const from = this.#outUsed, end = from + MESSAGE.length * WORD + bytes.length;
    if (end > this.#out.length) this.#out = grown(this.#out, end);
    const view = viewOf(this.#out);
    putWord(view, from + PLACES.kind, kind);
    putWord(view, from + PLACES.length, length);
    putWord(view, from + PLACES.address, address);
    this.#out.set(bytes, from + MESSAGE.length * WORD);
    this.#outUsed = end;
  }

  /** The next request; undefined where the process has ended. */
  next(): Uint8Array<ArrayBuffer> | undefined {
    const first = this.#read(this.#buffer);
    if (first === 0) return undefined;
    let have = first;
    const length = () => wordOf(viewOf(this.#buffer));
    while (have < WORD || have < length()) {
      if (have >= WORD && length() > this.#buffer.length) {
        this.#buffer = grown(this.#buffer, length());
      }
      const count = this.#read(this.#buffer.subarray(have));
      if (count === 0) return undefined;
      have += count;
    }
    return this.#buffer.subarray(0, length());
  }

  #take(length: number): Uint8Array<ArrayBuffer> | undefined {
    const bytes = new Uint8Array(length);
    for (let have = 0; have < length;) {
      const count = this.#read(bytes.subarray(have));
      if (count === 0) return undefined;
      have += count;
    }
    return bytes;
  }

  #read(target: Uint8Array): number {
    return this.#requests.readSync(target) ?? 0;
  }
}

/**
 * The environment lies above the stack, whose addresses peers may be told: with these behind the paths it
 * is of one length, whatever folder a run has.
 */
function spacesBehind(...paths: readonly string[]): string {
  const bytes = paths.reduce((sum, path) => sum + new TextEncoder().encode(path).length, 0);
  return " ".repeat(PATHS_ROOM - bytes % PATHS_ROOM);
}

/** Where a message's words stand. */
const PLACES = Object.fromEntries(MESSAGE.map((name, i) => [name, i * WORD])) as Readonly<
  Record<typeof MESSAGE[number], number>
>;
const NO_BYTES = new Uint8Array(0);

/** A word below 2^53. */
function putWord(view: DataView, at: number, word: number): void {
  view.setUint32(at, word % 2 ** 32, true);
  view.setUint32(at + 4, word / 2 ** 32, true);
}

function wordOf(view: DataView): number {
  return view.getUint32(4, true) * 2 ** 32 + view.getUint32(0, true);
}

/** A larger buffer with the same bytes. */
function grown(buffer: Uint8Array<ArrayBuffer>, least: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(2 ** Math.ceil(Math.log2(least)));
  larger.set(buffer);
  return larger;
}

/** By the shell, the only command that this process may run. @throws Error with what it said. */
function makePipes(paths: readonly string[]): void {
  const args = ["-c", 'mkfifo -m 600 "$@"', "sh", ...paths];
  const { success, stderr } = new Deno.Command("sh", { args }).outputSync();
  if (!success) throw new Error(`mkfifo: ${new TextDecoder().decode(stderr).trim()}`);
}

/** With the launcher, and all that it has started. */
function killSession(session: number): void {
  const args = ["-c", 'kill -KILL -- "-$1"', "sh", `${session}`];
  new Deno.Command("sh", { args, stdout: "null", stderr: "null" }).outputSync();
}
