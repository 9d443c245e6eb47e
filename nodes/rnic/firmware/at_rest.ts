/**
 * What a card still holds where nothing happens any more: slots, buffers, waiters and words that somebody should
 * have given back or woken. Each of them holds something up for ever, so a card at rest has none.
 */
import type { Device } from "../state/device.ts";
import type { ReadEngine } from "../state/dma_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { stagedBytesOf } from "../state/verify_state.ts";

/** Asked when no event is left in the rack. @returns a line for each thing that is held. */
export function heldAtRest(device: Device): string[] {
  const { transmitter, dma, paging, verify } = device;
  const counts: readonly (readonly [what: string, count: number])[] = [
    ["control frames that have not left", transmitter.control.length],
    ["data frames that have not left", transmitter.data.length],
    ["bytes in the transmit buffer", transmitter.bufferedBytes],
    ["frames to itself", transmitter.looped.length],
    ["DMA reads without an answer", dma.outstanding.filter((each) => each !== undefined).length],
    ["tags of DMA reads lost", dma.outstanding.length - freeTags(dma)],
    ["DMA reads that have not gone out", dma.gather.waiting.length + dma.responder.waiting.length],
    ["reads of the card's memory", dma.onCard.length],
    ["data of reads not passed on", dma.reading.length],
    ["doorbells not served", device.doorbells.length],
    ["reads of queue information", device.loads.size],
    ["waits for a context", device.contextWaits.size],
    ["contexts held for a turn", device.contextsHeld.size],
    ["queue pairs that want a turn", device.roundRobin.length],
    ["queues paused for their drain", drains(device)],
    ["words that atomics hold", device.atomicWords.size],
    ["page faults not raised", device.pageEvents.length],
    ["fills of translations", paging.fills.size],
    ["accesses that wait for memory", paging.waits.size],
    ["bytes staged for a look", verify.stagedBytes - stagedByOpen(device)],
    ["data staged for a look", verify.staged.length],
    ["read-backs", verify.readBacks.size + verify.looking.length],
    ["requests of read-backs", verify.requestsOut],
  ];
  const held = counts.flatMap(([what, count]) => count === 0 ? [] : [`${count} ${what}`]);
  for (const cq of device.completionQueues.values()) {
    if (cq.busy) held.push(`completion queue ${cq.cqn} is busy`);
    if (!cq.overflowed && cq.pending.length > 0) {
      held.push(`${cq.pending.length} completions not written to completion queue ${cq.cqn}`);
    }
  }
  for (const qp of device.queuePairs.values()) held.push(...heldBy(qp));
  return held;
}

function freeTags({ gather, responder }: Device["dma"]): number {
  const free = ({ freeTags }: ReadEngine) => freeTags.length;
  return free(gather) + free(responder);
}

function drains({ pauses }: Device): number {
  return [...pauses.values()].filter(({ stage }) => stage === "drains").length;
}

/** Room is taken when a message begins: one of which the rest never comes keeps it, until its queue pair ends. */
function stagedByOpen({ queuePairs }: Device): number {
  return [...queuePairs.values()].reduce((sum, qp) => sum + stagedOpen(qp), 0);
}

function stagedOpen({ responder: { open, stagedBytes } }: QueuePair): number {
  return open?.verify === undefined
    ? 0
    : Math.min(stagedBytes, stagedBytesOf(open.verify.level, open.length));
}

function heldBy(qp: QueuePair): string[] {
  const { qpn, sq, rq, state, requester, responder } = qp;
  const held: string[] = [];
  const note = (what: string, count: number) => {
    if (count !== 0) held.push(`${count} ${what} of queue pair ${qpn}`);
  };
  if (sq.busy) note("fetch of WQEs", 1);
  if (rq.busy) note("fetch of receives", 1);
  note("frames in the line", requester.line.jobs.length + responder.line.jobs.length);
  note("control frames not sent", responder.unsentControl);
  note("bytes of verified writes staged", responder.stagedBytes - stagedOpen(qp));
  if (state !== "rts") return held;
  note("atomics under way", responder.atomics);
  note("verified writes being placed", responder.placing);
  note("requests that have not ended", requester.work.length);
  if (requester.work.length === 0) {
    note("slots of READs taken", requester.slotsTaken);
    note("READs and atomics unanswered", requester.unanswered);
  }
  note("answers owed", responder.responses.length);
  note("stalled requests", responder.stalled.length);
  return held;
}
