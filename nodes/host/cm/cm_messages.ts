/**
 * Builds the connection manager's messages from an endpoint or from the message that they answer.
 */
import {
  type CmMessage,
  type CmMra,
  type CmRej,
  type CmRep,
  type CmReq,
  type CmRtu,
  REJECT_REASON,
} from "../../../fabric/wire/roce/cm.ts";

/** The numbers by which both ends identify a connection: part of a `CmEndpoint`. */
interface ConnectionIds {
  readonly transactionId: bigint;
  readonly commId: number;
  readonly peerCommId: number;
}

const NO_DATA = new Uint8Array(0);
/** The received message in an MRA, and the rejected one in a REJ. */
export const RECEIVED = { req: 0, rep: 1 } as const;
export const REJECTED = { req: 0, rep: 1, nothing: 2 } as const;
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

/** The REJ "timeout": the last message of an endpoint without tries left. */
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

/** The MRA: the message was received, the response needs longer. */
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

/** The RTU: the active side's last message. */
export function rtuFor(endpoint: ConnectionIds): CmRtu {
  return {
    type: "RTU",
    transactionId: endpoint.transactionId,
    privateData: NO_DATA,
    localCommId: endpoint.commId,
    remoteCommId: endpoint.peerCommId,
  };
}
