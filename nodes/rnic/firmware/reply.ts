/** Replies of the firmware that say no more than yes or no. */
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";

export const DONE: RnicReply = { status: "ok", op: "done" };

/** A refused command has changed nothing; `reason` says what was found and what was expected. */
export function refusal(
  errno: Extract<RnicReply, { status: "error" }>["errno"],
  reason: string,
): RnicReply {
  return { status: "error", errno, reason };
}

export function noSuch(what: string, number: number): RnicReply {
  return refusal("ENOENT", `There is no ${what} ${number}`);
}
