/**
 * The messages between `put`, `get`, `list` and `remove` and the service `persistd`. The connection manager's
 * private data carries a connection's terms; other messages are SENDs with a header of 32 bytes:
 *
 *   type 1, why, flow or alone 1, name's bytes 2, va 8, id 4, rkey 4, length 8, access or next 4, tail …
 */
import { MEMORIES, type Memory } from "../../../../fabric/rack/plan/plan.ts";
import {
  IBV_ACCESS_FLUSH_GLOBAL,
  IBV_ACCESS_FLUSH_PERSISTENT,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  RACKMESH_ACCESS_REMOTE_WRITE_PERSISTENCE,
} from "../../verbs/flags.ts";
import {
  type METHODS,
  POLICIES,
  type PUT_METHODS,
} from "../../../../fabric/rack/plan/vocabulary.ts";
import type { PersistencePlan } from "../../../../fabric/wire/host_bus/rnic_command.ts";
import type { AccessFlags } from "../../verbs/flags.ts";
import { CRC_START, crcUpdate } from "../../../../fabric/wire/roce/icrc.ts";

export const SERVICE = "persist";

export type Method = typeof METHODS[number];
export type PutMethod = typeof PUT_METHODS[number];
type Policy = typeof POLICIES[number];

/** A method's index is its wire number. */
const METHOD_CODES: readonly PutMethod[] = [
  "write-only",
  "write-read",
  "send-flush",
  "write-send",
  "persist-opcode",
  "persist-address",
  "write-flush",
  "send-read",
  "write-compare",
  "write-verify",
  "verify-persist",
  "persist-compare",
  "librpma-apm",
  "emulated-flush",
  "write-imm",
  "write-imm-flush",
  "librpma-gpspm",
  "write-send-workers",
];

export function isPersistentWrite(
  method: PutMethod | "read",
): method is "persist-opcode" | "persist-address" {
  return method === "persist-opcode" || method === "persist-address";
}

/** P-29: a persistent write completes as requested; other methods know only one policy. */
export function policyOf(method: PutMethod, wanted: Policy): Policy {
  return isPersistentWrite(method) ? wanted : "persistence";
}

export interface Terms {
  readonly method: PutMethod | "read";
  readonly policy: Policy;
  /** Maximum number of outstanding messages, and bytes of each. */
  readonly depth: number;
  readonly messageBytes: number;
  /** Bytes of the object before message 0, by which a WRITE WITH IMMEDIATE names its range. */
  readonly headBytes?: number;
}

/**
 * The immediate data of a WRITE: which message of its object it has written, or the object's head.
 * The answer's id is `message`.
 */
export interface WrittenPart {
  readonly message: number;
  readonly isHead: boolean;
}

export function immediateOf({ message, isHead }: WrittenPart): number {
  return (message << 1 | (isHead ? 1 : 0)) >>> 0;
}

export function partOfImmediate(immediate: number): WrittenPart {
  return { message: immediate >>> 1, isHead: (immediate & 1) !== 0 };
}

export interface ServerTerms {
  /** P-02. */
  readonly flow: 1 | 2;
  readonly flush: PersistencePlan["flush"];
  readonly receive: Memory;
}

/**
 * Posted receives, and outstanding sends at most, at either end: twice the depth, so that
 * completions may be polled late. Both ends agree.
 */
export function slotsFor(depth: number): number {
  return 2 * depth + 8;
}

const TERMS_MAGIC = 0x5052_5331; // "PRS1"
const FLUSHES = ["read", "cpu", "none"] as const;

export function encodeTerms(terms: Terms): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, TERMS_MAGIC);
  view.setUint8(4, terms.method === "read" ? 255 : METHOD_CODES.indexOf(terms.method));
  view.setUint8(5, POLICIES.indexOf(terms.policy));
  view.setUint16(6, terms.headBytes ?? 0);
  view.setUint32(8, terms.depth);
  view.setUint32(12, terms.messageBytes);
  return bytes;
}

/** @returns undefined for invalid bytes. */
export function decodeTerms(bytes: Uint8Array): Terms | undefined {
  const view = viewOf(bytes);
  if (bytes.length < 16 || view.getUint32(0) !== TERMS_MAGIC) return undefined;
  const code = view.getUint8(4);
  const method = code === 255 ? "read" as const : METHOD_CODES[code];
  const policy = POLICIES[view.getUint8(5)];
  if (method === undefined || policy === undefined) return undefined;
  const headBytes = view.getUint16(6);
  const sizes = { depth: view.getUint32(8), messageBytes: view.getUint32(12) };
  return { method, policy, ...sizes, ...(headBytes > 0 && { headBytes }) };
}

export function encodeServerTerms(terms: ServerTerms): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(8);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, TERMS_MAGIC);
  view.setUint8(4, terms.flow);
  view.setUint8(5, FLUSHES.indexOf(terms.flush));
  view.setUint8(6, MEMORIES.indexOf(terms.receive));
  return bytes;
}

export function decodeServerTerms(bytes: Uint8Array): ServerTerms | undefined {
  const view = viewOf(bytes);
  if (bytes.length < 8 || view.getUint32(0) !== TERMS_MAGIC) return undefined;
  const flow = view.getUint8(4);
  const flush = FLUSHES[view.getUint8(5)];
  const receive = MEMORIES[view.getUint8(6)];
  if ((flow !== 1 && flow !== 2) || flush === undefined || receive === undefined) return undefined;
  return { flow, flush, receive };
}

/** The requester chooses `id`; the answer repeats it. */
export type PersistMessage =
  | {
    readonly type: "open-write";
    readonly id: number;
    readonly name: string;
    readonly length: number;
    /** Disconnects the object's earlier requesters, whose outstanding requests fail. */
    readonly alone?: true;
    /** Written in a new place; a `publish` replaces the old one. */
    readonly replaces?: true;
  }
  | {
    readonly type: "open-read";
    readonly id: number;
    readonly name: string;
    /** Opens an incomplete object, too. */
    readonly partial?: true;
  }
  /** Asks for objects by name, from number `next` on. */
  | { readonly type: "list"; readonly id: number; readonly next: number }
  | {
    readonly type: "region";
    readonly id: number;
    readonly va: number;
    readonly length: number;
    readonly rkey: number;
    readonly access: number;
    readonly flow: 1 | 2;
    /** Offset in the responder's SCM, for reports and checkers. */
    readonly scmOffset: number;
    /** The old object was removed first, for want of room. */
    readonly withdrawn?: true;
    /** Its requester did not complete it. */
    readonly incomplete?: true;
    /** `send-read`: receive buffers, and fields of a pending message. */
    readonly ring?: RingPlace;
  }
  /** `next` is 0 after the last object. */
  | {
    readonly type: "names";
    readonly id: number;
    readonly next: number;
    readonly objects: readonly ListedObject[];
  }
  | {
    readonly type: "refused";
    readonly id: number;
    readonly why: typeof REFUSALS[number];
  }
  /**
   * S308: to persist a WRITE's range. `data`: the payload behind the header, which the responder's
   * CPU stores at `va`.
   */
  | {
    readonly type: "persist-mark" | "data";
    readonly id: number;
    readonly va: number;
    readonly length: number;
  }
  /** Request `id` is persistent (S321). */
  | { readonly type: "flushed"; readonly id: number }
  /**
   * Persists the range, then `then`'s bytes. `commit-data`: the range's data follows the message.
   */
  | {
    readonly type: "commit" | "commit-data";
    readonly id: number;
    readonly va: number;
    readonly length: number;
    readonly then: Word;
  }
  | PendingMessage
  /**
   * The object is fully written and becomes the object of its name; the answer repeats the message.
   */
  | { readonly type: "publish"; readonly id: number; readonly complete: boolean }
  /** The answer repeats the message. */
  | { readonly type: "remove"; readonly id: number; readonly name: string };

export interface ListedObject {
  readonly name: string;
  readonly length: number;
  readonly incomplete?: true;
}

const TYPES: readonly PersistMessage["type"][] = [
  "open-write",
  "open-read",
  "list",
  "region",
  "names",
  "refused",
  "persist-mark",
  "data",
  "flushed",
  "commit",
  "commit-data",
  "deposit",
  "publish",
  "remove",
];
/**
 * 'P': with 8 and three zeros at the front, Wireshark would dissect an answer as Ethernet over
 * InfiniBand, and show a bogus IPv4 packet (`rocev2.md` §6.2).
 */
const FIRST_TYPE = 0x50;
/**
 * Inverted in ids: Wireshark looks there for the type of an RPC-over-RDMA message, a number below
 * 5, and would report missing fields.
 */
const ID_BITS = TERMS_MAGIC;
const REFUSALS = ["no-space", "not-found", "bad-request", "incomplete"] as const;
const FLOW_BITS = 0x0f, WITHDRAWN = 0x10, INCOMPLETE = 0x20;
const INCOMPLETE_NAME = 0x80;

export const HEADER_BYTES = 32;
/** An `open` with the longest name fits; no payload. */
export const CONTROL_BYTES = 128;
export const NAMES_BYTES = 4096;
interface Fields {
  readonly small?: number;
  readonly id: number;
  readonly va?: number;
  readonly length?: number;
  readonly rkey?: number;
  readonly word?: number;
  readonly tail?: Uint8Array;
  readonly nameBytes?: number;
}

function encode(type: PersistMessage["type"], fields: Fields): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER_BYTES + (fields.tail?.length ?? 0));
  const view = new DataView(bytes.buffer);
  view.setUint8(0, FIRST_TYPE + TYPES.indexOf(type));
  view.setUint8(1, fields.small ?? 0);
  view.setUint16(2, fields.nameBytes ?? 0);
  view.setBigUint64(4, BigInt(fields.va ?? 0));
  view.setUint32(12, (fields.id ^ ID_BITS) >>> 0);
  view.setUint32(16, fields.rkey ?? 0);
  view.setBigUint64(20, BigInt(fields.length ?? 0));
  view.setUint32(28, fields.word ?? 0);
  if (fields.tail !== undefined) bytes.set(fields.tail, HEADER_BYTES);
  return bytes;
}

/** The sender appends the payload of a `data` message. */
export function encodeMessage(message: PersistMessage): Uint8Array<ArrayBuffer> {
  const { type, id } = message;
  switch (message.type) {
    case "open-write":
    case "open-read":
    case "remove": {
      const tail = new TextEncoder().encode(message.name);
      const length = message.type === "open-write" ? message.length : 0;
      return encode(type, { id, small: wayOf(message), length, tail, nameBytes: tail.length });
    }
    case "list":
      return encode(type, { id, word: message.next });
    case "region": {
      const { va, length, rkey, access } = message;
      const tail = encodeRegionTail(message);
      const small = message.flow | (message.withdrawn ? WITHDRAWN : 0) |
        (message.incomplete ? INCOMPLETE : 0);
      return encode(type, { id, small, va, length, rkey, word: access, tail });
    }
    case "names":
      return encode(type, { id, word: message.next, tail: encodeNames(message.objects) });
    case "refused":
      return encode(type, { id, small: REFUSALS.indexOf(message.why) });
    case "persist-mark":
    case "data":
      return encode(type, { id, va: message.va, length: message.length });
    case "flushed":
      return encode(type, { id });
    case "publish":
      return encode(type, { id, small: message.complete ? 1 : 0 });
    case "commit":
    case "commit-data":
      return encode(type, {
        id,
        va: message.va,
        length: message.length,
        tail: encodeWord(message.then),
      });
    case "deposit": {
      const { scmOffset, length, sequence, generation } = message;
      const tail = new Uint8Array(PENDING_TAIL_BYTES);
      viewOf(tail).setUint32(0, message.epoch);
      viewOf(tail).setUint32(4, message.crc);
      return encode(type, { id, va: scmOffset, length, rkey: sequence, word: generation, tail });
    }
  }
}

function encodeNames(objects: readonly ListedObject[]): Uint8Array {
  const parts: number[] = [];
  for (const object of objects) {
    const name = new TextEncoder().encode(object.name);
    const length = new Uint8Array(8);
    new DataView(length.buffer).setBigUint64(0, BigInt(object.length));
    parts.push(name.length | (object.incomplete ? INCOMPLETE_NAME : 0), ...length, ...name);
  }
  return Uint8Array.from(parts);
}

function decodeNames(bytes: Uint8Array): ListedObject[] {
  const view = viewOf(bytes);
  const objects: ListedObject[] = [];
  for (let at = 0; at + 9 <= bytes.length;) {
    const first = bytes[at]!;
    const end = at + 9 + (first & ~INCOMPLETE_NAME);
    if (end > bytes.length) break;
    const name = new TextDecoder().decode(bytes.subarray(at + 9, end));
    const length = Number(view.getBigUint64(at + 1));
    objects.push({ name, length, ...((first & INCOMPLETE_NAME) !== 0 && { incomplete: true }) });
    at = end;
  }
  return objects;
}

export function nameEntryBytes(name: string): number {
  return 9 + new TextEncoder().encode(name).length;
}

export function decodeMessage(bytes: Uint8Array): PersistMessage | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  const view = viewOf(bytes);
  const type = TYPES[view.getUint8(0) - FIRST_TYPE];
  const small = view.getUint8(1);
  const id = (view.getUint32(12) ^ ID_BITS) >>> 0;
  const va = Number(view.getBigUint64(4)), length = Number(view.getBigUint64(20));
  const tail = bytes.subarray(HEADER_BYTES);
  const word = view.getUint32(28);
  switch (type) {
    case "open-write":
    case "open-read":
    case "remove": {
      const nameBytes = view.getUint16(2);
      if (nameBytes > tail.length) return undefined;
      const name = new TextDecoder().decode(tail.subarray(0, nameBytes));
      if (type === "remove") return { type, id, name };
      if (type === "open-read") return { type, id, name, ...(small === 1 && { partial: true }) };
      const way = small === 1
        ? { alone: true } as const
        : small === 2 && { replaces: true } as const;
      return { type, id, name, length, ...way };
    }
    case "list":
      return { type, id, next: word };
    case "region": {
      const flow = small & FLOW_BITS;
      if ((flow !== 1 && flow !== 2) || tail.length < 8) return undefined;
      const scmOffset = Number(view.getBigUint64(HEADER_BYTES));
      const rkey = view.getUint32(16);
      const ring = decodeRing(tail);
      const flags = {
        ...((small & WITHDRAWN) !== 0 && { withdrawn: true } as const),
        ...((small & INCOMPLETE) !== 0 && { incomplete: true } as const),
      };
      return { type, id, va, length, rkey, access: word, flow, scmOffset, ...flags, ...ring };
    }
    case "names":
      return { type, id, next: word, objects: decodeNames(tail) };
    case "refused":
      return { type, id, why: REFUSALS[small] ?? "bad-request" };
    case "persist-mark":
    case "data":
      return { type, id, va, length };
    case "flushed":
      return { type, id };
    case "commit":
    case "commit-data": {
      const then = decodeWord(tail);
      return then && { type, id, va, length, then };
    }
    case "deposit": {
      if (tail.length < PENDING_TAIL_BYTES) return undefined;
      const sequence = view.getUint32(16), epoch = view.getUint32(HEADER_BYTES);
      const crc = view.getUint32(HEADER_BYTES + 4);
      return { type, id, scmOffset: va, length, sequence, generation: word, epoch, crc };
    }
    case "publish":
      return { type, id, complete: small === 1 };
    default:
      return undefined;
  }
}

function wayOf(message: Extract<PersistMessage, { readonly name: string }>): number {
  if (message.type === "remove") return 0;
  if (message.type === "open-read") return message.partial ? 1 : 0;
  return message.alone ? 1 : message.replaces ? 2 : 0;
}

/** Rights that the requester's method needs (P-22). */
export function accessFor(method: Terms["method"]): AccessFlags {
  switch (method) {
    case "read":
      return IBV_ACCESS_REMOTE_READ;
    case "send-flush":
    case "send-read":
      return IBV_ACCESS_LOCAL_WRITE;
    case "persist-address":
      return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
        RACKMESH_ACCESS_REMOTE_WRITE_PERSISTENCE;
    case "write-flush":
      return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
        IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
    default:
      return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  }
}

export interface Word {
  readonly va: number;
  readonly bytes: Uint8Array;
}

const WORD_HEADER_BYTES = 12, REGION_BYTES = 8, RING_BYTES = 20;
const PENDING_TAIL_BYTES = 8;
/** A message with a {@link Word} and without data still fits a control slot. */
export const WORD_BYTES_MAX = 64;

export function wordTailBytes(length: number): number {
  return WORD_HEADER_BYTES + length;
}

/** A requester's receive buffers, and number of their use (`recv_ring.ts`). */
export interface RingPlace {
  readonly va: number;
  readonly rkey: number;
  readonly epoch: number;
  /** Distinguishes the object from a new one of its name. */
  readonly generation: number;
}

/**
 * Data that stays in the receive buffer until it is stored, perhaps by this host's next life, with
 * its destination and checksum. The payload follows.
 */
export interface PendingMessage {
  readonly type: "deposit";
  readonly id: number;
  readonly scmOffset: number;
  readonly length: number;
  /** The message's number in its connection, from 1. */
  readonly sequence: number;
  readonly generation: number;
  readonly epoch: number;
  /** CRC of the message, with 0 for the CRC, and of the payload. */
  readonly crc: number;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function encodeRegionTail(
  { scmOffset, ring }: { readonly scmOffset: number; readonly ring?: RingPlace },
): Uint8Array {
  const tail = new Uint8Array(REGION_BYTES + (ring === undefined ? 0 : RING_BYTES));
  const view = viewOf(tail);
  view.setBigUint64(0, BigInt(scmOffset));
  if (ring === undefined) return tail;
  view.setBigUint64(8, BigInt(ring.va));
  view.setUint32(16, ring.rkey);
  view.setUint32(20, ring.epoch);
  view.setUint32(24, ring.generation);
  return tail;
}

function decodeRing(tail: Uint8Array): { readonly ring?: RingPlace } {
  if (tail.length < REGION_BYTES + RING_BYTES) return {};
  const view = viewOf(tail);
  const va = Number(view.getBigUint64(8)), rkey = view.getUint32(16);
  return { ring: { va, rkey, epoch: view.getUint32(20), generation: view.getUint32(24) } };
}

function encodeWord({ va, bytes }: Word): Uint8Array {
  const tail = new Uint8Array(wordTailBytes(bytes.length));
  const view = viewOf(tail);
  view.setBigUint64(0, BigInt(va));
  view.setUint32(8, bytes.length);
  tail.set(bytes, WORD_HEADER_BYTES);
  return tail;
}

function decodeWord(tail: Uint8Array): Word | undefined {
  if (tail.length < WORD_HEADER_BYTES) return undefined;
  const view = viewOf(tail);
  const length = view.getUint32(8);
  if (length > WORD_BYTES_MAX || wordTailBytes(length) > tail.length) return undefined;
  const bytes = tail.slice(WORD_HEADER_BYTES, wordTailBytes(length));
  return { va: Number(view.getBigUint64(0)), bytes };
}

export const PENDING_MESSAGE_BYTES = HEADER_BYTES + PENDING_TAIL_BYTES;
const CRC_AT = PENDING_MESSAGE_BYTES - 4;

function crcOf(bytes: Uint8Array): number {
  const view = viewOf(bytes);
  const head = crcUpdate(CRC_START, view, { from: 0, end: CRC_AT });
  return ~crcUpdate(head, view, { from: PENDING_MESSAGE_BYTES, end: bytes.length }) >>> 0;
}

export function encodePendingMessage(
  pending: Omit<PendingMessage, "type" | "length" | "crc">,
  payload: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const length = payload.length;
  const bytes = new Uint8Array(PENDING_MESSAGE_BYTES + length);
  bytes.set(encodeMessage({ ...pending, type: "deposit", length, crc: 0 }));
  bytes.set(payload, PENDING_MESSAGE_BYTES);
  new DataView(bytes.buffer).setUint32(CRC_AT, crcOf(bytes));
  return bytes;
}

/**
 * @returns the message with its payload; undefined without a complete one. @param bytes the buffer, from the message's first byte on; it may be longer.
 */
export function decodePendingMessage(
  bytes: Uint8Array,
): { readonly pending: PendingMessage; readonly payload: Uint8Array } | undefined {
  const pending = decodeMessage(bytes);
  if (pending?.type !== "deposit" || PENDING_MESSAGE_BYTES + pending.length > bytes.length) {
    return undefined;
  }
  const whole = bytes.subarray(0, PENDING_MESSAGE_BYTES + pending.length);
  if (crcOf(whole) !== pending.crc) return undefined;
  return { pending, payload: whole.subarray(PENDING_MESSAGE_BYTES) };
}
