/**
 * The longest wait, in wall time, of a part of the rack for another one that should answer soon. A
 * busy machine makes the rack slow, never wrong, so it is minutes: a part without an answer by then
 * hangs. The error names the awaited part, and is never the user's. A user's own code is limited in
 * processor time instead.
 */
export const PATIENCE_MS = 180_000;
