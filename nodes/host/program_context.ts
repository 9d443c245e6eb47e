/** What a program is given: its core, its options, and the opened device with all that can be called. */
import type { Cpu, Steps, Threads } from "./cpu/program.ts";
import type { OpenDevice } from "./verbs.ts";

/** A core under a program, which may start threads on others. */
export interface ProgramCpu extends Cpu, Threads<ThreadContext> {}

/** What every program is given. */
export interface ProgramContext {
  readonly cpu: ProgramCpu;
  readonly options: Readonly<Record<string, unknown>>;
  /** Opened by the driver at boot, shared by all programs of the host. */
  readonly device: OpenDevice;
}

/** What a thread is given: its own core, and the device as it sees it. */
export interface ThreadContext {
  readonly cpu: ProgramCpu;
  readonly device: OpenDevice;
}

/** A program: `export default function* (context) { … }` in a user's file. */
export type Program = (context: ProgramContext) => Steps<void>;
