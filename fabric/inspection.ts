/**
 * A device's present state, for observers, never an input: a run has the same digest with and
 * without.
 */
import { PS_PER_MS, PS_PER_S, PS_PER_US, type Time } from "./base/time.ts";
import type { PersistenceDomain } from "./rack/plan/persistence_domain.ts";

export interface RnicInspection {
  readonly queuePairs: readonly QueuePairInspection[];
  readonly regions: readonly RegionInspection[];
  /** Of its life, newest last. */
  readonly warnings: readonly CardWarning[];
}

export interface CardWarning {
  readonly atPs: Time;
  readonly message: string;
}

export interface QueuePairInspection {
  readonly qpn: number;
  readonly type: "rc" | "uc" | "ud";
  readonly state: string;
  readonly peer?: { readonly address: string; readonly qpn: number };
  readonly nextPsn: number;
  readonly unacknowledgedPsn: number;
  /** On the card; `unanswered` of them wait for an answer. */
  readonly outstanding: number;
  readonly unanswered: number;
  /** P-28. */
  readonly persistWaiting: number;
  readonly retriesLeft: number;
  readonly rnrRetriesLeft: number;
  readonly rnrWaiting: boolean;
  readonly expectedPsn: number;
  readonly answersOwed: number;
  /** `receivesAwaited`: packets that wait for one. */
  readonly receivesFetched: number;
  readonly receivesAwaited: number;
}

export interface RegionInspection {
  readonly key: number;
  readonly pd: number;
  readonly va: number;
  readonly bytes: number;
  /** `ACCESS` (`wire/host_bus/rnic_command.ts`). */
  readonly access: number;
  /** The range is a memory window's. */
  readonly isWindow: boolean;
  readonly persistent: boolean;
}

/** They may hold bytes of SCM: see `PLACES` of `persistence_domain.ts`. */
export const LOSS_PLACES = ["iio", "llc", "wcb"] as const;
export type LossPlace = typeof LOSS_PLACES[number];

/** Bytes [from, to) of SCM whose newest content does not survive. */
export interface LossRange {
  readonly place: LossPlace;
  readonly from: number;
  readonly to: number;
}

/**
 * Among the bytes of SCM that have reached the host: bytes on a card, a bus or a cable do not
 * count.
 */
export interface HostLoss {
  readonly domain: PersistenceDomain;
  /** Whole lines in the LLC; a byte at two places counts at both. */
  readonly bytes: Readonly<Record<LossPlace, number>>;
  readonly changedBytes: number;
  readonly ranges: readonly LossRange[];
  readonly rangesLeft: number;
}

export const LOSS_RANGES_MAX = 512;

/** Of a histogram, 1-2-5 from 500 ns to a second; longer latencies have a bucket of their own. */
export const LATENCY_BOUNDS_PS: readonly number[] = [
  PS_PER_US / 2,
  ...[PS_PER_US, PS_PER_MS].flatMap((unit) =>
    [1, 2, 5, 10, 20, 50, 100, 200, 500].map((times) => times * unit)
  ),
  PS_PER_S,
];

/**
 * Its methods are perftest's tests; a ping-pong's latency is half of a round trip, as in perftest's
 * table.
 */
export const PERFTEST_OPERATION = "perftest";

export interface OperationFigures {
  /** `put`, `get`, or an own program's name for it. */
  readonly operation: string;
  readonly method: string;
  readonly bytes?: number;
  readonly count: number;
  readonly sumPs: number;
  /** Up to the bound of {@link LATENCY_BOUNDS_PS} and above the one before; the last: longer. */
  readonly buckets: readonly number[];
  readonly promisedBytes: number;
}
