/**
 * What the replay of a run answers: plain data that `JSON.stringify` takes (no `Infinity`, no bytes).
 * Times are virtual, in ps since the start; an absent end is null. Bytes are hexadecimal text.
 *
 * An instant `at` means: everything before `at` has happened, nothing at `at` or later. A power failure
 * at `at` finds that state. To see the effect of an event at `t`, ask for `t + 1`.
 */
import type { NodeKind } from "../../fabric/node.ts";
import type { RnicInspection } from "../../fabric/inspection.ts";
import type { LinkFaultPlan } from "../../fabric/rack/plan/link_plan.ts";
import type { Predicate } from "../../fabric/trace/predicate.ts";

/** Virtual time in ps. */
export type Ps = number;

// The run, and whether its replay is the run.

/** Which run, and which of its variants where it has several. */
export interface ReplayTarget {
  /** Name or unique prefix of a run's directory. */
  readonly run: string;
  /** Name of a variant's folder, or its number among them from 1; "" or absent: the first. */
  readonly variant?: string;
  /** Name of a checkpoint: the run as it was then, and up to it. */
  readonly checkpoint?: string;
}

/**
 * `equal`: every device has the digest that the run left; `unknown`: its timekeeper was killed with it, so the digests
 * are those of an earlier instant, or there are none. A difference is an error of `Replay.open`.
 */
export type Exactness =
  | { readonly state: "equal"; readonly digest: string; readonly nodes: number }
  | { readonly state: "unknown"; readonly why: string };

export interface PowerSpan {
  readonly from: Ps;
  /** Null: it has power to the end. */
  readonly to: Ps | null;
}

export interface DeviceTimeline {
  readonly node: string;
  readonly kind: NodeKind;
  /** Spans with power, oldest first. */
  readonly power: readonly PowerSpan[];
  readonly events: number;
}

/** A program has been told that bytes persist: the tick of a promise. */
export interface PromiseTick {
  readonly at: Ps;
  /** The device that learns it, and the program. */
  readonly node: string;
  readonly by: string;
  readonly id: number;
  /** The bytes that are promised. */
  readonly on: string;
  readonly from: number;
  readonly to: number;
  /** False where the method claims persistence without a promise. */
  readonly promised: boolean;
}

/** A power failure, a return of power, or an event of a cable. */
export interface FaultTick {
  readonly at: Ps;
  readonly action: "kill" | "start" | LinkFaultPlan["action"];
  /** Devices that lose or get power; of a cable its two ends. */
  readonly nodes: readonly string[];
  /** Index of the cable in the plan. */
  readonly cable?: number;
  /** Where a fault of a cable ends by itself. */
  readonly until?: Ps;
}

/** A program that was started by order on a rack that was up. */
export interface OrderTick {
  readonly at: Ps;
  readonly host: string;
  readonly order: number;
  /** Name of the program: `put`, `get`, `list`, `remove`, or the path of the user's own. */
  readonly program: string;
  /** The program's options without content. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** A final report of a program: how it ended. */
export interface ReportTick {
  readonly at: Ps;
  readonly node: string;
  readonly topic: string;
  /** One line of it. */
  readonly text: string;
}

export interface Timeline {
  readonly run: string;
  readonly variant: string;
  readonly scenario: string;
  readonly seed: number;
  readonly exactness: Exactness;
  /** The instant after the last event. */
  readonly endPs: Ps;
  readonly events: number;
  /** True where the rack is up: {@link endPs} grows with {@link Replay.advance}. */
  readonly isLive: boolean;
  readonly devices: readonly DeviceTimeline[];
  readonly promises: readonly PromiseTick[];
  /** Promises beyond those that are listed. */
  readonly morePromises: number;
  readonly faults: readonly FaultTick[];
  /** The latest ones, and how many were before them. */
  readonly orders: readonly OrderTick[];
  readonly moreOrders: number;
  /** The latest ones, and how many were before them. */
  readonly reports: readonly ReportTick[];
  readonly moreReports: number;
  readonly density: Density;
  /** How much of the run is kept in detail, and what the engine holds. */
  readonly kept: Kept;
}

export interface Kept {
  /** Steps, frames and memory are kept from here on; an earlier instant takes another pass up to it. */
  readonly detailFromPs: Ps;
  /** Samples of counters. */
  readonly samples: number;
  /** Resident bytes of the engine's process. */
  readonly residentBytes: number;
}

/** Events in equal spans of virtual time. */
export interface Density {
  readonly from: Ps;
  readonly to: Ps;
  /** Events of all devices, by bucket. */
  readonly counts: readonly number[];
  /** By device, where asked for. */
  readonly byNode?: Readonly<Record<string, readonly number[]>>;
}

export interface DensityQuery {
  readonly from?: Ps;
  readonly to?: Ps;
  /** At most 4,096; default 512. */
  readonly buckets?: number;
  readonly byNode?: boolean;
}

// The rack at an instant.

export interface Snapshot {
  readonly at: Ps;
  /** Of all devices, since the start. */
  readonly events: number;
  readonly nextEventAt: Ps | null;
  readonly lastEventAt: Ps | null;
  readonly devices: readonly DeviceState[];
  readonly cables: readonly CableState[];
  /** Programs that have not ended; null where that is not looked up (see {@link SnapshotQuery}). */
  readonly programs: readonly ProgramState[] | null;
}

export interface DeviceState {
  readonly node: string;
  readonly kind: NodeKind;
  readonly hasPower: boolean;
  /** Number of its life, from 0. */
  readonly life: number;
  /** Since when it has, or has no power. */
  readonly since: Ps;
  readonly events: number;
  /** Counters since power-on; empty without power. */
  readonly counters: Readonly<Record<string, number>>;
  /** The instant of the counters: `at`, or an earlier sample's. */
  readonly countersAt: Ps;
  /** Of a host: queues as its programs know them. */
  readonly queues: readonly QueueState[];
  /** Of an RNIC with power: its queue pairs and regions at the very instant, where that is looked up. */
  readonly rnic?: RnicInspection;
}

/** A queue as audit records show it: nothing of what the hardware holds. */
export interface QueueState {
  readonly queue: "send" | "recv" | "shared";
  /** Number of the queue pair, or of the shared receive queue. */
  readonly qpn: number;
  /** Which of the host's RNICs has it, from 0; absent: the first one. */
  readonly rnic?: number;
  readonly posted: number;
  readonly completed: number;
  /** Completions with an error status. */
  readonly failed: number;
  readonly lastStatus: string;
}

/** A direction of a cable, with what is on it. */
export interface CableState {
  /** Index in the plan. */
  readonly cable: number;
  readonly kind: "network" | "bus";
  readonly from: string;
  readonly to: string;
  /** Messages with a bit on the cable, oldest first; at most 64. */
  readonly inFlight: readonly InFlight[];
  readonly inFlightCount: number;
  /** So far. */
  readonly sent: number;
  readonly sentBytes: number;
}

export interface InFlight {
  /** First and last bit leave; first bit arrives, last bit arrives (null: lost on the way). */
  readonly startPs: Ps;
  readonly endPs: Ps;
  readonly arrivesPs: Ps | null;
  readonly bytes: number;
  /** `a→b RC RDMA WRITE ONLY qp=0x22 psn=7 …`, or the message of the bus. */
  readonly text: string;
  /** The first bytes of a frame, at most 128. */
  readonly head?: string;
  /** What the cable does to it. */
  readonly effect?: readonly string[];
}

export interface ProgramState {
  readonly host: string;
  /** `put#1`, `./mine.ts#2/worker`. */
  readonly program: string;
  readonly serves: boolean;
  readonly waitsFor: string;
  readonly since: Ps;
  /** The line in the program's file. */
  readonly at?: string;
  /** Number of the order that started it. */
  readonly order?: number;
}

export interface SnapshotQuery {
  /**
   * Counters and programs of the very instant, also where that takes seconds; false: never. Default:
   * where it takes some tenths of a second.
   */
  readonly exact?: boolean;
}

// Memory.

/**
 * Where the newest copy of a byte is. `in-flight`: posted by a program or on its way between the cards;
 * `card`: in the responder's card; `bus`: on its way to the processor; `iio`: in the IIO; `llc`: a dirty
 * line of the cache, or a core's write-combining buffer; `write-queue`: accepted by the memory
 * controller; `medium`: in SCM.
 */
export const PLACES = [
  "in-flight",
  "card",
  "bus",
  "iio",
  "llc",
  "write-queue",
  "medium",
] as const;
export type Place = typeof PLACES[number];

/** What its program knows of a write: `promised` is the only one that has to survive. */
export type WriteStanding = "posted" | "visible" | "claimed" | "promised";

/** A write that a program has declared. */
export interface WriteRef {
  readonly by: string;
  readonly id: number;
  readonly node: string;
  readonly issuedAt: Ps;
  readonly standing: WriteStanding;
  /** When that was learned. */
  readonly standingAt: Ps;
}

/** Bytes [from, to) of SCM that share a place. */
export interface MemorySpan {
  readonly from: number;
  readonly to: number;
  readonly place: Place;
  /** Whether a power failure now leaves these bytes. */
  readonly survives: boolean;
  /** Since when the newest copy is there. */
  readonly since: Ps;
  /** Index in {@link MemoryView.writes} of the write that they belong to; absent: a program has not declared it. */
  readonly write?: number;
}

export interface MemoryLine {
  /** Offset in SCM, a multiple of 64. */
  readonly at: number;
  /** Without gaps; bytes that were never written are on the medium. */
  readonly spans: readonly MemorySpan[];
  /** A power failure now leaves a part of a write in this line, and the rest of it as it was before. */
  readonly torn: boolean;
  /** 64 B as the cores see them, and as a power failure now leaves them, where asked for. */
  readonly seen?: string;
  readonly left?: string;
}

export interface MemoryQuery {
  readonly from: number;
  readonly to: number;
  readonly bytes?: boolean;
}

export interface MemoryView {
  readonly at: Ps;
  readonly host: string;
  readonly from: number;
  readonly to: number;
  readonly hasPower: boolean;
  /** Domain of persistence: `adr`, `eadr`, `wsp`. */
  readonly domain: string;
  /** Only lines of which something was ever written by now; at most 4,096. */
  readonly lines: readonly MemoryLine[];
  readonly moreLines: number;
  readonly writes: readonly WriteRef[];
  /** Ranges of SCM that are written in the run: what to offer for a look. */
  readonly touched: readonly (readonly [from: number, to: number])[];
}

/** Memory that has more lines than one looks at, in parts of one size. */
export interface MemoryMapQuery {
  readonly from: number;
  readonly to: number;
  /** How many at most; default 256, at most 4,096. */
  readonly parts?: number;
}

export interface MemoryPart {
  /** Offsets in SCM. */
  readonly from: number;
  readonly to: number;
  /** Lines of which something was written by now. */
  readonly lines: number;
  /** Of these, by place; of a line with several, the one farthest from the medium. */
  readonly byPlace: Readonly<Record<Place, number>>;
  /** Of these: a power failure now loses something of them, or leaves a part of a write. */
  readonly lost: number;
  readonly torn: number;
}

export interface MemoryMap {
  readonly at: Ps;
  readonly host: string;
  readonly from: number;
  readonly to: number;
  /** Of each part, a multiple of 64. */
  readonly partBytes: number;
  /** In order; without those of which nothing was written by now. */
  readonly parts: readonly MemoryPart[];
}

// What a power cut loses.

/** Bytes of which a power cut would lose the newest copy. */
export interface LostRange {
  readonly host: string;
  readonly from: number;
  readonly to: number;
  readonly place: Place;
  readonly write?: WriteRef;
}

/** A promise that the cut would break: a bug of the method, or of the model. */
export interface BrokenPromise {
  readonly host: string;
  readonly text: string;
  readonly from: number;
  readonly to: number;
}

export interface Loss {
  readonly at: Ps;
  readonly nodes: readonly string[];
  /** Hosts whose SCM was looked at: those of `nodes` that have power. */
  readonly hosts: readonly string[];
  /** Ranges by host and offset; at most 1,000. */
  readonly lost: readonly LostRange[];
  readonly moreLost: number;
  readonly lostBytes: number;
  readonly byPlace: Readonly<Record<Place, number>>;
  readonly byStanding: Readonly<Record<WriteStanding | "undeclared", number>>;
  readonly broken: readonly BrokenPromise[];
  /** Promised bytes that are there after the cut. */
  readonly keptPromisedBytes: number;
  /** One sentence for people. */
  readonly text: string;
}

// Operations and events.

/** How an operation ended, by the last that its program said of it. */
export interface OperationRow {
  /** Number for {@link Replay.ladder}. */
  readonly index: number;
  readonly node: string;
  readonly connection: string;
  /** The program's number of it. */
  readonly number: number;
  readonly startPs: Ps;
  /** The program's last step of it. */
  readonly endPs: Ps;
  readonly step: string;
  readonly text: string;
}

export interface OperationsQuery {
  readonly from?: Ps;
  readonly to?: Ps;
  /** The requester. */
  readonly on?: string;
  /** At most 1,000; default 200. */
  readonly most?: number;
}

export interface Operations {
  readonly operations: readonly OperationRow[];
  /** In the window, beyond those that are listed. */
  readonly more: number;
}

/** As `rack trace --json` has it, with the frames, and with the promise at its end. */
export type { LadderDocument } from "../api/operations.ts";

/** One thing that happened: a step of a device, a frame at a port, a record of a program, power. */
export interface EventRow {
  readonly time: Ps;
  readonly node: string;
  readonly kind: "step" | "frame-sent" | "note" | "report" | "power" | "cable" | "order";
  /** The document's number or a verb; topic of a report; kind of a note. */
  readonly name: string;
  readonly text: string;
  /** A frame: its cable, its length, and its first bytes, at most 128. */
  readonly frame?: { readonly cable: number; readonly bytes: number; readonly head: string };
}

export interface EventsQuery {
  readonly at: Ps;
  /** So many before `at`, and from `at` on; at most 500 each, default 20. */
  readonly before?: number;
  readonly after?: number;
  readonly node?: string;
  readonly kinds?: readonly EventRow["kind"][];
}

export interface Events {
  readonly rows: readonly EventRow[];
  /** Index of the first row that is not before `at`. */
  readonly split: number;
}

/** The step that fits: what a rack that is up would stop at, looked for in the past. */
export interface FindQuery extends Predicate {
  /** Steps after this instant count; absent: all. */
  readonly after?: Ps;
  /** Steps before this instant count; absent: all. */
  readonly atPs?: Ps;
}

// Comparison.

/** Where two runs first differ. */
export interface FirstDifference {
  /** Before this instant all devices that both have did the same. */
  readonly at: Ps;
  /** Devices that differ there. */
  readonly nodes: readonly string[];
  /** What each run does at that instant. */
  readonly here: readonly EventRow[];
  readonly there: readonly EventRow[];
}

export interface FigureDifference {
  readonly node: string;
  readonly name: string;
  readonly here: number | null;
  readonly there: number | null;
}

export interface Comparison {
  readonly isSame: boolean;
  /** Null where no event differs. */
  readonly first: FirstDifference | null;
  /** Counters at the end that differ, largest relative difference first. */
  readonly figures: readonly FigureDifference[];
  readonly here: { readonly digest: string; readonly endPs: Ps; readonly events: number };
  readonly there: { readonly digest: string; readonly endPs: Ps; readonly events: number };
}

/** Share of the first pass that is done. */
export interface ReplayProgress {
  readonly atPs: Ps;
  /** Null where the end is not known yet. */
  readonly endPs: Ps | null;
  readonly events: number;
}
