/**
 * The agreement of the two ends of a perftest: the tests, as a table, and the terms in the private
 * data of the connection's request and response. Names, defaults and meanings are perftest's
 * (linux-rdma/perftest: `perftest_parameters.h`).
 */
import type { WqeOpcode } from "../../../../fabric/wire/host_bus/wqe.ts";

export const PERFTESTS = [
  "ib_write_lat",
  "ib_read_lat",
  "ib_send_lat",
  "ib_atomic_lat",
  "ib_write_bw",
  "ib_read_bw",
  "ib_send_bw",
] as const;
export type PerftestName = typeof PERFTESTS[number];

export interface PerftestKind {
  readonly title: string;
  readonly measures: "latency" | "bandwidth";
  readonly verb: Extract<WqeOpcode, "write" | "read" | "send"> | "atomic";
  /** The peer answers each message with one of its own; half of the round trip is reported. */
  readonly pingPong: boolean;
  /** Maximum bytes inlined in the WQE. */
  readonly inlineBytes: number;
  /** Defaults: bytes of a message, outstanding messages, and iterations. */
  readonly bytes: number;
  readonly depth: number;
  readonly iterations: number;
}

const LATENCY = {
  measures: "latency",
  pingPong: false,
  inlineBytes: 0,
  bytes: 2,
  depth: 1,
  iterations: 1000,
} as const;
const PING_PONG = { ...LATENCY, pingPong: true, inlineBytes: 220 } as const;
const BANDWIDTH = {
  measures: "bandwidth",
  pingPong: false,
  inlineBytes: 0,
  bytes: 65_536,
  depth: 128,
  iterations: 5000,
} as const;

export const PERFTEST: Readonly<Record<PerftestName, PerftestKind>> = {
  ib_write_lat: { ...PING_PONG, title: "RDMA_Write Latency Test", verb: "write" },
  ib_read_lat: { ...LATENCY, title: "RDMA_Read Latency Test", verb: "read" },
  ib_send_lat: { ...PING_PONG, title: "Send Latency Test", verb: "send" },
  ib_atomic_lat: { ...LATENCY, title: "Atomic Latency Test", verb: "atomic", bytes: 8 },
  ib_write_bw: { ...BANDWIDTH, title: "RDMA_Write BW Test", verb: "write" },
  ib_read_bw: { ...BANDWIDTH, title: "RDMA_Read BW Test", verb: "read" },
  ib_send_bw: { ...BANDWIDTH, title: "Send BW Test", verb: "send" },
};

/** Name of the server's service. */
export const SERVICE = "perftest";
/** Posted receives at an end of a SEND test (perftest's default rx-depth). */
export const RX_DEPTH = 512;
/** perftest requests a completion every so many messages of a bandwidth test. */
export const CQ_MODERATION = 100;
/** Maximum number of queue pairs of a client. */
export const QPS_MAX = 128;
/** Maximum message size, with and without `-a`. */
export const BYTES_MAX = 8 * 2 ** 20;
/** Memory of the server's buffer. */
export const MEMORIES = ["dram", "scm"] as const;
export type Memory = typeof MEMORIES[number];

/** The client's terms, sent with each connection. */
export interface PerftestTerms {
  readonly test: PerftestName;
  readonly memory: Memory;
  readonly bytes: number;
  readonly iterations: number;
  /** Index of this queue pair among the client's: each has a place of its own. */
  readonly index: number;
  readonly qps: number;
  /** Where the server writes to the client. */
  readonly place: RemotePlace;
}

export interface RemotePlace {
  readonly va: number;
  readonly rkey: number;
}

const PLACE_AT = 14, PLACE_BYTES = 12;
const TERMS_BYTES = PLACE_AT + PLACE_BYTES;

/** The bytes of the terms; at most 88 fit a request. */
export function encodePerftestTerms(terms: PerftestTerms): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(TERMS_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, PERFTESTS.indexOf(terms.test));
  view.setUint8(1, MEMORIES.indexOf(terms.memory));
  view.setUint16(2, terms.index);
  view.setUint32(4, terms.bytes);
  view.setUint32(8, terms.iterations);
  view.setUint16(12, terms.qps);
  bytes.set(encodePlace(terms.place), PLACE_AT);
  return bytes;
}

/** The terms; undefined for invalid bytes. */
export function decodePerftestTerms(bytes: Uint8Array): PerftestTerms | undefined {
  if (bytes.length < TERMS_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const test = PERFTESTS[view.getUint8(0)];
  const memory = MEMORIES[view.getUint8(1)];
  const place = decodePlace(bytes.subarray(PLACE_AT));
  const size = view.getUint32(4);
  const index = view.getUint16(2), qps = view.getUint16(12);
  if (test === undefined || memory === undefined || place === undefined) return undefined;
  if (size < 1 || size > BYTES_MAX || qps > QPS_MAX || index >= qps) return undefined;
  return {
    test,
    memory,
    bytes: size,
    iterations: view.getUint32(8),
    index,
    qps,
    place,
  };
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

/** Maximum length of a server's reason in a REJ. */
const REASON_CHARACTERS = 80;

/** Why a server rejects: in the private data of its REJ, in ASCII. */
export function encodeReason(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text.slice(0, REASON_CHARACTERS));
}

/** The reason; "" without one. The rest is padding. */
export function decodeReason(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).replace(/\0[^]*$/, "");
}
