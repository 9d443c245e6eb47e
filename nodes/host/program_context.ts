/** The argument of a program: its core, its options, and the opened device with its verbs. */
import type { Cpu, Steps, Threads } from "./cpu/program.ts";
import type { OpenDevice } from "./open_device.ts";

/** A program's core, which can start threads on other cores. */
export interface ProgramCpu extends Cpu, Threads<ThreadContext> {
  // A thread of the host's kernel that works for the program: it may go on when the program has
  // ended, and no report of waits names it.
  /** @ignore */
  spawnKernel?(name: string, thread: (context: ThreadContext) => Steps<void>): void;
  // Another process of the program, of this name on the host: its objects end with it.
  /** @ignore */
  spawnProcess?(name: string, process: (context: ThreadContext) => Steps<void>): void;
}

/** The argument of a thread: its own core, and the device bound to it. */
export interface ThreadContext {
  /** The core that the thread runs on. */
  readonly cpu: ProgramCpu;
  /** Opened by the driver at boot, shared by all programs of the host. */
  readonly device: OpenDevice;
}

/** The argument of every program. */
export interface ProgramContext extends ThreadContext {
  /** The keys of its entry in the scenario, as they are written. */
  readonly options: Readonly<Record<string, unknown>>;
}

/**
 * A program: `export default function* (context) { … }` in a user's file.
 *
 * @example A whole program
 * ```ts
 * import type { ProgramContext, Steps } from "rackmesh";
 *
 * export default function* hello({ cpu, options }: ProgramContext): Steps<void> {
 *   yield* cpu.sleep(5_000_000);
 *   cpu.log(`hello from ${cpu.host}`, options);
 *   cpu.report("result", { wokenAtPs: cpu.now });
 * }
 * ```
 */
export type Program = (context: ProgramContext) => Steps<void>;
