/** The card for an external observer: nothing changes. */
import type {
  QueuePairInspection,
  RegionInspection,
  RnicInspection,
} from "../../../fabric/inspection.ts";
import { formatAddress } from "../../../fabric/trace/describe.ts";
import type { Device } from "../state/device.ts";
import type { Region } from "../state/memory.ts";
import type { QueuePair } from "../state/queue_pair.ts";

export function inspectDevice({ queuePairs, regions, warnings }: Device): RnicInspection {
  return {
    queuePairs: [...queuePairs.values()].map(queuePairOf).sort((x, y) => x.qpn - y.qpn),
    regions: regions.slots.filter((slot) => slot !== undefined).map(regionOf),
    warnings: [...warnings],
  };
}

function queuePairOf(
  { qpn, type, state, attributes, requester, responder, rq }: QueuePair,
): QueuePairInspection {
  const { destAddress, destQpn } = attributes;
  const isConnected = type !== "ud" && destAddress !== 0;
  return {
    qpn,
    type,
    state,
    ...(isConnected && { peer: { address: formatAddress(destAddress), qpn: destQpn } }),
    nextPsn: requester.nextPsn,
    unacknowledgedPsn: requester.unacknowledged,
    outstanding: requester.work.length,
    unanswered: requester.unanswered,
    persistWaiting: requester.persistWaiting.size,
    retriesLeft: requester.retriesLeft,
    rnrRetriesLeft: requester.rnrRetriesLeft,
    rnrWaiting: requester.rnrWaiting,
    expectedPsn: responder.expectedPsn,
    answersOwed: responder.responses.length,
    receivesFetched: rq.fetched.length,
    receivesAwaited: responder.stalled.length,
  };
}

function regionOf({ key, pd, va, length, access, persistent, window }: Region): RegionInspection {
  return { key, pd, va, bytes: length, access, isWindow: window !== undefined, persistent };
}
