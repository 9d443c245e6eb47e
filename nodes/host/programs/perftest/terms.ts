/**
 * perftest's tests, and the terms in private data. Names, defaults and meanings are perftest's
 * (linux-rdma/perftest: `perftest_parameters.h`).
 */
import { MEMORIES, type Memory } from "../../../../fabric/rack/plan/plan.ts";
import type { Time } from "../../../../fabric/base/time.ts";
import type { WqeOpcode } from "../../../../fabric/wire/host_bus/wqe_opcode.ts";

export const PERFTESTS = [
  "ib_write_lat",
  "ib_read_lat",
  "ib_send_lat",
  "ib_atomic_lat",
  "ib_write_bw",
  "ib_read_bw",
  "ib_send_bw",
  "ib_atomic_bw",
] as const;
export type PerftestName = typeof PERFTESTS[number];

/** `-c`. */
export const CONNECTIONS = ["RC", "UC", "UD"] as const;
export type ConnectionType = typeof CONNECTIONS[number];

export interface PerftestKind {
  readonly title: string;
  readonly measures: "latency" | "bandwidth";
  readonly verb: Extract<WqeOpcode, "write" | "read" | "send"> | "atomic";
  /** Half of the round trip is reported. */
  readonly pingPong: boolean;
  readonly inlineBytes: number;
  readonly bytes: number;
  readonly depth: number;
  readonly iterations: number;
  readonly connections: readonly ConnectionType[];
  /** The one size of a message; undefined: any. */
  readonly onlyBytes: number | undefined;
  readonly qpsMost: number;
  readonly iterationsLeast: number;
}

/** Maximum number of queue pairs of a client (`MAX_QP_NUM`). */
export const QPS_MAX = 16_384;

const LATENCY = {
  measures: "latency",
  pingPong: false,
  inlineBytes: 0,
  bytes: 2,
  depth: 1,
  iterations: 1000,
  onlyBytes: undefined,
  qpsMost: 1,
  iterationsLeast: 2,
} as const;
const PING_PONG = { ...LATENCY, pingPong: true, inlineBytes: 220 } as const;
const BANDWIDTH = {
  measures: "bandwidth",
  pingPong: false,
  inlineBytes: 0,
  bytes: 65_536,
  depth: 128,
  iterations: 1000,
  onlyBytes: undefined,
  qpsMost: QPS_MAX,
  iterationsLeast: 1,
} as const;
const WRITE = { title: "RDMA_Write", verb: "write", connections: ["RC", "UC"] } as const;
const READ = { title: "RDMA_Read", verb: "read", connections: ["RC"] } as const;
const SEND = { title: "Send", verb: "send", connections: CONNECTIONS } as const;
const ATOMIC = {
  title: "Atomic",
  verb: "atomic",
  bytes: 8,
  onlyBytes: 8,
  connections: ["RC"],
} as const;

export const PERFTEST: Readonly<Record<PerftestName, PerftestKind>> = {
  ib_write_lat: { ...PING_PONG, ...WRITE },
  ib_read_lat: { ...LATENCY, ...READ },
  ib_send_lat: { ...PING_PONG, ...SEND },
  ib_atomic_lat: { ...LATENCY, ...ATOMIC },
  ib_write_bw: { ...BANDWIDTH, ...WRITE, iterations: 5000 },
  ib_read_bw: { ...BANDWIDTH, ...READ },
  ib_send_bw: { ...BANDWIDTH, ...SEND },
  ib_atomic_bw: { ...BANDWIDTH, ...ATOMIC },
};

export const SERVICE = "perftest";
/** perftest's default rx-depth, of a SEND test. */
export const RX_DEPTH = 512;
export const CQ_MODERATION = 100;
/**
 * Larger messages complete one by one, unless `-Q` or `-a` says otherwise
 * (`MSG_SIZE_CQ_MOD_LIMIT`).
 */
export const MODERATED_BYTES_MAX = 8192;
/** Most messages of a test, and most outstanding on a queue pair. */
export const ITERATIONS_MAX = 10_000_000, DEPTH_MAX = 8192;
/** perftest's limits, with and without `-a`. */
export const BYTES_MAX = 8 * 2 ** 20;
/** perftest's Q_Key of UD queue pairs. */
export const UD_Q_KEY = 0x1111_1111;
export const ATOMICS = ["fetch-add", "compare-swap"] as const;
export type Atomic = typeof ATOMICS[number];

/** `-D`: the test, and uncounted margins at both ends. */
export interface Duration {
  readonly ps: Time;
  readonly marginPs: Time;
}

export interface TestTerms {
  readonly test: PerftestName;
  readonly connection: ConnectionType;
  readonly bytes: number;
  /** Messages per queue pair; ignored with a duration. */
  readonly iterations: number;
  readonly duration: Duration | undefined;
  readonly bidirectional: boolean;
  readonly atomic: Atomic;
  readonly depth: number;
  readonly rxDepth: number;
  readonly postList: number;
  readonly cqModeration: number;
  readonly inlineBytes: number;
  readonly outstanding: number;
  readonly trafficClass: number;
  readonly hopLimit: number;
  /** 4.096 µs · 2^timeout. */
  readonly timeout: number;
  readonly retryCount: number;
}

export interface PerftestTerms extends TestTerms {
  readonly memory: Memory;
  readonly index: number;
  readonly qps: number;
  readonly place: RemotePlace;
  /** The address of the server's figures, under the same key. */
  readonly reportVa: number;
  /** 0 where the connection has no UD queue pair. */
  readonly udQpn: number;
}

export interface RemotePlace {
  readonly va: number;
  readonly rkey: number;
}

const FIELDS = [
  ["test", 1],
  ["memory", 1],
  ["connection", 1],
  ["flags", 1],
  ["index", 2],
  ["qps", 2],
  ["bytes", 4],
  ["iterations", 4],
  ["depth", 2],
  ["rxDepth", 2],
  ["postList", 2],
  ["cqModeration", 2],
  ["inlineBytes", 2],
  ["outstanding", 1],
  ["trafficClass", 1],
  ["hopLimit", 1],
  ["timeout", 1],
  ["retryCount", 1],
  ["durationPs", 8],
  ["marginPs", 8],
  ["reportVa", 8],
  ["va", 8],
  ["rkey", 4],
  ["udQpn", 4],
] as const;
type Field = typeof FIELDS[number][0];
const TERMS_BYTES = FIELDS.reduce((sum, [, bytes]) => sum + bytes, 0);
const FLAG = { bidirectional: 1, compareSwap: 2 } as const;

/** At most 88 bytes fit a request. */
export function encodePerftestTerms(terms: PerftestTerms): Uint8Array<ArrayBuffer> {
  const { duration, place } = terms;
  const values: Readonly<Record<Field, number>> = {
    ...terms,
    test: PERFTESTS.indexOf(terms.test),
    memory: MEMORIES.indexOf(terms.memory),
    connection: CONNECTIONS.indexOf(terms.connection),
    flags: (terms.bidirectional ? FLAG.bidirectional : 0) |
      (terms.atomic === "compare-swap" ? FLAG.compareSwap : 0),
    durationPs: duration?.ps ?? 0,
    marginPs: duration?.marginPs ?? 0,
    va: place.va,
    rkey: place.rkey,
  };
  const bytes = new Uint8Array(TERMS_BYTES);
  let at = 0;
  for (const [field, width] of FIELDS) {
    let rest = values[field];
    for (let i = width - 1; i >= 0; i--) {
      bytes[at + i] = rest % 256;
      rest = Math.floor(rest / 256);
    }
    at += width;
  }
  return bytes;
}

export function decodePerftestTerms(bytes: Uint8Array): PerftestTerms | undefined {
  if (bytes.length < TERMS_BYTES) return undefined;
  let at = 0;
  const read = Object.fromEntries(FIELDS.map(([field, width]) => {
    const value = bytes.subarray(at, at += width).reduce((sum, each) => sum * 256 + each, 0);
    return [field, value];
  })) as Readonly<Record<Field, number>>;
  const { flags, durationPs, marginPs, va, rkey, ...rest } = read;
  const test = PERFTESTS[read.test];
  const memory = MEMORIES[read.memory];
  const connection = CONNECTIONS[read.connection];
  if (test === undefined || memory === undefined || connection === undefined) return undefined;
  const { bytes: size, index, qps, reportVa, depth, cqModeration, postList } = read;
  if (size < 1 || size > BYTES_MAX || qps > QPS_MAX || index >= qps) return undefined;
  if ([va, reportVa, durationPs].some((each) => !Number.isSafeInteger(each))) return undefined;
  if (depth < 1 || cqModeration < 1 || postList < 1 || 2 * marginPs > durationPs) return undefined;
  return {
    ...rest,
    test,
    memory,
    connection,
    bidirectional: (flags & FLAG.bidirectional) !== 0,
    atomic: (flags & FLAG.compareSwap) !== 0 ? "compare-swap" : "fetch-add",
    duration: durationPs === 0 ? undefined : { ps: durationPs, marginPs },
    place: { va, rkey },
  };
}

const PLACE_BYTES = 12, ANSWER_BYTES = PLACE_BYTES + 8;

export interface PerftestAnswer {
  readonly place: RemotePlace;
  readonly udQpn: number;
  readonly udPsn: number;
}

export function encodeAnswer({ place, udQpn, udPsn }: PerftestAnswer): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ANSWER_BYTES);
  const view = new DataView(bytes.buffer);
  bytes.set(encodePlace(place));
  view.setUint32(PLACE_BYTES, udQpn);
  view.setUint32(PLACE_BYTES + 4, udPsn);
  return bytes;
}

export function decodeAnswer(bytes: Uint8Array): PerftestAnswer | undefined {
  const place = decodePlace(bytes);
  if (place === undefined || bytes.length < ANSWER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { place, udQpn: view.getUint32(PLACE_BYTES), udPsn: view.getUint32(PLACE_BYTES + 4) };
}

export function encodePlace({ va, rkey }: RemotePlace): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(PLACE_BYTES);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(va));
  view.setUint32(8, rkey);
  return bytes;
}

export function decodePlace(bytes: Uint8Array): RemotePlace | undefined {
  if (bytes.length < PLACE_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const va = Number(view.getBigUint64(0));
  return Number.isSafeInteger(va) ? { va, rkey: view.getUint32(8) } : undefined;
}

const REASON_CHARACTERS = 80;

/** A server's reason for a rejection is in its REJ's private data, in ASCII. */
export function encodeReason(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text.slice(0, REASON_CHARACTERS));
}

/** @returns "" without a reason; the rest is padding. */
export function decodeReason(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).replace(/\0[^]*$/, "");
}
