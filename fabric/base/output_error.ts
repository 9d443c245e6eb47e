/**
 * A file of the run could not be written: a full disk. It ends the run, whichever program has come there: what is missing
 * would be missed later.
 */
export class OutputError extends Error {
  override readonly name = "OutputError";

  /** @param cause why the file at `path` could not be written. */
  constructor(path: string, cause: unknown) {
    super(`Cannot write ${path}: ${(cause as Error).message}`, { cause });
  }
}
