/**
 * The life of a queue pair as a table: which transitions exist, and which attributes each must and
 * may be given (`rocev2.md` §4.1; Linux `core/verbs.c` qp_state_table), for the attributes that the
 * emulator has (one partition key, one port, no alternate path).
 */
import type { QpAttributes, QpState, QpType } from "../../fabric/wire/rnic_command.ts";

export type QpAttribute = Exclude<keyof QpAttributes, "state">;

interface Transition {
  readonly required: readonly QpAttribute[];
  readonly optional: readonly QpAttribute[];
}

type Table = Readonly<Partial<Record<`${QpState}>${QpState}`, Transition>>>;

const RC: Table = {
  "reset>init": { required: ["accessFlags"], optional: [] },
  "init>init": { required: [], optional: ["accessFlags"] },
  "init>rtr": {
    required: ["destAddress", "pathMtu", "destQpn", "rqPsn", "maxDestRdAtomic", "minRnrTimer"],
    optional: ["accessFlags"],
  },
  "rtr>rts": {
    required: ["timeout", "retryCnt", "rnrRetry", "sqPsn", "maxRdAtomic"],
    optional: ["accessFlags", "minRnrTimer"],
  },
  "rts>rts": { required: [], optional: ["accessFlags", "minRnrTimer"] },
  "rts>sqd": { required: [], optional: [] },
  "sqd>rts": { required: [], optional: ["accessFlags", "minRnrTimer"] },
  "sqd>sqd": {
    required: [],
    optional: [
      "destAddress",
      "timeout",
      "retryCnt",
      "rnrRetry",
      "maxRdAtomic",
      "maxDestRdAtomic",
      "accessFlags",
      "minRnrTimer",
    ],
  },
};

const UD: Table = {
  "reset>init": { required: ["qKey"], optional: [] },
  "init>init": { required: [], optional: ["qKey"] },
  "init>rtr": { required: [], optional: ["qKey"] },
  "rtr>rts": { required: ["sqPsn"], optional: ["qKey"] },
  "rts>rts": { required: [], optional: ["qKey"] },
  "rts>sqd": { required: [], optional: [] },
  "sqd>rts": { required: [], optional: ["qKey"] },
  "sqd>sqd": { required: [], optional: ["qKey"] },
  "sqe>rts": { required: [], optional: ["qKey"] },
};

const TO_ANYWHERE: Transition = { required: [], optional: [] };

/** The row for a transition; undefined where there is no such transition. */
export function transition(type: QpType, from: QpState, to: QpState): Transition | undefined {
  if (to === "reset") return TO_ANYWHERE;
  if (to === "err") return from === "reset" ? undefined : TO_ANYWHERE;
  return (type === "rc" ? RC : UD)[`${from}>${to}`];
}

const MTUS: ReadonlySet<number> = new Set([256, 512, 1024, 2048, 4096]);

/** Most READs and atomics outstanding in one direction. */
export const RD_ATOMIC_MAX = 16;

const LIMITS: Readonly<Partial<Record<QpAttribute, number>>> = {
  timeout: 31,
  retryCnt: 7,
  rnrRetry: 7,
  minRnrTimer: 31,
  maxRdAtomic: RD_ATOMIC_MAX,
  maxDestRdAtomic: RD_ATOMIC_MAX,
  rqPsn: 0xff_ffff,
  sqPsn: 0xff_ffff,
  destQpn: 0xff_ffff,
};

/** Why the transition is refused (EINVAL, nothing changes); undefined where it is legal. */
export function refuseTransition(
  qp: { readonly type: QpType; readonly state: QpState; readonly mtu: number },
  attributes: QpAttributes,
): string | undefined {
  const to = attributes.state ?? qp.state;
  const row = transition(qp.type, qp.state, to);
  if (row === undefined) return `A queue pair cannot go from ${qp.state} to ${to}`;
  for (const name of row.required) {
    if (attributes[name] === undefined) return `${qp.state} to ${to} needs ${name}`;
  }
  for (const name of Object.keys(attributes) as (keyof QpAttributes)[]) {
    if (name === "state" || attributes[name] === undefined) continue;
    if (!row.required.includes(name) && !row.optional.includes(name)) {
      return `${qp.state} to ${to} does not take ${name}`;
    }
    const limit = LIMITS[name];
    if (limit !== undefined && attributes[name]! > limit) {
      return `${name} must be at most ${limit}: it is ${attributes[name]}`;
    }
  }
  const mtu = attributes.pathMtu;
  if (mtu !== undefined && (!MTUS.has(mtu) || mtu > qp.mtu)) {
    return `pathMtu must be a power of two from 256 to the port's ${qp.mtu}: it is ${mtu}`;
  }
  return undefined;
}
