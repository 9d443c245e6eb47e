/**
 * Responses whose memory cannot be written yet. A requester has no RNR NAK: where a page is absent
 * it drops the response and all behind it, and asks again when the page has come (a choice, see
 * `responder/memory_gate.ts`). Where only the translation is missing, or by the card's rule, it
 * keeps them.
 */
import type { OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { checkAccess } from "../paging/access.ts";
import { beginWait, isWaiting } from "../paging/memory_waits.ts";
import { type Device, schedule } from "../state/device.ts";
import { LIMITS } from "../state/limits.ts";
import { lastPsnOf, type OutstandingWqe } from "../state/outstanding_wqe.ts";
import { mayMiss } from "../state/paging_state.ts";
import { psnAdd } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { rights } from "../state/life_cycle.ts";
import { startTimer } from "../state/timers.ts";
import { restartFrom } from "./requester.ts";

export interface Response {
  readonly packet: RocePacket;
  readonly row: OpcodeRow;
}

/** The response waits behind an earlier one, or was dropped. */
export function isHeldBack(device: Device, qp: QueuePair, response: Response): boolean {
  const { paging } = device;
  if (paging.waits.size === 0 || !isWaiting(device, qp, "response")) return false;
  const kept = paging.parked.get(qp.slot);
  if (kept === undefined || kept.length >= LIMITS.stalledPackets) {
    paging.counters.pageFaultResponses++;
  } else {
    kept.push(response);
  }
  return true;
}

export function mayPlace(
  device: Device,
  qp: QueuePair,
  place: Response & {
    readonly work: OutstandingWqe;
    readonly offset: number;
    readonly length: number;
  },
): boolean {
  const { paging } = device;
  if (!mayMiss(paging)) return true;
  const { packet, row, work, offset, length } = place;
  const { segments } = work;
  const by = { kind: "response", qp, psn: work.firstPsn } as const;
  const access = { segments, offset, length, write: true, ahead: true } as const;
  const found = checkAccess(device, access, by);
  if (found === "ready") return true;
  if (typeof found === "object") beginWait(device, { ...by, ...found });
  const isKept = found === "miss" || paging.plan.pageFault === "pause";
  if (isKept) {
    paging.parked.set(qp.slot, [{ packet, row }]);
  } else {
    paging.parked.delete(qp.slot);
    paging.counters.pageFaultResponses++;
  }
  return false;
}

/** @returns nothing where they were dropped. */
export function takeKept({ paging }: Device, { slot }: QueuePair): readonly Response[] {
  const kept = paging.parked.get(slot) ?? [];
  paging.parked.delete(slot);
  return kept;
}

/** No retry is spent, as nothing was lost. */
export function askForDropped(device: Device, qp: QueuePair): void {
  const { requester } = qp;
  const work = requester.work.at(requester.ackCursor);
  if (!rights(qp.state).sends || work === undefined || !work.started || !work.plan.answered) return;
  restartFrom(
    device,
    qp,
    work.plan.streams ? lastPsnOf(work) : psnAdd(work.firstPsn, work.responses),
  );
  if (!requester.rnrWaiting) startTimer(device, qp);
  schedule(device, qp);
}
