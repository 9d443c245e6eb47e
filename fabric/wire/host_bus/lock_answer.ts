/**
 * The RNIC's answer to a request for the lock of a queue's space 2, where it comes through a
 * memory location instead of by message: one word of 8 B, which the RNIC writes by DMA.
 */
import type { Time } from "../../base/time.ts";
import { allocate, viewOf } from "../../base/slab.ts";

export const LOCK_ANSWER_BYTES = 8;

/** `idle`: nothing has been asked. `asked`: the host waits. Granted: until when, in ps. */
export type LockAnswer = "idle" | "asked" | "denied" | { readonly until: Time };

/** Words that are no time: a lock is granted later than at 2 ps. */
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
