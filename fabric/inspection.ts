/**
 * A device's present state, as plain data: for observers, never an input. A node makes it without
 * changing itself, so a run has the same digest with and without inspection. `partition/inspect.ts`
 * collects a partition's.
 */
import { PS_PER_MS, PS_PER_S, PS_PER_US, type Time } from "./base/time.ts";
import type { PersistenceDomain } from "./rack/plan/persistence_domain.ts";

/** The queue pairs and the memory of a card. */
export interface RnicInspection {
  readonly queuePairs: readonly QueuePairInspection[];
  readonly regions: readonly RegionInspection[];
  /** The last ones of its life, newest last. */
  readonly warnings: readonly CardWarning[];
}

/** A `warning` of the card: a refused request and the reason, or a send that it has given up. */
export interface CardWarning {
  readonly atPs: Time;
  readonly message: string;
}

export interface QueuePairInspection {
  readonly qpn: number;
  readonly type: "rc" | "uc" | "ud";
  readonly state: string;
  /** A connected queue pair's peer: IPv4 address and queue pair. */
  readonly peer?: { readonly address: string; readonly qpn: number };
  /** Requester: PSN of the next request, and the oldest that is not acknowledged. */
  readonly nextPsn: number;
  readonly unacknowledgedPsn: number;
  /**
   * Work requests on the card that have not completed, and those of them that wait for an answer.
   */
  readonly outstanding: number;
  readonly unanswered: number;
  /** Persistent writes whose persistence ACK is still to come (P-28). */
  readonly persistWaiting: number;
  readonly retriesLeft: number;
  readonly rnrRetriesLeft: number;
  /** An RNR NAK delays its sending. */
  readonly rnrWaiting: boolean;
  /** Responder: PSN of the next expected request, and answers that it owes. */
  readonly expectedPsn: number;
  readonly answersOwed: number;
  /** Receive WQEs on the card, and packets that wait for one. */
  readonly receivesFetched: number;
  readonly receivesAwaited: number;
}

export interface RegionInspection {
  /** Both lkey and rkey. */
  readonly key: number;
  readonly pd: number;
  readonly va: number;
  readonly bytes: number;
  /** Bits of `ACCESS` (`wire/host_bus/rnic_command.ts`). */
  readonly access: number;
  /** The bound range of a memory window. */
  readonly isWindow: boolean;
  /** All of it is SCM (P-22). */
  readonly persistent: boolean;
}

/**
 * Volatile places of a host that may hold bytes of SCM: see `PLACES` of `persistence_domain.ts`.
 */
export const LOSS_PLACES = ["iio", "llc", "wcb"] as const;
export type LossPlace = typeof LOSS_PLACES[number];

/** Bytes [from, to) of SCM whose newest content is at a place that does not survive. */
export interface LossRange {
  readonly place: LossPlace;
  readonly from: number;
  readonly to: number;
}

/**
 * The loss of a power failure of the host at this instant, among the bytes of SCM that have reached
 * the host: bytes on a card, a bus or a cable do not count.
 */
export interface HostLoss {
  readonly domain: PersistenceDomain;
  /** Bytes at each place, whole lines in the LLC; a byte at two places counts at both. */
  readonly bytes: Readonly<Record<LossPlace, number>>;
  /** Bytes whose value would change: a dirty line may equal memory. */
  readonly changedBytes: number;
  /** By place and offset, at most {@link LOSS_RANGES_MAX}; adjacent bytes of a place are one range. */
  readonly ranges: readonly LossRange[];
  readonly rangesLeft: number;
}

export const LOSS_RANGES_MAX = 512;

/**
 * Upper bounds of a histogram of latencies, 1-2-5 from 500 ns to a second; longer ones have a
 * bucket of their own.
 */
export const LATENCY_BOUNDS_PS: readonly number[] = [
  PS_PER_US / 2,
  ...[PS_PER_US, PS_PER_MS].flatMap((unit) =>
    [1, 2, 5, 10, 20, 50, 100, 200, 500].map((times) => times * unit)
  ),
  PS_PER_S,
];

/**
 * perftest's, whose methods are its tests; a ping-pong's latency is half of a round trip, as in its
 * table.
 */
export const PERFTEST_OPERATION = "perftest";

/** A host's measurements of one operation by one method, since the host's power-on. */
export interface OperationFigures {
  /** `put`, `get`, or an own program's name for it; and the method by which it is done. */
  readonly operation: string;
  readonly method: string;
  /** The size of a message, where each size has figures of its own. */
  readonly bytes?: number;
  readonly count: number;
  /** Sum of all latencies. */
  readonly sumPs: number;
  /**
   * Number of latencies up to the bound of {@link LATENCY_BOUNDS_PS} and above the one before; the
   * last: longer.
   */
  readonly buckets: readonly number[];
  /** Bytes for which the program has a confirmation that promises persistence. */
  readonly promisedBytes: number;
}
