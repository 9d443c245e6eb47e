/**
 * The methods of `put` by which it is checked that data has arrived as it was sent: what a completion says
 * of that, and which message is to be written again. A program that compares by itself (`write-compare`) is
 * what verified writes are measured by (V-10).
 */
import type { VerifyLevel, VerifyVerdict } from "../../../../fabric/wire/roce/verify_eth.ts";
import type { Steps } from "../../cpu/program.ts";
import type { Failure } from "./persist_client.ts";
import { LOOKED_AT, type Put } from "./put_job.ts";
import type { MethodPlan } from "./put_methods.ts";
import { lengthOf } from "./put_requests.ts";
import type { WorkCompletion } from "../../verbs/objects.ts";

/** Why a message was written again: what its verified write said, or what the program saw itself. */
type Caught = Exclude<VerifyVerdict["status"], "written">;

export const CRC_MAKERS = ["card", "program"] as const;
export type CrcMaker = typeof CRC_MAKERS[number];

/** What has become of the checks of a `put` so far. */
export interface Verifying {
  /** V-04; of `write-compare`, which asks for none, not looked at. */
  readonly level: VerifyLevel;
  readonly comparesItself: boolean;
  /** V-02: who computes the CRC. What is damaged before the card has it, the card's own does not tell. */
  readonly crcBy: CrcMaker;
  /** How often a message is written again before the `put` fails, and how often each was. */
  readonly rewritesMax: number;
  readonly rewritesOf: Uint32Array;
  readonly caught: Record<Caught, number>;
  /** V-05: writes for which their sender's past stood. */
  skipped: number;
}

/** What is meant where a program does not say it. */
export const LEVEL: VerifyLevel = "verify-crc", REWRITES = 3;

/** Undefined of a method that checks nothing. */
export function createVerifying(
  plan: MethodPlan,
  of: {
    readonly level?: VerifyLevel;
    readonly crcBy?: CrcMaker;
    readonly rewrites?: number;
    readonly count: number;
  },
): Verifying | undefined {
  const comparesItself = plan.second === "compare";
  if (plan.first !== "write-verify" && !comparesItself) return undefined;
  const { level = LEVEL, crcBy = "card", rewrites = REWRITES, count } = of;
  return {
    level,
    comparesItself,
    crcBy,
    rewritesMax: rewrites,
    rewritesOf: new Uint32Array(count),
    caught: { "crc-mismatch": 0, "read-back-differs": 0, "read-failed": 0 },
    skipped: 0,
  };
}

/**
 * The message that a completion shows to be damaged, and which is to be written again; undefined where
 * there is nothing of the kind. A cell that is broken for good does not heal: after so many rewrites the
 * `put` fails.
 */
export function* messageToRewrite(
  put: Put,
  completion: WorkCompletion,
): Steps<number | Failure | undefined> {
  const { verifying } = put;
  if (verifying === undefined) return undefined;
  const index = Math.floor(completion.wrId / 2);
  const caught = caughtBy(put, completion);
  // Who compares itself knows it when that is done.
  if (verifying.comparesItself) yield* put.cpu.settle();
  if (caught === undefined) return undefined;
  verifying.caught[caught]++;
  if (verifying.rewritesOf[index] === verifying.rewritesMax) {
    return { error: `verify: message ${index}: ${caught}` };
  }
  verifying.rewritesOf[index]!++;
  return index;
}

/** What is wrong with the message, if anything; notes of one that is right that it was looked at. */
function caughtBy(put: Put, completion: WorkCompletion): Caught | undefined {
  const { verifying } = put;
  const { status, verify, wrId } = completion;
  if (verifying === undefined) return undefined;
  const index = Math.floor(wrId / 2);
  if (verifying.comparesItself) {
    if (status !== "SUCCESS" || wrId % 2 === 0) return undefined;
    if (!isAsSent(put, index)) return "read-back-differs";
    put.flags[index]! |= LOOKED_AT;
    return undefined;
  }
  if (verify === undefined) return undefined;
  if (verify.status !== "written") return verify.status;
  if (verify.checks.includes("skipped")) verifying.skipped++;
  const isLookedAt = verify.checks.includes("compared") || verify.checks.includes("crc-after");
  if (isLookedAt) put.flags[index]! |= LOOKED_AT;
  return undefined;
}

/** `write-compare`: loads what was sent and what was read, and compares them. */
function isAsSent(put: Put, index: number): boolean {
  const { cpu, slots, slotBytes, scratch } = put;
  const slot = put.slotOf[index]!;
  const length = lengthOf(put, index);
  const sent = cpu.load(slots.address + slot * slotBytes, length);
  const read = cpu.load(scratch.address + slot * put.scratchBytes, length);
  return sent.every((byte, i) => byte === read[i]);
}

/** Its part of the result. `looked`: ranges of the file that memory was seen to hold as they were sent. */
export function verifiedOf(
  verifying: Verifying,
  looked: readonly (readonly [from: number, to: number])[],
): Record<string, unknown> {
  const { level, comparesItself, caught, skipped, rewritesOf } = verifying;
  return {
    level: comparesItself ? "compare" : level,
    caught: { ...caught },
    rewrites: rewritesOf.reduce((sum, count) => sum + count, 0),
    skipped,
    looked,
  };
}
