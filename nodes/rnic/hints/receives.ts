/**
 * Receives that are set aside for untagged messages (H-21): of these a hint has the count alone, so their WQEs are
 * fetched, and the memory that they name is brought in. A shared receive queue's are taken by whichever message comes
 * first, so its queue pairs look ahead one behind the other: as many are set aside as all of them together announce.
 */
import { recvSegments } from "../dma/place_payload.ts";
import { fetchReceives } from "../queues/receive_queue.ts";
import { fetchShared } from "../queues/shared_receive_queue.ts";
import type { Device } from "../state/device.ts";
import type { Hints, ReceiveAhead } from "../state/hints/hint_state.ts";
import type { MemorySegment } from "../state/memory.ts";
import type { QueuePair } from "../state/queue_pair.ts";

/** Receive WQEs that are on the chip ahead of their messages, at most. */
const RECEIVES_MAX = 64;

/** So many messages are coming, behind those that are looked at already. */
export function setAside(
  hints: Hints,
  qp: QueuePair,
  coming: { readonly messages: number; readonly requester: number; readonly position: number },
): ReceiveAhead {
  const { messages, requester, position } = coming;
  const { life, srq } = qp;
  const { fetched: { first } } = srq ?? qp.rq;
  let ahead = hints.receiving.get(qp);
  if (ahead?.life !== life) {
    const none = {
      place: srq?.ahead ?? { looked: first },
      wanted: 0,
      readyAt: 0,
      isFetching: false,
      reason: "none",
    } as const;
    ahead = { life, requester, position, ...none, pages: [] };
    hints.receiving.set(qp, ahead);
  }
  if (ahead.wanted === 0) {
    ahead.pages.length = 0;
    ahead.reason = "none";
  }
  const room = RECEIVES_MAX - Math.max(0, ahead.place.looked - first);
  ahead.wanted = Math.min(ahead.wanted + messages, room);
  return ahead;
}

/**
 * Looks at receive WQEs that have come to the chip, and has more fetched.
 * @param bringIn has memory brought in that a WQE names.
 */
export function lookAtReceives(
  device: Device,
  { counters }: Hints,
  { qp, ahead, bringIn }: {
    readonly qp: QueuePair;
    readonly ahead: ReceiveAhead;
    readonly bringIn: (segments: readonly MemorySegment[]) => void;
  },
): void {
  const { fetched, busy } = qp.srq ?? qp.rq, { place } = ahead;
  // What has been consumed meanwhile needs nothing.
  place.looked = Math.max(place.looked, fetched.first);
  while (ahead.wanted > 0 && place.looked < fetched.end) {
    const recv = fetched.at(place.looked++)!;
    ahead.wanted--;
    counters.hintReceives++;
    ahead.isFetching = false;
    const segments = recvSegments(device, qp, recv);
    if (segments !== undefined) bringIn(segments);
  }
  if (ahead.wanted === 0 || busy) return;
  const { srq } = qp;
  // The ring has been looked at, and had none: they are not posted yet.
  if (ahead.isFetching) ahead.wanted = 0;
  else ahead.isFetching = srq === undefined ? fetchReceives(device, qp) : fetchShared(device, srq);
  if (!ahead.isFetching) ahead.wanted = 0;
}
