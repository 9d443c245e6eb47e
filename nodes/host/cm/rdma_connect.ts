/**
 * Connections of librdmacm's ids. In port space udp a "connection" is the resolution of a service's
 * queue pair (`sidr.ts`). The program itself brings up a queue pair that the id does not have
 * (`qpNum`).
 */
import type { Time } from "../../../fabric/base/time.ts";
import {
  mtuOfCode,
  REJECT_REASON,
  SIDR_STATUS,
  timeoutOfCode,
  TRANSPORT_SERVICE,
} from "../../../fabric/wire/roce/cm.ts";
import type { QpAttributes } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { RD_ATOMIC_MAX } from "../../../fabric/wire/host_bus/qp_life_cycle.ts";
import type { Steps } from "../cpu/program.ts";
import { verbError } from "../verbs/device.ts";
import type { VerbError } from "../verbs/objects.ts";
import { modifyQp } from "../verbs/queue_pair.ts";
import { refuseInteger, refusePrivateData, withDefaults } from "./check_options.ts";
import { disconnectEndpoint } from "./cm_agent.ts";
import { headOf, rejFor } from "./cm_messages.ts";
import {
  addEndpoint,
  type CmEndpoint,
  type CmOutput,
  establish,
  expectAnswer,
} from "./cm_state.ts";
import { type PathMtu, reqOf } from "./connect.ts";
import {
  ALL_ACCESS,
  type ConnectionPath,
  depthsOf,
  emit,
  NO_DATA,
  randomWord,
  sendRej,
  TRANSPORT,
  type Transport,
  wakeCm,
} from "./connection.ts";
import { gsiOf, sendMessage } from "./gsi.ts";
import { IP_HEADER_BYTES, serviceIdOfPort, withIpHeader } from "./ip_header.ts";
import { pathIn, repOf } from "./listen.ts";
import { RDMA_UDP_QKEY, type RdmaConnParam, type RdmaId, refuseState } from "./rdma_id.ts";
import { answerService, REFUSED, resolveService } from "./sidr.ts";

const QPN_MAX = 0xff_ffff;

/** EINVAL for values that no message can express. */
function refuseParam(
  id: RdmaId,
  param: RdmaConnParam,
  message: "REQ" | "REP" | "SIDR_REQ" | "SIDR_REP",
): VerbError | undefined {
  const taken = message === "REQ" || message === "SIDR_REQ" ? IP_HEADER_BYTES : 0;
  const most = {
    responderResources: RD_ATOMIC_MAX,
    initiatorDepth: RD_ATOMIC_MAX,
    retryCount: 7,
    rnrRetryCount: 7,
    qpNum: QPN_MAX,
  } as const;
  for (const [name, highest] of Object.entries(most)) {
    const value = param[name as keyof typeof most];
    if (value === undefined) continue;
    const wrong = refuseInteger(name, value, { least: 0, most: highest });
    if (wrong !== undefined) return verbError("EINVAL", wrong);
  }
  const wrong = refusePrivateData(message, param.privateData, taken);
  if (wrong !== undefined) return verbError("EINVAL", wrong);
  const asksOnly = message === "SIDR_REQ";
  if (!asksOnly && id.qp === undefined && param.qpNum === undefined) {
    return verbError("EINVAL", "The id has no queue pair: expected one, or its number (qpNum)");
  }
  if (id.qp !== undefined && param.qpNum !== undefined && param.qpNum !== id.qp.qpn) {
    const found = `qpNum is ${param.qpNum}, and the id has queue pair ${id.qp.qpn}`;
    return verbError("EINVAL", `${found}: expected one of them`);
  }
  return undefined;
}

function newOutput(): CmOutput {
  return { send: [], signals: new Set() };
}

/**
 * `rdma_connect`. The outcome is an event: ESTABLISHED, or CONNECT_RESPONSE where the queue pair is
 * the program's; else REJECTED, UNREACHABLE or CONNECT_ERROR. UDP: ESTABLISHED with the service's
 * queue pair, or UNREACHABLE.
 */
export function* rdmaConnect(
  id: RdmaId,
  param: RdmaConnParam = {},
): Steps<VerbError | undefined> {
  const wrong = refuseState(id, "route-resolved") ??
    refuseParam(id, param, id.ps === "udp" ? "SIDR_REQ" : "REQ");
  if (wrong !== undefined) return wrong;
  const { device, ps, peer } = id;
  id.ends = { sourcePort: id.port, source: device.state.address, destination: peer.address };
  id.param = param;
  id.state = "connect";
  const serviceId = serviceIdOfPort(ps, peer.port);
  const privateData = withIpHeader(id.ends, param.privateData ?? NO_DATA);
  const transactionId = (BigInt(randomWord(device)) << 32n) | BigInt(randomWord(device));
  const request = { serviceId, privateData, transactionId };
  if (ps === "udp") yield* askService(id, request);
  else yield* sendReq(id, request);
  return undefined;
}

interface Request {
  readonly serviceId: bigint;
  readonly privateData: Uint8Array<ArrayBuffer>;
  readonly transactionId: bigint;
}

function* sendReq(id: RdmaId, { serviceId, privateData, transactionId }: Request): Steps<void> {
  const { device, channel, param, peer, qp, retry } = id;
  const { agent } = device.cm;
  const endpoint = addEndpoint(agent, {
    peerAddress: peer.address,
    transactionId,
    listener: undefined,
    sink: channel,
    retry,
    req: undefined,
  });
  endpoint.qpn = qp?.qpn;
  endpoint.timeWaitPs = timeWaitOf(TRANSPORT.timeout);
  id.endpoint = endpoint;
  channel.byEndpoint.set(endpoint, id);
  const message = reqOf(device, {
    endpoint,
    serviceId,
    localQpn: qp?.qpn ?? param.qpNum!,
    srq: qp === undefined ? param.srq === true : qp.srq !== undefined,
    transportService: TRANSPORT_SERVICE[(qp?.type ?? id.qpType) === "uc" ? "uc" : "rc"],
    rqPsn: id.rqPsn,
    pathMtu: device.state.mtu as PathMtu,
    transport: transportOf(id),
    privateData,
    path: pathOf(id),
    ...depthsOf(param),
  });
  expectAnswer(agent, endpoint, { message, now: device.cpu.now, phase: "req-sent" });
  wakeCm(device);
  yield* sendMessage(gsiOf(device), { to: peer.address, message });
}

function* askService(id: RdmaId, { serviceId, privateData, transactionId }: Request): Steps<void> {
  const { device, channel, peer, retry } = id;
  const { agent } = device.cm;
  const requestId = agent.nextCommId;
  agent.nextCommId = (agent.nextCommId + 1) >>> 0;
  const output = newOutput();
  id.sidr = resolveService(agent, {
    peerAddress: peer.address,
    retry,
    req: { type: "SIDR_REQ", transactionId, requestId, pKey: 0xffff, serviceId, privateData },
    sink: channel,
  }, { now: device.cpu.now, output });
  channel.byEndpoint.set(id.sidr, id);
  wakeCm(device);
  yield* emit(device, output);
}

/** The peer may repeat a packet for so long: its ACK time-out (Linux: `cm_enter_timewait`). */
export function timeWaitOf(ackTimeoutCode: number): Time {
  return timeoutOfCode(ackTimeoutCode);
}

/** RNR retries are for the other end's sends (`rdma_connect(3)`). */
function transportOf({ param: { retryCount, rnrRetryCount }, ackTimeout }: RdmaId): Transport {
  return withDefaults(TRANSPORT, {
    timeout: ackTimeout,
    retryCnt: retryCount,
    rnrRetry: rnrRetryCount,
  });
}

/** The request's, which the active end's `rdma_set_option` has chosen. */
function pathOf({ endpoint, trafficClass }: RdmaId): ConnectionPath {
  if (endpoint?.req !== undefined) return pathIn(endpoint.req);
  return trafficClass === undefined ? {} : { trafficClass };
}

interface Agreed {
  readonly retryCnt: number;
  readonly rnrRetry: number;
  readonly maxRdAtomic: number;
  readonly maxDestRdAtomic: number;
}

/**
 * The REP decides at the active end (Linux: `cm_rep_handler`), the REQ and `rdmaAccept` at the
 * passive. Each end names the other's RNR retries.
 */
function agreedOf({ param }: RdmaId, endpoint: CmEndpoint): Agreed | undefined {
  const { req, rep } = endpoint;
  const { responderResources = RD_ATOMIC_MAX, initiatorDepth = RD_ATOMIC_MAX } = param;
  if (req !== undefined) {
    return {
      retryCnt: req.retryCount,
      rnrRetry: req.rnrRetryCount,
      maxRdAtomic: initiatorDepth,
      maxDestRdAtomic: responderResources,
    };
  }
  return rep && {
    retryCnt: param.retryCount ?? TRANSPORT.retryCnt,
    rnrRetry: rep.rnrRetryCount,
    maxRdAtomic: Math.min(initiatorDepth, rep.responderResources),
    maxDestRdAtomic: Math.min(responderResources, rep.initiatorDepth),
  };
}

/**
 * `rdma_init_qp_attr`: the attributes by which `modifyQp` brings the queue pair of the id's
 * connection into `state`. EINVAL while the other end's part is unknown: before the event
 * CONNECT_REQUEST or CONNECT_RESPONSE.
 */
export function rdmaInitQpAttr(
  id: RdmaId,
  state: "init" | "rtr" | "rts",
): QpAttributes | VerbError {
  if (state !== "init" && state !== "rtr" && state !== "rts") {
    return verbError("EINVAL", `The state is ${String(state)}: expected init, rtr or rts`);
  }
  if (id.state === "destroyed") return verbError("EINVAL", "The id is gone");
  if (id.ps === "udp") return datagramAttributes(state);
  if (state === "init") return { state, accessFlags: ALL_ACCESS };
  const { endpoint } = id;
  const peer = endpoint?.rep ?? endpoint?.req;
  const agreed = endpoint && agreedOf(id, endpoint);
  if (endpoint === undefined || peer === undefined || agreed === undefined) {
    return verbError("EINVAL", `The id is in state ${id.state}: the other end is not known`);
  }
  const { minRnrTimer } = TRANSPORT;
  const timeout = id.ackTimeout ?? (endpoint.req?.primaryLocalAckTimeout || TRANSPORT.timeout);
  const { maxDestRdAtomic, ...sending } = agreed;
  const isReliable = endpoint.req === undefined
    ? (id.qp?.type ?? id.qpType) !== "uc"
    : endpoint.req.transportService === TRANSPORT_SERVICE.rc;
  if (state === "rts") {
    return { state, sqPsn: peer.startingPsn, ...(isReliable && { timeout, ...sending }) };
  }
  const pathMtu = endpoint.req === undefined
    ? id.device.state.mtu as PathMtu
    : mtuOfCode(endpoint.req.pathMtu)!;
  return {
    state,
    destAddress: endpoint.peerAddress,
    destQpn: peer.localQpn,
    pathMtu,
    rqPsn: id.rqPsn,
    ...pathOf(id),
    ...(isReliable && { maxDestRdAtomic, minRnrTimer }),
  };
}

function datagramAttributes(state: "init" | "rtr" | "rts"): QpAttributes {
  if (state === "init") return { state, qKey: RDMA_UDP_QKEY };
  return state === "rtr" ? { state } : { state, sqPsn: 0 };
}

/** Brings the id's own queue pair up to RTS. */
export function* bringUpId(id: RdmaId): Steps<VerbError | undefined> {
  for (const state of ["rtr", "rts"] as const) {
    const attributes = rdmaInitQpAttr(id, state);
    if ("errno" in attributes) return attributes;
    const wrong = yield* modifyQp(id.qp!, attributes);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

/**
 * `rdma_accept`, of an id that came with CONNECT_REQUEST: brings its queue pair up and sends the
 * REP; event ESTABLISHED follows with the RTU. UDP: sends the queue pair to the requesting host,
 * and no event follows.
 */
export function* rdmaAccept(id: RdmaId, param: RdmaConnParam = {}): Steps<VerbError | undefined> {
  const wrong = refuseRequest(id) ??
    refuseParam(id, param, id.ps === "udp" ? "SIDR_REP" : "REP") ?? refuseType(id);
  if (wrong !== undefined) return wrong;
  const { device, endpoint, sidr, qp } = id;
  const { agent } = device.cm;
  id.param = withDefaults(id.param, param);
  const privateData = new Uint8Array(param.privateData ?? NO_DATA);
  const localQpn = qp?.qpn ?? param.qpNum!;
  if (sidr !== undefined) {
    const output = newOutput();
    const answer = { status: SIDR_STATUS.valid, qpn: localQpn, qKey: RDMA_UDP_QKEY, privateData };
    answerService(agent, sidr, { ...answer, now: device.cpu.now, output });
    yield* emit(device, output);
    return undefined;
  }
  const failure = qp === undefined ? undefined : yield* bringUpId(id);
  const gone = failure ?? refuseRequest(id);
  if (gone !== undefined) return gone;
  endpoint!.qpn = qp?.qpn;
  const message = repOf(device, {
    endpoint: endpoint!,
    localQpn,
    srq: qp === undefined ? param.srq === true : qp.srq !== undefined,
    rqPsn: id.rqPsn,
    privateData,
    ...(param.rnrRetryCount !== undefined && { rnrRetry: param.rnrRetryCount }),
    ...depthsOf(id.param),
  });
  expectAnswer(agent, endpoint!, { message, now: device.cpu.now, phase: "rep-sent" });
  wakeCm(device);
  yield* sendMessage(gsiOf(device), { to: endpoint!.peerAddress, message });
  return undefined;
}

/** EINVAL for another type than the requester's. */
function refuseType({ endpoint, qp }: RdmaId): VerbError | undefined {
  const asks = endpoint?.req?.transportService === TRANSPORT_SERVICE.uc ? "uc" : "rc";
  if (endpoint === undefined || qp === undefined || qp.type === asks) return undefined;
  return verbError("EINVAL", `The id's queue pair is ${qp.type}, and the request's ${asks}`);
}

/**
 * A request's depths as its receiver sees them: this end answers as many as the other end's depth.
 */
export function offered({ endpoint }: RdmaId): RdmaConnParam {
  const req = endpoint?.req;
  if (req === undefined) return {};
  return {
    responderResources: Math.min(req.initiatorDepth, RD_ATOMIC_MAX),
    initiatorDepth: Math.min(req.responderResources, RD_ATOMIC_MAX),
    retryCount: req.retryCount,
    rnrRetryCount: req.rnrRetryCount,
  };
}

/** EINVAL where no request waits. */
function refuseRequest(id: RdmaId): VerbError | undefined {
  const phase = id.endpoint?.phase ?? id.sidr?.phase;
  if (phase === "req-received" || phase === "received") return undefined;
  const found = phase === undefined ? `in state ${id.state}` : phase;
  return verbError("EINVAL", `The id is ${found}: expected a request that is not answered`);
}

/** `rdma_reject`: REJ (consumer), or a SIDR REP (rejected); at most 148 B, or 136 B, of private data. */
export function* rdmaReject(
  id: RdmaId,
  { privateData }: { readonly privateData?: Uint8Array } = {},
): Steps<VerbError | undefined> {
  const { device, endpoint, sidr } = id;
  const tooMuch = refusePrivateData(sidr === undefined ? "REJ" : "SIDR_REP", privateData);
  const wrong = refuseRequest(id) ??
    (tooMuch === undefined ? undefined : verbError("EINVAL", tooMuch));
  if (wrong !== undefined) return wrong;
  const own = new Uint8Array(privateData ?? NO_DATA);
  id.state = "disconnect";
  if (sidr !== undefined) {
    const output = newOutput();
    const answer = { ...REFUSED, status: SIDR_STATUS.rejected, privateData: own };
    answerService(device.cm.agent, sidr, { ...answer, now: device.cpu.now, output });
    yield* emit(device, output);
    return undefined;
  }
  const reason = REJECT_REASON.consumer;
  yield* sendRej(device, endpoint!, rejFor(endpoint!.req!, { reason, privateData: own }));
  return undefined;
}

/**
 * `rdma_establish`: sends the RTU after CONNECT_RESPONSE, when the program has brought its queue
 * pair up.
 */
export function* rdmaEstablish(id: RdmaId): Steps<VerbError | undefined> {
  const { endpoint } = id;
  if (id.qp !== undefined || endpoint?.phase !== "rep-received") {
    const phase = endpoint?.phase ?? id.state;
    const found = id.qp !== undefined
      ? "with a queue pair of its own"
      : phase === "closed"
      ? "closed (its last event says why)"
      : phase;
    return verbError(
      "EINVAL",
      `The id is ${found}: expected a response that waits (CONNECT_RESPONSE)`,
    );
  }
  yield* sendRtu(id);
  return undefined;
}

export function* sendRtu({ device, endpoint }: RdmaId): Steps<void> {
  const rtu = { type: "RTU", ...headOf(endpoint!) } as const;
  establish(endpoint!, rtu);
  yield* sendMessage(gsiOf(device), { to: endpoint!.peerAddress, message: rtu });
}

/**
 * `rdma_notify` with IBV_EVENT_COMM_EST: the peer's first message has arrived before its RTU, which
 * establishes the connection. The event is ESTABLISHED.
 */
export function rdmaNotify(id: RdmaId): VerbError | undefined {
  const { endpoint, channel, device } = id;
  if (endpoint?.phase === "established") return undefined;
  if (endpoint?.phase !== "rep-sent" || endpoint.wantsDisconnect) {
    return verbError("EINVAL", `The id is ${endpoint?.phase ?? id.state}: expected rep-sent`);
  }
  establish(endpoint, undefined);
  channel.events.push({ kind: "established", endpoint });
  device.cpu.signal(channel.signal);
  return undefined;
}

/**
 * `rdma_disconnect`: takes the queue pair to ERR, which flushes its work requests, and ends the
 * connection in any phase (`disconnectEndpoint`). Both ends get the event DISCONNECTED, then
 * TIMEWAIT_EXIT. The CM answers a DREQ by itself; a call at the end that got the event flushes its
 * queue pair, too.
 */
export function* rdmaDisconnect(id: RdmaId): Steps<VerbError | undefined> {
  const { device, endpoint, qp } = id;
  if (endpoint === undefined) {
    return verbError("EINVAL", `The id is in state ${id.state}: expected one with a connection`);
  }
  if (qp !== undefined && qp.life.state !== "reset" && qp.life.state !== "err") {
    const wrong = yield* modifyQp(qp, { state: "err" });
    if (wrong !== undefined) return wrong;
  }
  if (id.state === "connect") id.state = "disconnect";
  const output = newOutput();
  disconnectEndpoint(device.cm.agent, endpoint, { now: device.cpu.now, output });
  wakeCm(device);
  yield* emit(device, output);
  return undefined;
}
