/**
 * DMA: tags, limits of outstanding reads, and their continuations, which are data, so that a reset can inspect them.
 *
 * Two engines read, each with its own tags: `gather` for this card's work, `responder` for peers' requests.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { PORTS } from "../../../fabric/node.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { type Completion, readRequests } from "../../../fabric/wire/host_bus/pcie.ts";
import type { Device } from "../state/device.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { readOnCard, writeOnCard } from "./card_memory.ts";
import { readLines, writeLines } from "./coherent_port.ts";
import { noteInJournal } from "./journal.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { trace } from "../trace/trace.ts";
import type { Continuation, Dma, LsbRead, ReadEngine, ReadRequest } from "../state/dma_state.ts";
import { noteOverlaps } from "../state/verify_state.ts";

/**
 * @param readsMax maximum read requests of each engine on the bus.
 */
export function createDma(readsMax: { readonly responder: number; readonly gather: number }): Dma {
  const { responder, gather } = readsMax;
  return {
    responder: createEngine(0, responder),
    gather: createEngine(responder, gather),
    outstanding: new Array(responder + gather).fill(undefined),
    responderTags: responder,
    onCard: new Fifo(),
    reading: new Fifo(),
    busFreeAt: 0,
  };
}

function createEngine(firstTag: number, requests: number): ReadEngine {
  const freeTags: number[] = [];
  for (let tag = firstTag + requests - 1; tag >= firstTag; tag--) freeTags.push(tag);
  return { freeTags, freeRequests: requests, waiting: new Fifo() };
}

export function canRead({ freeRequests, waiting }: ReadEngine): boolean {
  return freeRequests > 0 && waiting.length === 0;
}

function engineOf({ gather, responder }: Dma, continuation: Continuation): ReadEngine {
  switch (continuation.kind) {
    case "payload":
      return continuation.gather.jobs[0]!.read === undefined ? gather : responder;
    case "lsb":
    case "atomic":
    case "preload":
    case "read-back":
      return responder;
    case "queue-space":
    case "translation":
    case "send-wqes":
    case "recv-wqes":
    case "srq-wqes":
    case "space2":
    case "ring-units":
      return gather;
  }
}

/**
 * `length` > 0. Reads go out in call order; the last one may exceed the engine's limit by a part of
 * itself.
 */
export function dmaRead(device: Device, request: ReadRequest): void {
  assert(request.length > 0, "Cannot read 0 bytes by DMA");
  assert(request.address >= 0, "Cannot read a page by DMA that is not there");
  if (readOnCard(device, request)) return;
  const engine = engineOf(device.dma, request.continuation);
  if (canRead(engine)) issue(device, engine, request);
  else engine.waiting.push(request);
}

/** The write departs at `stageAt`. @returns when the bus has taken it. */
export function dmaWrite(
  device: Device,
  write: {
    readonly address: number;
    readonly data: Uint8Array<ArrayBuffer>;
    readonly noSnoop?: boolean;
    readonly persistent?: boolean;
    /** The word's new value on the chip (H-23). */
    readonly keepsWord?: boolean;
  },
): Time {
  const { address, data, noSnoop = false, persistent = false, keepsWord = false } = write;
  assert(address >= 0, "Cannot write a page by DMA that is not there");
  if (writeOnCard(device, address, data)) return device.stageAt;
  device.counters.dmaWrites++;
  device.counters.dmaWriteBytes += data.length;
  noteOverlaps(device, { address, length: data.length });
  const message = { kind: "memory-write", address, data, noSnoop } as const;
  const { port } = device;
  if (port === undefined) {
    device.dma.busFreeAt = device.out.send(PORTS.rnicBus, message, device.stageAt);
    if (persistent) noteInJournal(device, message, device.dma.busFreeAt);
  } else {
    const entry = persistent ? "new" : undefined;
    writeLines(device, port, { address, data, toMemory: noSnoop, entry });
  }
  const { busFreeAt } = device.dma, { hints } = device;
  if (hints !== undefined && hints.words.size > 0) {
    device.up.wordsOverwritten(device, hints, { address, length: data.length, keepsWord });
  }
  return busFreeAt;
}

/** @returns undefined where this card has not asked for it. */
export function takeCompletion(device: Device, completion: Completion): ReadRequest | undefined {
  const { dma } = device;
  const request = dma.outstanding[completion.tag];
  if (request === undefined) return undefined;
  dma.outstanding[completion.tag] = undefined;
  const engine = completion.tag < dma.responderTags ? dma.responder : dma.gather;
  engine.freeTags.push(completion.tag);
  engine.freeRequests += readRequests(request.length);
  while (engine.freeRequests > 0 && engine.waiting.length > 0) {
    issue(device, engine, engine.waiting.shift()!);
  }
  return request;
}

/** A read that is still on the chip: later messages may join it (P-24). */
export function waitingLsbRead(dma: Dma, qp: QueuePair): LsbRead | undefined {
  const { waiting } = dma.responder;
  for (let at = waiting.end - 1; at >= waiting.first; at--) {
    const { continuation } = waiting.at(at)!;
    if (continuation.kind === "lsb" && continuation.qp === qp && continuation.life === qp.life) {
      return continuation;
    }
  }
  return undefined;
}

function issue(device: Device, engine: ReadEngine, request: ReadRequest): void {
  const { dma, counters } = device;
  const tag = engine.freeTags.pop()!;
  dma.outstanding[tag] = request;
  const { address, length, noSnoop = false, medium = false, tracked = false } = request;
  const { continuation } = request;
  engine.freeRequests -= readRequests(length);
  const isLsb = continuation.kind === "lsb";
  counters.dmaReads++;
  counters.dmaReadBytes += length;
  if (isLsb) counters.lsbReads++;
  if (device.out.tracing) noteRead(device, request, tag);
  // S905: the PM module has decided on an LSB read, which takes it time; so it is with a read-back.
  const isDecidedOn = isLsb || continuation.kind === "read-back";
  const departAt = device.stageAt + (isDecidedOn ? device.timing.persistPs : 0);
  const plain = { kind: "memory-read", tag, address, length, noSnoop } as const;
  if (device.port !== undefined) {
    const isForPeer = engine === dma.responder;
    return readLines(device, device.port, { tag, request, departAt, isForPeer });
  }
  const message = medium
    ? { ...plain, medium } as const
    : tracked
    ? { ...plain, tracked } as const
    : plain;
  dma.busFreeAt = device.out.send(PORTS.rnicBus, message, departAt);
}

/**
 * Without a line of its own the read would be drawn in the ladder of the message that had its tag
 * before.
 */
function noteRead(device: Device, { continuation, length }: ReadRequest, tag: number): void {
  const text = `DMA read of ${length} B to the host`;
  switch (continuation.kind) {
    case "lsb":
      for (const { firstPsn: psn } of continuation.records) {
        const what = device.port === undefined
          ? "DMA LSB read to the host"
          : "no LSB read: waits until the coherent bus has completed the writes so far";
        const lsb = { step: "S906", text: what, psn, tag } as const;
        trace(device, continuation.qp, { ...lsb, inbound: true });
      }
      return;
    case "payload": {
      const { qp, read } = continuation.gather.jobs[0]!;
      if (read === undefined) return;
      return trace(device, qp, { step: "dma-read", text, psn: read.psn, inbound: true, tag });
    }
    case "atomic": {
      const { qp, service: { psn } } = continuation.turn;
      return trace(device, qp, { step: "dma-read", text, psn, inbound: true, tag });
    }
    case "preload": {
      const { qp, psn } = continuation.word;
      return trace(device, qp, { step: "preload", text, psn, inbound: true, tag });
    }
    case "read-back": {
      const { qp, firstPsn } = continuation.readBack;
      return trace(device, qp, { step: "4604", text, psn: firstPsn, inbound: true, tag });
    }
    case "queue-space":
    case "translation":
    case "send-wqes":
    case "recv-wqes":
    case "srq-wqes":
    case "space2":
    case "ring-units":
      return;
  }
}
