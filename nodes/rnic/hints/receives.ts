/**
 * Receives that are set aside for untagged messages (H-21): of these a hint has the count alone, so their WQEs are
 * fetched, and the memory that they name is brought in. A shared receive queue's are anyone's, and left alone.
 */
import { recvSegments } from "../dma/place_payload.ts";
import { fetchReceives } from "../queues/receive_queue.ts";
import type { Device } from "../state/device.ts";
import type { Hints, ReceiveAhead } from "../state/hints/hint_state.ts";
import type { MemorySegment } from "../state/memory.ts";
import type { QueuePair } from "../state/queue_pair.ts";

/** Receive WQEs that are on the chip ahead of their messages, at most. */
const RECEIVES_MAX = 64;

/** So many messages are coming, behind those that are looked at already. @returns undefined where that does not matter. */
export function setAside(
  hints: Hints,
  qp: QueuePair,
  coming: { readonly messages: number; readonly requester: number; readonly position: number },
): ReceiveAhead | undefined {
  if (qp.srq !== undefined) return undefined;
  const { messages, requester, position } = coming;
  const { life, rq: { fetched: { first } } } = qp;
  let ahead = hints.receiving.get(qp);
  if (ahead?.life !== life) {
    const none = {
      looked: first,
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
  const room = RECEIVES_MAX - Math.max(0, ahead.looked - first);
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
  const { fetched } = qp.rq;
  // What has been consumed meanwhile needs nothing.
  ahead.looked = Math.max(ahead.looked, fetched.first);
  while (ahead.wanted > 0 && ahead.looked < fetched.end) {
    const recv = fetched.at(ahead.looked++)!;
    ahead.wanted--;
    counters.hintReceives++;
    ahead.isFetching = false;
    const segments = recvSegments(device, qp, recv);
    if (segments !== undefined) bringIn(segments);
  }
  if (ahead.wanted === 0 || qp.rq.busy) return;
  // The ring has been looked at, and had none: they are not posted yet.
  if (ahead.isFetching || !fetchReceives(device, qp)) ahead.wanted = 0;
  else ahead.isFetching = true;
}
