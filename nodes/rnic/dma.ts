/**
 * DMA: tags, the limit of outstanding reads, and what to do when a read completes. What to do is data
 * (a {@link Continuation}), so that a reset can look at it and nothing is captured.
 */
import { assert } from "../../fabric/assert.ts";
import { PORTS } from "../../fabric/node.ts";
import type { Time } from "../../fabric/time/time.ts";
import type { Completion } from "../../fabric/wire/pcie.ts";
import type { Device } from "./device.ts";
import { Fifo } from "./fifo.ts";
import type { FrameJob } from "./frame_job.ts";
import type { PersistRecord } from "./pm_module.ts";
import type { QueuePair } from "./queue_pair.ts";
import { trace } from "./trace.ts";
import type { QueueEntry } from "./queue_info/queue_cache.ts";
import type { QueueLoad } from "./queue_info/queue_information.ts";

/** What a completed read is for. `life` is the queue pair's at the time of the request. */
export type Continuation =
  | { readonly kind: "queue-space"; readonly load: QueueLoad; readonly space: 1 | 2 | 3 }
  | {
    readonly kind: "send-wqes";
    readonly qp: QueuePair;
    readonly life: number;
    readonly entry: QueueEntry;
    readonly units: number;
  }
  | {
    readonly kind: "recv-wqes";
    readonly qp: QueuePair;
    readonly life: number;
    readonly entry: QueueEntry;
    readonly units: number;
  }
  | { readonly kind: "payload"; readonly job: FrameJob; readonly offset: number }
  | LsbRead;

/** S905: the read that pushes this queue pair's earlier writes out (P-24), and whom it serves. */
export interface LsbRead {
  readonly kind: "lsb";
  readonly qp: QueuePair;
  readonly life: number;
  readonly records: PersistRecord[];
}

export interface ReadRequest {
  readonly address: number;
  readonly length: number;
  readonly noSnoop: boolean;
  readonly continuation: Continuation;
}

export interface Dma {
  /** Requests on the bus, by tag. */
  readonly outstanding: (ReadRequest | undefined)[];
  readonly freeTags: number[];
  /** Requests that wait for a tag. */
  readonly waiting: Fifo<ReadRequest>;
  /** When the bus has taken the last message handed to it. */
  busFreeAt: Time;
}

export function createDma(readsMax: number): Dma {
  const freeTags: number[] = [];
  for (let tag = readsMax - 1; tag >= 0; tag--) freeTags.push(tag);
  return {
    outstanding: new Array(readsMax).fill(undefined),
    freeTags,
    waiting: new Fifo(),
    busFreeAt: 0,
  };
}

/** Whether a read would go out at once. */
export function canRead(dma: Dma): boolean {
  return dma.freeTags.length > 0 && dma.waiting.length === 0;
}

/** Reads `length` bytes (> 0) of host memory: at once, or when a tag is free, in call order. */
export function dmaRead(device: Device, request: ReadRequest): void {
  assert(request.length > 0, "Cannot read 0 bytes by DMA");
  const { dma } = device;
  if (canRead(dma)) issue(device, request);
  else dma.waiting.push(request);
}

/** Posted write. @returns when the bus has taken it. */
export function dmaWrite(
  device: Device,
  write: {
    readonly address: number;
    readonly data: Uint8Array<ArrayBuffer>;
    readonly noSnoop: boolean;
    readonly departAt: Time;
  },
): Time {
  const { address, data, noSnoop, departAt } = write;
  device.counters.dmaWrites++;
  device.counters.dmaWriteBytes += data.length;
  const message = { kind: "memory-write", address, data, noSnoop } as const;
  device.dma.busFreeAt = device.out.send(PORTS.rnicBus, message, departAt);
  return device.dma.busFreeAt;
}

/** Takes a completion's request off the list and lets the next one go. Undefined: not ours. */
export function takeCompletion(device: Device, completion: Completion): ReadRequest | undefined {
  const { dma } = device;
  const request = dma.outstanding[completion.tag];
  if (request === undefined) return undefined;
  dma.outstanding[completion.tag] = undefined;
  dma.freeTags.push(completion.tag);
  const next = dma.waiting.shift();
  if (next !== undefined) issue(device, next);
  return request;
}

/** An LSB read of this queue pair that is still on the chip: later messages may join it (P-24). */
export function waitingLsbRead(dma: Dma, qp: QueuePair): LsbRead | undefined {
  const { waiting } = dma;
  for (let at = waiting.end - 1; at >= waiting.first; at--) {
    const { continuation } = waiting.at(at)!;
    if (continuation.kind === "lsb" && continuation.qp === qp && continuation.life === qp.life) {
      return continuation;
    }
  }
  return undefined;
}

function issue(device: Device, request: ReadRequest): void {
  const { dma, counters } = device;
  const tag = dma.freeTags.pop()!;
  dma.outstanding[tag] = request;
  const { address, length, noSnoop, continuation } = request;
  const isLsb = continuation.kind === "lsb";
  counters.dmaReads++;
  counters.dmaReadBytes += length;
  if (isLsb) {
    counters.lsbReads++;
    noteLsbRead(device, continuation);
  }
  // S905: the PM module has decided that it is needed.
  const departAt = device.stageAt + (isLsb ? device.timing.persistPs : 0);
  const message = { kind: "memory-read", tag, address, length, noSnoop } as const;
  dma.busFreeAt = device.out.send(PORTS.rnicBus, message, departAt);
}

function noteLsbRead(device: Device, read: LsbRead): void {
  if (!device.out.tracing) return;
  for (const { firstPsn } of read.records) {
    const text = "DMA LSB read to the host";
    trace(device, read.qp, { step: "S906", text, psn: firstPsn, inbound: true });
  }
}
