/** The active end: sends a REQ, and an RTU when the REP has arrived. */
import {
  type CmRep,
  type CmReq,
  gidOfAddress,
  mtuCode,
  REJECT_REASON,
  rejectText,
  REQ_DEFAULTS,
} from "../../../fabric/wire/roce/cm.ts";
import { headOf, rejFor } from "./cm_messages.ts";
import { addEndpoint, type CmEndpoint, type CmRetry, establish, expectAnswer } from "./cm_state.ts";
import {
  bringUp,
  type Connection,
  connectionOf,
  type ConnectionPath,
  type ConnectionQp,
  DEPTHS_BYTES,
  depthsIn,
  depthsOf,
  isOwnQp,
  NO_DATA,
  qpFor,
  randomPsn,
  randomWord,
  type RdAtomicDepths,
  type Refusal,
  refusal,
  refused,
  RETRY,
  sendRej,
  serviceIdOf,
  TRANSPORT,
  type Transport,
  transportServiceOf,
  wakeCm,
  warnOfDepths,
  whileIn,
  withDepths,
} from "./connection.ts";
import {
  refuseDepths,
  refusePath,
  refusePrivateData,
  refuseRetry,
  refuseTransport,
  withDefaults,
} from "./check_options.ts";
import { failed } from "../verbs/device.ts";
import { type CmDevice, gsiOf, sendMessage } from "./gsi.ts";
import type { Steps } from "../cpu/program.ts";
import { RD_ATOMIC_MAX } from "../../../fabric/wire/host_bus/qp_life_cycle.ts";
import { destroyQp } from "../verbs/queue_pair.ts";
import type { Qp } from "../verbs/objects.ts";

/** Options of `connect`. */
export interface ConnectOptions extends RdAtomicDepths {
  /** Name of a host, also this one. */
  readonly to: string;
  /** One to eight ASCII characters. */
  readonly service: string;
  /**
   * Options of a queue pair to create, or the program's own one, in RESET or INIT. After a refusal
   * the program keeps its own.
   */
  readonly qp: ConnectionQp | Qp;
  /** At most 88 B. */
  readonly privateData?: Uint8Array;
  /** Timers of this end: 1 ms per attempt, 7 retries, RNR without end by default. */
  readonly transport?: Partial<Transport>;
  /** Time-out and number of transmissions of the REQ: three times 500 µs by default. */
  readonly retry?: Partial<CmRetry>;
  /** Payload bytes of a packet; the port's MTU by default. */
  readonly pathMtu?: PathMtu;
  /** Traffic class and hop limit of both ends' packets. */
  readonly path?: ConnectionPath;
  /** Called with the queue pair in INIT, before the peer can send: posts receives. */
  readonly prepare?: (qp: Qp) => Steps<void>;
}

/** Valid payload sizes of a path's packets (`ibv_mtu`). */
export const PATH_MTUS = [256, 512, 1024, 2048, 4096] as const;
/** One of {@link PATH_MTUS}. */
export type PathMtu = 256 | 512 | 1024 | 2048 | 4096;

function pathMtuOf(qp: Qp, options: ConnectOptions): PathMtu {
  return options.pathMtu ?? qp.device.state.mtu as PathMtu;
}

export interface ReqFields {
  readonly endpoint: CmEndpoint;
  readonly serviceId: bigint;
  readonly localQpn: number;
  readonly srq: boolean;
  /** A value of `TRANSPORT_SERVICE`. */
  readonly transportService: number;
  /** The first PSN that this end expects. */
  readonly rqPsn: number;
  readonly pathMtu: PathMtu;
  readonly transport: Pick<Transport, "timeout" | "retryCnt" | "rnrRetry">;
  readonly privateData: Uint8Array<ArrayBuffer>;
  readonly responderResources?: number;
  readonly initiatorDepth?: number;
  readonly path?: ConnectionPath;
}

export function reqOf({ state }: CmDevice, fields: ReqFields): CmReq {
  const { endpoint, transport, responderResources = RD_ATOMIC_MAX } = fields;
  const { initiatorDepth = RD_ATOMIC_MAX, serviceId, localQpn, srq, transportService, path = {} } =
    fields;
  return {
    type: "REQ",
    ...REQ_DEFAULTS,
    transactionId: endpoint.transactionId,
    privateData: fields.privateData,
    localCommId: endpoint.commId,
    serviceId,
    localCaGuid: BigInt(state.mac),
    localQpn,
    transportService,
    responderResources,
    initiatorDepth,
    remoteCmResponseTimeout: 7,
    startingPsn: fields.rqPsn,
    localCmResponseTimeout: 7,
    retryCount: transport.retryCnt,
    pathMtu: mtuCode(fields.pathMtu),
    rnrRetryCount: transport.rnrRetry,
    srq,
    maxCmRetries: Math.min(15, endpoint.retry.tries),
    primaryLocalGid: gidOfAddress(state.address),
    primaryRemoteGid: gidOfAddress(endpoint.peerAddress),
    primaryLocalAckTimeout: transport.timeout,
    primaryTrafficClass: path.trafficClass ?? REQ_DEFAULTS.primaryTrafficClass,
    primaryHopLimit: path.hopLimit ?? REQ_DEFAULTS.primaryHopLimit,
  };
}

/**
 * Connects to a service of another host. Gives up after {@link ConnectOptions.retry}: a host that
 * has failed or does not listen yields a refusal.
 *
 * @example A connection by the name of a service
 * ```ts
 * import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_INLINE, IBV_SEND_SIGNALED, must } from "rackmesh";
 * import type { ProgramContext, Steps } from "rackmesh";
 *
 * export default function* greet({ cpu, device }: ProgramContext): Steps<void> {
 *   const { allocPd, createCq, regMr, listen, waitEvent, accept, connect, refused } = device.verbs;
 *   const { postSend, postRecv, waitCompletion, sge } = device.verbs;
 *   const pd = allocPd(device), cq = must(yield* createCq(device, { entries: 8 }));
 *   const access = IBV_ACCESS_LOCAL_WRITE;
 *   const mr = must(yield* regMr(pd, cpu.allocate(128), { access }));
 *   const queues = { pd, maxSendWr: 4, maxRecvWr: 4, maxInlineData: 64 };
 *   // Of this host itself: its card loops the frames back.
 *   const listener = must(listen(device, "greet"));
 *   cpu.spawn("server", function* ({ device }) {
 *     const cq = must(yield* createCq(device, { entries: 8 }));
 *     const event = yield* waitEvent(listener);
 *     if (event?.kind !== "request") return;
 *     const qp = { ...queues, sendCq: cq, recvCq: cq };
 *     const accepted = yield* accept(listener, event.request, { qp });
 *     if (refused(accepted)) throw new Error(accepted.reason);
 *     must(yield* postRecv(accepted.qp, { sges: [sge(mr, 64, 64)] }));
 *     const [received] = yield* waitCompletion(cq);
 *     cpu.report("result", { bytes: received!.byteLen });
 *   });
 *   const qp = { ...queues, sendCq: cq, recvCq: cq };
 *   const connection = yield* connect(device, { to: cpu.host, service: "greet", qp });
 *   if (refused(connection)) return cpu.report("result", connection);
 *   const sendFlags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
 *   must(yield* postSend(connection.qp, { opcode: "send", sges: [sge(mr, 0, 5)], sendFlags }));
 *   const [sent] = yield* waitCompletion(cq);
 *   cpu.log(sent!.status);
 * }
 * ```
 */
export function* connect(device: CmDevice, options: ConnectOptions): Steps<Connection | Refusal> {
  const { cpu } = device;
  const outcome = yield* attempt(device, options);
  if (refused(outcome) && cpu.auditing) {
    cpu.note({ kind: "refused", to: String(options.to), reason: outcome.reason });
  }
  return outcome;
}

function* attempt(device: CmDevice, options: ConnectOptions): Steps<Connection | Refusal> {
  const { addresses } = device.cpu;
  const peerAddress = Object.hasOwn(addresses, options.to) ? addresses[options.to] : undefined;
  if (peerAddress === undefined) {
    const names = Object.keys(addresses).join(", ");
    return refusal("unknown-host", `No host is called ${options.to}: expected one of ${names}`);
  }
  const serviceId = serviceIdOf(options.service);
  if (serviceId === undefined) {
    return refusal("local", `The service is ${options.service}: expected 1 to 8 ASCII characters`);
  }
  const refusedOption = refusePrivateData("REQ", options.privateData, DEPTHS_BYTES) ??
    refuseRetry(options.retry) ?? refuseTransport(options.transport) ??
    refusePath(options.path) ?? refuseDepths(options);
  if (refusedOption !== undefined) return refusal("local", refusedOption);
  const { mtu } = device.state;
  const { pathMtu = mtu } = options;
  if (pathMtu > mtu || !PATH_MTUS.some((each) => each === pathMtu)) {
    const expected = `${PATH_MTUS.join(", ")}, at most the port's ${mtu}`;
    return refusal("mtu", `The path MTU is ${pathMtu}: expected one of ${expected}`);
  }
  const qp = yield* qpFor(device, options.qp);
  if (failed(qp)) return refusal("local", qp.reason);
  if (options.prepare !== undefined) yield* options.prepare(qp);
  const agent = device.cm.agent;
  const endpoint = addEndpoint(agent, {
    peerAddress,
    transactionId: (BigInt(randomWord(device)) << 32n) | BigInt(randomWord(device)),
    listener: undefined,
    retry: withDefaults(RETRY, options.retry),
    req: undefined,
  });
  endpoint.qpn = qp.qpn;
  const rqPsn = randomPsn(device);
  const message = reqOf(device, {
    endpoint,
    serviceId,
    localQpn: qp.qpn,
    srq: qp.srq !== undefined,
    transportService: transportServiceOf(qp),
    rqPsn,
    pathMtu: pathMtuOf(qp, options),
    transport: withDefaults(TRANSPORT, options.transport),
    privateData: withDepths(qp, options.privateData ?? NO_DATA),
    ...(options.path !== undefined && { path: options.path }),
    ...depthsOf(options),
  });
  expectAnswer(agent, endpoint, { message, now: device.cpu.now, phase: "req-sent" });
  wakeCm(device);
  yield* sendMessage(gsiOf(device), { to: peerAddress, message });
  yield* whileIn(device, endpoint, "req-sent");
  const outcome = endpoint.rep === undefined
    ? refusalOf(endpoint)
    : yield* finishConnect(device, { options, qp, endpoint, rep: endpoint.rep, rqPsn });
  if (refused(outcome) && !isOwnQp(options.qp)) yield* destroyQp(qp);
  return outcome;
}

function* finishConnect(
  device: CmDevice,
  attempt: {
    readonly options: ConnectOptions;
    readonly qp: Qp;
    readonly endpoint: CmEndpoint;
    readonly rep: CmRep;
    readonly rqPsn: number;
  },
): Steps<Connection | Refusal> {
  const { options, qp, endpoint, rep, rqPsn } = attempt;
  const peer = { destAddress: endpoint.peerAddress, destQpn: rep.localQpn, sqPsn: rep.startingPsn };
  const { responderResources = RD_ATOMIC_MAX, initiatorDepth = RD_ATOMIC_MAX } = options;
  // The REP decides (Linux: `cm_rep_handler`).
  const depths = {
    maxRdAtomic: Math.min(initiatorDepth, rep.responderResources),
    maxDestRdAtomic: Math.min(responderResources, rep.initiatorDepth),
  };
  const attributes = {
    ...peer,
    ...options.path,
    ...depths,
    rqPsn,
    pathMtu: pathMtuOf(qp, options),
  };
  const wrong = yield* bringUp(qp, attributes, options.transport);
  if (wrong !== undefined || endpoint.phase !== "rep-received") {
    yield* sendRej(device, endpoint, rejFor(rep, { reason: REJECT_REASON.noResources }));
    return refusal("local", wrong?.reason ?? "The peer has withdrawn its response");
  }
  const rtu = { type: "RTU", ...headOf(endpoint) } as const;
  establish(endpoint, rtu);
  yield* sendMessage(gsiOf(device), { to: endpoint.peerAddress, message: rtu });
  const { localQpn: qpn, privateData } = rep;
  warnOfDepths(device, qp, {
    ...depthsIn(privateData),
    name: `${options.to}:${qpn}`,
    sharesReceives: rep.srq,
  });
  return connectionOf(device, qp, { endpoint, qpn, privateData, keepsQp: isOwnQp(options.qp) });
}

const REFUSED_AS: Readonly<Record<number, Refusal["refused"]>> = {
  [REJECT_REASON.invalidServiceId]: "no-service",
  [REJECT_REASON.invalidMtu]: "mtu",
};

function refusalOf(endpoint: CmEndpoint): Refusal {
  const end = endpoint.end;
  if (end === undefined || end.kind === "timeout") {
    return refusal("timeout", `No answer to ${endpoint.retry.tries} requests`);
  }
  if (end.kind === "disconnected") return refusal("rejected", "The peer disconnected");
  const { reason, privateData } = end.message;
  return refusal(REFUSED_AS[reason] ?? "rejected", `Rejected, ${rejectText(reason)}`, privateData);
}
