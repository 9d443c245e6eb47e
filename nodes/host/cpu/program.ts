/**
 * Code on a core: a generator over a {@link Cpu}. Virtual time may pass at each `yield*`; between
 * two of them loads and stores happen at one instant, and their cost is paid at the next yield. A
 * program does no I/O: its inputs are arguments, its results are reports.
 */
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { TraceStep } from "../../../fabric/node.ts";
import type { AuditRecord } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Buffer } from "../memory/address_map.ts";
import type { ForeignPages } from "../memory/foreign_pages.ts";
import type { DemandPaging } from "./demand_paging.ts";
import type { Poll, Rounds } from "./spin.ts";

/** A program's wait. Created by {@link Cpu}'s generators only; programs `yield*` those. */
export type Wait =
  & (
    | { readonly kind: "time"; readonly at: Time }
    | { readonly kind: "reply"; readonly id: number }
    | { readonly kind: "load"; readonly id: number; readonly length: number }
    | { readonly kind: "line"; readonly id: number }
    | { readonly kind: "spin"; readonly address: number } & Rounds
    | { readonly kind: "any"; readonly sources: readonly Source[]; readonly deadline: Time }
  )
  & {
    /** The generator that yields it answers a {@link Probe}, and waits on. */
    readonly answers?: true;
  };

/** An event that a program can wait for. */
export type Source =
  | { readonly kind: "memory"; readonly address: number; readonly length: number }
  | { readonly kind: "interrupt"; readonly vector: number }
  | { readonly kind: "signal"; readonly name: string };

/** Why a wait ended; or the wait goes on, and a {@link Probe} asks for its place. */
export type Wake = Ended | Probe;

interface Ended {
  readonly kind: "done" | "timeout";
  readonly reply?: RnicReply;
  readonly data?: Uint8Array<ArrayBuffer>;
}

/** See `wait_site.ts`. */
export interface Probe {
  readonly kind: "probe";
  stack?: string | undefined;
}

/** A program or a part of one: yields waits, returns T. */
export type Steps<T> = Generator<Wait, T, Wake>;

/** An operation of a program that has ended, for the figures of its host. */
export interface Measurement {
  /** `put`, `get` …; own programs name theirs. */
  readonly operation: string;
  /** A name for a group of figures. */
  readonly method: string;
  /** Length of a message, where each size has its own figures, as in perftest. */
  readonly bytes?: number;
  /** Latency in ps. */
  readonly latencyPs: Time;
  /** Bytes that are promised to persist from now on. */
  readonly promisedBytes?: number;
}

/** A host's door for a program that runs outside of virtual time: see `native/serve.ts`. */
export interface Outside {
  /**
   * Nothing but the caller acts on the host before: depends on the packing.
   * @param of `writes`: the card's reads of a process's memory do not count.
   */
  quietUntil(of: "reads" | "writes"): Time;
  /** No other thread of the host is on the caller's core. */
  isAlone(): boolean;
  /** The program does more in this step than look at its clock or at an empty queue. */
  acted(): void;
  /** Throws into a thread of a program where it waits. @returns false where it has ended. */
  interrupt(program: string, error: Error): boolean;
  /** Pages of the host whose content is a process's memory. */
  readonly foreign: ForeignPages;
  /** The newest bytes at a physical address; without cost and effect. */
  peek(physical: number, length: number): Uint8Array;
  /** @throws AddressFault where no memory is mapped. */
  physical(address: number): number;
  /** Whether a load there hits the cache. */
  isCached(physical: number): boolean;
}

/** A program's view of its core. All addresses are virtual; costs are charged to this core. */
export interface Cpu {
  /** The core's time: now, without owed time. */
  readonly now: Time;
  /** Name of the host. */
  readonly host: string;
  /** The name of this program and its number on the host, and of its thread. */
  readonly program: string;
  /** IPv4 address of every host in the rack, by name. */
  readonly addresses: Readonly<Record<string, number>>;
  /** A number in [0, 1) from this program's own seeded stream. */
  random(): number;

  /** Reads through the LLC; the result is a copy (a view: a DataView needs its byteOffset). */
  load(address: number, length: number): Uint8Array<ArrayBuffer>;
  /**
   * {@link load}, also of the card's memory: there it is an MMIO read, for whose answer the core
   * waits. It reads all ones where the card has no power.
   */
  read(address: number, length: number): Steps<Uint8Array<ArrayBuffer>>;
  /**
   * Writes into the LLC: volatile until flushed or evicted. Into the card's memory it is a posted
   * MMIO write: where the card refuses it, the error is thrown into the program when the answer
   * arrives.
   */
  store(address: number, bytes: Uint8Array): void;
  /** Adds computing time to the owed time. */
  charge(ps: Time): void;
  /** Work of this program so far, with owed time, without polling. */
  readonly workPs: Time;
  /** Time that this core owes, in ps: it passes at the next `yield*` that lets time pass. */
  readonly owedPs: Time;
  /** Lets the owed time pass. */
  settle(): Steps<void>;
  // `settle` after a poll of a completion queue; after many empty ones, also for those that follow.
  /** @ignore */
  polled?(poll: Poll): Steps<void>;

  /** What a native program needs of its host. @ignore */
  readonly outside?: Outside;

  /**
   * A region that hosts share, by its name in the scenario; it is registered at its first use
   * (C-03).
   * @throws RegionRefused where this host has no such region.
   */
  region(name: string): Steps<Region>;

  // Memory on demand: see `verbs/memory_region.ts`; absent without.
  /** @ignore */
  readonly paging?: DemandPaging;

  /** Starts the write-back of the range's lines: persistent after the next {@link sfence}. */
  clwb(address: number, length: number): void;
  /**
   * Non-temporal store: bypasses the LLC, into this core's write-combining buffers and from there
   * to memory in any order; persistent after the next {@link sfence}.
   */
  ntstore(address: number, bytes: Uint8Array): void;
  /** Returns when the iMC has accepted all lines of {@link clwb} and {@link ntstore} before. */
  sfence(): Steps<void>;
  /** `clwb` of every line of the range, then `sfence`: returns when the iMC has accepted them. */
  flush(address: number, length: number): Steps<void>;
  /** Non-temporal store of the bytes, then `sfence`: bypasses the LLC. */
  ntStore(address: number, bytes: Uint8Array): Steps<void>;
  /** Uncached store into the RNIC's BAR: pays the owed time, then sends the message. */
  registerWrite(offset: number, bytes: Uint8Array<ArrayBuffer>): Steps<void>;
  /**
   * Stores whole lines into write-combined memory of the RNIC's BAR, then `sfence`: each line is
   * one message, in the order of addresses, ahead of all later messages of the program.
   */
  writeCombined(offset: number, lines: Uint8Array<ArrayBuffer>): Steps<void>;
  /** Control path: sends the command and waits for the firmware's reply. */
  command(command: RnicCommand): Steps<RnicReply>;

  /** Waits for `ps` picoseconds; the core is idle. */
  sleep(ps: Time): Steps<void>;
  /** The index of the core that executes the caller; undefined of the driver. @ignore */
  readonly core?: number | undefined;
  /** The number of the card, of several, whose commands, registers and pages these are. @ignore */
  readonly rnic?: number;
  /** The same core for another card, by its number. @ignore */
  at?(card: number): Cpu;
  /**
   * Number of times that the RNIC has got power in this life of the host; undefined while it has
   * none.
   */
  readonly card: number | undefined;
  /**
   * Waits until a DMA write is visible in the range, spinning: counted as polling, not work.
   * @throws AddressFault where the range is not all mapped.
   */
  waitMemory(address: number, length: number, deadline: Time): Steps<"changed" | "timeout">;
  /** Waits until MSI-X `vector` is raised (the core is idle meanwhile). */
  waitInterrupt(vector: number, deadline: Time): Steps<"raised" | "timeout">;
  // When the handler has run of the first interrupt of a vector that was raised at `since` or later;
  // NEVER: there is none.
  /** @ignore */
  handledAt?(vector: number, since: Time): Time;
  /** Waits until another program signals `name`. Not latched: check the condition, then wait. */
  waitSignal(name: string, deadline: Time): Steps<"signaled" | "timeout">;
  /** Wakes the programs of this host that wait for `name` now. */
  signal(name: string): void;
  /**
   * Waits for the first of several sources; the program finds out which by checking them. As in the
   * single waits, no event after the call is missed, though owed time is paid meanwhile: a program
   * checks its condition, then waits. An interrupt is latched from its arming to the next wait for
   * it.
   */
  waitAny(sources: readonly Source[], deadline: Time): Steps<"happened" | "timeout">;

  /** Zeroed DRAM. Clearing reused memory costs this core time. */
  allocate(bytes: number): Buffer;
  /** The same, on physically consecutive pages: for rings and queue information. */
  allocateContiguous(bytes: number): Buffer;
  /**
   * Frees memory of either kind, by its first address: the next allocation of equal size and kind
   * may reuse it. No region, ring or program may refer to it any more: a use after free is not
   * detected.
   */
  free(memory: Pick<Buffer, "address">): void;
  /** The host's whole SCM, mapped once, with the persistent data of earlier lives. */
  readonly scm: Buffer;

  /** Bytes of a file named in the scenario, loaded before the run. Undefined without one. */
  input(path: string): Uint8Array | undefined;
  /**
   * Reports progress or a result to the process that started the run. Plain data only: literals,
   * arrays and bytes, within the limits of `report_data.ts`.
   * @throws TypeError for other values (a Map, a class instance, a function); RangeError.
   */
  report(topic: string, value: unknown): void;
  /**
   * Logs a line for people: `rack run` and `rack trace` print it on stderr with host and virtual
   * time, in the order of virtual time; `rack logs` shows it for a rack that is up. It costs no
   * virtual time. Values other than texts are shown as literals.
   */
  log(...values: unknown[]): void;
  /** True where notes are kept: check it before building one. */
  readonly auditing: boolean;
  /**
   * Notes what this program is about to write into a host's SCM, what was confirmed, or its
   * operations: `rack run` and `rack explore` judge by these records whether promises were kept
   * (fabric/audit.ts). Bytes are copied. An own program that notes another kind, or a wrong field,
   * ends with EINVAL; only the driver notes records of queues and of shared regions.
   */
  note(note: AuditRecord): void;
  /** Counts an operation in its host's figures (`fabric/inspection.ts`), which no event reads. */
  measured(measurement: Measurement): void;
  /** True where a ladder is kept: check it before building a line. */
  readonly tracing: boolean;
  /** Adds a line of this host to the ladder (see fabric/node.ts TraceStep). */
  trace(step: TraceStep): void;
}

/** Further functions of a program's core: `Context` is the argument of a thread. */
export interface Threads<Context> {
  /**
   * Starts another thread of this program, now, on the next core, round robin. It has its own
   * {@link Cpu}. Memory and queues are the host's: a thread may use objects of its parent, and pays
   * for its own work with them. A failed thread counts as a failed program; its parent continues.
   * @param name unique among the running threads of this program, else EINVAL is thrown.
   */
  spawn(name: string, thread: (context: Context) => Steps<void>): void;
}

/**
 * A region that a program has registered. Offsets are from its first byte. An access that crosses
 * lines of 64 B is done line by line, in order. An access crosses a bus, so each is a generator,
 * which returns when it is visible to all hosts (decision 1). The next one begins then, so that all
 * hosts see a program's accesses in their order (decision 16): sequential consistency. With
 * `memory: tso` a store returns when it is in its core's store buffer, and loads pass it: see
 * `coherence/store_buffer.ts`. All throw `RegionLost` and `RegionFenced` (`region.ts`); for a
 * buffered store the next call of this handle throws.
 */
export interface Region {
  /** The name in the scenario. */
  readonly name: string;
  /** Length in bytes. */
  readonly bytes: number;
  /** Whether the memory is this host's. */
  readonly isHome: boolean;
  /** A copy (a view: a DataView needs its byteOffset), as {@link Cpu.load} gives. */
  load(offset: number, length: number): Steps<Uint8Array<ArrayBuffer>>;
  /** Visible to all when it returns, unless it is buffered; volatile until it is flushed. */
  store(offset: number, bytes: Uint8Array): Steps<void>;
  /** Adds to a word of 8 B at a multiple of 8, little-endian, atomically: returns the old value. */
  fetchAdd(offset: number, operand: bigint): Steps<bigint>;
  /** Stores `swap` where the word is `compare`, atomically as {@link fetchAdd}: returns the old value. */
  compareSwap(offset: number, compare: bigint, swap: bigint): Steps<bigint>;
  /**
   * MFENCE: returns when all earlier stores of this core are visible to all, and the lines of clwb
   * and ntstore are accepted ({@link Cpu.sfence}). Without store buffers, accesses to regions are
   * in order anyway.
   */
  fence(): Steps<void>;
  /**
   * Returns when the bytes are in home's persistence domain, whichever cache had them (decision
   * 12).
   */
  flush(offset: number, length: number): Steps<void>;
  /**
   * Waits until bytes differ from those that this program has last seen here: it wakes on the
   * invalidation of a copy (decision 19), and polls every microsecond where no copy can be near.
   */
  waitChange(offset: number, length: number, deadline: Time): Steps<"changed" | "timeout">;
  /**
   * Chooses the card that keeps copies (C-04), instead of the scenario: home's (`local`) or the far
   * hosts' (`remote`). Returns when home's card uses the new place; copies at the other place come
   * home meanwhile, and no access is lost. A card in a new life starts with the scenario's choice.
   * @throws `RegionRefused` on a far host, where `placement: auto` judges, and where the card has
   * no power.
   */
  move(place: "local" | "remote"): Steps<void>;
  /**
   * Writes all copies back; at home: those of all hosts (decision 21). Later accesses by this
   * handle throw `RegionRefused`; a new `cpu.region(name)` registers again.
   */
  deregister(): Steps<void>;
}

/**
 * The generator returned by a user's function.
 * @param name the function's role, for the message.
 * @throws TypeError where the function is a plain or `async` one.
 */
export function stepsOf<T>(answered: Steps<T>, name: string): Steps<T> {
  const { next, [Symbol.iterator]: iterator } = Object(answered) as Partial<Steps<T>>;
  if (typeof next === "function" && typeof iterator === "function") return answered;
  throw new TypeError(
    `${name} must be a generator function, and none that is async: function* (context) { … }`,
  );
}

/** The name of a signal that the host raises about one of its cards. */
export function signalOf(name: string, card: number): string {
  return card === 0 ? name : `${name}-${card + 1}`;
}

/** Signals of the host, which programs can wait for. */
export const SIGNALS = {
  /** An RNIC failed, or came back; {@link signalOf} names the card's signal. */
  busDown: "bus-down",
  busUp: "bus-up",
  /** The driver has handled an asynchronous event of the firmware. */
  rnicEvent: "rnic-event",
} as const;
