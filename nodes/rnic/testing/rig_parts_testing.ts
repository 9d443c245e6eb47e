/**
 * Parts of the RNICs' test rig (`rnic_testing.ts`): what it is made of and what may be asked of it; what
 * may happen to a frame; plans and attributes that a test does not name.
 */
import type { HintEncoding } from "../../../fabric/wire/roce/hint_eth.ts";
import { deepEqual } from "node:assert/strict";
import { assert } from "../../../fabric/base/assert.ts";
import type { Link } from "../../../fabric/link/link.ts";
import type { Frame, Input, Node, Outputs } from "../../../fabric/node.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import { PS_PER_NS, type Time } from "../../../fabric/base/time.ts";
import { macOfAddress } from "../../../fabric/wire/roce/neighbour.ts";
import { decodePacket } from "../../../fabric/wire/roce/packet.ts";
import {
  ACCESS,
  type HintPart,
  type PersistencePlan,
  type QpAttributes,
  type QpType,
  type RegionPlan,
  type RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import type { DemandOptions } from "./demand_testing.ts";
import type { FakeHost } from "./fake_host_testing.ts";

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

export function rnicPlan(name: string, given: Partial<RnicPlan> = {}): RnicPlan {
  const address = name === "a" ? 0x0a00_0001 : 0x0a00_0002;
  return {
    host: name,
    address,
    mac: macOfAddress(address),
    mtu: 4096,
    bitsPerSecond: WIRE.bitsPerSecond,
    queueCache: { entries: 64, evict: "oldest", amount: 1 },
    translations: { entries: 2 ** 20, evict: "lru" },
    pageFault: "drop",
    timing: {
      receivePs: 70_000,
      schedulePs: 30_000,
      sendPs: 60_000,
      dataReadPs: 0,
      persistPs: 30_000,
      commandPs: 1_000_000,
      pageFaultPs: 20_000_000,
      space2LockPs: 100_000_000,
      wqeFetchUnits: 4,
      dmaReadBytes: 512,
      dmaReadsMax: 13,
      gatherReadBytes: 4096,
      gatherReadsMax: 32,
      convertPs: 30_000,
      lookUpPs: 30_000,
      busLinesMax: 128,
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
  /** All memory is on demand, and its pages are taken back at random instants. */
  readonly demand?: DemandOptions;
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
  address: number;
  depth: number;
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

/** How a queue pair is made; what a test does not name is RC, with 64 entries and a CQ of its own. */
export interface QpOptions {
  readonly type?: QpType;
  readonly depth?: number;
  readonly rqDepth?: number;
  readonly cq?: RigCq;
  readonly recvCq?: RigCq;
  readonly qpn?: number;
  readonly pd?: number;
  readonly srq?: RigSrq;
  readonly persistCompletion?: "persistence" | "reception";
  readonly weight?: number;
  readonly hints?: HintPart;
  readonly privileged?: boolean;
  readonly hintEncoding?: HintEncoding;
}

/** How a region is made. */
export interface RegionOptions {
  readonly length: number;
  readonly access?: number;
  readonly pd?: number;
  readonly va?: number;
  /** Its pages lie in reverse order. */
  readonly scattered?: boolean;
  readonly persistent?: boolean;
  readonly objects?: RegionPlan["objects"];
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
