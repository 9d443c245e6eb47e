/**
 * A card's state of verified writes (V-01 to V-05): data that waits for the CRC behind it, memory that is being
 * read back, and the results of each sender's earlier ones.
 */
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { VerifyLevel } from "../../../fabric/wire/roce/verify_eth.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { LIMITS } from "./limits.ts";
import type { QueuePair } from "./queue_pair.ts";
import type { ReadBack, Responder, StagedData } from "./responder_state.ts";
import type { Writable } from "./writable.ts";

export interface VerifyState {
  /** Bytes that queue pairs have reserved for data which waits to be checked, or is being checked. */
  stagedBytes: number;
  /** Data whose CRC holds and that is not all with the bus, in turn. */
  readonly staged: Fifo<StagedData>;
  /** When its next piece goes to the bus, whatever the bus's backlog. */
  stagedTurnAt: Time;
  /** The read-back that the DMA write of this moment belongs to. */
  placing: ReadBack | undefined;
  /** Read-backs, registered before their writes' DMA writes begin. */
  readonly readBacks: Set<ReadBack>;
  /** Those of which not all was asked for, in turn; and the read requests of the bus that theirs take. */
  readonly looking: Fifo<ReadBack>;
  readonly cold: ReadBack[];
  requestsOut: number;
  /** V-05, by the sender's IPv4 address. */
  readonly history: Map<number, SenderHistory>;
  /** Draws which writes are read back though the sender's history is good enough. */
  readonly rng: Rng;
}

export function createVerifyState(
  card: { readonly name: string; readonly seed: number },
): VerifyState {
  return {
    stagedBytes: 0,
    staged: new Fifo(),
    stagedTurnAt: 0,
    placing: undefined,
    readBacks: new Set(),
    looking: new Fifo(),
    cold: [],
    requestsOut: 0,
    history: new Map(),
    rng: rngFor(card.seed, `${card.name}/verify`),
  };
}

interface Card {
  readonly verify: VerifyState;
  readonly plan: RnicPlan;
}

function own({ responder }: QueuePair): Writable<Responder> {
  return responder as Writable<Responder>;
}

/**
 * Reserves room for all of a message's data, so that no message waits for room while it holds some.
 * @returns whether there is any.
 */
export function reserveStaging({ verify }: Card, qp: QueuePair, bytes: number): boolean {
  if (verify.stagedBytes + bytes > LIMITS.verifyStagingBytes) return false;
  verify.stagedBytes += bytes;
  own(qp).stagedBytes += bytes;
  return true;
}

export function releaseStaging({ verify }: Card, qp: QueuePair, bytes: number): void {
  verify.stagedBytes -= bytes;
  own(qp).stagedBytes -= bytes;
}

/** The queue pair fails or is reset: it will send no answer, and the room that it holds is free. */
export function forgetVerified(device: Card, qp: QueuePair): void {
  const { stagedBytes, resources } = qp.responder;
  releaseStaging(device, qp, stagedBytes);
  for (const resource of resources) if (resource.kind === "single") resource.verified = undefined;
  const { readBacks, staged } = device.verify;
  for (const readBack of readBacks) if (readBack.qp === qp) readBacks.delete(readBack);
  for (let left = staged.length; left > 0; left--) {
    const first = staged.shift()!;
    if (first.qp !== qp) staged.push(first);
  }
  own(qp).placing = 0;
}

/** V-02: bytes of a message that are held until its end; none of level `none`. */
export function stagedBytesOf(level: VerifyLevel, length: number): number {
  return level === "none" ? 0 : length;
}

export interface SenderHistory {
  /** The newest checks: 1 where one failed. Writes that were not read back are not in it. */
  readonly window: Uint8Array;
  /** Number of places taken; the next place; number of failures among them. */
  filled: number;
  next: number;
  failed: number;
}

/**
 * The card writes to memory. A posted write passes reads that wait in the host, so a read-back may find it in place
 * of its own write: that is correct data, no damage.
 */
export function noteOverlaps(
  { verify }: { readonly verify: VerifyState },
  write: { readonly address: number; readonly length: number },
): void {
  const { address, length } = write;
  for (const readBack of verify.readBacks) {
    if (readBack === verify.placing) continue;
    for (const place of readBack.places) {
      const from = Math.max(address, place.address);
      const to = Math.min(address + length, place.address + place.bytes);
      if (from >= to) continue;
      readBack.covered ??= new Uint8Array(readBack.expected.length);
      const shift = place.offset - place.address;
      readBack.covered.fill(1, from + shift, to + shift);
    }
  }
}

/** Its own data overwrites earlier data of others. */
export function noteOwnWrite(
  { covered }: ReadBack,
  { offset, length }: { readonly offset: number; readonly length: number },
): void {
  covered?.fill(0, offset, offset + length);
}
