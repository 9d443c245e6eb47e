/**
 * What a device is doing at one moment, as plain data: for an eye from outside, never an input of
 * anything. A node makes it without changing itself (`Node.inspect`), so a run that is inspected has
 * the digest of one that is not.
 */
import type { UnfinishedProgram } from "./node.ts";
import type { NodeKind } from "./node.ts";
import type { PersistenceDomain } from "./rack/plan/plan.ts";
import type { Time } from "./base/time.ts";

/** The answer of a partition to `control.inspect-<partition>`. */
export interface PartitionInspection {
  readonly partition: string;
  /** Every event before this has happened in the partition; what is said holds at this instant. */
  readonly reachedPs: Time;
  readonly devices: readonly DeviceInspection[];
}

export interface DeviceInspection {
  readonly node: string;
  readonly kind: NodeKind;
  /** The number of this life, from 0; what follows is empty where the device has no power. */
  readonly life: number;
  readonly power: boolean;
  readonly counters: Readonly<Record<string, number>>;
  readonly ports: readonly PortInspection[];
  readonly rnic?: RnicInspection;
  readonly host?: HostInspection;
}

export interface PortInspection {
  readonly port: number;
  /** The device at the other end. */
  readonly peer: string;
  readonly up: boolean;
  /** When the transmitter is free again; in the past where it is idle. */
  readonly busyUntilPs: Time;
}

export interface RnicInspection {
  /** By their numbers. */
  readonly queuePairs: readonly QueuePairInspection[];
  readonly regions: readonly RegionInspection[];
}

export interface QueuePairInspection {
  readonly qpn: number;
  readonly type: "rc" | "uc" | "ud";
  readonly state: string;
  /** Of a connected one: IPv4 address and number of the peer. */
  readonly peer?: { readonly address: string; readonly qpn: number };
  /** Requester: PSN of the next request, and the oldest that is not acknowledged. */
  readonly nextPsn: number;
  readonly unacknowledgedPsn: number;
  /** Work requests that were begun and have not completed; of them those that wait for an answer. */
  readonly outstanding: number;
  readonly unanswered: number;
  /** Persistent writes whose persistence ACK is still to come. */
  readonly persistWaiting: number;
  readonly retriesLeft: number;
  readonly rnrRetriesLeft: number;
  readonly rnrWaiting: boolean;
  /** Responder: PSN of the next request that it takes, and answers that it owes. */
  readonly expectedPsn: number;
  readonly answersOwed: number;
  /** Receive WQEs on the card, and packets that wait for one. */
  readonly receivesFetched: number;
  readonly receiveWaiters: number;
}

export interface RegionInspection {
  /** lkey and rkey alike. */
  readonly key: number;
  readonly pd: number;
  /** Virtual address that its first byte has for the peer. */
  readonly va: number;
  readonly bytes: number;
  /** Bits of `ACCESS`. */
  readonly access: number;
  readonly isWindow: boolean;
  /** All of it is SCM, and writes into it are made persistent (P-22). */
  readonly persistent: boolean;
}

export interface HostInspection {
  /** Programs that have not ended: what each waits for, since when, at which line. */
  readonly programs: readonly UnfinishedProgram[];
  readonly loss?: HostLoss;
}

/** Where bytes of SCM are that a power failure of the host loses (`adr.ts` has what survives). */
export type LossPlace = "iio" | "llc" | "wcb";

/** Bytes [from, to) of SCM whose newest content is at a place that does not survive. */
export interface LossRange {
  readonly place: LossPlace;
  readonly from: number;
  readonly to: number;
}

/**
 * What a power failure of the host at this instant would lose of its SCM: bytes that have reached
 * the host. What is on the card, the bus or a cable is not in it.
 */
export interface HostLoss {
  readonly domain: PersistenceDomain;
  /** Bytes at each place; a byte that is at two places counts at both. */
  readonly bytes: Readonly<Record<LossPlace, number>>;
  /** Bytes that would be others after the failure than what cores and devices were told they are. */
  readonly changedBytes: number;
  /** By their offset, at most {@link LOSS_RANGES_MAX}; adjacent bytes of one place are one range. */
  readonly ranges: readonly LossRange[];
  /** Ranges for which there was no room. */
  readonly rangesLeft: number;
}

export const LOSS_RANGES_MAX = 512;
