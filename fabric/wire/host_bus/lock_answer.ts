/**
 * The RNIC's answer to a request for the lock of space 2 through memory: one word of 8 B,
 * written by DMA.
 */
import type { Time } from "../../base/time.ts";
import { allocate, viewOf } from "../../base/slab.ts";

export const LOCK_ANSWER_BYTES = 8;

/** `idle`: no request. Granted: until when, in ps. */
export type LockAnswer = "idle" | "asked" | "denied" | { readonly until: Time };

/** No lock ends as early as at 2 ps. */
const WORDS = ["idle", "asked", "denied"] as const;

export function encodeLockAnswer(answer: LockAnswer): Uint8Array<ArrayBuffer> {
  const bytes = allocate(LOCK_ANSWER_BYTES);
  const word = typeof answer === "string" ? WORDS.indexOf(answer) : answer.until;
  viewOf(bytes).setBigUint64(0, BigInt(word));
  return bytes;
}

export function decodeLockAnswer(bytes: Uint8Array): LockAnswer {
  const word = Number(viewOf(bytes).getBigUint64(0));
  return WORDS[word] ?? { until: word };
}
