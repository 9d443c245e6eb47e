/**
 * Messages of shared regions as plain arrays, checked field by field. `pcie_codec.ts` dispatches to
 * it; numbers below {@link FIRST_REGION_CODE} are its own.
 */
import type { LineChange } from "./line_change.ts";
import {
  BUS_MESSAGES,
  FAR_OPS,
  FAR_RESULTS,
  type FarAccess,
  isBusKind,
  type RegionMessage,
} from "./region_messages.ts";
import { LOST } from "../roce/coherence_messages.ts";
import { LINE_BYTES } from "../../base/cache_line.ts";
import { isBytes, isCount } from "./rnic_command_shape.ts";

const REGION_CODES = {
  "line": 20,
  "far-access": 21,
  "far-answer": 22,
  "far-invalidate": 23,
} as const satisfies Readonly<Record<RegionMessage["kind"], number>>;

const FIRST_REGION_CODE = 20, LAST_REGION_CODE = 23;

export function isRegionCode(code: unknown): boolean {
  return isCount(code) && code >= FIRST_REGION_CODE && code <= LAST_REGION_CODE;
}

export interface FieldSink {
  /** Announces the number of fields that follow; a list among them counts as one. */
  list(fields: number): void;
  number(value: number): void;
  text(value: string): void;
  flag(value: boolean): void;
  bytes(value: Uint8Array): void;
  /** 64 bits, as bytes: a decoder may convert a small one to a number. */
  word(value: bigint): void;
}

export function writeRegion(message: RegionMessage, to: FieldSink): void {
  const code = REGION_CODES[message.kind];
  switch (message.kind) {
    case "line": {
      const { op, address, data } = message;
      to.list(data === undefined ? 3 : 4);
      to.number(code);
      to.text(op);
      to.number(address);
      if (data === LOST) to.text(data);
      else if (data !== undefined) to.bytes(data);
      return;
    }
    case "far-access": {
      const { tag, region, line, op, change, lines } = message;
      to.list(change === undefined && lines === undefined ? 5 : 6);
      to.number(code);
      to.number(tag);
      to.number(region);
      to.number(line);
      to.text(op);
      if (change !== undefined) writeChange(change, to);
      else if (lines !== undefined) to.number(lines);
      return;
    }
    case "far-answer": {
      const { tag, result, data, away } = message;
      to.list(data === undefined ? 3 : away === undefined ? 4 : 5);
      to.number(code);
      to.number(tag);
      to.text(result);
      if (data === undefined) return;
      to.bytes(data);
      if (away !== undefined) to.flag(away);
      return;
    }
    case "far-invalidate":
      to.list(3);
      to.number(code);
      to.number(message.region);
      to.number(message.line);
  }
}

function writeChange(change: LineChange, to: FieldSink): void {
  to.list(change.kind === "compare-swap" ? 4 : 3);
  to.text(change.kind);
  switch (change.kind) {
    case "write":
      to.word(change.mask);
      to.bytes(change.bytes);
      return;
    case "add":
      to.number(change.offset);
      to.word(change.operand);
      return;
    case "compare-swap":
      to.number(change.offset);
      to.word(change.compare);
      to.word(change.swap);
  }
}

export function regionToArray(message: RegionMessage): unknown[] {
  const whole: unknown[] = [];
  let fields: unknown[] | undefined;
  const push = (value: unknown) => fields!.push(value);
  writeRegion(message, {
    // A list inside is the last field.
    list: () => {
      const outer = fields;
      fields = outer === undefined ? whole : [];
      outer?.push(fields);
    },
    number: push,
    text: push,
    flag: push,
    bytes: push,
    word: (value) => push(word(value)),
  });
  return whole;
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
  if (!isBusKind(op) || !isCount(address) || address % LINE_BYTES !== 0) return undefined;
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

function changeFromArray(value: unknown): LineChange | undefined {
  if (!Array.isArray(value)) return undefined;
  const [kind, first, second, third] = value as readonly unknown[];
  if (kind === "write") {
    const mask = wordFrom(first), bytes = lineBytes(second);
    if (value.length !== 3 || mask === undefined || bytes === undefined) return undefined;
    return { kind, mask, bytes };
  }
  if (!isCount(first) || first % 8 !== 0 || first >= LINE_BYTES) return undefined;
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

/** A plain array, whose `slice` copies. */
function lineBytes(value: unknown): Uint8Array<ArrayBuffer> | undefined {
  if (!isBytes(value) || value.length !== LINE_BYTES) return undefined;
  if (Object.getPrototypeOf(value) === Uint8Array.prototype) return value;
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}
