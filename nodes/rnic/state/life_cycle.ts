/** The rights of a queue pair in each state (`rocev2.md` §4.1). Its transitions are in `fabric/wire`. */
import type { QpState } from "../../../fabric/wire/host_bus/rnic_command.ts";

export interface StateRights {
  readonly takesRequests: boolean;
  readonly takesResponses: boolean;
  readonly startsWork: boolean;
  readonly sends: boolean;
  readonly flushesSends: boolean;
  readonly flushesReceives: boolean;
}

const NOTHING: StateRights = {
  takesRequests: false,
  takesResponses: false,
  startsWork: false,
  sends: false,
  flushesSends: false,
  flushesReceives: false,
};
const RTR: StateRights = { ...NOTHING, takesRequests: true };
const SQD: StateRights = { ...RTR, takesResponses: true, sends: true };

const RIGHTS: Readonly<Record<QpState, StateRights>> = {
  reset: NOTHING,
  init: NOTHING,
  rtr: RTR,
  rts: { ...SQD, startsWork: true },
  sqd: SQD,
  sqe: { ...RTR, flushesSends: true },
  err: { ...NOTHING, flushesSends: true, flushesReceives: true },
};

export function rights(state: QpState): StateRights {
  return RIGHTS[state];
}
