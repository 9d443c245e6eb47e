/**
 * The communication manager's messages: 256-byte management datagrams, carried as UD SEND ONLY
 * between the QP 1 of two RNICs under the Q_Key `GSI_QKEY` (InfiniBand architecture, volume 1,
 * §12.6 and §13.4.3). They are rare, so the generic table codec is fast enough.
 *
 *   connection: requester  REQ →  ← REP  RTU →   … connection …   DREQ →  ← DREP
 *               (REJ instead of any, MRA where REP or RTU is delayed)
 *   UD:         SIDR_REQ →  ← SIDR_REP (service ID resolution, §12.11)
 */
import { assert } from "../../base/assert.ts";
import { type HeaderOf, readFields, sizeOf, writeFields } from "../../base/fields.ts";

export const MAD_BYTES = 256;

export const MAD_FIELDS = [
  ["baseVersion", 8],
  ["mgmtClass", 8],
  ["classVersion", 8],
  ["method", 8],
  ["status", 16],
  ["classSpecific", 16],
  ["transactionId", 64],
  ["attributeId", 16],
  ["", 16],
  ["attributeModifier", 32],
] as const;

const MAD_CONSTANTS = {
  baseVersion: 1,
  mgmtClass: 0x07,
  classVersion: 2,
  /** Send. */
  method: 0x03,
  status: 0,
  classSpecific: 0,
  attributeModifier: 0,
} as const;

const REQ_FIELDS = [
  ["localCommId", 32],
  ["", 32],
  ["serviceId", 64],
  ["localCaGuid", 64],
  ["", 32],
  ["localQKey", 32],
  ["localQpn", 24],
  ["responderResources", 8],
  ["localEecn", 24],
  ["initiatorDepth", 8],
  ["remoteEecn", 24],
  /** Codes: 4.096 µs · 2^code. */
  ["remoteCmResponseTimeout", 5],
  /** {@link TRANSPORT_SERVICE}. */
  ["transportService", 2],
  ["endToEndFlowControl", 1],
  /** The first PSN that the receiver of this message will send (§12.6). */
  ["startingPsn", 24],
  ["localCmResponseTimeout", 5],
  ["retryCount", 3],
  ["pKey", 16],
  /** {@link mtuCode}. */
  ["pathMtu", 4],
  ["rdcExists", 1],
  ["rnrRetryCount", 3],
  ["maxCmRetries", 4],
  ["srq", 1],
  ["extendedTransport", 3],
  ["primaryLocalLid", 16],
  ["primaryRemoteLid", 16],
  ["primaryLocalGid", 128],
  ["primaryRemoteGid", 128],
  ["primaryFlowLabel", 20],
  ["", 6],
  ["primaryPacketRate", 6],
  ["primaryTrafficClass", 8],
  ["primaryHopLimit", 8],
  ["primaryServiceLevel", 4],
  ["primarySubnetLocal", 1],
  ["", 3],
  ["primaryLocalAckTimeout", 5],
  ["", 3],
  // The alternate path, not used.
  ["", 352],
] as const;

const REP_FIELDS = [
  ["localCommId", 32],
  ["remoteCommId", 32],
  ["localQKey", 32],
  ["localQpn", 24],
  ["", 8],
  ["localEecn", 24],
  ["", 8],
  ["startingPsn", 24],
  ["", 8],
  ["responderResources", 8],
  ["initiatorDepth", 8],
  ["targetAckDelay", 5],
  ["failoverAccepted", 2],
  ["endToEndFlowControl", 1],
  ["rnrRetryCount", 3],
  ["srq", 1],
  ["", 4],
  ["localCaGuid", 64],
] as const;

const RTU_FIELDS = [
  ["localCommId", 32],
  ["remoteCommId", 32],
] as const;

const REJ_FIELDS = [
  ["localCommId", 32],
  ["remoteCommId", 32],
  /** 0 REQ, 1 REP, 2 none. */
  ["rejected", 2],
  ["", 6],
  ["infoLength", 7],
  ["", 1],
  /** {@link REJECT_REASON}. */
  ["reason", 16],
  ["", 576],
] as const;

const MRA_FIELDS = [
  ["localCommId", 32],
  ["remoteCommId", 32],
  /** 0 REQ, 1 REP. */
  ["received", 2],
  ["", 6],
  /** Of the processing: {@link timeoutOfCode}. */
  ["serviceTimeout", 5],
  ["", 3],
] as const;

const DREQ_FIELDS = [
  ["localCommId", 32],
  ["remoteCommId", 32],
  ["remoteQpn", 24],
  ["", 8],
] as const;

/** DREP has the layout of RTU. */
const DREP_FIELDS = RTU_FIELDS;

/** §12.11.1.1 */
const SIDR_REQ_FIELDS = [
  ["requestId", 32],
  ["pKey", 16],
  ["", 16],
  ["serviceId", 64],
] as const;

/** §12.11.1.2 */
const SIDR_REP_FIELDS = [
  ["requestId", 32],
  /** {@link SIDR_STATUS}. */
  ["status", 8],
  ["infoLength", 8],
  ["", 16],
  ["qpn", 24],
  ["", 8],
  ["serviceId", 64],
  ["qKey", 32],
  ["", 576],
] as const;

export const CM_MESSAGES = {
  REQ: { attributeId: 0x0010, fields: REQ_FIELDS },
  MRA: { attributeId: 0x0011, fields: MRA_FIELDS },
  REJ: { attributeId: 0x0012, fields: REJ_FIELDS },
  REP: { attributeId: 0x0013, fields: REP_FIELDS },
  RTU: { attributeId: 0x0014, fields: RTU_FIELDS },
  DREQ: { attributeId: 0x0015, fields: DREQ_FIELDS },
  DREP: { attributeId: 0x0016, fields: DREP_FIELDS },
  SIDR_REQ: { attributeId: 0x0017, fields: SIDR_REQ_FIELDS },
  SIDR_REP: { attributeId: 0x0018, fields: SIDR_REP_FIELDS },
} as const;
export type CmType = keyof typeof CM_MESSAGES;

interface CmCommon<Type extends CmType> {
  readonly type: Type;
  readonly transactionId: bigint;
  /** At most {@link privateDataBytes}; of a decoded message the full length, with zero padding. */
  readonly privateData: Uint8Array<ArrayBuffer>;
}
type CmMessageOf<Type extends CmType> =
  & CmCommon<Type>
  & HeaderOf<typeof CM_MESSAGES[Type]["fields"]>;

export type CmReq = CmMessageOf<"REQ">;
export type CmRep = CmMessageOf<"REP">;
export type CmMra = CmMessageOf<"MRA">;
export type CmRej = CmMessageOf<"REJ">;
export type CmSidrReq = CmMessageOf<"SIDR_REQ">;
export type CmSidrRep = CmMessageOf<"SIDR_REP">;
export type SidrMessage = CmSidrReq | CmSidrRep;
export type CmConnectionMessage = Exclude<CmMessage, SidrMessage>;
export type CmMessage = { [Type in CmType]: CmMessageOf<Type> }[CmType];

export const TRANSPORT_SERVICE = { rc: 0, uc: 1, rd: 2, extended: 3 } as const;

export const REJECT_REASON = {
  noQueuePair: 1,
  noResources: 3,
  timeout: 4,
  unsupported: 5,
  invalidCommId: 6,
  invalidServiceId: 8,
  invalidTransport: 9,
  staleConnection: 10,
  invalidGid: 12,
  invalidMtu: 26,
  insufficientResponderResources: 27,
  consumer: 28,
  duplicateCommId: 30,
} as const;

/** §12.11.1.2 */
export const SIDR_STATUS = {
  valid: 0,
  unsupported: 1,
  rejected: 2,
  noQueuePair: 3,
  redirected: 4,
  version: 5,
} as const;
const SIDR_TEXTS = [
  "valid",
  "service ID not supported: no program listens",
  "rejected by the program",
  "no queue pair available",
  "redirected",
  "version not supported",
];

export function sidrText(status: number): string {
  const text = SIDR_TEXTS[status];
  return text === undefined ? `status ${status}` : `status ${status} (${text})`;
}

export function isSidr(message: CmMessage): message is SidrMessage {
  return message.type === "SIDR_REQ" || message.type === "SIDR_REP";
}

/** In the architecture's words (table 108 of §12.6.7.2). */
const REJECT_TEXTS: Readonly<Record<number, string>> = {
  [REJECT_REASON.noQueuePair]: "no queue pair available",
  [REJECT_REASON.noResources]: "no resources available",
  [REJECT_REASON.timeout]: "time-out",
  [REJECT_REASON.unsupported]: "unsupported request",
  [REJECT_REASON.invalidCommId]: "invalid communication ID",
  [REJECT_REASON.invalidServiceId]: "invalid service ID: no program listens",
  [REJECT_REASON.invalidTransport]: "invalid transport service type",
  [REJECT_REASON.staleConnection]: "stale connection",
  [REJECT_REASON.invalidGid]: "primary GID rejected",
  [REJECT_REASON.invalidMtu]: "invalid path MTU",
  [REJECT_REASON.insufficientResponderResources]: "insufficient responder resources",
  [REJECT_REASON.consumer]: "consumer reject: the program has refused",
  [REJECT_REASON.duplicateCommId]: "duplicate local communication ID",
};

export function rejectText(reason: number): string {
  const text = REJECT_TEXTS[reason];
  return text === undefined ? `reason ${reason}` : `reason ${reason} (${text})`;
}

export const RECEIVED = { req: 0, rep: 1 } as const;
export const REJECTED = { req: 0, rep: 1, nothing: 2 } as const;

export const REQ_DEFAULTS = {
  localQKey: 0,
  localEecn: 0,
  remoteEecn: 0,
  transportService: TRANSPORT_SERVICE.rc,
  endToEndFlowControl: true,
  rdcExists: false,
  srq: false,
  extendedTransport: 0,
  pKey: 0xffff,
  primaryLocalLid: 0xffff,
  primaryRemoteLid: 0xffff,
  primaryFlowLabel: 0,
  /** 100 Gb/s. */
  primaryPacketRate: 16,
  primaryTrafficClass: 0,
  primaryHopLimit: 64,
  primaryServiceLevel: 0,
  primarySubnetLocal: false,
} as const satisfies Partial<CmReq>;

export const REP_DEFAULTS = {
  localQKey: 0,
  localEecn: 0,
  targetAckDelay: 0,
  failoverAccepted: 0,
  endToEndFlowControl: true,
  srq: false,
} as const satisfies Partial<CmRep>;

/** ::ffff:a.b.c.d */
export function gidOfAddress(address: number): bigint {
  return 0xffff_0000_0000n | BigInt(address);
}

/** Undefined where the GID is not IPv4-mapped. */
export function addressOfGid(gid: bigint): number | undefined {
  return gid >> 32n === 0xffffn ? Number(gid & 0xffff_ffffn) : undefined;
}

/** 4.096 µs · 2^code, in ps. */
export function timeoutOfCode(code: number): number {
  return 4_096_000 * 2 ** code;
}

/** 256 … 4096 bytes as the code 1 … 5. */
export function mtuCode(bytes: 256 | 512 | 1024 | 2048 | 4096): number {
  return Math.log2(bytes) - 7;
}

/** Undefined for a code that is not 1 … 5. */
export function mtuOfCode(code: number): 256 | 512 | 1024 | 2048 | 4096 | undefined {
  return ([256, 512, 1024, 2048, 4096] as const)[code - 1];
}

const BODY_AT = sizeOf(MAD_FIELDS);

export function privateDataBytes(type: CmType): number {
  return MAD_BYTES - BODY_AT - sizeOf(CM_MESSAGES[type].fields);
}

export function encodeCm(message: CmMessage): Uint8Array<ArrayBuffer> {
  const { attributeId, fields } = CM_MESSAGES[message.type];
  const room = privateDataBytes(message.type);
  assert(
    message.privateData.length <= room,
    `${message.type} has room for ${room} B of private data, not ${message.privateData.length}`,
  );
  const bytes = new Uint8Array(MAD_BYTES);
  const view = new DataView(bytes.buffer);
  const header = { ...MAD_CONSTANTS, transactionId: message.transactionId, attributeId };
  writeFields(MAD_FIELDS, header, { view, at: 0 });
  writeFields(fields, message as never, { view, at: BODY_AT });
  bytes.set(message.privateData, MAD_BYTES - room);
  return bytes;
}

/** Undefined for another kind of MAD and for other datagrams. */
export function decodeCm(bytes: Uint8Array<ArrayBuffer>): CmMessage | undefined {
  if (bytes.length !== MAD_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const header = readFields(MAD_FIELDS, { view, at: 0 });
  if (
    header.baseVersion !== MAD_CONSTANTS.baseVersion ||
    header.mgmtClass !== MAD_CONSTANTS.mgmtClass ||
    header.classVersion !== MAD_CONSTANTS.classVersion || header.method !== MAD_CONSTANTS.method
  ) return undefined;
  for (const [type, { attributeId, fields }] of Object.entries(CM_MESSAGES)) {
    if (attributeId !== header.attributeId) continue;
    return {
      type,
      transactionId: header.transactionId,
      ...readFields(fields as typeof REQ_FIELDS, { view, at: BODY_AT }),
      privateData: bytes.slice(BODY_AT + sizeOf(fields)),
    } as CmMessage;
  }
  return undefined;
}
