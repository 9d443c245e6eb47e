/** Flush extended transport header (`rocev2.md` §1.3, P-50). */
export const FETH_FIELDS = [
  ["reserved", 26],
  /** {@link FLUSH_SELECT}. */
  ["select", 2],
  ["placement", 4],
] as const;

/** The RETH's range, or the whole memory region. */
export const FLUSH_SELECT = { range: 0, region: 1 } as const;
/** The response's guarantee: visible to all observers, persistent. */
export const FLUSH_PLACEMENT = { globalVisibility: 1, persistence: 2 } as const;
