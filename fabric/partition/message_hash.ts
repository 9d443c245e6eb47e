/**
 * Of a message's content, for the digest: buffers, offsets and the order of an object's keys have
 * no effect. Not cryptographic.
 */
import { assert } from "../base/assert.ts";
import { finish, hashBytes, mix, PRIME1, PRIME4 } from "../base/hash.ts";
import type { Frame, Message } from "../node.ts";
import { coherentOp } from "../wire/host_bus/coherent_codec.ts";
import type { CoherentMessage } from "../wire/host_bus/coherent.ts";
import type { PcieMessage } from "../wire/host_bus/pcie.ts";
import { type FieldSink, writeRegion } from "../wire/host_bus/region_codec.ts";
import type { RegionMessage } from "../wire/host_bus/region_messages.ts";

/** A signed 32-bit integer; a frame keeps its hash. */
export function hashMessage(message: Message): number {
  if (message.kind === "frame") return message.hash ??= hashFrame(message) | 0;
  return hashPcie(message) | 0;
}

/**
 * A packet's values, which determine the ICRC; for other frames, such as damaged ones, all bytes.
 */
function hashFrame(frame: Frame): number {
  const { packet, head } = frame;
  if (packet === undefined || head === undefined) return hashBytes(frame.bytes, PRIME1);
  return finish(mix(hashBytes(head, PRIME1), hashData(packet.payload)));
}

/** The bytes alone, so that later messages with them need not hash them again. */
function hashData(data: Uint8Array): number {
  return hashBytes(data, PRIME4);
}

const scratch = new DataView(new ArrayBuffer(8));

function mixNumber(hash: number, value: number): number {
  if (Number.isSafeInteger(value)) return mix(mix(hash, value | 0), Math.floor(value / 2 ** 32));
  scratch.setFloat64(0, value);
  return mix(mix(hash, scratch.getInt32(0)), scratch.getInt32(4));
}

function hashPcie(message: PcieMessage): number {
  switch (message.kind) {
    case "memory-write": {
      const place = mixNumber(mix(1, message.noSnoop ? 1 : 0), message.address);
      return finish(mix(place, hashData(message.data)));
    }
    case "memory-read": {
      const flags = (message.noSnoop ? 1 : 0) | (message.medium ? 2 : 0) |
        (message.tracked ? 4 : 0);
      const hash = mixNumber(mix(2, flags), message.address);
      return finish(mixNumber(mixNumber(hash, message.tag), message.length));
    }
    case "completion": {
      const answer = mixNumber(mix(3, message.status === "success" ? 1 : 0), message.tag);
      return finish(mix(answer, hashData(message.data)));
    }
    case "snoop-invalidate":
      return finish(mixNumber(10, message.address));
    case "interrupt":
      return finish(mixNumber(4, message.vector));
    case "register-write":
      return hashBytes(
        message.data,
        mixNumber(message.by === undefined ? 5 : mixNumber(11, message.by), message.offset),
      );
    case "register-read":
      return finish(
        mixNumber(mixNumber(mixNumber(10, message.tag), message.offset), message.length),
      );
    case "access-error":
      return finish(mixPlain(12, message));
    case "ats":
      return finish(mixPlain(13, message));
    case "command":
      return finish(mixPlain(mixNumber(6, message.id), message.command));
    case "reply":
      return finish(mixPlain(mixNumber(7, message.id), message.reply));
    case "event":
      return finish(mixPlain(8, message.event));
    case "coherent":
      return hashCoherent(message);
    default:
      return finish(hashRegion(message));
  }
}

/**
 * Equals {@link mixPlain} of its fields' array, without the array: region messages are frequent.
 */
function hashRegion(message: RegionMessage): number {
  regionHash = 15;
  writeRegion(message, REGION_HASH);
  return regionHash;
}

let regionHash = 0;
const wordBytes = new Uint8Array(8), wordView = new DataView(wordBytes.buffer);
const REGION_HASH: FieldSink = {
  list: (fields) => {
    regionHash = mix(mix(regionHash, 7), fields);
  },
  number: (value) => {
    regionHash = mixField(regionHash, value);
  },
  text: (value) => {
    regionHash = mixText(mix(regionHash, 2), value);
  },
  flag: (value) => {
    regionHash = mix(regionHash, value ? 3 : 4);
  },
  bytes: (value) => {
    regionHash = mixData(regionHash, value);
  },
  word: (value) => {
    wordView.setBigUint64(0, value, true);
    regionHash = mixData(regionHash, wordBytes);
  },
};

function mixField(hash: number, value: number): number {
  return mixNumber(mix(hash, 1), value);
}

function mixData(hash: number, value: Uint8Array): number {
  return mix(mix(hash, 6), hashData(value));
}

function hashCoherent(message: CoherentMessage): number {
  const hash = mix(14, coherentOp(message));
  switch (message.op) {
    case "RdCur":
    case "RdCode":
    case "InvItoE":
    case "GntE":
    case "Cmp":
    case "FailedCmp":
    case "RspI": {
      const isMedium = "medium" in message && message.medium === true;
      const place = mixNumber(mix(hash, message.lines), message.address);
      return finish(mixNumber(mix(place, isMedium ? 1 : 0), message.tag));
    }
    case "DataC":
      return hashBytes(message.data, mixNumber(mixNumber(hash, message.address), message.tag));
    case "WbMtoI":
    case "WbMtoE": {
      const place = mixNumber(mix(hash, message.toMemory ? 1 : 0), message.address);
      return hashBytes(message.data, mixNumber(place, message.tag));
    }
    case "NcWr": {
      const place = mixNumber(hash, message.offset);
      return hashBytes(
        message.data,
        message.by === undefined ? place : mixNumber(mix(place, 1), message.by),
      );
    }
    case "SnpInv":
    case "NcRd":
    case "DataNc":
    case "IntPhysical":
      return finish(mixPlain(hash, message));
  }
}

export function hashPlain(value: unknown): number {
  return finish(mixPlain(9, value));
}

/** Control path only, so speed does not matter. */
function mixPlain(hash: number, value: unknown): number {
  if (typeof value === "number") return mixField(hash, value);
  if (typeof value === "string") return mixText(mix(hash, 2), value);
  if (typeof value === "boolean") return mix(hash, value ? 3 : 4);
  if (value === null || value === undefined) return mix(hash, 5);
  if (value instanceof Uint8Array) return mixData(hash, value);
  if (Array.isArray(value)) {
    return value.reduce<number>(mixPlain, mix(mix(hash, 7), value.length));
  }
  assert(typeof value === "object", `Cannot hash a ${typeof value}: it is no plain data`);
  const entries = Object.entries(value).filter(([, field]) => field !== undefined)
    .sort(([x], [y]) => (x < y ? -1 : 1));
  return entries.reduce(
    (so, [name, field]) => mixPlain(mixText(so, name), field),
    mix(mix(hash, 8), entries.length),
  );
}

function mixText(hash: number, text: string): number {
  let mixed = mix(hash, text.length);
  for (let i = 0; i < text.length; i++) mixed = mix(mixed, text.charCodeAt(i));
  return mixed;
}
