/**
 * Hint messages, and the packets that carry them (H-07, H-08). The document's four encodings:
 *
 *     a new operation code    VENDOR HINT on an RC queue pair, VENDOR UC HINT on a UC one: for itself
 *                             (figure 7) or for all (figure 8); to a group (figure 9) the payload of
 *                             a UD SEND ONLY
 *     an extra header         the message is between a packet's extension headers and its payload
 *     an extra payload        the message and a trailer follow a packet's payload
 *     an opcode with a flag   a READ or WRITE of no bytes, without VA and rkey checks (`rocev2.md`
 *                             §1.3): it names the range of a coming one
 *
 * The last three keep their packet's opcode, so the mark of a hint is in a field that a card
 * without hints ignores: the seven reserved bits beside AckReq ({@link HINT_FORMS}), which the ICRC
 * covers. A requester adds hints to other packets only for a responder that asked for them (H-09).
 */
import { assert } from "../../base/assert.ts";
import { readFields, writeFields } from "../../base/fields.ts";
import {
  HINT_ATOMICS,
  HINT_ENTRY_BYTES,
  HINT_ENTRY_FIELDS,
  HINT_ETH_BYTES,
  HINT_ETH_FIELDS,
  HINT_GROUP_BYTES,
  HINT_GROUP_FIELDS,
  HINT_KINDS,
  HINT_MAGIC,
  HINT_OBJECT_BYTES,
  HINT_OBJECT_FIELDS,
  HINT_OPERANDS_BYTES,
  HINT_OPERANDS_FIELDS,
  HINT_OPERATIONS,
  HINT_PART_BYTES,
  HINT_PART_FIELDS,
  HINT_REASONS,
  HINT_TRAILER_BYTES,
  HINT_TRAILER_FIELDS,
  HINT_TYPES,
  HINT_VERSION,
  type HintEth,
  type HintOperands,
  type HintOperation,
  type HintPart,
  type HintReason,
  type HintType,
} from "./hint_eth.ts";
import { opcodeRow } from "./opcode.ts";
import type { RocePacket } from "./packet.ts";
import { allocate, bufferViewOf, viewOf } from "../../base/slab.ts";

/** Coming messages of one operation, in a hint. */
export interface HintEntry {
  /** Bits of `HINT_KINDS`. */
  readonly kinds: number;
  /** The messages' operation. */
  readonly operation: HintOperation;
  /** Their number. */
  readonly messages: number;
  /** PSN of the first of the messages. */
  readonly sequence: number;
  /** Key of the region that they access. */
  readonly rkey: number;
  /** In bytes. */
  readonly length: number;
  /** First address. */
  readonly va: bigint;
  /** Data transfer objects that they cover (H-01). */
  readonly objects: readonly bigint[];
  /** The operands of an atomic whose requester tells them [0086]. */
  readonly operands?: HintOperands;
  /** For each object of a READ or WRITE, where its requester tells them. */
  readonly parts?: readonly HintPart[];
}

/** Entries of one queue pair, in a hint. */
export interface HintGroup {
  /** The responder's queue pair. */
  readonly destQpn: number;
  /** The requester's queue pair. */
  readonly sourceQpn: number;
  /** In the order of the messages. */
  readonly entries: readonly HintEntry[];
}

/** A hint, as `postHint` sends it. */
export interface HintMessage {
  /** A hint, or an answer to one. */
  readonly type: HintType;
  /** Bits of `HINT_KINDS`. */
  readonly kinds: number;
  /** In an answer: the reason why an entry is not prepared for. */
  readonly reason: HintReason;
  /** Its number; an answer repeats that of its hint. */
  readonly sequence: number;
  /** An answer is requested. */
  readonly answer: boolean;
  /** One for each queue pair. */
  readonly groups: readonly HintGroup[];
}

export function bytesOf(message: HintMessage): number {
  let bytes = HINT_ETH_BYTES;
  for (const { entries } of message.groups) {
    bytes += HINT_GROUP_BYTES;
    for (const entry of entries) bytes += entryBytes(entry);
  }
  return bytes;
}

export function entryBytes(
  { objects, operands, parts = [] }: {
    readonly objects: readonly bigint[];
    readonly operands?: HintOperands | undefined;
    readonly parts?: readonly HintPart[] | undefined;
  },
): number {
  return HINT_ENTRY_BYTES + (operands === undefined ? 0 : HINT_OPERANDS_BYTES) +
    objects.length * HINT_OBJECT_BYTES + parts.length * HINT_PART_BYTES;
}

function readHeader(bytes: Uint8Array): HintEth {
  return readFields(HINT_ETH_FIELDS, { view: viewOf(bytes), at: 0 });
}

export function hintParts(
  message: HintMessage,
): { readonly hintEth: HintEth; readonly payload: Uint8Array<ArrayBuffer> } {
  const hintEth = headerOf(message);
  const payload = allocate(hintEth.bytes - HINT_ETH_BYTES);
  writeGroups(message.groups, { view: bufferViewOf(payload), at: payload.byteOffset });
  return { hintEth, payload };
}

export function encodeHint(message: HintMessage): Uint8Array<ArrayBuffer> {
  const header = headerOf(message);
  const bytes = allocate(header.bytes), view = viewOf(bytes);
  writeFields(HINT_ETH_FIELDS, header, { view, at: 0 });
  writeGroups(message.groups, { view, at: HINT_ETH_BYTES });
  return bytes;
}

function headerOf(message: HintMessage): HintEth {
  const { type, kinds, reason, sequence, answer, groups } = message;
  const bytes = bytesOf(message);
  assert(
    groups.length <= 0xff && bytes <= 0xffff &&
      groups.every(({ entries }) =>
        entries.length <= 0xff && entries.every(({ objects }) => objects.length <= 0xff)
      ),
    `Cannot encode a hint of ${groups.length} queue pairs and ${bytes} B: too many for its counts`,
  );
  return {
    magic: HINT_MAGIC,
    version: HINT_VERSION,
    type: HINT_TYPES.indexOf(type),
    kinds,
    reason: HINT_REASONS.indexOf(reason),
    sequence,
    answer,
    reserved: 0,
    groups: groups.length,
    bytes,
  };
}

function writeGroups(
  groups: readonly HintGroup[],
  place: { readonly view: DataView; readonly at: number },
): void {
  const { view } = place;
  let { at } = place;
  for (const { destQpn, sourceQpn, entries } of groups) {
    const group = { destQpn, entries: entries.length, sourceQpn, reserved: 0 };
    writeFields(HINT_GROUP_FIELDS, group, { view, at });
    at += HINT_GROUP_BYTES;
    for (const entry of entries) {
      const { kinds, messages, sequence, rkey, length, va, objects, operands, parts } = entry;
      const operation = HINT_OPERATIONS.indexOf(entry.operation);
      const fields = {
        kinds,
        operands: operands !== undefined || parts !== undefined,
        operation,
        messages,
        objects: objects.length,
        sequence,
        rkey,
        length,
        va,
      };
      writeFields(HINT_ENTRY_FIELDS, fields, { view, at });
      at += HINT_ENTRY_BYTES;
      if (operands !== undefined) {
        writeFields(HINT_OPERANDS_FIELDS, operands, { view, at });
        at += HINT_OPERANDS_BYTES;
      }
      for (const [i, identity] of objects.entries()) {
        writeFields(HINT_OBJECT_FIELDS, { identity }, { view, at });
        at += HINT_OBJECT_BYTES;
        if (parts === undefined) continue;
        writeFields(HINT_PART_FIELDS, parts[i]!, { view, at });
        at += HINT_PART_BYTES;
      }
    }
  }
}

/** Undefined for invalid or unknown messages. Never throws: hints are untrusted (H-24). */
export function decodeHint(bytes: Uint8Array<ArrayBuffer>): HintMessage | undefined {
  if (bytes.length < HINT_ETH_BYTES) return undefined;
  return decodeParts(readHeader(bytes), bytes.subarray(HINT_ETH_BYTES));
}

function decodeParts(header: HintEth, rest: Uint8Array<ArrayBuffer>): HintMessage | undefined {
  const { magic, version, kinds, sequence, answer } = header;
  const type = HINT_TYPES[header.type], reason = HINT_REASONS[header.reason];
  const isWhole = header.bytes === HINT_ETH_BYTES + rest.length;
  if (magic !== HINT_MAGIC || version !== HINT_VERSION || !isWhole) return undefined;
  if (type === undefined || reason === undefined) return undefined;
  const reader: Reader = { view: viewOf(rest), at: 0 };
  const groups = readMany(reader, header.groups, readGroup);
  if (groups === undefined || reader.at !== rest.length) return undefined;
  return { type, kinds, reason, sequence, answer, groups };
}

interface Reader {
  readonly view: DataView;
  at: number;
}

function readMany<T>(
  reader: Reader,
  count: number,
  read: (reader: Reader) => T | undefined,
): T[] | undefined {
  const all: T[] = [];
  for (let i = 0; i < count; i++) {
    const one = read(reader);
    if (one === undefined) return undefined;
    all.push(one);
  }
  return all;
}

/** Skips the next `size` bytes; undefined where there are fewer. */
function take(reader: Reader, size: number): { view: DataView; at: number } | undefined {
  const { view, at } = reader;
  if (at + size > view.byteLength) return undefined;
  reader.at += size;
  return { view, at };
}

function readGroup(reader: Reader): HintGroup | undefined {
  const place = take(reader, HINT_GROUP_BYTES);
  if (place === undefined) return undefined;
  const { destQpn, sourceQpn, entries: count } = readFields(HINT_GROUP_FIELDS, place);
  const entries = readMany(reader, count, readEntry);
  return entries && { destQpn, sourceQpn, entries };
}

function readEntry(reader: Reader): HintEntry | undefined {
  const place = take(reader, HINT_ENTRY_BYTES);
  if (place === undefined) return undefined;
  // Named one by one: a copy of the rest takes ten times as long, and a hint has many entries.
  const fields = readFields(HINT_ENTRY_FIELDS, place);
  const { kinds, messages, sequence, rkey, length, va, objects: count } = fields;
  const operation = HINT_OPERATIONS[fields.operation];
  if (operation === undefined) return undefined;
  if (!fields.operands) {
    const objects = readMany(reader, count, readObject);
    return objects && { kinds, operation, messages, sequence, rkey, length, va, objects };
  }
  // An untagged message has no operands.
  if (operation === "send") return undefined;
  const told = { kinds, operation, messages, sequence, rkey, length, va };
  if (HINT_ATOMICS.has(operation)) {
    const operands = readOperands(reader);
    const objects = readMany(reader, count, readObject);
    return operands && objects && { ...told, objects, operands };
  }
  const both = readMany(reader, count, readObjectAndPart);
  return both && {
    ...told,
    objects: both.map(({ object }) => object),
    parts: both.map(({ part }) => part),
  };
}

function readObjectAndPart(reader: Reader): { object: bigint; part: HintPart } | undefined {
  const object = readObject(reader), place = take(reader, HINT_PART_BYTES);
  if (object === undefined || place === undefined) return undefined;
  return { object, part: readFields(HINT_PART_FIELDS, place) };
}

function readOperands(reader: Reader): HintOperands | undefined {
  const place = take(reader, HINT_OPERANDS_BYTES);
  return place && readFields(HINT_OPERANDS_FIELDS, place);
}

function readObject(reader: Reader): bigint | undefined {
  const place = take(reader, HINT_OBJECT_BYTES);
  return place && readFields(HINT_OBJECT_FIELDS, place).identity;
}

/** The low two of BTH's seven reserved bits: the place of the hint (H-07). */
export const HINT_FORMS = { none: 0, header: 1, payload: 2, range: 3 } as const;
export const HINT_FORM_BITS = 2;
/**
 * Form `range`: the five bits above are the binary logarithm of the length, rounded up, as RETH's
 * length is 0. They reach 2^31, the longest message.
 */
const RANGE_SHIFT = HINT_FORM_BITS;

/**
 * Behind the packet's headers or its payload, within the path MTU. RETH's length remains that of
 * the data.
 */
export function attachHint(
  packet: RocePacket,
  { form, message }: { readonly form: "header" | "payload"; readonly message: HintMessage },
): RocePacket {
  const hint = encodeHint(message);
  const data = packet.payload;
  const isHeader = form === "header";
  const payload = allocate(data.length + hint.length + (isHeader ? 0 : HINT_TRAILER_BYTES));
  payload.set(hint, isHeader ? 0 : data.length);
  payload.set(data, isHeader ? hint.length : 0);
  if (!isHeader) {
    const place = { view: viewOf(payload), at: data.length + hint.length };
    writeFields(HINT_TRAILER_FIELDS, { bytes: hint.length, reserved: 0 }, place);
  }
  const bth = { ...packet.bth, padCount: -payload.length & 3, reserved7: HINT_FORMS[form] };
  return { ...packet, bth, payload };
}

/**
 * Turns a READ REQUEST or WRITE ONLY of no bytes into a hint about `length` bytes from its VA on.
 */
export function attachRange(packet: RocePacket, length: number): RocePacket {
  assert(packet.reth?.length === 0, "Only a READ or WRITE of no bytes can be a hint about a range");
  assert(length >= 1 && length <= 2 ** 31, `A range has 1 B to 2 GiB: length is ${length}`);
  const log2 = 32 - Math.clz32(length - 1);
  return { ...packet, bth: { ...packet.bth, reserved7: (log2 << RANGE_SHIFT) | HINT_FORMS.range } };
}

export interface Hinted {
  readonly packet: RocePacket;
  readonly message: HintMessage | undefined;
  readonly range: HintEntry | undefined;
}

/**
 * Undefined where the reserved bits announce a hint and it is invalid: the extent of the data is
 * then unknown. Only for queue pairs that have negotiated hints.
 */
export function detachHint(packet: RocePacket): Hinted | undefined {
  const { payload } = packet, form = packet.bth.reserved7 & ((1 << HINT_FORM_BITS) - 1);
  switch (form) {
    case HINT_FORMS.header: {
      if (payload.length < HINT_ETH_BYTES) return undefined;
      const { bytes } = readHeader(payload);
      return split(packet, { hint: [0, bytes], data: [bytes, payload.length] });
    }
    case HINT_FORMS.payload: {
      const end = payload.length - HINT_TRAILER_BYTES;
      if (end < 0) return undefined;
      const place = { view: viewOf(payload), at: end };
      const start = end - readFields(HINT_TRAILER_FIELDS, place).bytes;
      return split(packet, { hint: [start, end], data: [0, start] });
    }
    case HINT_FORMS.range: {
      const range = rangeOf(packet);
      return range && { packet: withPayload(packet, payload), message: undefined, range };
    }
    default:
      return { packet, message: undefined, range: undefined };
  }
}

type Span = readonly [from: number, end: number];

function split(
  packet: RocePacket,
  { hint, data }: { readonly hint: Span; readonly data: Span },
): Hinted | undefined {
  const { payload } = packet;
  if (hint[0] < 0 || hint[1] > payload.length) return undefined;
  const message = decodeHint(payload.subarray(...hint));
  if (message === undefined) return undefined;
  return { packet: withPayload(packet, payload.subarray(...data)), message, range: undefined };
}

function withPayload(packet: RocePacket, payload: Uint8Array<ArrayBuffer>): RocePacket {
  const bth = { ...packet.bth, padCount: -payload.length & 3, reserved7: 0 };
  return { ...packet, bth, payload };
}

function rangeOf({ bth, reth }: RocePacket): HintEntry | undefined {
  const operation = opcodeRow(bth.opcode)?.operation;
  if (reth?.length !== 0 || (operation !== "read-request" && operation !== "write")) {
    return undefined;
  }
  return {
    kinds: HINT_KINDS.prefetch,
    operation: operation === "write" ? "write" : "read",
    messages: 1,
    sequence: bth.psn,
    rkey: reth.rkey,
    length: 2 ** (bth.reserved7 >> RANGE_SHIFT),
    va: reth.va,
    objects: [],
  };
}

/**
 * By its operation code, or as a datagram's payload. Undefined for other packets and for invalid
 * hints.
 */
export function hintOf(packet: RocePacket): HintMessage | undefined {
  const { hintEth, payload } = packet;
  if (hintEth === undefined) return packet.deth === undefined ? undefined : decodeHint(payload);
  return decodeParts(hintEth, payload);
}
