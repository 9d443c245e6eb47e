/**
 * Patience in wall time: how long a part of the rack waits for another one that should answer soon. A busy machine makes
 * the rack slow, never wrong, so it is minutes: what has not answered then hangs. What ends a wait says what it has waited
 * for, and is never an error of the user's. What a user's own code may take is measured in processor time.
 */
export const PATIENCE_MS = 180_000;
