/**
 * Parts of both ends: the queue pair from RESET to RTS, and the disconnect. `connect.ts` and
 * `listen.ts` are the two ends, `cm_agent.ts` is the state machine.
 */
import { type CmRej, TRANSPORT_SERVICE } from "../../../fabric/wire/roce/cm.ts";
import { NEVER, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import { ACCESS, type QpAttributes } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { disconnectEndpoint } from "./cm_agent.ts";
import {
  closeEndpoint,
  type CmEndpoint,
  type CmOutput,
  type CmPhase,
  type CmRetry,
  endpointSignal,
  establish,
} from "./cm_state.ts";
import { withDefaults } from "./check_options.ts";
import { ackEventsOf, failed, refuseQp, verbError } from "../verbs/device.ts";
import { insistOnDone } from "../verbs/errors.ts";
import { type CmDevice, gsiOf, sendMessage } from "./gsi.ts";
import type { Steps } from "../cpu/program.ts";
import { RD_ATOMIC_MAX } from "../../../fabric/wire/host_bus/qp_life_cycle.ts";
import { createQp, destroyQp, modifyQp, type QpOptions } from "../verbs/queue_pair.ts";
import type { Device, Pd, Qp, VerbError } from "../verbs/objects.ts";

export const CM_SIGNAL = "cm";
/** Three tries of 500 µs: a failed peer is detected after 1.5 ms. */
export const RETRY: CmRetry = { timeoutPs: 500 * PS_PER_US, tries: 3 };
/** Q-01, before the program's private data: send and receive depth in WQEs, 2 B each. */
export const DEPTHS_BYTES = 4;

/** Timers of a connection, by ibv_qp_attr's codes (`rocev2.md` §3.3, §1.4). */
export interface Transport {
  /** 4.096 µs · 2^timeout. */
  readonly timeout: number;
  /** Retries of a message without acknowledgement, 0 to 7. */
  readonly retryCnt: number;
  /** Retries after RNR NAKs, 0 to 7; 7: without end. */
  readonly rnrRetry: number;
  /** Code of the time that an RNR NAK asks the peer to wait. */
  readonly minRnrTimer: number;
}

/**
 * Fields of the address vector (ibv_ah_attr's GRH). The REQ carries them, so both ends' packets
 * have them.
 */
export interface ConnectionPath {
  /** DSCP in the upper six bits; the RNIC sets the ECN bits. 0 by default. */
  readonly trafficClass?: number;
  /** Time to live; 64 by default. */
  readonly hopLimit?: number;
}

/**
 * About 1 ms per attempt: a send to a failed peer fails after about 8 ms. RNR: 10 µs, unlimited,
 * except that a card rests after a minute of virtual time (`rnic/requester/rnr_wait.ts`).
 */
export const TRANSPORT: Transport = { timeout: 8, retryCnt: 7, rnrRetry: 7, minRnrTimer: 1 };

/** A connection made by `connect` or `accept`. */
export interface Connection {
  /** @ignore */
  readonly device: CmDevice;
  /** Its queue pair, in RTS. */
  readonly qp: Qp;
  /** Host, IPv4 address and queue pair of the other end. */
  readonly peer: { readonly host: string; readonly address: number; readonly qpn: number };
  /** Private data of the peer's program in its request or response. */
  readonly privateData: Uint8Array;
  /** Its name in traces: `a:17-b:18`. */
  readonly label: string;
  /** @ignore */
  readonly endpoint: CmEndpoint;
  /**
   * The program has created the queue pair: {@link disconnect} takes it to ERR, but does not
   * destroy it.
   */
  readonly keepsQp?: true;
}

/** The reason why there is no connection. */
export interface Refusal {
  /** `local`: this end refused the connection; else the peer, the rack or the time-out. */
  readonly refused:
    | "unknown-host"
    | "no-service"
    | "rejected"
    | "timeout"
    | "mtu"
    | "local";
  /** The reason in words. */
  readonly reason: string;
  /** Private data of the peer's program, if that program rejected. */
  readonly privateData: Uint8Array;
}

/**
 * True if the answer of `connect` or `accept` is a refusal.
 * @throws ProgramError for steps without `yield*`.
 */
export function refused<T>(answer: T | Refusal): answer is Refusal {
  if (typeof answer !== "object" || answer === null) return false;
  insistOnDone(answer, "refused");
  return "refused" in answer;
}

export const NO_DATA = new Uint8Array(0);

export function refusal(kind: Refusal["refused"], reason: string, privateData = NO_DATA): Refusal {
  return { refused: kind, reason, privateData };
}

/** Options of the queue pair for a connection. */
export type ConnectionQp = Omit<QpOptions, "type" | "qpn"> & {
  readonly pd: Pd;
  /** Must be equal at both ends; `rc` by default. */
  readonly type?: "rc" | "uc";
};

/**
 * Outstanding READs and atomics, as in librdmacm's `rdma_conn_param`: at most 16, which is the
 * default.
 */
export interface RdAtomicDepths {
  /** The other end's, which this end answers at a time. */
  readonly responderResources?: number;
  /** This end's own. */
  readonly initiatorDepth?: number;
}

export function depthsOf({ responderResources, initiatorDepth }: RdAtomicDepths): RdAtomicDepths {
  return {
    ...(responderResources !== undefined && { responderResources }),
    ...(initiatorDepth !== undefined && { initiatorDepth }),
  };
}

export function isOwnQp(given: ConnectionQp | Qp): given is Qp {
  return "qpn" in given && "sq" in given;
}

/**
 * Wireshark takes this bit in a service ID as Sockets Direct, and then shows the connection's data
 * as malformed. The highest bit replaces it, which is 0 in every character of a name.
 */
const SDP_BIT = 1n << 16n;
const SDP_BIT_INSTEAD = 1n << 63n;

/** The name as 64 bits, mostly legible in a capture. */
export function serviceIdOf(service: string): bigint | undefined {
  if (!/^[\x21-\x7e]{1,8}$/.test(service)) return undefined;
  let id = 0n;
  for (let i = 0; i < 8; i++) {
    id = (id << 8n) | BigInt(i < service.length ? service.charCodeAt(i) : 0);
  }
  return (id & SDP_BIT) === 0n ? id : (id ^ SDP_BIT) | SDP_BIT_INSTEAD;
}

export function withDepths({ caps }: Qp, privateData: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(DEPTHS_BYTES + privateData.length);
  const view = new DataView(bytes.buffer);
  // No WQE of a one-sided queue pair takes a receive.
  view.setUint16(0, caps.oneSided ? 0 : Math.min(caps.maxSendWr, 0xffff));
  view.setUint16(2, Math.min(caps.maxRecvWr, 0xffff));
  bytes.set(privateData, DEPTHS_BYTES);
  return bytes;
}

/** WQEs of the peer's queues. (A WQE may take several units of a queue.) */
export interface PeerDepths {
  /** Of its send queue; 0 where none of them takes a receive. */
  readonly send: number;
  /** Of its receive queue. */
  readonly recv: number;
}

export function depthsIn(privateData: Uint8Array): PeerDepths {
  const view = new DataView(privateData.buffer, privateData.byteOffset, privateData.byteLength);
  return { send: view.getUint16(0), recv: view.getUint16(2) };
}

/** The depths that Q-01 compares. */
export interface QueueDepths extends PeerDepths {
  /** `a:17` */
  readonly name: string;
  /** A shared queue is meant to be smaller than the sum of send queues. */
  readonly sharesReceives: boolean;
}

/** receive queues with fewer WQEs than the other end's send queue. */
export function shortReceives(one: QueueDepths, other: QueueDepths): string[] {
  return [[one, other] as const, [other, one] as const].flatMap(([receiver, sender]) =>
    receiver.sharesReceives || receiver.recv >= sender.send ? [] : [
      `Q-01: the receive queue of ${receiver.name} holds ${receiver.recv} WQEs, ` +
      `expected ${sender.send}, as many as the send queue of ${sender.name}`,
    ]
  );
}

/** {@link shortReceives}, at the requesting end, which knows both depths. The connection stays. */
export function warnOfDepths({ cpu }: Device, qp: Qp, peer: QueueDepths): void {
  const own = {
    ...depthsIn(withDepths(qp, NO_DATA)),
    name: `${cpu.host}:${qp.qpn}`,
    sharesReceives: qp.srq !== undefined,
  };
  for (const message of shortReceives(own, peer)) {
    cpu.report("warning", { program: cpu.program, message });
  }
}

/** Rights of a connection's queue pair; regions restrict them. */
export const ALL_ACCESS = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead |
  ACCESS.remoteAtomic | ACCESS.flushGlobal | ACCESS.flushPersistent |
  ACCESS.remoteWritePersistence | ACCESS.remoteWriteVerify;

export function transportServiceOf({ type = "rc" }: Pick<ConnectionQp | Qp, "type">): number {
  return TRANSPORT_SERVICE[type === "uc" ? "uc" : "rc"];
}

/**
 * Takes a queue pair in RESET to INIT, with all remote rights. EINVAL for a UD queue pair, another
 * state, or one that has a connection.
 */
function* takeQp({ cm }: CmDevice, qp: Qp): Steps<Qp | VerbError> {
  const gone = refuseQp(qp);
  if (gone !== undefined) return gone;
  const { qpn, type, life: { state } } = qp;
  if (type === "ud") return verbError("EINVAL", `QP ${qpn} is of type ud: expected rc or uc`);
  if ([...cm.agent.endpoints.values()].some((endpoint) => endpoint.qpn === qpn)) {
    return verbError("EINVAL", `QP ${qpn} has a connection: expected one without`);
  }
  if (state === "init") return qp;
  if (state !== "reset") {
    return verbError("EINVAL", `QP ${qpn} is in state ${state}: expected reset or init`);
  }
  return (yield* modifyQp(qp, { state: "init", accessFlags: ALL_ACCESS })) ?? qp;
}

export function* qpFor(device: CmDevice, given: ConnectionQp | Qp): Steps<Qp | VerbError> {
  return isOwnQp(given) ? yield* takeQp(device, given) : yield* prepareQp(given);
}

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
  readonly trafficClass?: number;
  readonly hopLimit?: number;
  /** 16 by default. */
  readonly maxRdAtomic?: number;
  readonly maxDestRdAtomic?: number;
}

/** Moves the queue pair from INIT over RTR to RTS. */
export function* bringUp(
  qp: Qp,
  peer: PeerAttributes,
  transport: Partial<Transport> | undefined,
): Steps<VerbError | undefined> {
  const { timeout, retryCnt, rnrRetry, minRnrTimer } = withDefaults(TRANSPORT, transport);
  const { sqPsn, maxRdAtomic = RD_ATOMIC_MAX, maxDestRdAtomic = RD_ATOMIC_MAX, ...rest } = peer;
  // UC has no acknowledgements: no timers, no responder resources.
  const isReliable = qp.type === "rc";
  const rtr: QpAttributes = {
    state: "rtr",
    ...rest,
    ...(isReliable && { maxDestRdAtomic, minRnrTimer }),
  };
  const wrong = yield* modifyQp(qp, rtr);
  if (wrong !== undefined) return wrong;
  const rts = {
    sqPsn,
    ...(isReliable && { timeout, retryCnt, rnrRetry, maxRdAtomic }),
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
  { endpoint, keepsQp, ...peer }: {
    readonly endpoint: CmEndpoint;
    readonly keepsQp: boolean;
    readonly qpn: number;
    readonly privateData: Uint8Array;
  },
): Connection {
  const { cpu } = device;
  const address = endpoint.peerAddress;
  const host = hostAt(device, address);
  const ends = [`${cpu.host}:${qp.qpn}`, `${host}:${peer.qpn}`].sort();
  return {
    device,
    qp,
    peer: { host, address, qpn: peer.qpn },
    privateData: peer.privateData.subarray(DEPTHS_BYTES),
    label: ends.join("-"),
    endpoint,
    ...(keepsQp && { keepsQp }),
  };
}

export function hostAt({ cpu: { addresses } }: Device, address: number): string {
  return Object.keys(addresses).find((name) => addresses[name] === address) ?? "?";
}

export function* sendRej(device: CmDevice, endpoint: CmEndpoint, message: CmRej): Steps<void> {
  const { now } = device.cpu;
  closeEndpoint(device.cm.agent, endpoint, { end: { kind: "rejected", message }, now });
  yield* sendMessage(gsiOf(device), { to: endpoint.peerAddress, message });
}

/** The agent reads its deadlines again. */
export function wakeCm(device: Device): void {
  device.cpu.signal(CM_SIGNAL);
}
/** Waits as long as the endpoint is in `phase`; the CM's time-outs guarantee an end. */
export function* whileIn(device: Device, endpoint: CmEndpoint, phase: CmPhase): Steps<void> {
  while (endpoint.phase === phase) {
    yield* device.cpu.waitSignal(endpointSignal(endpoint), NEVER);
  }
}

/** The peer's first message has arrived before its RTU, and stands in for it. */
export function noteActivity(connection: Connection): void {
  const { endpoint } = connection;
  if (endpoint.phase === "rep-sent" && !endpoint.wantsDisconnect) establish(endpoint, undefined);
}

export function* emit(device: CmDevice, output: CmOutput): Steps<void> {
  for (const datagram of output.send) yield* sendMessage(gsiOf(device), datagram);
  for (const signal of output.signals) device.cpu.signal(signal);
}

/** True if the other end, or this one, has ended the connection, or the RNIC has failed. */
export function isDisconnected({ endpoint }: Pick<Connection, "endpoint">): boolean {
  return endpoint.phase === "closed";
}

/**
 * Waits until either end has ended the connection; `timeout` at the deadline. The queue pair stays
 * until {@link disconnect} destroys it.
 */
export function* waitDisconnect(
  connection: Pick<Connection, "device" | "endpoint">,
  deadline: Time = NEVER,
): Steps<"disconnected" | "timeout"> {
  const { device: { cpu }, endpoint } = connection;
  while (!isDisconnected(connection)) {
    if ((yield* cpu.waitSignal(endpointSignal(endpoint), deadline)) === "timeout") break;
  }
  return isDisconnected(connection) ? "disconnected" : "timeout";
}

/** Option of `waitCompletion`: also return when the connection has ended. */
export function disconnecting(
  connection: Pick<Connection, "endpoint">,
): { readonly signal: string; readonly ready: () => boolean } {
  return {
    signal: endpointSignal(connection.endpoint),
    ready: () => isDisconnected(connection),
  };
}

/**
 * Ends the connection, in any phase, and destroys the queue pair. A DREQ is sent until the peer
 * responds or the tries are used up; where the peer's RTU has not arrived, the DREQ follows it or
 * its time-out.
 */
export function* disconnect(
  { device, endpoint, qp, keepsQp }: Pick<Connection, "device" | "endpoint" | "qp" | "keepsQp">,
): Steps<void> {
  const output: CmOutput = { send: [], signals: new Set() };
  disconnectEndpoint(device.cm.agent, endpoint, { now: device.cpu.now, output });
  if (endpoint.phase === "dreq-sent") wakeCm(device);
  yield* emit(device, output);
  yield* whileIn(device, endpoint, "rep-sent");
  yield* whileIn(device, endpoint, "dreq-sent");
  if (keepsQp) {
    if (refuseQp(qp) === undefined) yield* modifyQp(qp, { state: "err" });
    return;
  }
  ackEventsOf(qp.device.context, qp.sq);
  yield* destroyQp(qp);
}
