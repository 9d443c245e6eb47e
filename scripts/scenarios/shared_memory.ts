/**
 * Memory that computers share (`coherent_*.yaml`): a region of coherent cards or, for comparison
 * (C-11), memory behind PCIe cards. There the home computer uses its own memory; the others send it
 * READs, WRITEs and atomics and wait for each.
 */
import {
  type Buffer,
  type Connection,
  type Cq,
  type CrashView,
  formatTime,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
  type LatencySummary,
  type Mr,
  type ProgramContext,
  PS_PER_MS,
  type Region,
  type SendRequest,
  sizeOption,
  type Steps,
  summarize,
  type Time,
  timeOption,
} from "rackmesh";
import {
  admit,
  connectTo,
  countersOf,
  type Counts,
  flagsFor,
  MAX_INLINE,
  nextRequest,
  remoteOf,
} from "./peer.ts";

export const LINE_BYTES = 64;
export const WORD_BYTES = 8;
const SERVICE = "shared";
const LISTENS_PS = 100e6;
/**
 * Of the option `patience`, a choice: above the longest wait for a computer that is present, 3 ms
 * of the queues.
 */
const PATIENCE_PS = 5 * PS_PER_MS;

/** Each call returns when the access is done. */
export interface Shared {
  load(offset: number, length: number): Steps<Uint8Array>;
  store(offset: number, bytes: Uint8Array): Steps<void>;
  /**
   * Returns the word's old value.
   * @throws Error at the home computer of a PCIe card, whose atomics are not atomic with its
   * processor's accesses (`atomic_cap`: HCA).
   */
  fetchAdd(offset: number, operand: bigint): Steps<bigint>;
  /**
   * Until the bytes may differ from those loaded last, or the deadline: the caller looks again. A
   * far computer with a PCIe card receives no notice, and looks again at once.
   */
  waitChange(offset: number, length: number, deadline: Time): Steps<void>;
}

/** At the computer whose memory it is, or at another. */
export type Side = "home" | "far";

/** By the host's name: `home-local`, `far-pcie`, `far2-pcie`. */
export interface Part {
  readonly side: Side;
  readonly card: "coherent" | "pcie";
  /** The region's name, which is that of its placement (C-04); `none` of PCIe cards. */
  readonly placement: string;
}

/** @throws TypeError for a host whose name names no part. */
export function partOf(host: string): Part {
  const [, side, memory] = /^(home|far)\d*-(\w+)$/.exec(host) ?? [];
  if (side === undefined) throw new TypeError(`Host ${host} must be called home-… or far-…`);
  const card = memory === "pcie" ? "pcie" : "coherent";
  return { side: side as Side, card, placement: card === "pcie" ? "none" : memory! };
}

/**
 * All computers of a host's memory have kept their power; otherwise the survivors end early,
 * without the results that a check counts.
 */
export function isPowered({ hosts }: Pick<CrashView, "hosts">, host: string): boolean {
  const { placement } = partOf(host);
  return Object.entries(hosts).every(([other, { survived }]) =>
    survived || partOf(other).placement !== placement
  );
}

/** Options for PCIe cards: its `bytes`, and `clients`, far hosts for all of which home waits. */
export function* openShared(context: ProgramContext): Steps<Shared> {
  const { side, card, placement } = partOf(context.cpu.host);
  if (card === "coherent") return regionMemory(yield* context.cpu.region(placement));
  return yield* side === "home" ? serveMemory(context) : reachMemory(context);
}

function regionMemory(region: Region): Shared {
  return {
    load: (offset, length) => region.load(offset, length),
    store: (offset, bytes) => region.store(offset, bytes),
    fetchAdd: (offset, operand) => region.fetchAdd(offset, operand),
    *waitChange(offset, length, deadline) {
      yield* region.waitChange(offset, length, deadline);
    },
  };
}

function* serveMemory({ cpu, device, options }: ProgramContext): Steps<Shared> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(sizeOption(options, "bytes"));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC;
  const mr = v.must(yield* v.regMr(pd, buffer, { access }));
  const listener = v.must(v.listen(device, SERVICE));
  const begin = cpu.now, deadline = begin + patienceOf(options);
  const clients = Number(options.clients ?? 1);
  for (let i = 0; i < clients; i++) {
    const request = yield* nextRequest(device, listener, deadline);
    if (request === undefined) {
      const waitedPs = cpu.now - begin;
      throw new GivenUp({ of: `the clients of ${clients}`, word: BigInt(i), waitedPs });
    }
    const qp = {
      pd,
      sendCq: cq,
      recvCq: cq,
      maxSendWr: 4,
      maxRecvWr: 4,
      maxInlineData: MAX_INLINE,
    };
    yield* admit({ device, listener }, request, { qp, mr });
  }
  return ownMemory(cpu, buffer);
}

function ownMemory(cpu: ProgramContext["cpu"], { address }: Buffer): Shared {
  return {
    *load(offset, length) {
      const bytes = cpu.load(address + offset, length);
      yield* cpu.settle();
      return bytes;
    },
    *store(offset, bytes) {
      cpu.store(address + offset, bytes);
      yield* cpu.settle();
    },
    // deno-lint-ignore require-yield -- it refuses
    *fetchAdd() {
      throw new Error("Cannot add: a PCIe card's atomics do not exclude its processor's (HCA)");
    },
    *waitChange(offset, length, deadline) {
      yield* cpu.waitMemory(address + offset, length, deadline);
    },
  };
}

interface Reach {
  readonly device: ProgramContext["device"];
  readonly cpu: ProgramContext["cpu"];
  readonly connection: Connection;
  readonly cq: Cq;
  readonly mr: Mr;
}

function* reachMemory({ cpu, device, options }: ProgramContext): Steps<Shared> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const bytes = sizeOption(options, "bytes");
  const mr = v.must(yield* v.regMr(pd, cpu.allocate(bytes), { access: IBV_ACCESS_LOCAL_WRITE }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4, maxInlineData: MAX_INLINE };
  yield* cpu.sleep(LISTENS_PS);
  const to = cpu.host.replace(/^far\d*/, "home");
  const connection = yield* connectTo(device, { to, service: SERVICE, qp });
  return farMemory({ device, cpu, connection, cq, mr });
}

function farMemory(reach: Reach): Shared {
  const { cpu, device: { verbs: v }, mr, connection } = reach, sendFlags = IBV_SEND_SIGNALED;
  return {
    *load(offset, length) {
      const sges = [v.sge(mr, 0, length)];
      yield* request(reach, {
        opcode: "read",
        sendFlags,
        sges,
        remote: remoteOf(connection, offset),
      });
      return cpu.load(mr.address, length);
    },
    *store(offset, bytes) {
      cpu.store(mr.address, bytes);
      const sges = [v.sge(mr, 0, bytes.length)], remote = remoteOf(connection, offset);
      yield* request(reach, { opcode: "write", sendFlags: flagsFor(bytes.length), sges, remote });
    },
    *fetchAdd(offset, operand) {
      const sges = [v.sge(mr, 0, WORD_BYTES)], remote = remoteOf(connection, offset);
      const atomic = { swapAdd: operand, compare: 0n };
      yield* request(reach, { opcode: "fetch-add", sendFlags, sges, remote, atomic });
      return wordIn(cpu.load(mr.address, WORD_BYTES));
    },
    *waitChange() {},
  };
}

function* request({ device: { verbs: v }, connection, cq }: Reach, what: SendRequest): Steps<void> {
  v.must(yield* v.postSend(connection.qp, what));
  const [done] = yield* v.waitCompletion(cq);
  if (done!.status !== "SUCCESS") throw new Error(`A ${what.opcode} ended with ${done!.status}`);
}

/** 8 bytes, little-endian as processors and atomics have it. */
export function wordOf(value: bigint): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(WORD_BYTES);
  new DataView(bytes.buffer).setBigUint64(0, value, true);
  return bytes;
}

export function wordIn({ buffer, byteOffset }: Uint8Array, offset = 0): bigint {
  return new DataView(buffer, byteOffset).getBigUint64(offset, true);
}

export interface WordWait {
  /** Offset of the line in the memory, in bytes; `offset`: of the word in the line. */
  readonly line: number;
  readonly offset: number;
  readonly is: (word: bigint) => boolean;
  readonly of: string;
}

/** A word did not become the expected value: others of the memory may have lost their power. */
export class GivenUp extends Error {
  override readonly name = "GivenUp";
  readonly of: string;
  readonly word: bigint;
  readonly waitedPs: Time;

  constructor({ of, word, waitedPs }: Pick<GivenUp, "of" | "word" | "waitedPs">) {
    super(`Waited ${formatTime(waitedPs)} for ${of}, which is ${word}`);
    this.of = of;
    this.word = word;
    this.waitedPs = waitedPs;
  }
}

/**
 * Looks whenever the word may have changed. @returns the line, and the looks. @throws GivenUp after
 * the time of the option `patience`, as the host that stores it may have lost its power.
 */
export function* waitWord(
  { cpu, options }: ProgramContext,
  shared: Shared,
  { line, offset, is, of }: WordWait,
): Steps<{ readonly bytes: Uint8Array; readonly looks: number }> {
  const begin = cpu.now, deadline = begin + patienceOf(options);
  for (let looks = 1;; looks++) {
    // The last look begins at the deadline or later: it finds a value that was there by then.
    const isLast = cpu.now >= deadline;
    const bytes = yield* shared.load(line, LINE_BYTES);
    const word = wordIn(bytes, offset);
    if (is(word)) return { bytes, looks };
    if (isLast) throw new GivenUp({ of, word, waitedPs: cpu.now - begin });
    yield* shared.waitChange(line, LINE_BYTES, deadline);
  }
}

function patienceOf(options: ProgramContext["options"]): Time {
  return timeOption(options, "patience", PATIENCE_PS);
}

/** A computer's part of a workload; if it gives up, the result is the last word that it saw. */
export function* untilGivenUp(
  { cpu }: ProgramContext,
  workload: string,
  part: Steps<void>,
): Steps<void> {
  try {
    yield* part;
  } catch (error) {
    if (!(error instanceof GivenUp)) throw error;
    const { of, word, waitedPs } = error;
    const givenUp = { of, word: Number(word), waitedPs };
    cpu.report("result", { program: "shared", workload, ...partOf(cpu.host), givenUp });
  }
}

/** Sent and answered by a card between two looks (C-11). */
export interface Messages {
  /**
   * On the host's bus, in both directions: doorbells, DMA writes, and DMA reads with their answers.
   * For regions: lines' messages at home; elsewhere, accesses with their answers.
   */
  readonly bus: number;
  readonly network: number;
  /**
   * Accesses of a far computer's cores to regions; `hits`: those that a cache of this card has
   * served.
   */
  readonly asked: number;
  readonly hits: number;
}

/** Each further call returns the increase since; reading counts nothing. */
export function* countMessages(cpu: ProgramContext["cpu"]): Steps<() => Steps<Messages>> {
  const first = messagesOf(yield* countersOf(cpu));
  let before = messagesOf(yield* countersOf(cpu));
  const ofLook = since(first, before);
  return function* () {
    const now = messagesOf(yield* countersOf(cpu));
    const counted = since(ofLook, since(before, now));
    before = now;
    return counted;
  };
}

function since(before: Messages, now: Messages): Messages {
  return {
    bus: now.bus - before.bus,
    network: now.network - before.network,
    asked: now.asked - before.asked,
    hits: now.hits - before.hits,
  };
}

function messagesOf(counters: Counts): Messages {
  const { doorbells = 0, dmaReads = 0, dmaWrites = 0, framesOut: network = 0 } = counters;
  const { remoteCacheHits = 0, remoteCacheMisses = 0, localCacheHits = 0 } = counters;
  const asked = remoteCacheHits + remoteCacheMisses;
  let bus = doorbells + 2 * dmaReads + dmaWrites + 2 * asked;
  for (const [name, count] of Object.entries(counters)) {
    if (/^line(Sent|Received)[A-Z]/.test(name)) bus += count;
  }
  return { bus, network, asked, hits: remoteCacheHits + localCacheHits };
}

export type Latency = Pick<LatencySummary, "count" | "median" | "p99" | "max" | "mean">;

/** In ps; undefined for none. */
export function latencyOf(samples: readonly number[]): Latency | undefined {
  const all = summarize(Float64Array.from(samples));
  if (all === undefined) return undefined;
  const { count, median, p99, max, mean } = all;
  return { count, median, p99, max, mean };
}
