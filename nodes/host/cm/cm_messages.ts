/** Messages that `cm_agent.ts` sends. */
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
/** A program answers within 4.2 ms. */
const SERVICE_TIMEOUT_CODE = 10;

export function drepFor(dreq: Extract<CmMessage, { type: "DREQ" }>): CmMessage {
  return {
    type: "DREP",
    transactionId: dreq.transactionId,
    privateData: NO_DATA,
    localCommId: dreq.remoteCommId,
    remoteCommId: dreq.localCommId,
  };
}

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

export function giveUp(endpoint: CmEndpoint): CmRej {
  return {
    type: "REJ",
    ...headOf(endpoint),
    rejected: REJECTED.nothing,
    infoLength: 0,
    reason: REJECT_REASON.timeout,
  };
}

/** Received, but the response needs longer. */
export function mraFor(endpoint: CmEndpoint, received: number): CmMra {
  return {
    type: "MRA",
    ...headOf(endpoint),
    received,
    serviceTimeout: SERVICE_TIMEOUT_CODE,
  };
}
