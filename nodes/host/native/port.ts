/** The host's way to the processes of its native programs; `nodes/native_process.ts` has the pipes. */

/** The largest file that a program can write, its output's among them: SIGXFSZ ends it. */
export const FILE_BYTES = 1 << 28;

/**
 * What the library answers itself, for comparisons: `on`, all that its leases allow; `off`, nothing; or the seed
 * of a run that is nearly `off`, for programs that read clocks millions of times (`lib/channel.c`).
 */
export const LEASE_VARIABLE = "RACKMESH_LEASE";
/** Of one length in each run: what precedes it on the stack has equal addresses then. */
export const LEASE_CHARACTERS = 5;

export function isLease(text: string): boolean {
  return /^(on|off|\d+)$/.test(text) && text.length <= LEASE_CHARACTERS;
}

/** What starts a native program. */
export interface NativeStart {
  /** The program's name on its host and in its life: names its working folder. */
  readonly name: string;
  /** The file as the scenario's run found it, and its command in the scenario: a name, and the arguments. */
  readonly file: string;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/**
 * A thread of a native program. It runs from a reply to its next request; while it waits for a reply it
 * serves accesses to the memory of its process.
 */
export interface NativeThread {
  /**
   * Sends a reply and waits, in real time, for the next request: a view that is valid until the next
   * call. Undefined where the program has ended: see {@link NativeProcess.end}.
   * @param thread its number: 0, which is the first one's, by default.
   */
  resume(reply: Uint8Array, thread?: number): Uint8Array<ArrayBuffer> | undefined;
  /** Bytes at an address of the process; undefined where it has no memory there. */
  read(address: number, length: number): Uint8Array<ArrayBuffer> | undefined;
  /** They are there before the thread runs on, and before the next {@link read}. */
  write(address: number, bytes: Uint8Array): void;
  /**
   * Another process of the program ends: the thread runs on when the machine has released its
   * descriptors, at which this one may look.
   * @param real its number at the machine.
   */
  awaitEnd(real: number): void;
}

export interface NativeProcess {
  readonly main: NativeThread;
  /** The first request of its main thread; undefined where it has ended before one. */
  readonly first: Uint8Array<ArrayBuffer> | undefined;
  /** New bytes of its standard output or error, up to `bytes` in all so far; to the end without it. */
  output(stream: "stdout" | "stderr", bytes?: number): Uint8Array<ArrayBuffer>;
  /**
   * Its child of this number, which has its pipes already; its output is its parent's. Absent: there are
   * no children.
   */
  fork?(pid: number): NativeProcess;
  /** How it has ended: waits for it. A code of 128 and more: by that signal. */
  end(): number;
  /** With its children. */
  kill(): void;
}

export interface NativePort {
  /** @throws Error where the process cannot be started, with the reason. */
  start(options: NativeStart): NativeProcess;
}
