/**
 * What runs on a core: a generator over a {@link Cpu}. Each `yield*` is a point at which virtual time
 * may pass; between two of them a program's loads and stores happen at one instant and what they cost
 * is owed, paid at the next yield. A program never touches the world: its input is given to it, its
 * results are reported.
 */
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { TraceStep } from "../../../fabric/node.ts";
import type { Note } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Buffer } from "../memory/address_map.ts";

/** What a program waits for. Made by {@link Cpu}'s generators only; programs `yield*` those. */
export type Wait =
  | { readonly kind: "time"; readonly at: Time }
  | {
    readonly kind: "memory";
    readonly address: number;
    readonly length: number;
    readonly deadline: Time;
  }
  | { readonly kind: "interrupt"; readonly vector: number; readonly deadline: Time }
  | { readonly kind: "reply"; readonly id: number }
  | { readonly kind: "signal"; readonly name: string; readonly deadline: Time }
  | { readonly kind: "any"; readonly sources: readonly Source[]; readonly deadline: Time };

/** One of the things that a program may wait for together with others. */
export type Source =
  | { readonly kind: "memory"; readonly address: number; readonly length: number }
  | { readonly kind: "interrupt"; readonly vector: number }
  | { readonly kind: "signal"; readonly name: string };

/** Why a wait ended. */
export type Wake = { readonly kind: "done" | "timeout"; readonly reply?: RnicReply };

/** A step of a program: yields waits, returns T. */
export type Steps<T> = Generator<Wait, T, Wake>;

/** A core, as the program on it sees it. All addresses are virtual; costs go to this core. */
export interface Cpu {
  /** The instant of this core: now, without what is owed. */
  readonly now: Time;
  readonly host: string;
  /** Name → IPv4 address, of every host in the rack. */
  readonly addresses: Readonly<Record<string, number>>;
  /** A number in [0, 1) of a seeded stream of this program's own. */
  random(): number;

  /** Reads through the LLC; the result is a copy (a view: mind its byteOffset with a DataView). */
  load(address: number, length: number): Uint8Array<ArrayBuffer>;
  /** Writes into the LLC, so it is volatile until flushed or evicted. */
  store(address: number, bytes: Uint8Array): void;
  /** Owes time for computing. */
  charge(ps: Time): void;
  /** Work done for this program so far, what is owed included; polling apart. */
  readonly workPs: Time;
  /** Lets the time pass that is owed. */
  settle(): Steps<void>;

  /** Has the lines of the range written back: they are persistent after the next {@link sfence}. */
  clwb(address: number, length: number): void;
  /**
   * Non-temporal store: past the LLC, into this core's write-combining buffers and from there to memory
   * in any order; persistent after the next {@link sfence}.
   */
  ntstore(address: number, bytes: Uint8Array): void;
  /** Returns when the iMC has accepted what {@link clwb} and {@link ntstore} were told before. */
  sfence(): Steps<void>;
  /** `clwb` of every line of the range, then `sfence`: returns when the iMC has accepted them. */
  flush(address: number, length: number): Steps<void>;
  /** Non-temporal store of the bytes, then `sfence`: past the LLC into the iMC. */
  ntStore(address: number, bytes: Uint8Array): Steps<void>;
  /** Uncached store into the RNIC's BAR: pays what is owed, then the message leaves. */
  registerWrite(offset: number, bytes: Uint8Array<ArrayBuffer>): Steps<void>;
  /** Control path: sends the command and waits for the firmware's answer. */
  command(command: RnicCommand): Steps<RnicReply>;

  sleep(ps: Time): Steps<void>;
  /** Until a DMA write has become visible in the range (spinning: counted as polling, not work). */
  waitMemory(address: number, length: number, deadline: Time): Steps<"changed" | "timeout">;
  /** Until MSI-X `vector` is raised (the core is idle meanwhile). */
  waitInterrupt(vector: number, deadline: Time): Steps<"raised" | "timeout">;
  /** Until another program of this host signals `name`. Signals are not counted: look, then wait. */
  waitSignal(name: string, deadline: Time): Steps<"signaled" | "timeout">;
  signal(name: string): void;
  /**
   * Until the first of several sources; which it was, the program finds by looking. As with the
   * single waits, what happens after the call is not missed, though owed time is paid meanwhile: a
   * program looks, finds nothing, waits. An interrupt is latched from its arm to the next wait for it.
   */
  waitAny(sources: readonly Source[], deadline: Time): Steps<"happened" | "timeout">;

  /** Zeroed DRAM. What was given back is cleared at this core's expense. */
  allocate(bytes: number): Buffer;
  /** The same, on pages that follow each other physically: for rings and queue information. */
  allocateContiguous(bytes: number): Buffer;
  /**
   * Gives either back, by its first address: the next allocation of as many pages of its kind may get
   * them. No region, ring or program may refer to them any more: such a use after free is not detected.
   */
  free(memory: Pick<Buffer, "address">): void;
  /** The host's whole SCM, mapped once; what an earlier life made persistent is in it. */
  readonly scm: Buffer;

  /** Bytes of a file named in the scenario, loaded before the run. Undefined where there is none. */
  input(path: string): Uint8Array | undefined;
  /**
   * Progress or a result, for the caller that started the run. Plain data only, of literals, arrays and bytes.
   * @throws TypeError for what is none (a Map, a class's, a function).
   */
  report(topic: string, value: unknown): void;
  /** True where audit records are kept: ask before building one. */
  readonly noting: boolean;
  /**
   * What this program is about to write into a host's SCM and what it was told of it: the record by
   * which `rack run` judges whether promises were kept (see fabric/audit.ts). Bytes are copied.
   */
  note(note: Note): void;
  readonly tracing: boolean;
  /** A line of the ladder, by this host (see fabric/node.ts TraceStep). */
  trace(step: TraceStep): void;
}

/** What a program's core can do besides: `Context` is what a thread of it is given. */
export interface Threads<Context> {
  /**
   * Starts another thread of this program, now, on the next core in turn. It has a {@link Cpu} of its own;
   * memory and queues are the host's. A thread that fails is a failed program, and its parent goes on.
   * @param name unique among the threads of this program.
   */
  spawn(name: string, thread: (context: Context) => Steps<void>): void;
}

/**
 * The steps that a user's function answered.
 * @param name what the function is, for the message.
 * @throws TypeError where it was no generator function: a plain one, or `async`.
 */
export function stepsOf<T>(answered: Steps<T>, name: string): Steps<T> {
  const { next, [Symbol.iterator]: iterator } = Object(answered) as Partial<Steps<T>>;
  if (typeof next === "function" && typeof iterator === "function") return answered;
  throw new TypeError(
    `${name} must be a generator function, and none that is async: function* (context) { … }`,
  );
}

/** Signals that the host itself gives, and programs may wait for. */
export const SIGNALS = {
  /** The RNIC failed, or came back. */
  busDown: "bus-down",
  busUp: "bus-up",
  /** An asynchronous event of the firmware was handled. */
  rnicEvent: "rnic-event",
} as const;
