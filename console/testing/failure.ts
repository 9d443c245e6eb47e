/** How a test fails. */

/** A run or an exploration is not as the test expects, or could not be made; the message says why. */
export class RackFailure extends Error {
  /** As `Error` has it. */
  override readonly name = "RackFailure";
  /** The command's exit code: 1 for what did not hold, 2 for what could not be told, 64 for wrong options. */
  readonly code: number;

  /** @ignore */
  constructor(message: string, code: number) {
    super(message);
    this.code = code;
  }
}
