import { EXIT } from "../../fabric/base/exit.ts";

/** A rack has ended before its run, or has not executed an order. */
export class RackError extends Error {
  override readonly name = "RackError";

  /** @param code of the command, one of {@link EXIT}. */
  constructor(message: string, readonly code: number = EXIT.unclear) {
    super(message);
  }
}
