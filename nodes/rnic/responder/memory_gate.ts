/**
 * A request packet's memory, looked at behind all other checks: where its translation is not on the chip the
 * packet waits for it; where a page is not there, the packet's fate is the card's rule (`pageFault`).
 *
 * [choice] An RC responder answers with an RNR NAK, a READ too; a requester has no such means and drops
 * responses, to ask for them again (`requester/cold_responses.ts`); dropping the request and pausing are the two
 * other ways. Fukuoka et al., ISPASS 2021, and Lesokhin et al., ASPLOS'17, are about just this; of both the
 * abstracts alone could be opened, so none of it is held against them.
 */
import { rnrSyndrome } from "../../../fabric/wire/roce/aeth.ts";
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { GRH_BYTES } from "../../../fabric/wire/roce/grh.ts";
import { answer } from "../answers/answers.ts";
import { remoteRegion } from "../dma/memory_region.ts";
import { recvSegments } from "../dma/place_payload.ts";
import { checkAccess, type Fault, type MemoryAccess } from "../paging/access.ts";
import { beginWait } from "../paging/memory_waits.ts";
import { type Device, drop } from "../state/device.ts";
import { bytesOf, type Region } from "../state/memory.ts";
import { needOf } from "../state/operation.ts";
import { mayMiss } from "../state/paging_state.ts";
import { isFirst, isLast } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { awaitExpected, stall } from "../state/responder_changes.ts";
import { isVerdict, type RequestIn } from "../state/responder_state.ts";

/** Whether an RC request packet may be executed now: else it waits, or was refused. */
export function mayExecute(device: Device, qp: QueuePair, input: RequestIn): boolean {
  if (!mayMiss(device.paging)) return true;
  const access = accessOf(device, qp, input);
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
 * The same without acknowledgements. @returns `miss` where the packet waits; `fault` where its page is not
 * there, so that it is lost.
 */
export function findMemory(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): "ready" | "miss" | "fault" {
  if (!mayMiss(device.paging)) return "ready";
  const access = accessOf(device, qp, input);
  if (access === undefined) return "ready";
  const found = checkAccess(device, access, {
    kind: "request",
    qp,
    psn: input.packet.bth.psn,
  });
  if (found === "miss") stall(qp, input, "memory");
  return typeof found === "object" ? "fault" : found;
}

/** What the packet accesses; undefined where that is nothing, or is refused by the checks of its operation. */
function accessOf(device: Device, qp: QueuePair, input: RequestIn): MemoryAccess | undefined {
  const { packet, row, operation } = input;
  switch (operation.name) {
    case "send":
      return ofSend(device, qp, input);
    case "write":
      return ofWrite(device, qp, input);
    case "write-verify":
      // Data that is checked first goes to memory behind its last packet, all of it (V-02).
      return isLast(row) ? whole(device, qp, input) : ofWrite(device, qp, input);
    case "read-request": {
      const named = rangeOf(device, qp, input);
      if (named === undefined) return undefined;
      const { length } = packet.reth!;
      const first = Math.min(length, qp.attributes.pathMtu);
      return { ...named, offset: 0, length: first, ahead: true, write: false, pagesOnly: true };
    }
    case "compare-swap":
    case "fetch-add":
    case "atomic-write": {
      const { va, rkey } = packet.atomicEth ?? packet.reth!;
      const need = needOf(input)!;
      const range = { key: rkey, va, length: ATOMIC_BYTES, need };
      const region = remoteRegion(device, qp, range);
      if (isVerdict(region)) return undefined;
      return { ...segmentOf(region, { va, length: ATOMIC_BYTES }), ...WORD };
    }
    case "flush":
    case "coherence-request":
    case "coherence-snoop":
    case "coherence-response":
      return undefined;
  }
}

const WORD = { offset: 0, length: ATOMIC_BYTES, write: true } as const;

function segmentOf(
  region: Region,
  { va, length }: { readonly va: bigint; readonly length: number },
): Pick<MemoryAccess, "segments"> {
  return { segments: [{ region, va: Number(va), length }] };
}

/** What a RETH names. */
function rangeOf(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): Pick<MemoryAccess, "segments"> | undefined {
  const { va, rkey, length } = input.packet.reth!;
  if (length === 0) return undefined;
  const region = remoteRegion(device, qp, { key: rkey, va, length, need: needOf(input)! });
  return isVerdict(region) ? undefined : segmentOf(region, { va, length });
}

function ofWrite(device: Device, qp: QueuePair, input: RequestIn): MemoryAccess | undefined {
  const { open } = qp.responder;
  const { length } = input.packet.payload;
  const named = isFirst(input.row) ? rangeOf(device, qp, input) : open;
  if (named === undefined || length === 0) return undefined;
  const offset = isFirst(input.row) ? 0 : open!.received;
  const { segments } = named;
  return { segments, offset, length, write: true, ahead: true };
}

function whole(device: Device, qp: QueuePair, input: RequestIn): MemoryAccess | undefined {
  const named = isFirst(input.row) ? rangeOf(device, qp, input) : qp.responder.open;
  if (named === undefined) return undefined;
  const { segments } = named;
  return { segments, offset: 0, length: bytesOf(segments), write: true };
}

/** The RECV's memory, in which a datagram has its place behind the GRH area. */
function ofSend(device: Device, qp: QueuePair, input: RequestIn): MemoryAccess | undefined {
  const { open, granted } = qp.responder;
  const { length } = input.packet.payload;
  if (!isFirst(input.row)) {
    if (open === undefined) return undefined;
    const { segments, received: offset } = open;
    return { segments, offset, length, write: true, ahead: true };
  }
  const segments = recvSegments(device, qp, granted!);
  if (segments === undefined) return undefined;
  const grh = qp.type === "ud" ? GRH_BYTES : 0;
  return { segments, offset: 0, length: grh + length, write: true, ahead: true };
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
  // What comes behind it is dropped in silence: its PSN is ahead of the expected one.
  awaitExpected(qp);
  if (pageFault === "drop" && input.operation.name !== "send") {
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

/** A packet of this queue pair has its memory: what was refused for it has come again. */
function endRefusal({ paging, now }: Device, { slot, life }: QueuePair): void {
  const refused = paging.refusedSince.get(slot);
  if (refused === undefined) return;
  paging.refusedSince.delete(slot);
  if (refused.life === life) paging.counters.pageStallPs += now - refused.since;
}
