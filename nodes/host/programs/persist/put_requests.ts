/** The requests of a `put`'s message, and its data in the slot that they take it from. */
import { crc32 } from "../../../../fabric/wire/roce/icrc.ts";
import { sge } from "../../verbs/post.ts";
import { DEPOSIT_BYTES, encodeDeposit } from "../common/pending_message.ts";
import { encodeMessage, HEADER_BYTES, type PutMethod } from "../common/persist_protocol.ts";
import { type Put, STAGES } from "./put_job.ts";
import { noteWrites } from "./put_report.ts";
import type { SendRequest } from "../../verbs/objects.ts";

/** Bytes of data of a message: of the last it may be fewer. */
export function lengthOf(put: Put, index: number): number {
  const { messageBytes } = put.options;
  return Math.min(messageBytes, put.data.length - index * messageBytes);
}

/** Where the message goes. */
function destination(put: Put, index: number): number {
  return put.region.va + index * put.options.messageBytes;
}

/** The requests with which a message starts. */
export function begin(put: Put, index: number): SendRequest[] {
  takeSlot(put, index);
  return requestsOf(put, index);
}

/** Requests carry their message in `wrId`: 2·message, +1 for the second request of it. */
export function requestsOf(put: Put, index: number): SendRequest[] {
  const first = firstOf(put, index);
  if (put.plan.together !== true) return [first];
  return [{ ...first, signaled: false }, follow(put, index)];
}

/** The message's data, or all of it where it is a SEND, into a slot of its own. */
function takeSlot(put: Put, index: number): void {
  const { cpu, plan, slots, slotBytes, options } = put;
  const slot = put.freeSlots.pop()!;
  put.slotOf[index] = slot;
  put.outstanding++;
  const length = lengthOf(put, index);
  const from = index * options.messageBytes;
  const payload = put.data.subarray(from, from + length);
  if (cpu.noting) noteWrites(put, index, payload);
  const at = slots.address + slot * slotBytes;
  put.awaited[index] = (plan.together ? 0 : STAGES.first) |
    (plan.second === undefined ? 0 : STAGES.second) |
    (plan.recvAfter === undefined ? 0 : STAGES.reply);
  if (plan.first === "send") storeMessage(put, { index, at, payload });
  else cpu.store(at, payload);
}

function firstOf(put: Put, index: number): SendRequest {
  const { plan, slots, slotBytes, options } = put;
  const length = lengthOf(put, index);
  const offset = put.slotOf[index]! * slotBytes;
  const inline = options.inline === undefined ? {} : { inline: options.inline };
  if (plan.first === "send") {
    put.requests.send++;
    const sges = [sge(slots, offset, headerBytes(options.method) + length)];
    return { opcode: "send", wrId: 2 * index, sges, ...inline };
  }
  put.requests.write++;
  return {
    opcode: plan.first,
    wrId: 2 * index,
    sges: [sge(slots, offset, length)],
    remote: { va: destination(put, index), rkey: put.region.rkey },
    ...verifyOf(put, index),
    ...inline,
  };
}

/** What a verified write asks for. A program that brings the CRC itself looks at all of the data first. */
function verifyOf(put: Put, index: number): Pick<SendRequest, "verify"> {
  const { cpu, plan, slots, slotBytes, verifying } = put;
  if (plan.first !== "write-verify" || verifying === undefined) return {};
  const { level, crcBy } = verifying;
  const verify = { level, persist: plan.persist === true };
  if (crcBy === "card") return { verify };
  const data = cpu.load(slots.address + put.slotOf[index]! * slotBytes, lengthOf(put, index));
  return { verify: { ...verify, crc: crc32(data) } };
}

/** Bytes of a message in front of its data. */
export function headerBytes(method: PutMethod): number {
  return method === "send-read" ? DEPOSIT_BYTES : method === "send-flush" ? HEADER_BYTES : 0;
}

/** The data with its header, for a SEND. */
function storeMessage(
  put: Put,
  { index, at, payload }: {
    readonly index: number;
    readonly at: number;
    readonly payload: Uint8Array;
  },
): void {
  const { cpu, options, region: { ring, scmOffset } } = put;
  if (options.method === "send-read" && ring !== undefined) {
    const offset = scmOffset + index * options.messageBytes;
    // Of this connection, whose first message need not be the object's.
    const sequence = put.requests.send + 1;
    const deposit = { id: index, scmOffset: offset, sequence, ...ring };
    return cpu.store(at, encodeDeposit(deposit, payload));
  }
  const va = destination(put, index), length = payload.length;
  cpu.store(at, encodeMessage({ type: "data", id: index, va, length }));
  cpu.store(at + HEADER_BYTES, payload);
}

/** What a READ asks for behind a message: its last byte, or what its SEND has been put into. */
function readFrom(put: Put, index: number): { readonly va: number; readonly rkey: number } {
  const { region } = put;
  if (region.ring !== undefined) return { va: region.ring.va, rkey: region.ring.rkey };
  return { va: destination(put, index) + lengthOf(put, index) - 1, rkey: region.rkey };
}

/** The second request of a message. */
export function follow(put: Put, index: number): SendRequest {
  const { cpu, scratch, scratchBytes, requests } = put;
  const va = destination(put, index);
  const length = lengthOf(put, index);
  const offset = put.slotOf[index]! * scratchBytes;
  const wrId = 2 * index + 1;
  if (put.plan.second === "read") {
    requests.read++;
    return { opcode: "read", wrId, sges: [sge(scratch, offset, 1)], remote: readFrom(put, index) };
  }
  if (put.plan.second === "compare") {
    requests.read++;
    const sges = [sge(scratch, offset, length)];
    return { opcode: "read", wrId, sges, remote: { va, rkey: put.region.rkey } };
  }
  if (put.plan.second === "flush") {
    requests.flush++;
    const remote = { va, rkey: put.region.rkey };
    const flush = { placement: ["persistent"], selectivity: "range", length } as const;
    return { opcode: "flush", wrId, remote, flush };
  }
  requests.send++;
  const mark = encodeMessage({ type: "persist-mark", id: index, va, length });
  cpu.store(scratch.address + offset, mark);
  return { opcode: "send", wrId, sges: [sge(scratch, offset, mark.length)] };
}
