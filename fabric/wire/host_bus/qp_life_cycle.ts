/**
 * A queue pair's transitions, with the required and optional attributes of each (`rocev2.md` §4.1;
 * Linux `core/verbs.c` qp_state_table), limited to one partition key, one port and no alternate
 * path.
 */
import { type QpAttributes, type QpState, type QpType, refuseAccess } from "./rnic_command.ts";

export type AttributeName = Exclude<keyof QpAttributes, "state">;

export interface Transition {
  readonly required: readonly AttributeName[];
  readonly optional: readonly AttributeName[];
}

type Table = Readonly<Partial<Record<`${QpState}>${QpState}`, Transition>>>;

const NONE: Transition = { required: [], optional: [] };
const DRAIN: Transition = { required: [], optional: ["enSqdAsyncNotify"] };

const PATH = ["trafficClass", "hopLimit", "flowLabel"] as const;

const RC_RTS_OPTIONAL = ["curState", "accessFlags", "minRnrTimer"] as const;
const RC: Table = {
  "reset>init": { required: ["accessFlags"], optional: [] },
  "init>init": { required: [], optional: ["accessFlags"] },
  "init>rtr": {
    required: ["destAddress", "pathMtu", "destQpn", "rqPsn", "maxDestRdAtomic", "minRnrTimer"],
    optional: ["accessFlags", ...PATH],
  },
  "rtr>rts": {
    required: ["timeout", "retryCnt", "rnrRetry", "sqPsn", "maxRdAtomic"],
    optional: RC_RTS_OPTIONAL,
  },
  "rts>rts": { required: [], optional: [...RC_RTS_OPTIONAL, "udpSourcePort"] },
  "rts>sqd": DRAIN,
  "sqd>rts": { required: [], optional: RC_RTS_OPTIONAL },
  "sqd>sqd": {
    required: [],
    optional: [
      "destAddress",
      ...PATH,
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

/** As RC, without acknowledgements' attributes. */
const UC_RTS_OPTIONAL = ["curState", "accessFlags"] as const;
const UC: Table = {
  "reset>init": { required: ["accessFlags"], optional: [] },
  "init>init": { required: [], optional: ["accessFlags"] },
  "init>rtr": {
    required: ["destAddress", "pathMtu", "destQpn", "rqPsn"],
    optional: ["accessFlags", ...PATH],
  },
  "rtr>rts": { required: ["sqPsn"], optional: UC_RTS_OPTIONAL },
  "rts>rts": { required: [], optional: [...UC_RTS_OPTIONAL, "udpSourcePort"] },
  "rts>sqd": DRAIN,
  "sqd>rts": { required: [], optional: UC_RTS_OPTIONAL },
  "sqd>sqd": { required: [], optional: ["accessFlags", "destAddress", ...PATH] },
  "sqe>rts": { required: [], optional: UC_RTS_OPTIONAL },
};

const UD_RTS_OPTIONAL = ["curState", "qKey"] as const;
const UD: Table = {
  "reset>init": { required: ["qKey"], optional: [] },
  "init>init": { required: [], optional: ["qKey"] },
  "init>rtr": { required: [], optional: ["qKey"] },
  "rtr>rts": { required: ["sqPsn"], optional: UD_RTS_OPTIONAL },
  "rts>rts": { required: [], optional: UD_RTS_OPTIONAL },
  "rts>sqd": DRAIN,
  "sqd>rts": { required: [], optional: UD_RTS_OPTIONAL },
  "sqd>sqd": { required: [], optional: ["qKey"] },
  "sqe>rts": { required: [], optional: UD_RTS_OPTIONAL },
};

const TABLES: Readonly<Record<QpType, Table>> = { rc: RC, uc: UC, ud: UD };

/** Undefined where there is no such transition. */
export function transition(type: QpType, from: QpState, to: QpState): Transition | undefined {
  if (to === "reset") return NONE;
  if (to === "err") return from === "reset" ? undefined : NONE;
  return TABLES[type][`${from}>${to}`];
}

const MTUS: ReadonlySet<number> = new Set([256, 512, 1024, 2048, 4096]);

/** READs and atomics outstanding per direction. */
export const RD_ATOMIC_MAX = 16;

const MOST: Readonly<Partial<Record<AttributeName, number>>> = {
  timeout: 31,
  retryCnt: 7,
  rnrRetry: 7,
  minRnrTimer: 31,
  maxRdAtomic: RD_ATOMIC_MAX,
  maxDestRdAtomic: RD_ATOMIC_MAX,
  rqPsn: 0xff_ffff,
  sqPsn: 0xff_ffff,
  destQpn: 0xff_ffff,
  qKey: 0xffff_ffff,
  trafficClass: 0xff,
  hopLimit: 0xff,
  flowLabel: 0xf_ffff,
  udpSourcePort: 0xffff,
};

interface ModifiedQp {
  readonly type: QpType;
  readonly state: QpState;
  readonly mtu: number;
}

/** Why a modify is refused (EINVAL, nothing changes); undefined where it is valid. */
export function refuseModify(qp: ModifiedQp, attributes: QpAttributes): string | undefined {
  const to = attributes.state ?? qp.state;
  const row = transition(qp.type, qp.state, to);
  if (row === undefined) return `a queue pair cannot go from ${qp.state} to ${to}`;
  for (const name of row.required) {
    if (attributes[name] === undefined) return `${qp.state} to ${to} needs ${name}`;
  }
  for (const name of Object.keys(attributes) as (keyof QpAttributes)[]) {
    if (name === "state" || attributes[name] === undefined) continue;
    if (!row.required.includes(name) && !row.optional.includes(name)) {
      return `${qp.state} to ${to} does not take ${name}`;
    }
    const wrong = refuseValue(qp, { name, value: attributes[name] });
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function refuseValue(
  qp: ModifiedQp,
  given: { readonly name: AttributeName; readonly value: unknown },
): string | undefined {
  const { name, value } = given;
  if (name === "curState") {
    return value === qp.state ? undefined : `curState is ${value}, the state is ${qp.state}`;
  }
  if (name === "accessFlags") return refuseAccess(value as number);
  if (name === "pathMtu" && (!MTUS.has(value as number) || (value as number) > qp.mtu)) {
    return `pathMtu must be a power of two from 256 to the port's ${qp.mtu}: it is ${value}`;
  }
  const most = MOST[name];
  if (most !== undefined && !((value as number) >= 0 && (value as number) <= most)) {
    return `${name} must be at most ${most}: it is ${value}`;
  }
  return undefined;
}
