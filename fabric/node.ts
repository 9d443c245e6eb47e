/**
 * What a node is: a pure machine. It is told what happens and when, and says what it sends and when
 * it wants to be woken. It never does I/O, never asks the time, never draws an unseeded number.
 * `partition/partition.ts` is the one loop that drives every kind of node.
 */
import type { RocePacket } from "./wire/roce/packet.ts";
import type { PcieMessage } from "./wire/host_bus/pcie.ts";
import type { ProgramPlan } from "./rack/plan/plan.ts";
import type { Note } from "./audit.ts";
import type { Time } from "./base/time.ts";

/** An Ethernet frame without FCS, as a capture shows it. The bytes never change once sent. */
export interface Frame {
  readonly kind: "frame";
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Content hash, computed once and carried along inside a process (see `digest.ts`). */
  hash?: number | undefined;
  /**
   * What the bytes say, where they were made of it in this process: it need not be decoded again.
   * Whatever damages or marks a frame on its way makes another one, which knows nothing.
   */
  readonly packet?: RocePacket | undefined;
}

/** What crosses a cable. */
export type Message = Frame | PcieMessage;

/** What happens to a node. Ports are numbered by the node's kind (see {@link PORTS}). */
export type Input =
  /**
   * A message has arrived on `port`. Its last bit is here `tailPs` later: 0, except at a port that
   * asked for the head of a frame (a cut-through switch).
   */
  | {
    readonly kind: "message";
    readonly port: number;
    readonly message: Message;
    readonly tailPs: Time;
  }
  /** The cable on `port` lost or found its other end. */
  | { readonly kind: "link"; readonly port: number; readonly up: boolean }
  /** The node's own deadline: `now` is what {@link Node.wakeAt} answered. */
  | { readonly kind: "wake" }
  /** Power is applied: the first thing that happens to a node, at 0 or when it is started again. */
  | { readonly kind: "power" }
  /** Somebody outside starts a program on this host. */
  | { readonly kind: "run"; readonly program: ProgramPlan }
  /** Bytes [from, to) of this host's SCM are there from now on (see `WritebackPlan`). */
  | {
    readonly kind: "writeback";
    readonly from: number;
    readonly to: number;
    readonly buffered: boolean;
    readonly data?: string;
  };

/** Port numbers with a fixed meaning. Switch ports are numbered from 0 in the plan's order. */
export const PORTS = {
  /** A host's only cable: to its RNIC. */
  hostBus: 0,
  /** An RNIC's cable to its host. */
  rnicBus: 0,
  /** An RNIC's network port. */
  rnicNetwork: 1,
} as const;

/**
 * One line of a ladder: what a node did as part of an operation. `step` is the document's number
 * (`S905`) where it has one, else a short verb (`wqe-fetch`).
 */
export interface TraceStep {
  readonly step: string;
  readonly text: string;
  /** Connection as `a:17-b:18` (lower name first), where known. */
  readonly connection?: string;
  /** PSN of the operation's first packet, where known; its last one's, where that differs. */
  readonly psn?: number;
  readonly lastPsn?: number;
  /** The PSN is one of the other side's sequence: the line is about the peer's request. */
  readonly inbound?: true;
  /** Work request id given by the program, where known. */
  readonly wrId?: number;
  /** Local queue pair number, where known. */
  readonly qpn?: number;
  /** The program's own number of what it does, in however many requests (a message of `put`). */
  readonly operation?: number;
  /** Position of the WQE in the local send queue. */
  readonly wqe?: number;
  /** Positions of receive WQEs in the local receive queue. */
  readonly recvs?: readonly number[];
  /** Bytes [from, to) of this host's SCM (of the peer's, on a requester) that the line is about. */
  readonly scm?: readonly [from: number, to: number];
  /** PCIe tag of the DMA read that goes out (RNIC), or that has come (host). */
  readonly tag?: number;
  /** How long a part of the device is taken up: for a picture of the run, not a line of a ladder. */
  readonly busy?: { readonly track: string; readonly fromPs: Time; readonly untilPs: Time };
}

/** Where a node's step puts what it wants done. Calls take effect in the order they are made. */
export interface Outputs {
  /**
   * Sends `message` over the cable on `port`. Messages of one port leave in call order; this one
   * leaves no earlier than `departAt`, which must be at least `now` + the node's
   * {@link Node.processingPs}: that promise is part of the lookahead.
   * @returns when the transmitter is free for the next message.
   */
  send(port: number, message: Message, departAt: Time): Time;
  /** True where somebody wants {@link trace}: ask before building a text. */
  readonly tracing: boolean;
  /** True where somebody wants steps that are `busy`. */
  readonly timing?: boolean;
  trace(step: TraceStep): void;
  /** A program's progress or result, for whoever started the run. Plain data only. */
  report(topic: string, value: unknown): void;
  /** True where somebody wants {@link note}: ask before building one. */
  readonly noting?: boolean;
  /** What program `by` was told, or did: the record that a run is judged by. */
  note?(by: string, note: Note): void;
}

export type NodeKind = "host" | "rnic" | "switch";

/** A device of the rack. */
export interface Node {
  readonly name: string;
  readonly kind: NodeKind;
  /** No output of this node departs sooner than this after its cause, in ps (≥ 0). */
  readonly processingPs: Time;
  /** Ports on which the head of a frame is enough to act (cut-through); else arrival is the tail. */
  readonly actsOnHead?: boolean;
  step(now: Time, input: Input, out: Outputs): void;
  /** The earliest deadline, NEVER without one. Must not be before the last `now`. */
  wakeAt(): Time;
  /**
   * When something next becomes persistent without an event, as nobody here can tell the difference;
   * NEVER, or absent, where nothing does. A node that dies without having been asked for what is
   * persistent must die before it, so the clock counts it as something that happens.
   */
  nextDurableAt?(): Time;
  /** Counters for the run's report, plain numbers by name. */
  statistics(): Record<string, number>;
  /**
   * What has become persistent since the last call and before `before`, oldest first: only hosts have
   * it. The runner writes it to the SCM file before anything the node sent becomes visible (output
   * commit). No event of the node is before `before` that has not happened.
   */
  takeDurable?(before: Time): DurableWrite[];
}

/** Bytes that would survive a power failure, at an offset into the host's SCM. */
export interface DurableWrite {
  readonly offset: number;
  readonly data: Uint8Array;
}
