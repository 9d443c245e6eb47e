/**
 * Encodes messages of shared regions as plain arrays for the bus between processes, and checks what comes from
 * there, field by field. `pcie_codec.ts` dispatches to it; numbers below {@link FIRST_REGION_CODE} are its own.
 */
import type { LineChange } from "./line_change.ts";
import { BUS_MESSAGES, LOST } from "../../coherence/messages.ts";
import { COHERENCE_LINE_BYTES } from "../roce/coherence_eth.ts";
import {
  FAR_OPS,
  FAR_RESULTS,
  type FarAccess,
  isBusKind,
  type RegionMessage,
} from "./region_messages.ts";
import { isBytes, isCount } from "./rnic_command_shape.ts";

/** First element of the array. A number's meaning never changes. */
export const REGION_CODES = {
  "line": 20,
  "far-access": 21,
  "far-answer": 22,
  "far-invalidate": 23,
} as const satisfies Readonly<Record<RegionMessage["kind"], number>>;

const FIRST_REGION_CODE = 20, LAST_REGION_CODE = 23;

/** Whether an array with this first element is a message of a region. */
export function isRegionCode(code: unknown): boolean {
  return isCount(code) && code >= FIRST_REGION_CODE && code <= LAST_REGION_CODE;
}

/** The message as an array of plain data, which shares its bytes. */
export function regionToArray(message: RegionMessage): unknown[] {
  const code = REGION_CODES[message.kind];
  switch (message.kind) {
    case "line":
      return optional([code, message.op, message.address], message.data);
    case "far-access": {
      const { tag, region, line, op, change, lines } = message;
      return optional([code, tag, region, line, op], change ? changeToArray(change) : lines);
    }
    case "far-answer":
      return optional(
        optional([code, message.tag, message.result], message.data),
        message.data && message.away,
      );
    case "far-invalidate":
      return [code, message.region, message.line];
  }
}

function optional(fields: unknown[], last: unknown): unknown[] {
  return last === undefined ? fields : [...fields, last];
}

/** Decodes an array of {@link regionToArray}; undefined for any other value. */
export function regionFromArray(fields: readonly unknown[]): RegionMessage | undefined {
  switch (fields[0]) {
    case REGION_CODES.line:
      return lineMessage(fields);
    case REGION_CODES["far-access"]:
      return farAccess(fields);
    case REGION_CODES["far-answer"]: {
      const [, tag, code, bytes, away] = fields;
      const result = FAR_RESULTS.find((each) => each === code);
      const data = lineBytes(bytes);
      if (!isCount(tag) || result === undefined || fields.length > 5) return undefined;
      if (fields.length === 3) return { kind: "far-answer", tag, result };
      if (fields.length === 5 && away !== true) return undefined;
      return data && { kind: "far-answer", tag, result, data, ...(away === true && { away }) };
    }
    case REGION_CODES["far-invalidate"]: {
      const [, region, line] = fields;
      if (fields.length !== 3 || !isCount(region) || !isCount(line)) return undefined;
      return { kind: "far-invalidate", region, line };
    }
    default:
      return undefined;
  }
}

function lineMessage(fields: readonly unknown[]): RegionMessage | undefined {
  const [, op, address, content] = fields;
  if (!isBusKind(op) || !isCount(address) || address % COHERENCE_LINE_BYTES !== 0) return undefined;
  if (fields.length === 3) return { kind: "line", op, address };
  const isPoison = content === LOST && (BUS_MESSAGES[op].carries || op === "Cmp");
  if (fields.length !== 4 || !(isPoison || BUS_MESSAGES[op].carries)) return undefined;
  const data = isPoison ? LOST : lineBytes(content);
  return data && { kind: "line", op, address, data };
}

function farAccess(fields: readonly unknown[]): FarAccess | undefined {
  const [, tag, region, line, code, last] = fields;
  const op = FAR_OPS.find((each) => each === code);
  if (!isCount(tag) || !isCount(region) || !isCount(line) || op === undefined) return undefined;
  const access = { kind: "far-access", tag, region, line, op } as const;
  if (fields.length === 5) return op === "store" ? undefined : access;
  if (fields.length !== 6) return undefined;
  if (op === "flush") return isCount(last) && last > 0 ? { ...access, lines: last } : undefined;
  const change = changeFromArray(last);
  return op === "store" && change !== undefined ? { ...access, change } : undefined;
}

// ── changes of a line ────────────────────────────────────────────────────────────────────────────

/** Numbers of 64 bits go as bytes: what decodes them may make a number of a small one. */
function changeToArray(change: LineChange): unknown[] {
  switch (change.kind) {
    case "write":
      return ["write", word(change.mask), change.bytes];
    case "add":
      return ["add", change.offset, word(change.operand)];
    case "compare-swap":
      return ["compare-swap", change.offset, word(change.compare), word(change.swap)];
  }
}

function changeFromArray(value: unknown): LineChange | undefined {
  if (!Array.isArray(value)) return undefined;
  const [kind, first, second, third] = value as readonly unknown[];
  if (kind === "write") {
    const mask = wordFrom(first), bytes = lineBytes(second);
    if (value.length !== 3 || mask === undefined || bytes === undefined) return undefined;
    return { kind, mask, bytes };
  }
  if (!isCount(first) || first % 8 !== 0 || first >= COHERENCE_LINE_BYTES) return undefined;
  const operand = wordFrom(second);
  if (operand === undefined) return undefined;
  if (kind === "add" && value.length === 3) return { kind, offset: first, operand };
  const swap = wordFrom(third);
  if (kind !== "compare-swap" || value.length !== 4 || swap === undefined) return undefined;
  return { kind, offset: first, compare: operand, swap };
}

function word(value: bigint): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt.asUintN(64, value), true);
  return bytes;
}

function wordFrom(value: unknown): bigint | undefined {
  if (!isBytes(value) || value.length !== 8) return undefined;
  return new DataView(value.buffer, value.byteOffset, 8).getBigUint64(0, true);
}

/** A line's bytes, as a plain array whose `slice` copies. */
function lineBytes(value: unknown): Uint8Array<ArrayBuffer> | undefined {
  if (!isBytes(value) || value.length !== COHERENCE_LINE_BYTES) return undefined;
  if (Object.getPrototypeOf(value) === Uint8Array.prototype) return value;
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}
