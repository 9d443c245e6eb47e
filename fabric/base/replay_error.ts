/**
 * A replay has come to where its record does not have what it needs, or would go another way than its
 * run. It ends the replay, whichever program has come there: no result of it is known.
 */
export class ReplayError extends Error {
  override readonly name = "ReplayError";
}
