/** A card's state of verified writes (V-01 to V-05). */
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
  stagedBytes: number;
  /** Data whose CRC holds, but which is not all with the bus. */
  readonly staged: Fifo<StagedData>;
  stagedTurnAt: Time;
  placing: ReadBack | undefined;
  /** Registered before their DMA writes begin. */
  readonly readBacks: Set<ReadBack>;
  readonly looking: Fifo<ReadBack>;
  readonly cold: ReadBack[];
  requestsOut: number;
  /** The senders' histories (V-05), by IPv4 address. */
  readonly history: Map<number, SenderHistory>;
  /** Draws read-backs in spite of a good history. */
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
 * Reserves room for a whole message, so that none waits while it holds some. @returns whether there
 * is room.
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

/** V-02: held until a message's end; none of level `none`. */
export function stagedBytesOf(level: VerifyLevel, length: number): number {
  return level === "none" ? 0 : length;
}

export interface SenderHistory {
  /** 1 is a failure. Only writes that were read back count. */
  readonly window: Uint8Array;
  filled: number;
  next: number;
  failed: number;
}

/**
 * A posted write passes reads that wait in the host, so a read-back may find it in place of its own
 * write: that is correct data, no damage.
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

export function noteOwnWrite(
  { covered }: ReadBack,
  { offset, length }: { readonly offset: number; readonly length: number },
): void {
  covered?.fill(0, offset, offset + length);
}
