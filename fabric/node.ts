/**
 * A node is a pure state machine: inputs with their time in, outputs and a deadline out.
 * `partition/partition.ts` drives every kind of node.
 */
import type { PlacedPayload } from "./placed_payload.ts";
import type { FrameBytes, RocePacket } from "./wire/roce/packet.ts";
import type { PcieMessage } from "./wire/host_bus/pcie.ts";
import type { ProgramPlan } from "./rack/plan/plan.ts";
import type { AuditRecord } from "./audit.ts";
import type { HostLoss, OperationFigures, RnicInspection } from "./inspection.ts";
import type { Spent } from "./trace/access_modules.ts";
import type { Time } from "./base/time.ts";

/** Without FCS, as a capture shows it. Immutable once sent. */
export interface Frame extends FrameBytes {
  readonly kind: "frame";
  /** For the digest: computed by the frame's maker, and carried with it to other processes. */
  hash?: number | undefined;
  /** Absent in damaged or marked copies, and in another process. */
  readonly packet?: RocePacket | undefined;
}

export type Message = Frame | PcieMessage;

export type Input =
  /**
   * A port that acts on the head of a frame (a cut-through switch) has the last bit `tailPs` later.
   */
  | {
    readonly kind: "message";
    readonly port: number;
    readonly message: Message;
    readonly tailPs: Time;
  }
  | { readonly kind: "link"; readonly port: number; readonly up: boolean }
  | { readonly kind: "wake" }
  | { readonly kind: "power" }
  | { readonly kind: "run"; readonly program: ProgramPlan }
  /** Bytes [from, to) of this host's SCM are durable from now on (see `WritebackPlan`). */
  | {
    readonly kind: "writeback";
    readonly from: number;
    readonly to: number;
    readonly buffered: boolean;
    readonly data?: string;
  };

/** Switch ports are numbered from 0 in the plan's order. */
export const PORTS = {
  hostBus: 0,
  rnicBus: 0,
  rnicNetwork: 1,
} as const;

/**
 * One line of a ladder: a node's action in an operation. `step` is the document's number (`S905`)
 * where it has one, else a short verb (`wqe-fetch`).
 */
export interface TraceStep {
  /** The document's number, or a short verb. */
  readonly step: string;
  /** The action of the node, in words. */
  readonly text: string;
  /** Connection as `a:17-b:18` (lower name first), where known. */
  readonly connection?: string;
  /** PSN of the operation's first packet, where known. */
  readonly psn?: number;
  /** PSN of the last packet, where it is another. */
  readonly lastPsn?: number;
  /** The PSN belongs to the peer's sequence: the line concerns the peer's request. */
  readonly inbound?: true;
  /** Work request id given by the program, where known; a bigint as its decimal text. */
  readonly wrId?: number | string;
  /** A host's line: the RNIC that it concerns, from 0; absent: the first one, or none. */
  readonly rnic?: number;
  /** Local queue pair number, where known. */
  readonly qpn?: number;
  /** The program's own number of the operation, which may take several requests. */
  readonly operation?: number;
  /** Position of the WQE in the local send queue. */
  readonly wqe?: number;
  /** Positions of receive WQEs in the local receive queue. */
  readonly recvs?: readonly number[];
  /** Bytes [from, to) of this host's SCM (on a requester: of the peer's) that the line concerns. */
  readonly scm?: readonly [from: number, to: number];
  /** Number of the queue whose information or WQEs the line concerns. */
  readonly queue?: number;
  /** Time at which the write pointer was stored: it tells a queue's doorbells apart. */
  readonly stamp?: Time;
  /** Units [from, to) of the queue that are read, or come with the doorbell. */
  readonly units?: readonly [from: number, to: number];
  /** Pages [from, to) of this machine's region with that key. */
  readonly pages?: readonly [key: number, from: number, to: number];
  /** The RNIC's number of the hint that leaves, or is answered. */
  readonly hint?: number;
  /** PCIe tag of the DMA read that leaves (RNIC) or has arrived (host). */
  readonly tag?: number;
  /** Line of a shared region: the region's number in the scenario, the line's in it. */
  readonly shared?: readonly [region: number, line: number];
  /** The host's number of the access to a shared region that begins or has ended. */
  readonly access?: number;
  /** The state of the shared line in a cache, or of its entry in a directory, from now on (C-05). */
  readonly cached?: { readonly cache: string; readonly state: string; readonly before?: string };
  /**
   * The verdict of home's judge on a shared region in a window, and the new place of its copies
   * (C-04).
   */
  readonly judged?: {
    readonly region: number;
    readonly name: string;
    readonly home: number;
    readonly far: number;
    readonly place: "local" | "remote";
  };
  /** The device's time by module, for a message about a shared line or an access's end. */
  readonly spent?: Spent;
  /** Time span in which a part of the device is busy: for a timeline, not a line of a ladder. */
  readonly busy?: { readonly track: string; readonly fromPs: Time; readonly untilPs: Time };
}

export interface Span {
  readonly startPs: Time;
  readonly endPs: Time;
}

/** The process that makes an output file writes it and does not send it. */
export const OUTPUT_TOPIC = "output";

/** What a thread sees that runs outside of virtual time (a native program's): see {@link Outputs.quietUntil}. */
export interface Sight {
  /** When the node sends next by itself, at the earliest. */
  readonly sendsAt: Time;
  /**
   * From a message's arrival until the thread can see it, at the earliest; NEVER: it cannot. What comes of
   * an answer of the node is not meant.
   */
  seenAfter(message: Message): Time;
}

/** Calls take effect in their order. */
export interface Outputs {
  /**
   * No earlier than `departAt`, which is at least `now` + {@link Node.processingPs}: the lookahead
   * depends on it. @returns when the transmitter is free for the next message.
   */
  send(port: number, message: Message, departAt: Time): Time;
  /**
   * In a step: the earliest time at which a thread of the node can see anything from outside of it. It
   * depends on the packing and on the horizon, so no output may depend on it.
   */
  quietUntil?(sight: Sight): Time;
  /** True where an observer takes {@link trace}: check it before building a text. */
  readonly tracing: boolean;
  readonly timing?: boolean;
  trace(step: TraceStep): void;
  /**
   * A program's progress or result, for the process that started the run, or {@link OUTPUT_TOPIC}.
   * Plain data only.
   */
  report(topic: string, value: unknown): void;
  /** An observer takes {@link audit}: check it before building one. */
  readonly auditing?: boolean;
  looped?(end: "sent" | "received", frame: Frame, span: Span): void;
  placed?(payload: PlacedPayload): void;
  audit?(by: string, note: AuditRecord): void;
}

export type NodeKind = "host" | "rnic" | "switch";

export interface HeldThing {
  /**
   * `asked`: a program may have caused it, by a receive not posted or not answered; `leaked`: a
   * fault of the device.
   */
  readonly kind: "asked" | "leaked";
  readonly text: string;
}

export interface Node {
  readonly name: string;
  readonly kind: NodeKind;
  /** In ps (≥ 0), from a cause to the departure of any output of this node. */
  readonly processingPs: Time;
  /** Of a frame (cut-through); other ports act on its tail. */
  readonly actsOnHead?: boolean;
  step(now: Time, input: Input, out: Outputs): void;
  /** NEVER without a deadline. Must not be before the last `now`. */
  wakeAt(): Time;
  /**
   * Whether the last step was a wake in which a native program only looked at the clock or at an empty
   * queue. How many there are depends on the packing ({@link Outputs.quietUntil}), so they are no
   * events: neither counted nor in the digest. Undefined throughout its life: it has no such programs.
   */
  readonly onlyLooked?: boolean | undefined;
  /**
   * The next time at which bytes become durable without an event; NEVER, or absent, if there is
   * none.
   * The clock treats it like an event: a node that dies before these bytes are collected dies earlier.
   */
  nextDurableAt?(): Time;
  statistics(): Record<string, number>;
  /** Its power fails now: it lets go of what it holds outside of the rack. Hosts with native programs only. */
  end?(): void;
  /** The programs that have not ended: hosts only. At any time, without an effect on the run. */
  unfinished?(): UnfinishedProgram[];
  /** RNICs only: without an effect on the run. */
  inspect?(): RnicInspection;
  /** RNICs and hosts, when no event is left anywhere. */
  heldAtRest?(): HeldThing[];
  /** Hosts only, by a power failure now: without an effect on the run. */
  loss?(): HostLoss;
  operations?(): readonly OperationFigures[];
  /**
   * Hosts only: since the last call and before `before`, oldest first. They are in the SCM file
   * before any output is visible (output commit).
   */
  takeDurable?(before: Time): DurableWrite[];
}

export interface UnfinishedProgram {
  /** With number and thread: `put#1`, `./mine.ts#2/worker`. */
  readonly program: string;
  readonly serves: boolean;
  /** `a completion (waitCompletion)`. */
  readonly waitsFor: string;
  readonly since: Time;
  /** `mine.ts:41:12`; absent where it is not known. */
  readonly at?: string;
  readonly order?: number;
}

/** They would survive a power failure, at an offset into the host's SCM. */
export interface DurableWrite {
  readonly offset: number;
  readonly data: Uint8Array;
}
