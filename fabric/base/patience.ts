/**
 * Patience in wall time: how long a part of the rack waits for another one that should answer soon. A busy machine makes
 * the rack slow, never wrong, so it is minutes: a part that has not answered by then hangs. The error says what was waited
 * for, and is never one of the user's. A user's own code is limited in processor time instead.
 */
export const PATIENCE_MS = 180_000;
