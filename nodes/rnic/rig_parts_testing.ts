/**
 * Parts of the RNICs' test rig (`rnic_testing.ts`): a fake host that is memory, rings and a record of
 * what it was told; what may happen to a frame; plans and attributes that a test does not name.
 */
import { deepEqual } from "node:assert/strict";
import { assert } from "../../fabric/assert.ts";
import type { Link } from "../../fabric/link/link.ts";
import type { Frame, Input, Node, Outputs } from "../../fabric/node.ts";
import type { RnicPlan } from "../../fabric/rack/plan.ts";
import { PS_PER_NS, type Time } from "../../fabric/time/time.ts";
import { type Cqe, CQE_BYTES, decodeCqe } from "../../fabric/wire/cqe.ts";
import { macOfAddress } from "../../fabric/wire/neighbour.ts";
import { decodePacket } from "../../fabric/wire/packet.ts";
import type { Completion, MemoryRead, PcieMessage } from "../../fabric/wire/pcie.ts";
import {
  encodeSpace3,
  SPACE1_BYTES,
  SPACE2_BYTES,
  SPACE3_BYTES,
} from "../../fabric/wire/queue_information.ts";
import {
  ACCESS,
  type PersistencePlan,
  type QpAttributes,
  type RnicEvent,
  type RnicReply,
} from "../../fabric/wire/rnic_command.ts";
import { encodeSendWqe, type SendWqe, WQE_UNIT_BYTES } from "../../fabric/wire/wqe.ts";

export const BUS = {
  latencyPs: 150 * PS_PER_NS,
  bitsPerSecond: 126e9,
  kind: "bus",
  headOnly: false,
} as const;
export const WIRE = {
  latencyPs: 200 * PS_PER_NS,
  bitsPerSecond: 100e9,
  kind: "network",
  headOnly: false,
} as const;
/** How long the fake host takes to answer a DMA read. */
export const MEMORY_PS = 200 * PS_PER_NS;
export const MEMORY_BYTES = 1 << 22;
const PAGE_BYTES = 4096;
export const RECV_STRIDE = 64;

export function rnicPlan(name: string, given: Partial<RnicPlan> = {}): RnicPlan {
  const address = name === "a" ? 0x0a00_0001 : 0x0a00_0002;
  return {
    host: name,
    address,
    mac: macOfAddress(address),
    mtu: 4096,
    queueCache: { entries: 64, evict: "oldest", amount: 1 },
    timing: {
      receivePs: 70_000,
      schedulePs: 30_000,
      sendPs: 60_000,
      persistPs: 30_000,
      commandPs: 1_000_000,
      wqeFetchUnits: 4,
      dmaReadBytes: 512,
      dmaReadsMax: 13,
      gatherReadBytes: 4096,
      gatherReadsMax: 32,
    },
    ...given,
  };
}

/** The reply that a command must have got. */
export function granted<Op extends GrantedReply["op"]>(
  reply: RnicReply,
  op: Op,
): Extract<GrantedReply, { op: Op }> {
  assert(reply.status === "ok" && reply.op === op, `${op}: ${JSON.stringify(reply)}`);
  return reply as Extract<GrantedReply, { op: Op }>;
}

type GrantedReply = Extract<RnicReply, { status: "ok" }>;

export interface RigEvent {
  readonly time: Time;
  readonly order: number;
  readonly to: "rnic" | "host";
  readonly side: Side;
  readonly input: Input;
}

/**
 * What a test may do to a frame: let it pass, lose it, send it twice, hold it back, replace it, or damage
 * one bit, counted from the first of the frame. With `againPs` a copy comes so long after the frame.
 */
export type FrameFate =
  | "pass"
  | "drop"
  | "twice"
  | {
    readonly delayPs?: Time;
    readonly replaceBy?: Uint8Array<ArrayBuffer>;
    readonly flipBit?: number;
    readonly againPs?: Time;
  };

export interface RigOptions {
  readonly seed?: number;
  readonly plans?: { readonly a?: Partial<RnicPlan>; readonly b?: Partial<RnicPlan> };
  readonly persistence?: { readonly a?: PersistencePlan; readonly b?: PersistencePlan };
  readonly fate?: (from: "a" | "b", frame: Frame, count: number) => FrameFate;
  /** Bytes of each host's memory: a rig costs mostly them. */
  readonly memoryBytes?: number;
}

/** One machine of the rig. */
export interface Side {
  readonly name: "a" | "b";
  readonly plan: RnicPlan;
  readonly rnic: Node;
  readonly host: FakeHost;
  readonly outputs: Outputs;
  readonly toHost: Link;
  readonly toRnic: Link;
  readonly toWire: Link;
  framesSent: number;
}

/** A ring as the fake driver keeps it. */
export interface Ring {
  readonly queue: number;
  readonly address: number;
  readonly depth: number;
  write: number;
  stamp: number;
}

export interface RigCq {
  readonly cqn: number;
  readonly address: number;
  readonly entries: number;
  taken: number;
}

export interface RigQp {
  readonly qpn: number;
  readonly sq: Ring;
  readonly rq: Ring;
  readonly sendCq: RigCq;
  readonly recvCq: RigCq;
}

/** A shared receive queue (`objects_testing.ts`). */
export interface RigSrq {
  readonly srqn: number;
  readonly ring: Ring;
}

/** A send WQE; what a test does not name is signalled and carries nothing. */
export type RigWqe = Partial<SendWqe> & Pick<SendWqe, "opcode">;

/** A region of the fake host's memory: virtual addresses are `va` on, physical from `address`. */
export interface RigMr {
  readonly key: number;
  readonly va: number;
  readonly address: number;
  readonly length: number;
}

function flipped(bytes: Uint8Array<ArrayBuffer>, bit: number): Uint8Array<ArrayBuffer> {
  const damaged = bytes.slice();
  damaged[bit >> 3]! ^= 0x80 >> (bit & 7);
  return damaged;
}

export class FakeHost {
  readonly memory: Uint8Array<ArrayBuffer>;
  readonly replies = new Map<number, RnicReply>();
  readonly events: RnicEvent[] = [];
  readonly interrupts: number[] = [];
  /**
   * DMA writes that no DMA read has pushed out yet, from the moment the RNIC hands them to the bus:
   * on the cable and in the IIO of flow 1.
   */
  buffered: { readonly address: number; readonly length: number }[] = [];
  /** Of these the ones that have arrived: a read pushes out no more. */
  arrived = 0;
  /** Every DMA read and write in the order of arrival. */
  readonly log: PcieMessage[] = [];
  /** Reads answered "unsupported request". */
  refuseReads = false;
  spaces = { queues: 64, space1: 0, space2: 0, space3: 0 };
  nextCommand = 1;
  #top = PAGE_BYTES;

  constructor(memoryBytes: number) {
    this.memory = new Uint8Array(memoryBytes);
  }

  allocate(bytes: number): number {
    const at = this.#top;
    this.#top += Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES;
    assert(this.#top <= this.memory.length, "The fake host is out of memory");
    return at;
  }

  layOutSpaces(): void {
    this.spaces = {
      queues: 64,
      space1: this.allocate(64 * SPACE1_BYTES),
      space2: this.allocate(64 * SPACE2_BYTES),
      space3: this.allocate(64 * SPACE3_BYTES),
    };
  }

  /** Pages for `length` bytes from `va` on; `scattered` ones lie in reverse order. */
  allocatePages(
    of: { readonly va: number; readonly length: number; readonly scattered?: boolean },
  ): { readonly pageBytes: number; readonly pages: number[] } {
    const { va, length, scattered = false } = of;
    const count = Math.floor((va + length - 1) / PAGE_BYTES) - Math.floor(va / PAGE_BYTES) + 1;
    const address = this.allocate(count * PAGE_BYTES);
    const pages = Array.from(
      { length: count },
      (_, i) => address + PAGE_BYTES * (scattered ? count - 1 - i : i),
    );
    return { pageBytes: PAGE_BYTES, pages };
  }

  /** Writes a send WQE into the ring. @returns its position. */
  enqueueSend({ sq, qpn }: RigQp, wqe: RigWqe): number {
    const position = (sq.write + 1) % sq.depth;
    const bytes = encodeSendWqe({
      index: position,
      qpn,
      signaled: true,
      solicited: false,
      fence: false,
      immediate: 0,
      sges: [],
      ...wqe,
    });
    for (let at = 0; at < bytes.length; at += WQE_UNIT_BYTES) {
      sq.write = (sq.write + 1) % sq.depth;
      const unit = bytes.subarray(at, at + WQE_UNIT_BYTES);
      this.memory.set(unit, sq.address + sq.write * WQE_UNIT_BYTES);
    }
    return position;
  }

  /** Takes what has completed, and tells the RNIC by space 3. */
  takeCqes(cq: RigCq, now: Time): Cqe[] {
    const taken: Cqe[] = [];
    for (;;) {
      const at = cq.address + (cq.taken % cq.entries) * CQE_BYTES;
      const cqe = decodeCqe(this.memory.subarray(at, at + CQE_BYTES), cq.taken, cq.entries);
      if (cqe === undefined) break;
      taken.push(cqe);
      cq.taken++;
    }
    const pointer = cq.taken % cq.entries;
    this.memory.set(
      encodeSpace3({ pointer, stamp: now }),
      this.spaces.space3 + cq.cqn * SPACE3_BYTES,
    );
    return taken;
  }

  /** Takes what the RNIC sends. @returns the answer to a read. */
  take(message: PcieMessage): Completion | undefined {
    this.log.push(message);
    switch (message.kind) {
      case "memory-write":
        this.memory.set(message.data, message.address);
        this.arrived++;
        return undefined;
      case "memory-read":
        return this.#read(message);
      case "interrupt":
        this.interrupts.push(message.vector);
        return undefined;
      case "reply":
        this.replies.set(message.id, message.reply);
        return undefined;
      case "event":
        this.events.push(message.event);
    }
    return undefined;
  }

  /** P-03: the read completes behind all earlier writes, which are pushed out by it. */
  #read({ tag, address, length }: MemoryRead): Completion {
    this.buffered.splice(0, this.arrived);
    this.arrived = 0;
    const refused = this.refuseReads || address + length > this.memory.length;
    const data = refused ? new Uint8Array(0) : this.memory.slice(address, address + length);
    const status = refused ? "unsupported-request" : "success";
    return { kind: "completion", tag, status, data };
  }
}

/** Puts an event in its place, latest first, so that the next one is popped off the end. */
export function insert(queue: RigEvent[], event: RigEvent): void {
  let low = 0, high = queue.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const other = queue[middle]!;
    if (other.time > event.time || (other.time === event.time && other.order > event.order)) {
      low = middle + 1;
    } else high = middle;
  }
  queue.splice(low, 0, event);
}

/** Fails where a card thinks that a frame of its says something else than its bytes do. */
export function checkKnown({ bytes, packet }: Frame): void {
  if (packet !== undefined) deepEqual(decodePacket(bytes), packet);
}

/** What arrives of a frame, and how much later. What is not damaged is the frame itself. */
export function copiesOf(
  frame: Frame,
  fate: FrameFate,
): { readonly frame: Frame; readonly afterPs: Time }[] {
  if (fate === "drop") return [];
  const { delayPs = 0, replaceBy, flipBit, againPs = undefined } = typeof fate === "object"
    ? fate
    : {};
  const bytes = replaceBy ?? (flipBit === undefined ? undefined : flipped(frame.bytes, flipBit));
  const first: Frame = bytes === undefined ? frame : { kind: "frame", bytes };
  const again = fate === "twice" ? 1 : againPs;
  return [
    { frame: first, afterPs: delayPs },
    ...(again === undefined ? [] : [{ frame, afterPs: delayPs + again }]),
  ];
}

/** Attributes from RESET to RTS, towards `peer`. */
export function stepsToRts(
  destAddress: number,
  peer: { readonly qpn: number; readonly attributes?: QpAttributes },
): QpAttributes[] {
  const { attributes = {} } = peer;
  const accessFlags = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead |
    ACCESS.remoteWritePersistence;
  return [
    { state: "init", accessFlags: attributes.accessFlags ?? accessFlags },
    {
      state: "rtr",
      destAddress,
      pathMtu: attributes.pathMtu ?? 1024,
      destQpn: peer.qpn,
      rqPsn: attributes.rqPsn ?? 0xff_fffe,
      maxDestRdAtomic: attributes.maxDestRdAtomic ?? 4,
      minRnrTimer: attributes.minRnrTimer ?? 1,
      trafficClass: attributes.trafficClass ?? 0,
    },
    {
      state: "rts",
      timeout: attributes.timeout ?? 4,
      retryCnt: attributes.retryCnt ?? 7,
      rnrRetry: attributes.rnrRetry ?? 7,
      sqPsn: attributes.sqPsn ?? 0xff_fffe,
      maxRdAtomic: attributes.maxRdAtomic ?? 4,
    },
  ];
}
