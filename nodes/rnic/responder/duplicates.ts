/**
 * Requests from the past (`rocev2.md` §3.5): acknowledged, or answered from the responder's
 * records. A READ is executed again.
 */
import { ACK_SYNDROME } from "../../../fabric/wire/roce/aeth.ts";
import type { Device } from "../state/device.ts";
import { psnAdd, psnDistance } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import {
  isVerdict,
  type RequestIn,
  type Resource,
  type Responder,
} from "../state/responder_state.ts";
import { namedRegion } from "../dma/memory_region.ts";
import { duplicateOfPersistent } from "../persistence/pm_module.ts";
import { answer, answerRead } from "../answers/answers.ts";

export function repeatSend(device: Device, qp: QueuePair, { packet }: RequestIn): boolean {
  const psn = newestToConfirm(qp, packet.bth.psn);
  answer(device, qp, { psn, syndrome: ACK_SYNDROME, readyAt: device.stageAt });
  return true;
}

/** A persistent WRITE is acknowledged twice (P-30). */
export function repeatWrite(device: Device, qp: QueuePair, input: RequestIn): boolean {
  repeatSend(device, qp, input);
  duplicateOfPersistent(device, qp, input.packet.bth.psn);
  return true;
}

/**
 * The PSN that a duplicate's ACK confirms (§3.5): all that has come, up to the first answer that is
 * later than the duplicate and has left. The requester has gone back over that answer, too, and
 * asks for it next; an ACK that passes it would make it go back once more.
 */
function newestToConfirm({ responder }: QueuePair, duplicate: number): number {
  const { expectedPsn, resources, persists } = responder;
  let first = expectedPsn;
  const take = (psn: number) => {
    if (psnDistance(duplicate, psn) > 0 && psnDistance(psn, first) > 0) first = psn;
  };
  for (const { psn } of resources) take(psn);
  // FLUSHes have no slot, but records.
  for (let number = persists.end - 1; number >= persists.first; number--) {
    const { service, lastPsn } = persists.at(number)!;
    if (psnDistance(duplicate, lastPsn) <= 0) break;
    if (service !== undefined) take(service.psn);
  }
  return psnAdd(isOwed(responder, first) ? expectedPsn : first, -1);
}

function isOwed({ responses }: Responder, psn: number): boolean {
  for (let number = responses.first; number < responses.end; number++) {
    const response = responses.at(number)!;
    if (response.kind !== "ack" && !response.repeat && response.psn === psn) return true;
  }
  return false;
}

/**
 * A READ is repeated whole or from the middle on, within its range. @returns false where its slot
 * is recycled or it asks for something else: it is dropped.
 */
export function repeatRead(device: Device, qp: QueuePair, input: RequestIn): boolean {
  const { packet } = input;
  const { psn } = packet.bth;
  const { va, rkey, length } = packet.reth!;
  const record = qp.responder.resources.find((resource) => isPartOf(resource, psn));
  if (record?.kind !== "read-record" || rkey !== record.key) return false;
  const skipped = psnDistance(record.psn, psn) * qp.attributes.pathMtu;
  if (va !== record.va + BigInt(skipped) || length !== record.length - skipped) return false;
  const region = namedRegion(device, qp, input);
  if (isVerdict(region)) return false;
  const { msn } = qp.responder;
  answerRead(device, qp, { psn, va, length, region, msn, repeat: true });
  return true;
}

function isPartOf(resource: Resource, psn: number): boolean {
  if (resource.kind !== "read-record") return false;
  const index = psnDistance(resource.psn, psn);
  return index >= 0 && index < resource.packets;
}
