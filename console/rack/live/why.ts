/** Why time is not moving, and what else is wrong with a rack that is up: as `rack why` tells it. */
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { inexactIn } from "../fault_lines.ts";
import { type Refused, refusedByProcesses, violationsOf } from "../refused.ts";
import type { RackLink } from "./racks.ts";

export interface Why {
  readonly status: ClockStatus;
  /** Messages that were forged, damaged or beyond their sender's rights. */
  readonly refused: readonly Refused[];
  /** Why the run cannot be replayed exactly; empty where it can. */
  readonly inexact: readonly string[];
}

/** @throws BusError where the timekeeper does not answer. */
export async function whyOf({ control, rack: { directory } }: RackLink): Promise<Why> {
  const status = await control.status();
  const broker = violationsOf(`${directory}/nats-server.log`);
  const refused = [...refusedByProcesses(status.refusals), ...broker];
  return { status, refused, inexact: inexactIn(directory) };
}
