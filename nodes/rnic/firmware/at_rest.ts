/**
 * A card's slots, buffers, waiters and words that are still held when no event is left. A request
 * without an answer may be its program's affair (`asked`); all others are lost (`leaked`).
 */
import type { HeldThing } from "../../../fabric/node.ts";
import type { CoherentPort } from "../state/coherent_port_state.ts";
import type { Device } from "../state/device.ts";
import type { ReadEngine } from "../state/dma_state.ts";
import { EXTENSIONS } from "../extensions.ts";
import type { Count } from "../state/card_extension.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { stagedBytesOf } from "../state/verify_state.ts";

export function heldAtRest(device: Device): HeldThing[] {
  const { completionQueues, sharedReceiveQueues, queuePairs, port } = device;
  const ofExtensions = EXTENSIONS.flatMap(({ held }) => held?.(device) ?? []);
  const counts: Count[] = [
    ...ofCard(device),
    ...port === undefined ? [] : ofPort(port),
    ...ofExtensions.flatMap(({ leaked }) => leaked),
  ];
  for (const { cqn, busy, overflowed, pending } of completionQueues.values()) {
    counts.push([`writes under way to completion queue ${cqn}`, Number(busy)]);
    if (!overflowed) counts.push([`completions not written to queue ${cqn}`, pending.length]);
  }
  for (const srq of sharedReceiveQueues.values()) {
    // A queue that has failed is not counted, as its queue pairs have failed.
    const isUsed = [...queuePairs.values()].some((qp) => qp.srq === srq && qp.state === "rts");
    counts.push([`looks at shared receive queue ${srq.srqn}`, Number(isUsed && srq.busy)]);
  }
  const held = heldOf("leaked", counts);
  held.push(...heldOf("asked", ofExtensions.flatMap(({ asked }) => asked ?? [])));
  for (const qp of queuePairs.values()) {
    held.push(...heldOf("leaked", leakedBy(qp)), ...heldOf("asked", askedOf(qp)));
  }
  return held;
}

function heldOf(kind: HeldThing["kind"], counts: readonly Count[]): HeldThing[] {
  return counts.flatMap(([what, count]) => count === 0 ? [] : [{ kind, text: `${count} ${what}` }]);
}

function ofCard(device: Device): Count[] {
  const { transmitter, dma } = device;
  return [
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
  ];
}

function freeTags({ gather, responder }: Device["dma"]): number {
  const free = ({ freeTags }: ReadEngine) => freeTags.length;
  return free(gather) + free(responder);
}

function drains({ pauses }: Device): number {
  return [...pauses.values()].filter(({ stage }) => stage === "drains").length;
}

function ofPort(port: CoherentPort): Count[] {
  const reads = port.reads.size + port.parts.length + port.finished.length;
  return [
    ["writes that wait for the coherent bus", port.writes.length],
    ["lines of such writes", port.lines.size + port.asking.length],
    ["writes under way on the coherent bus", port.away.length],
    ["messages behind writes", port.held.length],
    ["reads of the coherent bus", reads],
    ["accesses to shared lines", port.tasks.size + port.ended.length],
    ["shared lines on their way to memory", port.writingBack.length],
  ];
}

function leakedBy({ qpn, sq, rq, state, requester, responder }: QueuePair): Count[] {
  const counts: Count[] = [
    ["fetches of WQEs", Number(sq.busy)],
    ["fetches of receives", Number(rq.busy)],
    ["frames in the line", requester.line.jobs.length + responder.line.jobs.length],
    ["control frames not sent", responder.unsentControl],
  ];
  if (state === "rts") {
    counts.push(["atomics under way", responder.atomics]);
    counts.push(["verified writes being placed", responder.placing]);
    if (requester.work.length === 0) {
      counts.push(["slots of READs taken", requester.slotsTaken]);
      counts.push(["READs and atomics unanswered", requester.unanswered]);
    }
  }
  return ofQueuePair(qpn, counts);
}

function askedOf({ qpn, rq, state, requester, responder }: QueuePair): Count[] {
  const { open, stagedBytes, responses, stalled } = responder;
  // A message keeps its room until its rest comes or its queue pair ends.
  const ofOpen = open?.verify === undefined ? 0 : stagedBytesOf(open.verify.level, open.length);
  const counts: Count[] = [
    ["bytes of verified writes staged", Math.max(0, stagedBytes - ofOpen)],
  ];
  if (state === "rts") {
    counts.push(["requests that have not ended", requester.work.length]);
    counts.push(["answers owed", responses.length]);
    counts.push(["waits for a receive", rq.waiters.length]);
    counts.push(["stalled requests", stalled.length]);
  }
  return ofQueuePair(qpn, counts);
}

function ofQueuePair(qpn: number, counts: readonly Count[]): Count[] {
  return counts.map(([what, count]) => [`${what} of queue pair ${qpn}`, count]);
}
