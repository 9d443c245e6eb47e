/**
 * The life of a queue pair as a table: transitions, the attributes that each must and may be given
 * (`rocev2.md` §4.1; Linux `core/verbs.c` qp_state_table), and what a state lets happen.
 */
import type { QpAttributes, QpState, QpType } from "../../fabric/wire/rnic_command.ts";
import { LIMITS } from "./limits.ts";

export type AttributeName = Exclude<keyof QpAttributes, "state">;

export interface Transition {
  readonly required: readonly AttributeName[];
  readonly optional: readonly AttributeName[];
}

type Table = Readonly<Partial<Record<`${QpState}>${QpState}`, Transition>>>;

const NONE: Transition = { required: [], optional: [] };
const RTS_OPTIONAL = ["accessFlags", "minRnrTimer"] as const;

const RC: Table = {
  "reset>init": { required: ["accessFlags"], optional: [] },
  "init>init": { required: [], optional: ["accessFlags"] },
  "init>rtr": {
    required: ["destAddress", "pathMtu", "destQpn", "rqPsn", "maxDestRdAtomic", "minRnrTimer"],
    optional: ["accessFlags"],
  },
  "rtr>rts": {
    required: ["timeout", "retryCnt", "rnrRetry", "sqPsn", "maxRdAtomic"],
    optional: RTS_OPTIONAL,
  },
  "rts>rts": { required: [], optional: RTS_OPTIONAL },
  "rts>sqd": NONE,
  "sqd>rts": { required: [], optional: RTS_OPTIONAL },
  "sqd>sqd": {
    required: [],
    optional: [
      ...RTS_OPTIONAL,
      "destAddress",
      "timeout",
      "retryCnt",
      "rnrRetry",
      "maxRdAtomic",
      "maxDestRdAtomic",
    ],
  },
};

const UD: Table = {
  "reset>init": { required: ["qKey"], optional: [] },
  "init>init": { required: [], optional: ["qKey"] },
  "init>rtr": { required: [], optional: ["qKey"] },
  "rtr>rts": { required: ["sqPsn"], optional: ["qKey"] },
  "rts>rts": { required: [], optional: ["qKey"] },
  "rts>sqd": NONE,
  "sqd>rts": { required: [], optional: ["qKey"] },
  "sqd>sqd": { required: [], optional: ["qKey"] },
  "sqe>rts": { required: [], optional: ["qKey"] },
};

/** The table's row; undefined where there is no such transition. */
export function transition(type: QpType, from: QpState, to: QpState): Transition | undefined {
  if (to === "reset") return NONE;
  if (to === "err") return from === "reset" ? undefined : NONE;
  return (type === "rc" ? RC : UD)[`${from}>${to}`];
}

const MOST: Readonly<Partial<Record<AttributeName, number>>> = {
  timeout: 31,
  retryCnt: 7,
  rnrRetry: 7,
  minRnrTimer: 31,
  maxRdAtomic: LIMITS.maxRdAtomic,
  maxDestRdAtomic: LIMITS.maxRdAtomic,
  rqPsn: 0xff_ffff,
  sqPsn: 0xff_ffff,
  destQpn: 0xff_ffff,
};

/** Why a modify is refused (EINVAL, nothing changes); undefined where it is legal. */
export function refuseModify(
  qp: { readonly type: QpType; readonly state: QpState; readonly mtu: number },
  attributes: QpAttributes,
): string | undefined {
  const to = attributes.state ?? qp.state;
  const row = transition(qp.type, qp.state, to);
  if (row === undefined) return `a queue pair cannot go from ${qp.state} to ${to}`;
  for (const name of row.required) {
    if (attributes[name] === undefined) return `${qp.state} to ${to} needs ${name}`;
  }
  for (const name of Object.keys(attributes) as (keyof QpAttributes)[]) {
    const value = attributes[name];
    if (name === "state" || value === undefined) continue;
    if (!row.required.includes(name) && !row.optional.includes(name)) {
      return `${qp.state} to ${to} does not take ${name}`;
    }
    const most = name === "pathMtu" ? qp.mtu : MOST[name];
    if (most !== undefined && (value as number) > most) {
      return `${name} must be at most ${most}: it is ${value}`;
    }
  }
  return undefined;
}

/** What a queue pair does in a state (`rocev2.md` §4.1). */
export interface StateRights {
  readonly takesRequests: boolean;
  readonly takesResponses: boolean;
  readonly startsWork: boolean;
  /** Goes on with what it has started. */
  readonly sends: boolean;
  /** Completes what is posted with WR_FLUSH_ERR. */
  readonly flushes: boolean;
}

// deno-fmt-ignore
const RIGHTS: Readonly<Record<QpState, StateRights>> = {
  reset: { takesRequests: false, takesResponses: false, startsWork: false, sends: false, flushes: false },
  init:  { takesRequests: false, takesResponses: false, startsWork: false, sends: false, flushes: false },
  rtr:   { takesRequests: true,  takesResponses: false, startsWork: false, sends: false, flushes: false },
  rts:   { takesRequests: true,  takesResponses: true,  startsWork: true,  sends: true,  flushes: false },
  sqd:   { takesRequests: true,  takesResponses: true,  startsWork: false, sends: true,  flushes: false },
  sqe:   { takesRequests: true,  takesResponses: false, startsWork: false, sends: false, flushes: false },
  err:   { takesRequests: false, takesResponses: false, startsWork: false, sends: false, flushes: true },
};

export function rights(state: QpState): StateRights {
  return RIGHTS[state];
}
