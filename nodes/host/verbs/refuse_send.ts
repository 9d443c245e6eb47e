/** Checks of `ibv_post_send` (`rocev2.md` §4.3). */
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { isVerifiable, VERIFY_BYTES_MAX } from "../../../fabric/wire/roce/verify_eth.ts";
import type { ObjectPart, Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import { type Operand, OPERANDS, WQE_OPCODES } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import { refuseQp, verbError } from "./device.ts";
import { refuseAh } from "./address_handle.ts";
import { refuseBind } from "./memory_window.ts";
import { IBV_FLUSH_GLOBAL, IBV_FLUSH_PERSISTENT, IBV_SEND_INLINE } from "./flags.ts";
import type { FlushRequest, Qp, SendRequest, VerbError, VerifyRequest } from "./objects.ts";

export const MESSAGE_BYTES_MAX = 2 ** 31;
export const NO_SGES: readonly Sge[] = [];

const NAMED_OPERANDS = Object.entries(OPERANDS) as [Operand, string][];

export function isSent(opcode: SendRequest["opcode"]): boolean {
  return WQE_OPCODES[opcode].data === "sent";
}

export function asksInline({ sendFlags = 0 }: Pick<SendRequest, "sendFlags">): boolean {
  return (sendFlags & IBV_SEND_INLINE) !== 0;
}

export function payloadBytes(sges: readonly Sge[]): number {
  let bytes = 0;
  for (const each of sges) bytes += each.length;
  return bytes;
}

/**
 * They would exceed the longest message, and a length from 2^32 B on does not fit the WQE
 * (`ibv_sge`: 32 bits).
 */
export function refuseElements(sges: readonly Sge[]): string | undefined {
  const long = sges.findIndex(({ length }) => length > MESSAGE_BYTES_MAX);
  return long < 0 ? undefined : `Element ${long} has ${sges[long]!.length} B: 2^31 are the most`;
}

export function tooManyElements({ length }: readonly Sge[], name: string, most: number): string {
  return `sges has ${length} elements: expected at most ${name}, ${most}`;
}

/** EINVAL, or ENOENT where the RNIC has failed. */
export function refuseState(qp: Qp, work: string): VerbError {
  return refuseQp(qp) ?? verbError("EINVAL", `A queue pair in ${qp.life.state} takes no ${work}`);
}

/** Checks that hold in any state of the ring. */
export function refuseSend(qp: Qp, request: SendRequest): string | undefined {
  const { types, operands, data, takesRecv } = WQE_OPCODES[request.opcode];
  const sges = request.sges ?? NO_SGES;
  if (!types.includes(qp.type)) return `${request.opcode} does not exist on ${qp.type}`;
  if (qp.caps.oneSided && takesRecv !== "never") {
    return `${request.opcode} may take a receive, which a one-sided queue pair does not`;
  }
  if (sges.length > qp.caps.maxSendSge) {
    return tooManyElements(sges, "maxSendSge", qp.caps.maxSendSge);
  }
  if ((request.ud !== undefined) !== (qp.type === "ud")) {
    return qp.type === "ud" ? "A UD send needs an address" : `A send on ${qp.type} has none`;
  }
  for (const [operand, name] of NAMED_OPERANDS) {
    const isNeeded = operands.includes(operand);
    if ((request[operand] !== undefined) === isNeeded) continue;
    return `${request.opcode} ${isNeeded ? "needs" : "has no"} ${name}`;
  }
  const bytes = payloadBytes(sges);
  const { ud, bind, verify, objects } = request;
  const wrong = (ud && refuseAh(qp.pd, ud.ah)) ?? (bind && refuseBind(qp, bind)) ??
    (verify && refuseVerify(verify, bytes)) ?? (objects && refuseObjects(qp, request, objects)) ??
    (request.parts && refuseParts(request, request.parts));
  if (wrong !== undefined) return wrong;
  if (request.flush) return refuseFlush(request.flush, bytes);
  if (data === "unread" && sges.length > 0) {
    return `${request.opcode} carries no data: this has ${sges.length} elements`;
  }
  if (data === "word") {
    // The 8 bytes have their own segment.
    if (bytes === ATOMIC_BYTES) return undefined;
    return `An ${request.opcode.replace("-", " ").toUpperCase()} has 8 B: this has ${bytes}`;
  }
  if (bytes > MESSAGE_BYTES_MAX) return `A message has at most 2^31 B: this has ${bytes}`;
  if (data === "word room" && bytes !== ATOMIC_BYTES) {
    return `An atomic's answer has 8 B: there is room for ${bytes}`;
  }
  return asksInline(request) ? refuseInline(qp, request.opcode, bytes) : undefined;
}

/** IBV_SEND_INLINE. */
function refuseInline(
  { caps: { maxInlineData } }: Qp,
  opcode: SendRequest["opcode"],
  bytes: number,
): string | undefined {
  if (!isSent(opcode)) {
    return `IBV_SEND_INLINE is for data that is sent: ${opcode} sends none of its elements`;
  }
  if (bytes <= maxInlineData) return undefined;
  return `IBV_SEND_INLINE with ${bytes} B: max_inline_data of the queue pair is ${maxInlineData}`;
}

function refuseObjects(
  { caps: { maxObjects } }: Qp,
  request: SendRequest,
  objects: readonly bigint[],
): string | undefined {
  const { opcode } = request;
  if (opcode.startsWith("send")) {
    return `${opcode} covers no objects: a region has them, whose key an untagged message does not name`;
  }
  if (!WQE_OPCODES[opcode].coversObjects) return `${opcode} covers no objects`;
  if (objects.length === 0 || objects.length > maxObjects) {
    return `${objects.length} objects, the queue pair takes 1 to ${maxObjects}`;
  }
  if (asksInline(request)) return "A request that covers objects has no inline data";
  const wrong = objects.find((each) => each < 0n || each >= 1n << 64n);
  return wrong === undefined ? undefined : `An object's name has 64 bits: this is ${wrong}`;
}

function refuseParts(
  { opcode, objects = [] }: SendRequest,
  parts: readonly ObjectPart[],
): string | undefined {
  if (WQE_OPCODES[opcode].data === "word room") {
    return `${opcode} works on its word: its objects have no parts`;
  }
  if (parts.length !== objects.length) {
    return `${parts.length} parts of ${objects.length} objects: expected one of each`;
  }
  const wrong = parts.find(({ offset, length }) =>
    !isWord(offset) || !isWord(length) || length === 0
  );
  return wrong &&
    `An object's part has 1 to 2^32 - 1 B, at such an offset: it is ${wrong.length} B at ${wrong.offset}`;
}

function isWord(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff;
}

function refuseFlush(flush: FlushRequest, bytes: number): string | undefined {
  const { placement, length = 0 } = flush;
  if (bytes > 0) return `A FLUSH carries no data: this has ${bytes} B`;
  if (placement === 0) return "A FLUSH names a placement: this names none";
  if ((placement & ~(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT)) !== 0) {
    return `A placement is IBV_FLUSH_GLOBAL, IBV_FLUSH_PERSISTENT or both: it is ${placement}`;
  }
  if (!Number.isInteger(length) || length < 0 || length > MESSAGE_BYTES_MAX) {
    return `A FLUSH is about 0 to 2^31 B: this about ${length}`;
  }
  return undefined;
}

/** ENOMEM. @param size the name of the queue's size. */
export function noRoom(found: string, size: "maxSendWr" | "maxRecvWr" | "maxWr"): VerbError {
  const ends = size === "maxSendWr"
    ? "the completion of a signaled one to be polled"
    : "one to complete";
  return verbError(
    "ENOMEM",
    `${found}, and ${size} leaves no room: expected ${ends} before, or more`,
  );
}

/** Lower limit: the receiving RNIC buffers the whole message (V-02). */
function refuseVerify({ level, crc }: VerifyRequest, bytes: number): string | undefined {
  if (!isVerifiable(level, bytes)) {
    return `A checked write has at most ${VERIFY_BYTES_MAX} B: this has ${bytes}`;
  }
  if (crc !== undefined && (!Number.isInteger(crc) || crc < 0 || crc > 0xffff_ffff)) {
    return `A CRC has 32 bits: this is ${crc}`;
  }
  return undefined;
}
