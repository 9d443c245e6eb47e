/**
 * What both ends of a connection have in common: its queue pair from RESET to RTS, and its end.
 * `connect.ts` and `listen.ts` are the two ends, `cm_agent.ts` the machine behind them.
 */
import { TRANSPORT_SERVICE } from "../../../fabric/wire/roce/cm.ts";
import { NEVER, PS_PER_US } from "../../../fabric/base/time.ts";
import { ACCESS, type QpAttributes } from "../../../fabric/wire/host_bus/rnic_command.ts";
import {
  type CmEndpoint,
  type CmPhase,
  type CmRetry,
  endpointSignal,
  establish,
  expectAnswer,
} from "./cm_agent.ts";
import { failed } from "../verbs/device.ts";
import { type CmDevice, gsiOf, sendMessage } from "./gsi.ts";
import type { Steps } from "../cpu/program.ts";
import { RD_ATOMIC_MAX } from "../../../fabric/wire/host_bus/qp_life_cycle.ts";
import { createQp, destroyQp, modifyQp, type QpOptions } from "../verbs/queue_pair.ts";
import type { Device, Pd, Qp, VerbError } from "../verbs/objects.ts";

/** Wakes the `cm` service. */
export const CM_SIGNAL = "cm";
/** Three tries of 500 µs: a dead peer is known as such after 1.5 ms. */
export const RETRY: CmRetry = { timeoutPs: 500 * PS_PER_US, tries: 3 };
/** what stands before a program's own private data: send and receive depth, 2 B each. */
export const DEPTHS_BYTES = 4;
/** Room for a program's own private data in a request. */
export const PRIVATE_DATA_BYTES = 92 - DEPTHS_BYTES;

/** Timers of a connection, by ibv_qp_attr's codes (`rocev2.md` §3.3, §1.4). */
export interface Transport {
  /** 4.096 µs · 2^timeout. */
  readonly timeout: number;
  readonly retryCnt: number;
  readonly rnrRetry: number;
  readonly minRnrTimer: number;
}

/** About 1 ms per attempt: a dead peer fails a send after about 8 ms. RNR: 10 µs, for ever. */
export const TRANSPORT: Transport = { timeout: 8, retryCnt: 7, rnrRetry: 7, minRnrTimer: 1 };

export interface Connection {
  readonly device: CmDevice;
  readonly qp: Qp;
  readonly peer: { readonly host: string; readonly address: number; readonly qpn: number };
  /** What the peer's program said in its request or answer. */
  readonly privateData: Uint8Array;
  /** `a:17-b:18`, as traces name it. */
  readonly label: string;
  readonly endpoint: CmEndpoint;
}

/** Why there is no connection. */
export interface Refusal {
  readonly refused:
    | "unknown-host"
    | "no-service"
    | "rejected"
    | "timeout"
    | "queue-depth"
    | "mtu"
    | "local";
  readonly reason: string;
  /** What the peer's program said, where it was it that refused. */
  readonly privateData: Uint8Array;
}

export function refused<T>(answer: T | Refusal): answer is Refusal {
  return typeof answer === "object" && answer !== null && "refused" in answer;
}

export const NO_DATA = new Uint8Array(0);

export function refusal(kind: Refusal["refused"], reason: string, privateData = NO_DATA): Refusal {
  return { refused: kind, reason, privateData };
}

/** A queue pair to be made for a connection. */
export type ConnectionQp = Omit<QpOptions, "type" | "qpn"> & {
  readonly pd: Pd;
  /** Both ends must want the same; `rc` by default. */
  readonly type?: "rc" | "uc";
};

/**
 * Wireshark takes each connection to a service with this bit for Sockets Direct, and what is sent over
 * it for malformed. In its place stands the highest bit, which no character of a name has.
 */
const SDP_BIT = 1n << 16n;
const SDP_BIT_INSTEAD = 1n << 63n;

/** The service's name as an identifier of 64 bits, nearly legible in a capture. */
export function serviceIdOf(service: string): bigint | undefined {
  if (!/^[\x21-\x7e]{1,8}$/.test(service)) return undefined;
  let id = 0n;
  for (let i = 0; i < 8; i++) {
    id = (id << 8n) | BigInt(i < service.length ? service.charCodeAt(i) : 0);
  }
  return (id & SDP_BIT) === 0n ? id : (id ^ SDP_BIT) | SDP_BIT_INSTEAD;
}

export function withDepths(qp: Qp, privateData: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(DEPTHS_BYTES + privateData.length);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, Math.min(qp.caps.maxSendWr, 0xffff));
  view.setUint16(2, Math.min(qp.caps.maxRecvWr, 0xffff));
  bytes.set(privateData, DEPTHS_BYTES);
  return bytes;
}

export interface PeerDepths {
  readonly send: number;
  readonly recv: number;
}

export function depthsIn(privateData: Uint8Array): PeerDepths {
  const view = new DataView(privateData.buffer, privateData.byteOffset, privateData.byteLength);
  return { send: view.getUint16(0), recv: view.getUint16(2) };
}

/** each receive queue holds what the peer's send queue can send. */
export function depthsFit(qp: Qp, peer: PeerDepths): boolean {
  return qp.caps.maxRecvWr >= peer.send && peer.recv >= qp.caps.maxSendWr;
}

/** All that a peer may do to a queue pair; its regions say more. */
const ALL_ACCESS = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead |
  ACCESS.remoteAtomic | ACCESS.flushGlobal | ACCESS.flushPersistent |
  ACCESS.remoteWritePersistence | ACCESS.remoteWriteVerify;

/** How a REQ says the type of its queue pair. */
export function transportServiceOf({ type = "rc" }: ConnectionQp): number {
  return TRANSPORT_SERVICE[type];
}

/** A queue pair in INIT: it takes receives. */
export function* prepareQp(options: ConnectionQp): Steps<Qp | VerbError> {
  const qp = yield* createQp(options.pd, { ...options, type: options.type ?? "rc" });
  if (failed(qp)) return qp;
  const wrong = yield* modifyQp(qp, { state: "init", accessFlags: ALL_ACCESS });
  if (wrong === undefined) return qp;
  yield* destroyQp(qp);
  return wrong;
}

export interface PeerAttributes {
  readonly destAddress: number;
  readonly destQpn: number;
  readonly rqPsn: number;
  readonly sqPsn: number;
  readonly pathMtu: 256 | 512 | 1024 | 2048 | 4096;
}

/** INIT → RTR → RTS. */
export function* bringUp(
  qp: Qp,
  peer: PeerAttributes,
  transport: Partial<Transport> | undefined,
): Steps<VerbError | undefined> {
  const { timeout, retryCnt, rnrRetry, minRnrTimer } = { ...TRANSPORT, ...transport };
  const { sqPsn, ...rest } = peer;
  // UC acknowledges nothing, so it has no timers and nothing to answer.
  const isReliable = qp.type === "rc";
  const rtr: QpAttributes = {
    state: "rtr",
    ...rest,
    ...(isReliable && { maxDestRdAtomic: RD_ATOMIC_MAX, minRnrTimer }),
  };
  const wrong = yield* modifyQp(qp, rtr);
  if (wrong !== undefined) return wrong;
  const rts = {
    sqPsn,
    ...(isReliable && { timeout, retryCnt, rnrRetry, maxRdAtomic: RD_ATOMIC_MAX }),
  };
  return yield* modifyQp(qp, { state: "rts", ...rts });
}

export function randomPsn(device: Device): number {
  return randomWord(device) & 0xff_ffff;
}

export function randomWord(device: Device): number {
  return Math.floor(device.cpu.random() * 2 ** 32);
}

export function connectionOf(
  device: CmDevice,
  qp: Qp,
  { endpoint, ...peer }: {
    readonly endpoint: CmEndpoint;
    readonly qpn: number;
    readonly privateData: Uint8Array;
  },
): Connection {
  const { cpu } = device;
  const address = endpoint.peerAddress;
  const host = Object.keys(cpu.addresses).find((name) => cpu.addresses[name] === address) ?? "?";
  const ends = [`${cpu.host}:${qp.qpn}`, `${host}:${peer.qpn}`].sort();
  return {
    device,
    qp,
    peer: { host, address, qpn: peer.qpn },
    privateData: peer.privateData.subarray(DEPTHS_BYTES),
    label: ends.join("-"),
    endpoint,
  };
}

/** Starts (again) the clock of the `cm` service. */
export function wakeCm(device: Device): void {
  device.cpu.signal(CM_SIGNAL);
}
/** Until the endpoint has left a phase: its time-outs see to it that it does. */
export function* whileIn(device: Device, endpoint: CmEndpoint, phase: CmPhase): Steps<void> {
  while (endpoint.phase === phase) {
    yield* device.cpu.waitSignal(endpointSignal(endpoint), NEVER);
  }
}

/** The peer's first message came though its RTU did not: the connection stands. */
export function noteActivity(connection: Connection): void {
  if (connection.endpoint.phase === "rep-sent") establish(connection.endpoint, undefined);
}

/**
 * Ends a connection: says so until the peer has heard it (or is given up), then destroys the queue
 * pair.
 */
export function* disconnect(connection: Connection): Steps<void> {
  const { device, endpoint, qp } = connection;
  if (endpoint.phase === "established") {
    const message = {
      type: "DREQ" as const,
      transactionId: endpoint.transactionId,
      privateData: NO_DATA,
      localCommId: endpoint.commId,
      remoteCommId: endpoint.peerCommId,
      remoteQpn: connection.peer.qpn,
    };
    const phase = "dreq-sent" as const;
    expectAnswer(device.cm.agent, endpoint, { message, now: device.cpu.now, phase });
    wakeCm(device);
    yield* sendMessage(gsiOf(device), { to: endpoint.peerAddress, message });
    yield* whileIn(device, endpoint, phase);
  }
  yield* destroyQp(qp);
}
