/**
 * The longest wall time that a part of the rack waits for another one. A busy machine makes the
 * rack slow, never wrong, so it is minutes. A user's own code is limited in processor time instead.
 */
export const PATIENCE_MS = 180_000;
