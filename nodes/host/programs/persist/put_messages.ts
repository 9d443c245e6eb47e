/** The messages of a `put`. */
import { machineOf } from "../../../../fabric/rack/plan/names.ts";
import {
  IBV_FLUSH_PERSISTENT,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  type SendFlags,
} from "../../verbs/flags.ts";
import type { CRC_MAKERS } from "../../../../fabric/rack/plan/vocabulary.ts";
import { crc32 } from "../../../../fabric/wire/roce/icrc.ts";
import type { VerifyLevel, VerifyVerdict } from "../../../../fabric/wire/roce/verify_eth.ts";
import type { Steps } from "../../cpu/program.ts";
import type { Mr, SendRequest, WorkCompletion } from "../../verbs/objects.ts";
import { sge } from "../../verbs/post.ts";
import {
  encodeMessage,
  encodePendingMessage,
  HEADER_BYTES,
  immediateOf,
  PENDING_MESSAGE_BYTES,
  type PutMethod,
} from "../common/persist_protocol.ts";
import { createWindow, type Failure, type PersistClient, type Region } from "./persist_client.ts";
import type { MethodPlan, Stage } from "./put_methods.ts";
import { flagsFor } from "../common/send_flags.ts";

export interface PutOptions {
  /** A host, or one of its RNICs. */
  readonly to: string;
  readonly file: string;
  readonly name: string;
  readonly method: PutMethod;
  readonly messageBytes: number;
  readonly depth: number;
  readonly inline: boolean | undefined;
  /** V-04; not used by `write-compare`, which requests no level. */
  readonly level: VerifyLevel;
  /** V-02. The card's CRC does not detect earlier damage. */
  readonly crcBy: CrcMaker;
  readonly rewrites: number;
  readonly claims: boolean;
}

type CrcMaker = typeof CRC_MAKERS[number];

export const PUT_DEFAULTS = {
  inline: undefined,
  level: "verify-crc",
  crcBy: "card",
  rewrites: 3,
  claims: false,
} as const;

export const WRITTEN = 1, PERSISTED = 2, LOOKED_AT = 4;

export const STAGES: Readonly<Record<Stage, number>> = { first: 1, second: 2, reply: 4 };

interface PutPlan {
  readonly options: PutOptions;
  readonly client: PersistClient;
  readonly region: Region;
  readonly plan: MethodPlan;
  readonly data: Uint8Array;
  readonly slots: Mr;
  readonly slotBytes: number;
  readonly scratch: Mr;
  readonly scratchBytes: number;
}

export function createPut(put: PutPlan) {
  const { options: { depth, messageBytes }, data, client, plan } = put;
  const count = Math.ceil(data.length / messageBytes);
  return {
    ...put,
    ...createWindow(depth, count),
    cpu: client.device.cpu,
    count,
    verifying: createVerifying(plan, count),
    slotOf: new Int32Array(count),
    flags: new Uint8Array(count),
    /** Completions by {@link STAGES}. */
    awaited: new Uint8Array(count),
    recvsDue: new Array<number>(),
    written: 0,
    persisted: 0,
    reportAt: Math.ceil(count / 100),
  };
}

export type Put = ReturnType<typeof createPut>;

type Caught = Exclude<VerifyVerdict["status"], "written">;

interface Verifying {
  readonly comparesItself: boolean;
  readonly rewritesOf: Uint32Array;
  readonly caught: Record<Caught, number>;
  /** Read-backs that were skipped (V-05). */
  skipped: number;
}

function lengthOf(put: Put, index: number): number {
  const { messageBytes } = put.options;
  return Math.min(messageBytes, put.data.length - index * messageBytes);
}

function destination(put: Put, index: number): number {
  return put.region.va + index * put.options.messageBytes;
}

/** `wrId`: 2·message, +1 for its second request. */
export function requestsOf(put: Put, index: number): SendRequest[] {
  const first = firstOf(put, index);
  if (put.plan.together !== true) return [first];
  const { sendFlags = 0 } = first;
  return [{ ...first, sendFlags: sendFlags & ~IBV_SEND_SIGNALED }, follow(put, index)];
}

export function takeSlot(put: Put, index: number): void {
  const { cpu, plan, slots, slotBytes, options, region } = put;
  const slot = put.freeSlots.pop()!;
  put.slotOf[index] = slot;
  put.outstanding++;
  const length = lengthOf(put, index);
  const from = index * options.messageBytes;
  const payload = put.data.subarray(from, from + length);
  const offset = region.scmOffset + from;
  if (cpu.auditing) {
    cpu.note({ kind: "writes", id: index, on: machineOf(options.to), at: offset, bytes: payload });
  }
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
  if (plan.first === "send") {
    put.requests.send++;
    const bytes = headerBytes(options.method) + length;
    const sges = [sge(slots, offset, bytes)];
    return { opcode: "send", sendFlags: dataFlags(options, bytes), wrId: 2 * index, sges };
  }
  put.requests.write++;
  return {
    opcode: plan.first,
    sendFlags: dataFlags(options, length),
    wrId: 2 * index,
    sges: [sge(slots, offset, length)],
    remote: { va: destination(put, index), rkey: put.region.rkey },
    ...(plan.first === "write-immediate" &&
      { immediate: immediateOf({ message: index, isHead: false }) }),
    ...verifyOf(put, index),
  };
}

/** Small messages go inline where there is no option `inline`. */
function dataFlags({ inline }: PutOptions, bytes: number): SendFlags {
  if (inline === undefined) return flagsFor(bytes);
  return IBV_SEND_SIGNALED | (inline ? IBV_SEND_INLINE : 0);
}

/** A program that computes the CRC itself reads all data first. */
function verifyOf(put: Put, index: number): Pick<SendRequest, "verify"> {
  const { cpu, plan, slots, slotBytes, options: { level, crcBy } } = put;
  if (plan.first !== "write-verify") return {};
  const verify = { level, persist: plan.persist === true };
  if (crcBy === "card") return { verify };
  const data = cpu.load(slots.address + put.slotOf[index]! * slotBytes, lengthOf(put, index));
  return { verify: { ...verify, crc: crc32(data) } };
}

export function headerBytes(method: PutMethod): number {
  return method === "send-read"
    ? PENDING_MESSAGE_BYTES
    : method === "send-flush"
    ? HEADER_BYTES
    : 0;
}

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
    // The connection's number differs from the object's after a reconnect.
    const sequence = put.requests.send + 1;
    const pending = { id: index, scmOffset: offset, sequence, ...ring };
    return cpu.store(at, encodePendingMessage(pending, payload));
  }
  const va = destination(put, index), length = payload.length;
  cpu.store(at, encodeMessage({ type: "data", id: index, va, length }));
  cpu.store(at + HEADER_BYTES, payload);
}

export function follow(put: Put, index: number): SendRequest {
  const { cpu, scratch, scratchBytes, requests } = put;
  const va = destination(put, index);
  const length = lengthOf(put, index);
  const offset = put.slotOf[index]! * scratchBytes;
  const wrId = 2 * index + 1, sendFlags = IBV_SEND_SIGNALED;
  if (put.plan.second === "read") {
    requests.read++;
    const { ring, rkey } = put.region;
    // It reads the message's last byte, or that of its SEND's receive buffer.
    const remote = ring === undefined ? { va: va + length - 1, rkey } : ring;
    return { opcode: "read", sendFlags, wrId, sges: [sge(scratch, offset, 1)], remote };
  }
  if (put.plan.second === "compare") {
    requests.read++;
    const sges = [sge(scratch, offset, length)];
    return { opcode: "read", sendFlags, wrId, sges, remote: { va, rkey: put.region.rkey } };
  }
  if (put.plan.second === "flush") {
    requests.flush++;
    const remote = { va, rkey: put.region.rkey };
    const flush = { placement: IBV_FLUSH_PERSISTENT, selectivity: "range", length } as const;
    return { opcode: "flush", sendFlags, wrId, remote, flush };
  }
  requests.send++;
  const mark = encodeMessage({ type: "persist-mark", id: index, va, length });
  cpu.store(scratch.address + offset, mark);
  const sges = [sge(scratch, offset, mark.length)];
  return { opcode: "send", sendFlags: flagsFor(mark.length), wrId, sges };
}

function createVerifying(plan: MethodPlan, count: number): Verifying | undefined {
  const comparesItself = plan.second === "compare";
  if (plan.first !== "write-verify" && !comparesItself) return undefined;
  return {
    comparesItself,
    rewritesOf: new Uint32Array(count),
    caught: { "crc-mismatch": 0, "read-back-differs": 0, "read-failed": 0 },
    skipped: 0,
  };
}

/**
 * @returns undefined for other completions. A broken cell does not recover: after the last rewrite the `put` fails.
 */
export function* messageToRewrite(
  put: Put,
  completion: WorkCompletion,
): Steps<number | Failure | undefined> {
  const { verifying } = put;
  if (verifying === undefined) return undefined;
  const index = Math.floor(completion.wrId / 2);
  const caught = caughtBy(put, verifying, completion);
  if (verifying.comparesItself) yield* put.cpu.settle();
  if (caught === undefined) return undefined;
  verifying.caught[caught]++;
  if (verifying.rewritesOf[index] === put.options.rewrites) {
    return { error: `verify: message ${index}: ${caught}` };
  }
  verifying.rewritesOf[index]!++;
  return index;
}

function caughtBy(
  put: Put,
  verifying: Verifying,
  { status, verify, wrId }: WorkCompletion,
): Caught | undefined {
  const index = Math.floor(wrId / 2);
  if (verifying.comparesItself) {
    if (status !== "SUCCESS" || wrId % 2 === 0) return undefined;
    const { cpu, slots, slotBytes, scratch, scratchBytes } = put;
    const slot = put.slotOf[index]!, length = lengthOf(put, index);
    const sent = cpu.load(slots.address + slot * slotBytes, length);
    const read = cpu.load(scratch.address + slot * scratchBytes, length);
    if (sent.some((byte, i) => byte !== read[i])) return "read-back-differs";
    put.flags[index]! |= LOOKED_AT;
    return undefined;
  }
  if (verify === undefined) return undefined;
  if (verify.status !== "written") return verify.status;
  if (verify.checks.includes("skipped")) verifying.skipped++;
  const isLookedAt = verify.checks.includes("compared") || verify.checks.includes("crc-after");
  if (isLookedAt) put.flags[index]! |= LOOKED_AT;
  return undefined;
}

/** `looked`: verified ranges of the file. */
export function verifiedOf(
  { comparesItself, caught, skipped, rewritesOf }: Verifying,
  level: VerifyLevel,
  looked: readonly (readonly [from: number, to: number])[],
): Record<string, unknown> {
  return {
    level: comparesItself ? "compare" : level,
    caught: { ...caught },
    rewrites: rewritesOf.reduce((sum, count) => sum + count, 0),
    skipped,
    looked,
  };
}
