/**
 * Memory of request packets, looked at behind all other checks: where its translation is not on the chip the packet
 * waits; where a page is absent, the card's rule (`pageFault`) decides.
 *
 * [choice] An RC responder answers with an RNR NAK, a READ too; a requester drops responses, to ask for them again (`requester/cold_responses.ts`); dropping the request and pausing are the two other ways. Fukuoka et al., ISPASS 2021, and Lesokhin et al., ASPLOS'17, treat this question; the model does not claim to follow them, as only their abstracts were read.
 */
import { rnrSyndrome } from "../../../fabric/wire/roce/aeth.ts";
import { answer } from "../answers/answers.ts";
import { checkAccess, type Fault } from "../paging/access.ts";
import { beginWait } from "../paging/memory_waits.ts";
import { type Device, drop } from "../state/device.ts";
import { mayMiss } from "../state/paging_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { stall } from "../state/responder_changes.ts";
import type { RequestIn } from "../state/responder_state.ts";
import { rowOf } from "./operations.ts";

/** For RC: false where the packet waits, or was refused. */
export function mayExecute(device: Device, qp: QueuePair, input: RequestIn): boolean {
  if (!mayMiss(device.paging)) return true;
  const access = rowOf(input).memory(device, qp, input);
  if (access === undefined) return true;
  const found = checkAccess(device, access, {
    kind: "request",
    qp,
    psn: input.packet.bth.psn,
  });
  if (found === "ready") {
    endRefusal(device, qp);
    return true;
  }
  if (found === "miss") stall(qp, input, "memory");
  else takeFault(device, qp, { input, fault: found });
  return false;
}

/**
 * For services without acknowledgements. @returns `miss` where the packet waits; `fault` where its
 * page is absent, so that it is lost.
 */
export function findMemory(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): "ready" | "miss" | "fault" {
  if (!mayMiss(device.paging)) return "ready";
  const access = rowOf(input).memory(device, qp, input);
  if (access === undefined) return "ready";
  const found = checkAccess(device, access, {
    kind: "request",
    qp,
    psn: input.packet.bth.psn,
  });
  if (found === "miss") stall(qp, input, "memory");
  return typeof found === "object" ? "fault" : found;
}

function takeFault(
  device: Device,
  qp: QueuePair,
  { input, fault }: { readonly input: RequestIn; readonly fault: Fault },
): void {
  const { paging, now } = device;
  const { pageFault } = paging.plan;
  const { slot, life } = qp;
  if (paging.refusedSince.get(slot)?.life !== life) {
    paging.refusedSince.set(slot, { life, since: now });
  }
  if (pageFault === "pause") {
    paging.counters.pageFaultPauses++;
    stall(qp, input, "memory");
    beginWait(device, { kind: "request", qp, ...fault });
    return;
  }
  // Later packets are ahead of the expected PSN, so they are dropped in silence.
  qp.responder.gapNaked = true;
  if (pageFault === "drop" && input.operation.takesRecv !== "first") {
    paging.counters.pageFaultDrops++;
    drop(device, "page-fault");
    beginWait(device, { kind: "gap", qp, ...fault });
    return;
  }
  paging.counters.pageFaultRnrNaks++;
  answer(device, qp, {
    psn: input.packet.bth.psn,
    syndrome: rnrSyndrome(qp.attributes.minRnrTimer),
    readyAt: device.stageAt,
  });
}

function endRefusal({ paging, now }: Device, { slot, life }: QueuePair): void {
  const refused = paging.refusedSince.get(slot);
  if (refused === undefined) return;
  paging.refusedSince.delete(slot);
  if (refused.life === life) paging.counters.pageStallPs += now - refused.since;
}
