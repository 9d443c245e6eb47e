/** Messages by which an endpoint answers, refuses and gives up. `cm_agent.ts` sends them. */
import {
  type CmMessage,
  type CmMra,
  type CmRej,
  type CmRep,
  type CmReq,
  REJECT_REASON,
  REJECTED,
} from "../../../fabric/wire/roce/cm.ts";
import type { CmEndpoint } from "./cm_state.ts";

const NO_DATA = new Uint8Array(0);
/** Maximum time of a program to answer a request: 4.2 ms. */
const SERVICE_TIMEOUT_CODE = 10;

/** The response to a DREQ, also to that of an unknown connection. */
export function drepFor(dreq: Extract<CmMessage, { type: "DREQ" }>): CmMessage {
  return {
    type: "DREP",
    transactionId: dreq.transactionId,
    privateData: NO_DATA,
    localCommId: dreq.remoteCommId,
    remoteCommId: dreq.localCommId,
  };
}

/** The refusal of a REQ or REP. */
export function rejFor(
  refused: CmReq | CmRep,
  rejection: { readonly reason: number; readonly privateData?: Uint8Array<ArrayBuffer> },
): CmRej {
  return {
    type: "REJ",
    transactionId: refused.transactionId,
    privateData: rejection.privateData ?? NO_DATA,
    localCommId: refused.type === "REP" ? refused.remoteCommId : 0,
    remoteCommId: refused.localCommId,
    rejected: refused.type === "REQ" ? REJECTED.req : REJECTED.rep,
    infoLength: 0,
    reason: rejection.reason,
  };
}

export function headOf({ transactionId, commId, peerCommId }: CmEndpoint) {
  const ids = { localCommId: commId, remoteCommId: peerCommId };
  return { transactionId, privateData: NO_DATA, ...ids };
}

/** The REJ "timeout": the last message of an endpoint without tries left. */
export function giveUp(endpoint: CmEndpoint): CmRej {
  return {
    type: "REJ",
    ...headOf(endpoint),
    rejected: REJECTED.nothing,
    infoLength: 0,
    reason: REJECT_REASON.timeout,
  };
}

/** The MRA: the message was received, the response needs longer. */
export function mraFor(endpoint: CmEndpoint, received: number): CmMra {
  return {
    type: "MRA",
    ...headOf(endpoint),
    received,
    serviceTimeout: SERVICE_TIMEOUT_CODE,
  };
}
