export const EXIT = {
  done: 0,
  /** The run ended, and a check failed. */
  failed: 1,
  /** No result: the command itself failed. */
  unclear: 2,
  usage: 64,
  internal: 70,
} as const;
