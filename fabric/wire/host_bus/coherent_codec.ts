/** Coherent bus messages as plain arrays, and back, checked field by field. */
import { LINE_BYTES } from "../../base/cache_line.ts";
import { type CoherentMessage, linesOf, RUN_BYTES } from "./coherent.ts";
import { isCount } from "./rnic_command_shape.ts";

/** An operation's number is its place here, which never changes. */
const OPS = [
  "RdCur",
  "RdCode",
  "InvItoE",
  "DataC",
  "WbMtoI",
  "WbMtoE",
  "GntE",
  "Cmp",
  "FailedCmp",
  "RspI",
  "SnpInv",
  "NcRd",
  "DataNc",
  "NcWr",
  "IntPhysical",
] as const satisfies readonly CoherentMessage["op"][];

export function coherentOp({ op }: CoherentMessage): number {
  return OPS.indexOf(op);
}

export function coherentToArray(message: CoherentMessage): unknown[] {
  const op = coherentOp(message);
  switch (message.op) {
    case "RdCur":
    case "RdCode":
    case "InvItoE": {
      const fields = [op, message.tag, message.address, message.lines];
      return message.medium ? [...fields, true] : fields;
    }
    case "DataC":
      return [op, message.tag, message.address, message.state === "S", message.data];
    case "WbMtoI":
    case "WbMtoE":
      return [op, message.tag, message.address, message.data, message.toMemory];
    case "GntE":
    case "Cmp":
    case "FailedCmp":
    case "RspI":
      return [op, message.tag, message.address, message.lines];
    case "SnpInv":
      return [op, message.address];
    case "NcRd":
      return [op, message.tag, message.offset, message.length];
    case "DataNc":
      return [op, message.tag, message.data];
    case "NcWr": {
      const { offset, data, stored, by } = message;
      if (by !== undefined) return [op, offset, data, null, by];
      return stored === undefined
        ? [op, offset, data]
        : [op, offset, data, stored.stamp, stored.pointer];
    }
    case "IntPhysical":
      return [op, message.vector];
  }
}

/**
 * @param bytesOf a plain `Uint8Array` of a value, or undefined.
 * @returns undefined for an invalid message.
 */
export function coherentFromArray(
  fields: readonly unknown[],
  bytesOf: (value: unknown) => Uint8Array<ArrayBuffer> | undefined,
): CoherentMessage | undefined {
  const [number, first, second, third, fourth] = fields;
  const op = isCount(number) ? OPS[number] : undefined;
  const { length } = fields;
  const kind = "coherent" as const;
  switch (op) {
    case undefined:
      return undefined;
    case "RdCur":
    case "RdCode":
    case "InvItoE": {
      if (!isCount(first) || !isRun(second, third)) return undefined;
      const request = { kind, op, tag: first, address: second as number, lines: third as number };
      if (length === 4) return request;
      return length === 5 && fourth === true && op === "RdCur"
        ? { ...request, medium: true }
        : undefined;
    }
    case "GntE":
    case "Cmp":
    case "FailedCmp":
    case "RspI":
      if (length !== 4 || !isCount(first) || !isRun(second, third)) return undefined;
      return { kind, op, tag: first, address: second as number, lines: third as number };
    case "DataC": {
      const data = bytesOf(fourth);
      if (length !== 5 || !isCount(first) || data === undefined) return undefined;
      if (typeof third !== "boolean" || !isRun(second, data.length / LINE_BYTES)) return undefined;
      const state = third ? "S" : "I";
      return { kind, op, tag: first, address: second as number, state, data };
    }
    case "WbMtoI":
    case "WbMtoE": {
      const data = bytesOf(third);
      if (length !== 5 || !isCount(first) || !isCount(second) || data === undefined) {
        return undefined;
      }
      if (typeof fourth !== "boolean" || data.length === 0) return undefined;
      const from = second - second % LINE_BYTES;
      if (!isRun(from, linesOf(second, data.length))) return undefined;
      return { kind, op, tag: first, address: second, data, toMemory: fourth };
    }
    case "SnpInv":
      return length === 2 && isRun(first, 1) ? { kind, op, address: first as number } : undefined;
    case "NcRd":
      if (length !== 4 || !isCount(first) || !isCount(second) || !isCount(third)) return undefined;
      return { kind, op, tag: first, offset: second, length: third };
    case "DataNc": {
      const data = bytesOf(second);
      if (length !== 3 || !isCount(first) || data === undefined) return undefined;
      return { kind, op, tag: first, data };
    }
    case "NcWr": {
      const data = bytesOf(second);
      if (!isCount(first) || data === undefined || data.length > LINE_BYTES) return undefined;
      const write = { kind, op, offset: first, data };
      if (length === 3) return write;
      if (length !== 5 || !isCount(fourth)) return undefined;
      if (third === null) return { ...write, by: fourth };
      return isCount(third) ? { ...write, stored: { pointer: fourth, stamp: third } } : undefined;
    }
    case "IntPhysical":
      return length === 2 && isCount(first) ? { kind, op, vector: first } : undefined;
  }
}

function isRun(address: unknown, lines: unknown): boolean {
  if (!isCount(address) || !isCount(lines) || address % LINE_BYTES !== 0 || lines === 0) {
    return false;
  }
  return address % RUN_BYTES + lines * LINE_BYTES <= RUN_BYTES;
}
