/**
 * PCIe messages as plain arrays. Those of another process are validated here, field by field; other
 * code relies on it.
 */
import { coherentFromArray, coherentToArray } from "./coherent_codec.ts";
import { ATS_STEPS, type PcieMessage } from "./pcie.ts";
import { isRegionCode, regionFromArray, regionToArray } from "./region_codec.ts";
import { isRegionMessage, type RegionMessage } from "./region_messages.ts";
import { isRnicCommand, isRnicEvent, isRnicReply } from "./rnic_command.ts";
import { isBytes, isCount } from "./rnic_command_shape.ts";

const KIND_CODES = {
  "memory-write": 0,
  "memory-read": 1,
  "completion": 2,
  "interrupt": 3,
  "register-write": 4,
  "command": 5,
  "reply": 6,
  "event": 7,
  "register-read": 8,
  "access-error": 9,
  "snoop-invalidate": 10,
  "ats": 11,
  "coherent": 12,
} as const satisfies Readonly<Record<Exclude<PcieMessage, RegionMessage>["kind"], number>>;

const TRACKED = "tracked";

const REGISTER_BYTES_MAX = 64;

export function pcieToArray(message: PcieMessage): unknown[] {
  if (isRegionMessage(message)) return regionToArray(message);
  const code = KIND_CODES[message.kind];
  switch (message.kind) {
    case "memory-write":
      return [code, message.address, message.data, message.noSnoop];
    case "memory-read": {
      const fields = [code, message.tag, message.address, message.length, message.noSnoop];
      if (message.tracked) return [...fields, TRACKED];
      return message.medium ? [...fields, true] : fields;
    }
    case "completion":
      return [code, message.tag, message.status === "success", message.data];
    case "snoop-invalidate":
      return [code, message.address];
    case "ats": {
      const { step, key, first, count, ahead, write, frames, hintsOf } = message;
      const fields = [code, ATS_STEPS.indexOf(step), key, first, count, ahead, write, frames];
      return hintsOf === undefined ? fields : [...fields, hintsOf];
    }
    case "interrupt":
      return [code, message.vector];
    case "register-write":
      if (message.by !== undefined) return [code, message.offset, message.data, null, message.by];
      return message.stored === undefined
        ? [code, message.offset, message.data]
        : [code, message.offset, message.data, message.stored.stamp, message.stored.pointer];
    case "register-read":
      return [code, message.tag, message.offset, message.length];
    case "access-error": {
      const { by, address, length, space, queue, holder } = message;
      const fields = [code, by, address, length, space, queue];
      return holder === undefined ? fields : [...fields, holder];
    }
    case "command":
      return [code, message.id, message.command];
    case "reply":
      return [code, message.id, message.reply];
    case "event":
      return [code, message.event];
    case "coherent":
      return [code, ...coherentToArray(message)];
  }
}

/**
 * Decodes an array of {@link pcieToArray}; undefined for any other value. Bytes are views of the
 * array's, as plain `Uint8Array`s.
 */
export function pcieFromArray(value: unknown): PcieMessage | undefined {
  if (!Array.isArray(value)) return undefined;
  const fields: readonly unknown[] = value;
  switch (fields[0]) {
    case KIND_CODES["memory-write"]:
      return memoryWrite(fields);
    case KIND_CODES["memory-read"]:
      return memoryRead(fields);
    case KIND_CODES.completion:
      return completion(fields);
    case KIND_CODES["register-write"]:
      return registerWrite(fields);
    case KIND_CODES["register-read"]:
      return registerRead(fields);
    case KIND_CODES["access-error"]:
      return accessError(fields);
    case KIND_CODES.ats:
      return ats(fields);
    case KIND_CODES.coherent:
      return coherentFromArray(fields.slice(1), ownBytes);
    default:
      return isRegionCode(fields[0]) ? regionFromArray(fields) : control(fields);
  }
}

function memoryWrite(fields: readonly unknown[]): PcieMessage | undefined {
  const [, address, bytes, noSnoop] = fields;
  const data = ownBytes(bytes);
  if (fields.length !== 4 || !isCount(address) || data === undefined) return undefined;
  if (typeof noSnoop !== "boolean") return undefined;
  return { kind: "memory-write", address, data, noSnoop };
}

function memoryRead(fields: readonly unknown[]): PcieMessage | undefined {
  const [, tag, address, length, noSnoop, medium] = fields;
  if (!isCount(tag) || !isCount(address) || !isCount(length)) return undefined;
  if (typeof noSnoop !== "boolean") return undefined;
  const read = { kind: "memory-read", tag, address, length, noSnoop } as const;
  if (fields.length === 5) return read;
  if (fields.length !== 6) return undefined;
  if (medium === TRACKED) return { ...read, tracked: true };
  return medium === true ? { ...read, medium } : undefined;
}

function completion(fields: readonly unknown[]): PcieMessage | undefined {
  const [, tag, success, bytes] = fields;
  const data = ownBytes(bytes);
  if (fields.length !== 4 || !isCount(tag) || data === undefined) return undefined;
  if (typeof success !== "boolean" || (!success && data.length > 0)) return undefined;
  return { kind: "completion", tag, status: success ? "success" : "unsupported-request", data };
}

function registerWrite(fields: readonly unknown[]): PcieMessage | undefined {
  const [, offset, bytes, stamp, last] = fields;
  const data = ownBytes(bytes);
  if (!isCount(offset) || data === undefined || data.length > REGISTER_BYTES_MAX) return undefined;
  if (fields.length === 3) return { kind: "register-write", offset, data };
  if (fields.length !== 5 || !isCount(last)) return undefined;
  if (stamp === null) return { kind: "register-write", offset, data, by: last };
  if (!isCount(stamp)) return undefined;
  return { kind: "register-write", offset, data, stored: { pointer: last, stamp } };
}

function registerRead(fields: readonly unknown[]): PcieMessage | undefined {
  const [, tag, offset, length] = fields;
  if (fields.length !== 4 || !isCount(tag) || !isCount(offset) || !isCount(length)) {
    return undefined;
  }
  return { kind: "register-read", tag, offset, length };
}

function accessError(fields: readonly unknown[]): PcieMessage | undefined {
  const [, by, address, length, space, queue, holder] = fields;
  if (!isCount(by) || !isCount(address) || !isCount(length) || !isCount(queue)) return undefined;
  if (space !== 1 && space !== 2) return undefined;
  const error = { kind: "access-error", by, address, length, space, queue } as const;
  if (fields.length === 6) return error;
  return fields.length === 7 && isCount(holder) ? { ...error, holder } : undefined;
}

function ats(fields: readonly unknown[]): PcieMessage | undefined {
  const [, code, key, first, count, ahead, write, frames, hintsOf] = fields;
  const step = isCount(code) ? ATS_STEPS[code] : undefined;
  if (step === undefined || !isCount(key) || !isCount(first)) return undefined;
  const isHinted = fields.length === 9 && step === "page-request" && isCount(hintsOf);
  if (fields.length !== 8 && !isHinted) return undefined;
  if (!isCount(count) || !isCount(ahead) || typeof write !== "boolean") return undefined;
  // A range may have no page that is needed at once.
  if (count + ahead === 0) return undefined;
  if (!Array.isArray(frames) || !frames.every(isCount)) return undefined;
  const isWhole = frames.length === 0 || (step === "translated" && frames.length === count);
  if (!isWhole) return undefined;
  const message = { kind: "ats", step, key, first, count, ahead, write, frames } as const;
  return isHinted ? { ...message, hintsOf } : message;
}

function control(fields: readonly unknown[]): PcieMessage | undefined {
  const [code, first, second] = fields;
  if (fields.length === 2) {
    if (code === KIND_CODES.event && isRnicEvent(first)) return { kind: "event", event: first };
    if (code === KIND_CODES.interrupt && isCount(first)) {
      return { kind: "interrupt", vector: first };
    }
    if (code === KIND_CODES["snoop-invalidate"] && isCount(first)) {
      return { kind: "snoop-invalidate", address: first };
    }
    return undefined;
  }
  if (fields.length !== 3 || !isCount(first)) return undefined;
  if (code === KIND_CODES.command && isRnicCommand(second)) {
    return { kind: "command", id: first, command: second };
  }
  if (code === KIND_CODES.reply && isRnicReply(second)) {
    return { kind: "reply", id: first, reply: second };
  }
  return undefined;
}

/** A decoder may return a subclass whose `slice` does not copy. */
function ownBytes(value: unknown): Uint8Array<ArrayBuffer> | undefined {
  if (!isBytes(value)) return undefined;
  if (Object.getPrototypeOf(value) === Uint8Array.prototype) return value;
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}
