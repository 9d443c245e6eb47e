/**
 * Receives that are set aside for untagged messages (H-21): a hint has only the messages' count, so the card
 * fetches their WQEs, and the memory that these name. A shared receive queue's WQEs go to whichever message comes
 * first, so its queue pairs look ahead one behind the other: as many are set aside as all of them together
 * announce.
 */
import { recvSegments } from "../dma/place_payload.ts";
import { fetchReceives } from "../queues/receive_queue.ts";
import { fetchShared } from "../queues/shared_receive_queue.ts";
import type { Device } from "../state/device.ts";
import type { Hints, ReceiveAhead } from "./state/hint_state.ts";
import { rights } from "../state/life_cycle.ts";
import type { MemorySegment } from "../state/memory.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { RecvWqe } from "../state/responder_state.ts";

const RECEIVES_MAX = 64;

/** Sets receives aside for so many messages, behind those that are looked at already. */
export function setAside(
  hints: Hints,
  qp: QueuePair,
  coming: { readonly messages: number; readonly requester: number; readonly position: number },
): ReceiveAhead {
  const { messages, requester, position } = coming;
  const { life, srq } = qp;
  const { fetched: { first } } = srq ?? qp.rq;
  const known = hints.receiving.get(qp);
  if (known !== undefined && known.life !== life) endReceives(hints, qp, known);
  let ahead = hints.receiving.get(qp);
  if (ahead === undefined) {
    const { ahead: ring } = srq ?? qp.rq;
    const none = { wanted: 0, readyAt: 0, isFetching: false, reason: "none" } as const;
    ahead = { life, requester, position, ring, ...none, pages: [] };
    hints.receiving.set(qp, ahead);
  }
  if (ahead.wanted === 0) {
    ahead.pages.length = 0;
    ahead.reason = "none";
  }
  const { looked, wanted } = ahead.ring;
  const room = Math.max(0, RECEIVES_MAX - Math.max(0, looked - first) - wanted);
  const more = Math.min(messages, room);
  if (more === 0) return ahead;
  want(ahead, ahead.wanted + more);
  // A look that began before them says nothing about them.
  ahead.isFetching = false;
  return ahead;
}

/** The queue pair takes no part any more, or has begun anew: gives up its wanted receives. */
export function endReceives(hints: Hints, qp: QueuePair, ahead: ReceiveAhead): void {
  want(ahead, 0);
  hints.receiving.delete(qp);
}

function want(ahead: ReceiveAhead, wanted: number): void {
  ahead.ring.wanted += wanted - ahead.wanted;
  ahead.wanted = wanted;
  if (wanted === 0) ahead.isFetching = false;
}

/**
 * Looks at receive WQEs that have come to the chip, and has more fetched.
 * @param bringIn has the memory brought in that a WQE names: none where that is no valid memory.
 */
export function lookAtReceives(
  device: Device,
  { counters }: Hints,
  { qp, ahead, bringIn }: {
    readonly qp: QueuePair;
    readonly ahead: ReceiveAhead;
    readonly bringIn: (recv: RecvWqe, segments: readonly MemorySegment[]) => void;
  },
): void {
  if (!rights(qp.state).takesRequests) return want(ahead, 0);
  const { fetched, busy } = qp.srq ?? qp.rq, { ring } = ahead;
  // Consumed WQEs need nothing.
  ring.looked = Math.max(ring.looked, fetched.first);
  while (ahead.wanted > 0 && ring.looked < fetched.end) {
    const recv = fetched.at(ring.looked++)!;
    want(ahead, ahead.wanted - 1);
    counters.hintReceives++;
    bringIn(recv, recvSegments(device, qp, recv) ?? []);
  }
  if (ahead.wanted === 0 || busy) return;
  // They are not posted yet. A look that has found some may have found them for others: then the card looks once
  // more.
  if (ahead.isFetching && ring.isEmpty) return want(ahead, 0);
  const { srq } = qp;
  ahead.isFetching = srq === undefined ? fetchReceives(device, qp) : fetchShared(device, srq);
  if (!ahead.isFetching) want(ahead, 0);
}
