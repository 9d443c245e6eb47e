/** What a connection manager says of itself: each message made of what it answers or is about. */
import {
  type CmMessage,
  type CmMra,
  type CmRej,
  type CmRep,
  type CmReq,
  type CmRtu,
  REJECT_REASON,
} from "../../../fabric/wire/roce/cm.ts";

/** By what both sides know a connection: part of a `CmEndpoint`. */
interface ConnectionIds {
  readonly transactionId: bigint;
  readonly commId: number;
  readonly peerCommId: number;
}

const NO_DATA = new Uint8Array(0);
/** What a MRA says was received, and a REJ refuses. */
export const RECEIVED = { req: 0, rep: 1 } as const;
export const REJECTED = { req: 0, rep: 1, nothing: 2 } as const;
/** How long a program may think about a request: 4.2 ms. */
const SERVICE_TIMEOUT_CODE = 10;

/** The answer to a DREQ, also to one of an unknown connection. */
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
  why: { readonly reason: number; readonly privateData?: Uint8Array<ArrayBuffer> },
): CmRej {
  return {
    type: "REJ",
    transactionId: refused.transactionId,
    privateData: why.privateData ?? NO_DATA,
    localCommId: refused.type === "REP" ? refused.remoteCommId : 0,
    remoteCommId: refused.localCommId,
    rejected: refused.type === "REQ" ? REJECTED.req : REJECTED.rep,
    infoLength: 0,
    reason: why.reason,
  };
}

/** "No answer came": the last message of an endpoint whose tries are used up. */
export function giveUp(endpoint: ConnectionIds): CmRej {
  return {
    type: "REJ",
    transactionId: endpoint.transactionId,
    privateData: NO_DATA,
    localCommId: endpoint.commId,
    remoteCommId: endpoint.peerCommId,
    rejected: REJECTED.nothing,
    infoLength: 0,
    reason: REJECT_REASON.timeout,
  };
}

/** "Received, the answer takes longer." */
export function mraFor(endpoint: ConnectionIds, received: number): CmMra {
  return {
    type: "MRA",
    transactionId: endpoint.transactionId,
    privateData: NO_DATA,
    localCommId: endpoint.commId,
    remoteCommId: endpoint.peerCommId,
    received,
    serviceTimeout: SERVICE_TIMEOUT_CODE,
  };
}

/** "Ready to use": the active side's last word. */
export function rtuFor(endpoint: ConnectionIds): CmRtu {
  return {
    type: "RTU",
    transactionId: endpoint.transactionId,
    privateData: NO_DATA,
    localCommId: endpoint.commId,
    remoteCommId: endpoint.peerCommId,
  };
}
