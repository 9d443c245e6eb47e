/**
 * The opcode table (`rocev2.md` §2). Code reads a row's properties instead of comparing opcodes, so
 * that the vendor's persistent writes use the same code as plain ones.
 */
import { assert } from "../../base/assert.ts";
import { EXTENSION_HEADERS, type ExtensionHeader } from "./extension_headers.ts";

/** A congestion notification goes to any queue pair type. */
const SERVICES = ["rc", "uc", "ud", "any"] as const;
export type Service = typeof SERVICES[number];
/**
 * Each operation's answer (§2.2). A congestion notification, which has no PSN, and a response have
 * none. The transport does not answer a hint (H-22).
 */
export const ANSWERS = {
  "send": "acknowledge",
  "write": "acknowledge",
  "read-request": "read-response",
  "read-response": "response",
  "acknowledge": "response",
  "compare-swap": "atomic-acknowledge",
  "fetch-add": "atomic-acknowledge",
  "atomic-acknowledge": "response",
  "flush": "read-response",
  "atomic-write": "read-response",
  "persistence-acknowledge": "response",
  "congestion-notification": "notice",
  "write-verify": "read-response",
  "hint": "no answer",
  "coherence-request": "acknowledge",
  "coherence-snoop": "acknowledge",
  "coherence-response": "acknowledge",
} as const;
export type Operation = keyof typeof ANSWERS;
export type Answer = "acknowledge" | "read-response" | "atomic-acknowledge";
export type RequestOperation = {
  [Name in Operation]: typeof ANSWERS[Name] extends Answer ? Name : never;
}[Operation];
const POSITIONS = ["first", "middle", "last", "only"] as const;
export type Position = typeof POSITIONS[number];
/**
 * True if a request takes a slot of the responder, max_dest_rd_atomic, for which its sender counts it against
 * max_rd_atomic (§3.2, §3.5): requests with an answer of their own. As in rxe, a FLUSH takes none: the PM module's
 * records remember it.
 */
export function takesSlot(operation: RequestOperation): boolean {
  return ANSWERS[operation] !== "acknowledge" && operation !== "flush";
}
/**
 * Bytes of payload: `mtu` exactly the path MTU, `1..mtu` and `0..mtu` a range, a number exactly
 * that many.
 */
export type PayloadRule = "mtu" | "1..mtu" | "0..mtu" | 0 | 8 | 16;

export interface OpcodeRow {
  readonly code: number;
  readonly name: string;
  readonly service: Service;
  readonly operation: Operation;
  readonly position: Position;
  /** `notice` has no PSN and no response. */
  readonly direction: "request" | "response" | "notice";
  readonly headers: readonly ExtensionHeader[];
  readonly headerBytes: number;
  readonly payload: PayloadRule;
  readonly immediate: boolean;
  readonly invalidate: boolean;
  /** P-21. */
  readonly persistence: boolean;
  /** In the manufacturer-specific range 0xC0…0xFF. */
  readonly vendor: boolean;
}

type Cells = readonly [
  code: number,
  name: string,
  service: Service,
  operation: Operation,
  position: Position,
  headers: readonly ExtensionHeader[],
  payload: PayloadRule,
];

// One opcode per line, for comparison with §2.2.
// deno-fmt-ignore
const CELLS = [
  [0x00, "RC SEND FIRST",                "rc", "send", "first",  [], "mtu"],
  [0x01, "RC SEND MIDDLE",               "rc", "send", "middle", [], "mtu"],
  [0x02, "RC SEND LAST",                 "rc", "send", "last",   [], "1..mtu"],
  [0x03, "RC SEND LAST IMM",             "rc", "send", "last",   ["immdt"], "1..mtu"],
  [0x04, "RC SEND ONLY",                 "rc", "send", "only",   [], "0..mtu"],
  [0x05, "RC SEND ONLY IMM",             "rc", "send", "only",   ["immdt"], "0..mtu"],
  [0x06, "RC RDMA WRITE FIRST",          "rc", "write", "first",  ["reth"], "mtu"],
  [0x07, "RC RDMA WRITE MIDDLE",         "rc", "write", "middle", [], "mtu"],
  [0x08, "RC RDMA WRITE LAST",           "rc", "write", "last",   [], "1..mtu"],
  [0x09, "RC RDMA WRITE LAST IMM",       "rc", "write", "last",   ["immdt"], "1..mtu"],
  [0x0a, "RC RDMA WRITE ONLY",           "rc", "write", "only",   ["reth"], "0..mtu"],
  [0x0b, "RC RDMA WRITE ONLY IMM",       "rc", "write", "only",   ["reth", "immdt"], "0..mtu"],
  [0x0c, "RC RDMA READ REQUEST",         "rc", "read-request", "only", ["reth"], 0],
  [0x0d, "RC RDMA READ RESPONSE FIRST",  "rc", "read-response", "first",  ["aeth"], "mtu"],
  [0x0e, "RC RDMA READ RESPONSE MIDDLE", "rc", "read-response", "middle", [], "mtu"],
  [0x0f, "RC RDMA READ RESPONSE LAST",   "rc", "read-response", "last",   ["aeth"], "1..mtu"],
  [0x10, "RC RDMA READ RESPONSE ONLY",   "rc", "read-response", "only",   ["aeth"], "0..mtu"],
  [0x11, "RC ACKNOWLEDGE",               "rc", "acknowledge", "only", ["aeth"], 0],
  [0x12, "RC ATOMIC ACKNOWLEDGE",        "rc", "atomic-acknowledge", "only", ["aeth", "atomicAckEth"], 0],
  [0x13, "RC COMPARE & SWAP",            "rc", "compare-swap", "only", ["atomicEth"], 0],
  [0x14, "RC FETCH & ADD",               "rc", "fetch-add", "only", ["atomicEth"], 0],
  [0x16, "RC SEND LAST INVALIDATE",      "rc", "send", "last", ["ieth"], "1..mtu"],
  [0x17, "RC SEND ONLY INVALIDATE",      "rc", "send", "only", ["ieth"], "0..mtu"],
  [0x1c, "RC FLUSH",                     "rc", "flush", "only", ["feth", "reth"], 0],
  [0x1d, "RC ATOMIC WRITE",              "rc", "atomic-write", "only", ["reth"], 8],

  [0x20, "UC SEND FIRST",                "uc", "send", "first",  [], "mtu"],
  [0x21, "UC SEND MIDDLE",               "uc", "send", "middle", [], "mtu"],
  [0x22, "UC SEND LAST",                 "uc", "send", "last",   [], "1..mtu"],
  [0x23, "UC SEND LAST IMM",             "uc", "send", "last",   ["immdt"], "1..mtu"],
  [0x24, "UC SEND ONLY",                 "uc", "send", "only",   [], "0..mtu"],
  [0x25, "UC SEND ONLY IMM",             "uc", "send", "only",   ["immdt"], "0..mtu"],
  [0x26, "UC RDMA WRITE FIRST",          "uc", "write", "first",  ["reth"], "mtu"],
  [0x27, "UC RDMA WRITE MIDDLE",         "uc", "write", "middle", [], "mtu"],
  [0x28, "UC RDMA WRITE LAST",           "uc", "write", "last",   [], "1..mtu"],
  [0x29, "UC RDMA WRITE LAST IMM",       "uc", "write", "last",   ["immdt"], "1..mtu"],
  [0x2a, "UC RDMA WRITE ONLY",           "uc", "write", "only",   ["reth"], "0..mtu"],
  [0x2b, "UC RDMA WRITE ONLY IMM",       "uc", "write", "only",   ["reth", "immdt"], "0..mtu"],

  [0x64, "UD SEND ONLY",                 "ud", "send", "only", ["deth"], "0..mtu"],
  [0x65, "UD SEND ONLY IMM",             "ud", "send", "only", ["deth", "immdt"], "0..mtu"],

  // The IBA table has 0x80; the RoCEv2 annex and real RNICs use 0x81: send 0x81, accept both.
  [0x80, "CNP (IBA)",                    "any", "congestion-notification", "only", [], 16],
  [0x81, "CNP",                          "any", "congestion-notification", "only", [], 16],

  // H-07: the layout and the low four bits of SEND ONLY 0x04, but it consumes no receive WQE.
  [0xc4, "VENDOR HINT", "rc", "hint", "only", ["hintEth"], "0..mtu"],

  // P-21: copies of 0x06…0x0B with the same low four bits, and the vendor word behind the RETH.
  [0xc6, "VENDOR WRITE PERSISTENCE FIRST",    "rc", "write", "first",  ["reth", "persistEth"], "mtu"],
  [0xc7, "VENDOR WRITE PERSISTENCE MIDDLE",   "rc", "write", "middle", [], "mtu"],
  [0xc8, "VENDOR WRITE PERSISTENCE LAST",     "rc", "write", "last",   [], "1..mtu"],
  [0xc9, "VENDOR WRITE PERSISTENCE LAST IMM", "rc", "write", "last",   ["immdt"], "1..mtu"],
  [0xca, "VENDOR WRITE PERSISTENCE ONLY",     "rc", "write", "only",   ["reth", "persistEth"], "0..mtu"],
  [0xcb, "VENDOR WRITE PERSISTENCE ONLY IMM", "rc", "write", "only",   ["reth", "persistEth", "immdt"], "0..mtu"],

  // V-06: the requested checks behind the RETH, the data's CRC in the last packet. No IMM form: the
  // document's write has one response, to its sender.
  [0xcc, "VENDOR WRITE VERIFY FIRST",  "rc", "write-verify", "first",  ["reth", "verifyEth"], "mtu"],
  [0xcd, "VENDOR WRITE VERIFY MIDDLE", "rc", "write-verify", "middle", [], "mtu"],
  [0xce, "VENDOR WRITE VERIFY LAST",   "rc", "write-verify", "last",   ["digestEth"], "1..mtu"],
  [0xcf, "VENDOR WRITE VERIFY ONLY",   "rc", "write-verify", "only",   ["reth", "verifyEth", "digestEth"], "0..mtu"],

  // C-02: for the transport all three are requests, with a PSN and an ACK 0x11 of their own.
  [0xd0, "VENDOR COHERENCE REQUEST", "rc", "coherence-request", "only", ["coherenceEth"], "0..mtu"],
  // P-25, P-28: the second ACK of a PSN, so a requester must not mistake it for a duplicate ACK.
  [0xd1, "VENDOR PERSISTENCE ACKNOWLEDGE",    "rc", "persistence-acknowledge", "only", ["aeth"], 0],
  [0xd2, "VENDOR COHERENCE SNOOP",    "rc", "coherence-snoop",    "only", ["coherenceEth"], 0],
  [0xd3, "VENDOR COHERENCE RESPONSE", "rc", "coherence-response", "only", ["coherenceEth"], "0..mtu"],

  // H-08 [0113]: on UC, with the low five bits of 0xc4.
  [0xe4, "VENDOR UC HINT", "uc", "hint", "only", ["hintEth"], "0..mtu"],
] as const satisfies readonly Cells[];

export type OpcodeName = typeof CELLS[number][1];

function directionOf(operation: Operation): OpcodeRow["direction"] {
  const answer = ANSWERS[operation];
  return answer === "response" || answer === "notice" ? answer : "request";
}

function makeRow(cells: Cells): OpcodeRow {
  const [code, name, service, operation, position, headers, payload] = cells;
  const vendor = code >= 0xc0;
  return {
    code,
    name,
    service,
    operation,
    position,
    direction: directionOf(operation),
    headers,
    headerBytes: headers.reduce((sum, header) => sum + EXTENSION_HEADERS[header].bytes, 0),
    payload,
    immediate: headers.includes("immdt"),
    invalidate: headers.includes("ieth"),
    persistence: vendor && operation === "write",
    vendor,
  };
}

export const OPCODE_ROWS: readonly OpcodeRow[] = CELLS.map(makeRow);

/** `OPCODE["RC ACKNOWLEDGE"]`. */
export const OPCODE = Object.fromEntries(
  CELLS.map(([code, name]) => [name, code]),
) as Readonly<Record<OpcodeName, number>>;

const BY_CODE: readonly (OpcodeRow | undefined)[] = Array.from(
  { length: 256 },
  (_, code) => OPCODE_ROWS.find((row) => row.code === code),
);

export function opcodeRow(code: number): OpcodeRow | undefined {
  return BY_CODE[code];
}

export interface MessageShape {
  readonly service: Service;
  readonly operation: Operation;
  readonly immediate?: boolean;
  readonly invalidate?: boolean;
  readonly persistence?: boolean;
}

function indexOf<Name extends string>(names: readonly Name[]): Readonly<Record<Name, number>> {
  const entries = names.map((name, index) => [name, index]);
  return Object.fromEntries(entries);
}

const SERVICE_INDEX = indexOf(SERVICES);
const OPERATION_INDEX = indexOf(Object.keys(ANSWERS) as Operation[]);
const POSITION_INDEX = indexOf(POSITIONS);

function shapeKey(shape: MessageShape, position: Position): number {
  const tail = position === "last" || position === "only";
  return (OPERATION_INDEX[shape.operation] << 7) | (SERVICE_INDEX[shape.service] << 5) |
    (POSITION_INDEX[position] << 3) | (tail && shape.immediate === true ? 4 : 0) |
    (tail && shape.invalidate === true ? 2 : 0) | (shape.persistence === true ? 1 : 0);
}

/** The later of two rows with one shape is sent: CNP 0x81. */
const BY_SHAPE: readonly (OpcodeRow | undefined)[] = OPCODE_ROWS.reduce<(OpcodeRow | undefined)[]>(
  (rows, row) => {
    rows[shapeKey(row, row.position)] = row;
    return rows;
  },
  new Array(Object.keys(ANSWERS).length << 7).fill(undefined),
);

/**
 * An immediate or a key to invalidate is in the last packet only, so the others have the plain
 * message's opcodes.
 */
export function opcodeFor(shape: MessageShape, position: Position): OpcodeRow {
  const row = BY_SHAPE[shapeKey(shape, position)];
  assert(row !== undefined, `No opcode for ${shape.service} ${shape.operation} ${position}`);
  return row;
}

export function positionOf(index: number, count: number): Position {
  if (count === 1) return "only";
  if (index === 0) return "first";
  return index === count - 1 ? "last" : "middle";
}

/** Else NAK 0x61. */
export function payloadFits(row: OpcodeRow, payload: { bytes: number; pathMtu: number }): boolean {
  const { bytes, pathMtu } = payload;
  switch (row.payload) {
    case "mtu":
      return bytes === pathMtu;
    case "1..mtu":
      return bytes >= 1 && bytes <= pathMtu;
    case "0..mtu":
      return bytes <= pathMtu;
    default:
      return bytes === row.payload;
  }
}
