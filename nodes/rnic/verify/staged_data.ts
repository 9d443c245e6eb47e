/**
 * Data of verified writes on its way to memory, once its CRC holds (V-02): a path MTU at a time, where the bus has
 * little else to do. All at once it would overflow the receive buffer, and delay reads: a read-back follows each piece
 * (V-03). A busy bus gives it a turn from time to time.
 *
 * Later requests of the peer wait, as behind an atomic, so that they take effect later.
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import type { Device } from "../state/device.ts";
import { countPending } from "../state/responder_changes.ts";
import { flipped } from "../state/flips.ts";
import { STAGED_BACKLOG_PS, STAGED_PATIENCE_PS, STAGED_RESUME_PS } from "../state/limits.ts";
import { lookUpTo } from "./read_back.ts";
import { passAnswers } from "../answers/answers.ts";
import type { SingleService, StagedData } from "../state/responder_state.ts";
import { isLive } from "../dma/translation.ts";
import { awaitAccess } from "../paging/access.ts";
import { isWaiting } from "../paging/memory_waits.ts";
import { mayMiss } from "../state/paging_state.ts";
import { traceVerifiedArrival } from "../trace/verify_trace.ts";
import { dataPlaced, flushesFirst } from "./write_verify.ts";
import { placePayload } from "../dma/place_payload.ts";
import { noteOwnWrite } from "../state/verify_state.ts";

/** One packet without earlier data of its queue pair goes at once. */
export function placeStaged(
  device: Device,
  staged: Pick<StagedData, "qp" | "service" | "data">,
): void {
  const { qp, service, data } = staged;
  const waiting: StagedData = { ...staged, offset: 0 };
  if (data.length <= qp.attributes.pathMtu && qp.responder.placing === 0) {
    placeNext(device, waiting);
    return dataPlaced(device, qp, service);
  }
  countPending(qp, "placing", 1);
  const { verify, now } = device;
  if (verify.staged.length === 0) verify.stagedTurnAt = now + STAGED_PATIENCE_PS;
  verify.staged.push(waiting);
}

/** Called in every step. */
export function runStaged(device: Device): void {
  const { verify, dma, now } = device;
  const { staged } = verify;
  for (let first = staged.peek(); first !== undefined; first = staged.peek()) {
    if (dma.busFreeAt - now > STAGED_BACKLOG_PS && now < verify.stagedTurnAt) return;
    if (!hasPage(device, first)) return;
    verify.stagedTurnAt = now + STAGED_PATIENCE_PS;
    const { qp, service, data } = first;
    if (isLive(service.verified!.opened.segments)) placeNext(device, first);
    else refuse(device, service);
    if (service.state !== "failed" && first.offset < data.length) {
      lookAlong(device, first);
      continue;
    }
    staged.shift();
    countPending(qp, "placing", -1);
    if (service.state !== "failed") dataPlaced(device, qp, service);
    passAnswers(device, qp);
  }
}

export function stagedWakeAt(device: Device): Time {
  const { verify, dma, now } = device;
  const first = verify.staged.peek();
  if (first === undefined || isWaiting(device, first.qp, "staged")) return NEVER;
  return Math.max(now, Math.min(dma.busFreeAt - STAGED_RESUME_PS, verify.stagedTurnAt));
}

function hasPage(device: Device, { qp, service, data, offset }: StagedData): boolean {
  if (!mayMiss(device.paging)) return true;
  if (isWaiting(device, qp, "staged")) return false;
  const { segments, firstPsn: psn } = service.verified!.opened;
  const length = Math.min(qp.attributes.pathMtu, data.length - offset);
  const access = { segments, offset, length, write: true, pagesOnly: true };
  return awaitAccess(device, access, { kind: "staged", qp, psn });
}

/**
 * The memory is another's: the write fails as a late WRITE, but its packet is not known any more.
 */
function refuse({ verify }: Device, service: SingleService): void {
  service.state = "failed";
  const { readBack } = service.verified!;
  if (readBack !== undefined) verify.readBacks.delete(readBack);
}

/** Places a path MTU. A comparison takes V-08's damage in the buffer for right. */
function placeNext(device: Device, staged: StagedData): void {
  const { qp, service, data, offset } = staged;
  const verified = service.verified!;
  const { pathMtu } = qp.attributes;
  if (offset === 0 && device.out.tracing) traceVerifiedArrival(device, qp, verified);
  const piece = data.subarray(offset, offset + pathMtu);
  const placed = data.length <= pathMtu ? piece : flipped(device, "checked", piece);
  if (placed !== piece) data.set(placed, offset);
  const { segments } = verified.opened;
  const { readBack } = verified;
  device.verify.placing = readBack;
  const of = { qp, psn: service.psn, inbound: true };
  verified.placedAt = placePayload(device, placed, { segments, offset, isWrite: true, of });
  device.verify.placing = undefined;
  staged.offset += piece.length;
  if (readBack !== undefined) noteOwnWrite(readBack, { offset, length: piece.length });
}

/** V-03: data with the bus may be read back, unless the CPU flushes first. */
function lookAlong(device: Device, { service, offset }: StagedData): void {
  const verified = service.verified!;
  const { readBack } = verified;
  if (readBack !== undefined && !flushesFirst(device, verified)) lookUpTo(device, readBack, offset);
}
