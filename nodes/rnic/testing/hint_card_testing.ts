/**
 * A card without a host or a cable, whose rooms a test enters by their doors, one step at a time. What leaves it is
 * kept; what comes to it, the test brings.
 */
import { PORTS } from "../../../fabric/node.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import type { HintEncoding } from "../../../fabric/wire/roce/hint_eth.ts";
import { decodeHint, type HintMessage, hintOf } from "../../../fabric/wire/roce/hint.ts";
import type { PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import {
  ACCESS,
  type HintPart,
  type QpAttributes,
  type QpType,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { createDevice } from "../device.ts";
import { addRegion } from "../dma/memory_region.ts";
import { holdTable } from "../paging/translation_cache.ts";
import type { Device } from "../state/device.ts";
import type { Hints } from "../hints/state/hint_state.ts";
import type { Region } from "../state/memory.ts";
import {
  applyAttributes,
  createQueuePair,
  type QueuePair,
  type SharedReceiveQueue,
} from "../state/queue_pair.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import { EVERY_ACCESS } from "./pair_testing.ts";
import { rnicPlan, stepsToRts } from "./rig_parts_testing.ts";

export const PAGE = 4096;

/** A hint, or an answer, that has left. */
export interface SentHint {
  readonly by: number;
  readonly psn: number;
  /** Of a datagram to a group. */
  readonly to?: number;
  readonly message?: HintMessage;
  /** The flag of a READ or WRITE of no bytes. */
  readonly range?: {
    readonly operation: string;
    readonly va: bigint;
    readonly rkey: number;
    readonly length: number;
    readonly answer: boolean;
  };
}

export interface Connection {
  readonly qpn: number;
  readonly address: number;
  readonly destQpn: number;
  readonly type?: QpType;
  readonly hints?: HintPart;
  readonly encoding?: HintEncoding;
  readonly pd?: number;
  readonly pathMtu?: NonNullable<QpAttributes["pathMtu"]>;
  readonly srq?: SharedReceiveQueue;
  readonly accessFlags?: number;
}

export class HintCard {
  readonly device: Device;
  readonly hints: Hints;
  readonly bus: PcieMessage[] = [];
  /** Accesses that go on. */
  readonly resumed: string[] = [];

  constructor(plan: Partial<RnicPlan>) {
    const device = createDevice("b", rnicPlan("b", plan), { seed: 1 });
    this.device = {
      ...device,
      up: {
        ...device.up,
        memoryReady: (_, { qp, kind }) => void this.resumed.push(`${qp.qpn}/${kind}`),
      },
    };
    this.device.out = {
      send: (port, message, departAt) => {
        if (port === PORTS.rnicBus) this.bus.push(message as PcieMessage);
        return departAt;
      },
      tracing: false,
      trace() {},
      report() {},
    };
    this.device.spaces = { queues: 256, space1: 0x1000, space2: 0x9000, space3: 0x1_1000 };
    Object.assign(this.device.paging.memory, { next: 0x10_0000, end: 0x20_0000 });
    this.hints = device.hints!;
  }

  at(now: Time): void {
    this.device.now = now;
    this.device.stageAt = now;
  }

  connect(options: Connection): QueuePair {
    const { qpn, type = "rc", hints, encoding, pd = 1, srq } = options;
    const { device } = this;
    const qp = createQueuePair({
      ...{ qpn, type, pd, sqQueue: 2 * qpn, rqQueue: 2 * qpn + 1, rqStride: 64, srq },
      rings: { sq: { address: 0, units: 64 }, rq: undefined },
      ...{ sendCq: 1, recvCq: 1, persistCompletion: "persistence", weight: 1 },
      ...{ hints, hintEncoding: encoding, slot: device.slots.length },
    });
    device.queuePairs.set(qpn, qp);
    device.slots.push(qp);
    bringUp(qp, options);
    return qp;
  }

  /** A region whose pages are given, or on demand. */
  register(
    place: { readonly va: number; readonly pages: number; readonly offset?: number },
    options: {
      readonly frames?: readonly number[];
      readonly access?: number;
      readonly pd?: number;
      readonly objects?: Region["objects"];
    } = {},
  ): Region {
    const { va, pages, offset = 0 } = place;
    const { frames, access = EVERY_ACCESS, pd = 1, objects } = options;
    const region = addRegion(this.device.regions, {
      ...{ pd, va: va + offset, length: pages * PAGE - offset, pageBytes: PAGE, persistent: true },
      access: frames === undefined ? access | ACCESS.onDemand : access,
      pages: frames ?? [],
      ...(objects && { objects }),
    })!;
    holdTable(this.device, region.table);
    return region;
  }

  /** The information of a queue is on the chip. */
  cache(queue: number): void {
    const { device } = this;
    if (device.cache.find(queue) === undefined) {
      const empty = { own: 0, host: 63, depth: 64, unitBytes: 64, pins: 0 };
      device.cache.insert({ queue, ...empty, cachedAt: device.now } as QueueEntry, device.now);
    }
  }

  /** What has left by the wire since the last call. */
  takeSent(): SentHint[] {
    const { data } = this.device.transmitter, sent: SentHint[] = [];
    for (let job = data.shift(); job !== undefined; job = data.shift()) {
      const { qp: { qpn: by }, psn, rare, payload, ud, reth, hint, row, ackReq: answer } = job;
      if (hint?.form === "range") {
        const range = { operation: row.operation, ...reth!, length: hint.length, answer };
        sent.push({ by, psn, range });
      } else if (ud !== undefined) {
        sent.push({ by, psn, to: ud.address, message: decodeHint(payload)! });
      } else {
        const message = hintOf({ hintEth: rare?.hintEth, payload } as RocePacket)!;
        sent.push({ by, psn, message });
      }
    }
    return sent;
  }
}

export function bringUp(
  qp: QueuePair,
  { address, destQpn, pathMtu = 1024, accessFlags = EVERY_ACCESS }: Omit<Connection, "qpn">,
): void {
  const peer = { qpn: destQpn, attributes: { accessFlags, pathMtu } };
  for (const step of stepsToRts(address, peer)) applyAttributes(qp, step);
}
