/** Bytes of a line of the processors' caches: the unit of coherence, and of the coherent bus. */
export const LINE_BYTES = 64;
