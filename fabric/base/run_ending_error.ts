/**
 * Errors that end the run, whichever program was running when they came up: they are not that program's
 * failure.
 */
export abstract class RunEndingError extends Error {}

/** A file of the run could not be written, as on a full disk: the run would lack it later. */
export class OutputError extends RunEndingError {
  override readonly name = "OutputError";

  /** @param cause why the file at `path` could not be written. */
  constructor(path: string, cause: unknown) {
    super(`Cannot write ${path}: ${(cause as Error).message}`, { cause });
  }
}

/**
 * A replay has come to where its record does not have what it needs, or would go another way than its
 * run: no result of it is known.
 */
export class ReplayError extends RunEndingError {
  override readonly name = "ReplayError";
}
