/** The passive end of a connection. */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import {
  type CmRep,
  type CmReq,
  mtuOfCode,
  REJECT_REASON,
  REP_DEFAULTS,
  REQ_DEFAULTS,
  TRANSPORT_SERVICE,
} from "../../../fabric/wire/roce/cm.ts";
import { endListening } from "./cm_agent.ts";
import { rejFor } from "./cm_messages.ts";
import {
  type CmEndpoint,
  type CmEvent,
  type CmListener,
  type CmOutput,
  type CmRetry,
  expectAnswer,
} from "./cm_state.ts";
import {
  bringUp,
  type Connection,
  connectionOf,
  type ConnectionPath,
  type ConnectionQp,
  DEPTHS_BYTES,
  depthsIn,
  emit,
  hostAt,
  isOwnQp,
  NO_DATA,
  type PeerDepths,
  prepareQp,
  qpFor,
  randomPsn,
  type RdAtomicDepths,
  type Refusal,
  refusal,
  RETRY,
  sendRej,
  serviceIdOf,
  TRANSPORT,
  type Transport,
  transportServiceOf,
  wakeCm,
  withDepths,
} from "./connection.ts";
import {
  refuseDepths,
  refusePrivateData,
  refuseRetry,
  refuseTransport,
  withDefaults,
} from "./check_options.ts";
import { failed, verbError } from "../verbs/device.ts";
import { type CmDevice, gsiOf, sendMessage } from "./gsi.ts";
import type { Steps } from "../cpu/program.ts";
import { RD_ATOMIC_MAX } from "../../../fabric/wire/host_bus/qp_life_cycle.ts";
import { destroyQp } from "../verbs/queue_pair.ts";
import type { Qp, VerbError } from "../verbs/objects.ts";

/** A service's handle for the events of its listener. */
export interface Listener {
  /** @ignore */
  readonly device: CmDevice;
  /** @ignore */
  readonly queue: CmListener;
}

/** A request that a service can accept or reject. */
export interface ConnectRequest {
  /** @ignore */
  readonly endpoint: CmEndpoint;
  /** Name of the requesting host. */
  readonly from: string;
  /** Private data of the requester's program. */
  readonly privateData: Uint8Array;
  /** Depths of the requester's queues. */
  readonly peerDepths: PeerDepths;
}

/** The result of `nextEvent` and `waitEvent`. */
export type ListenerEvent =
  | { readonly kind: "request"; readonly request: ConnectRequest }
  /**
   * `established`: the requester has sent its RTU. `closed`: it has disconnected, or never
   * answered: the service must destroy the queue pair. `ended`: {@link unlisten}. `reset`: see
   * {@link CmEvent}.
   */
  | Exclude<CmEvent, { readonly kind: "request" }>;

/**
 * Listens for connections to a service. EINVAL for an invalid name or time-out; EBUSY where another
 * program of the host already listens for it.
 */
export function listen(
  device: CmDevice,
  service: string,
  options: { readonly retry?: Partial<CmRetry> } = {},
): Listener | VerbError {
  const serviceId = serviceIdOf(service);
  if (serviceId === undefined) {
    return verbError("EINVAL", `A service has 1 to 8 ASCII characters: ${service}`);
  }
  const wrong = refuseRetry(options.retry);
  if (wrong !== undefined) return verbError("EINVAL", wrong);
  if (device.cm.agent.listeners.has(serviceId)) {
    return verbError("EBUSY", `Another program listens for ${service}`);
  }
  const retry = withDefaults(RETRY, options.retry);
  const { program } = device.cpu;
  const signal = `cm-listen:${service}`;
  const queue: CmListener = { serviceId, program, signal, retry, events: [] };
  device.cm.agent.listeners.set(serviceId, queue);
  return { device, queue };
}

/**
 * Ends the listening: later requests, and those that are not answered yet, are refused (REJ,
 * invalid service ID). Connections stay. EINVAL where it has already ended.
 */
export function* unlisten(listener: Listener): Steps<VerbError | undefined> {
  const { device, queue } = listener;
  if (device.cm.agent.listeners.get(queue.serviceId) !== queue) {
    return verbError("EINVAL", "The listener has ended already");
  }
  yield* endService(device, queue);
  return undefined;
}

export function* endService(device: CmDevice, queue: CmListener): Steps<void> {
  const output: CmOutput = { send: [], signals: new Set() };
  endListening(device.cm.agent, queue, { now: device.cpu.now, output });
  yield* emit(device, output);
}

/** The next event of a listener; undefined where there is none now. */
export function nextEvent(listener: Listener): ListenerEvent | undefined {
  for (;;) {
    const event = listener.queue.events.shift();
    if (event?.kind !== "request") return event;
    const { kind, endpoint } = event;
    if (endpoint.phase !== "req-received" || endpoint.req === undefined) continue;
    const { privateData } = endpoint.req;
    const request = {
      endpoint,
      from: hostAt(listener.device, endpoint.peerAddress),
      privateData: privateData.subarray(DEPTHS_BYTES),
      peerDepths: depthsIn(privateData),
    };
    return { kind, request };
  }
}

/** Waits for the next event of a listener; undefined at the deadline. */
export function* waitEvent(
  listener: Listener,
  deadline: Time = NEVER,
): Steps<ListenerEvent | undefined> {
  const { cpu } = listener.device;
  for (;;) {
    const event = nextEvent(listener);
    if (event !== undefined) return event;
    if ((yield* cpu.waitSignal(listener.queue.signal, deadline)) === "timeout") return undefined;
  }
}

/** Option of `waitCompletion`: also return when this listener has events. */
export function listening(
  listener: Listener,
): { readonly signal: string; readonly ready: () => boolean } {
  const { signal, events } = listener.queue;
  return { signal, ready: () => events.length > 0 };
}

/** Options of `accept`. */
export interface AcceptOptions extends RdAtomicDepths {
  /**
   * Options of a queue pair to create, or the program's own one, in RESET or INIT. After a refusal
   * the program keeps its own.
   */
  readonly qp: ConnectionQp | Qp;
  /** At most 192 B. */
  readonly privateData?: Uint8Array;
  /** Timers of this end; the defaults are those of `connect`. */
  readonly transport?: Partial<Transport>;
  /** Called with the queue pair in INIT, before the peer can send: posts receives. */
  readonly prepare?: (qp: Qp) => Steps<void>;
}

/**
 * Accepts a request: creates the queue pair, with a receive queue no smaller than the peer's send
 * queue, or takes the program's own one, brings it up to RTS, and sends a REP. Sends may be
 * posted after the peer's first message or RTU.
 */
export function* accept(
  listener: Listener,
  request: ConnectRequest,
  options: AcceptOptions,
): Steps<Connection | Refusal> {
  const { device } = listener;
  const { endpoint, peerDepths } = request;
  const req = endpoint.req!;
  if (endpoint.phase !== "req-received" && endpoint.phase !== "closed") {
    return refusal("local", `The request is ${endpoint.phase}: expected req-received`);
  }
  const refusedOption = refusePrivateData("REP", options.privateData, DEPTHS_BYTES) ??
    refuseTransport(options.transport) ?? refuseDepths(options);
  if (refusedOption !== undefined) return refusal("local", refusedOption);
  const pathMtu = mtuOfCode(req.pathMtu);
  if (pathMtu === undefined || pathMtu > device.state.mtu) {
    yield* rejectWith(listener, request, { reason: REJECT_REASON.invalidMtu });
    return refusal("mtu", `The peer's path MTU is ${pathMtu}, ours ${device.state.mtu}`);
  }
  if (req.transportService !== transportServiceOf(options.qp)) {
    yield* rejectWith(listener, request, { reason: REJECT_REASON.invalidTransport });
    const { type = "rc" } = options.qp;
    const name = Object.entries(TRANSPORT_SERVICE).find(([, code]) =>
      code === req.transportService
    );
    const reason = `The peer's queue pair is ${name?.[0]}, ours ${type}: expected equal types`;
    return refusal("local", reason);
  }
  const keepsQp = isOwnQp(options.qp);
  const qp = isOwnQp(options.qp)
    ? yield* qpFor(device, options.qp)
    : yield* roomyQp(options.qp, peerDepths.send);
  if (failed(qp)) {
    yield* rejectWith(listener, request, { reason: REJECT_REASON.noQueuePair });
    return refusal("local", qp.reason);
  }
  endpoint.qpn = qp.qpn;
  if (options.prepare !== undefined) yield* options.prepare(qp);
  const rqPsn = randomPsn(device);
  const peer = { destAddress: endpoint.peerAddress, destQpn: req.localQpn, sqPsn: req.startingPsn };
  // This end's path is the REQ's (Linux: cm_format_paths_from_req).
  const path = pathIn(req);
  const responderResources = Math.min(
    options.responderResources ?? RD_ATOMIC_MAX,
    req.initiatorDepth,
  );
  const initiatorDepth = Math.min(options.initiatorDepth ?? RD_ATOMIC_MAX, req.responderResources);
  const depths = { maxRdAtomic: initiatorDepth, maxDestRdAtomic: responderResources };
  const wrong = yield* bringUp(
    qp,
    { ...peer, ...path, ...depths, rqPsn, pathMtu },
    options.transport,
  );
  if (wrong !== undefined) {
    yield* rejectWith(listener, request, { reason: REJECT_REASON.noResources });
    if (!keepsQp) yield* destroyQp(qp);
    return refusal("local", wrong.reason);
  }
  if (endpoint.phase !== "req-received") {
    if (!keepsQp) yield* destroyQp(qp);
    return refusal("timeout", "The peer's request has timed out meanwhile");
  }
  const message = repOf(device, {
    endpoint,
    localQpn: qp.qpn,
    srq: qp.srq !== undefined,
    rqPsn,
    privateData: withDepths(qp, options.privateData ?? NO_DATA),
    responderResources,
    initiatorDepth,
  });
  expectAnswer(device.cm.agent, endpoint, { message, now: device.cpu.now, phase: "rep-sent" });
  wakeCm(device);
  yield* sendMessage(gsiOf(device), { to: endpoint.peerAddress, message });
  const { localQpn: qpn, privateData } = req;
  return connectionOf(device, qp, { endpoint, qpn, privateData, keepsQp });
}

/**
 * The receive queue has room for the peer's sends. Where the card has not so much, the
 * connection is made with less, and the peer warns.
 */
function* roomyQp(options: ConnectionQp, sends: number): Steps<Qp | VerbError> {
  const maxRecvWr = Math.max(options.maxRecvWr, sends);
  const roomy = yield* prepareQp({ ...options, maxRecvWr });
  if (!failed(roomy) || maxRecvWr === options.maxRecvWr) return roomy;
  return yield* prepareQp(options);
}

export function pathIn({ primaryTrafficClass, primaryHopLimit }: CmReq): ConnectionPath {
  return {
    ...(primaryTrafficClass !== REQ_DEFAULTS.primaryTrafficClass &&
      { trafficClass: primaryTrafficClass }),
    ...(primaryHopLimit !== REQ_DEFAULTS.primaryHopLimit && { hopLimit: primaryHopLimit }),
  };
}

export interface RepFields {
  readonly endpoint: CmEndpoint;
  readonly localQpn: number;
  readonly srq: boolean;
  /** The first PSN that this end expects. */
  readonly rqPsn: number;
  readonly privateData: Uint8Array<ArrayBuffer>;
  readonly rnrRetry?: number;
  readonly responderResources?: number;
  readonly initiatorDepth?: number;
}

export function repOf({ state }: CmDevice, fields: RepFields): CmRep {
  const { endpoint, localQpn, srq, rqPsn, privateData } = fields;
  const { responderResources = RD_ATOMIC_MAX, initiatorDepth = RD_ATOMIC_MAX } = fields;
  return {
    type: "REP",
    ...REP_DEFAULTS,
    transactionId: endpoint.transactionId,
    privateData,
    localCommId: endpoint.commId,
    remoteCommId: endpoint.peerCommId,
    localQpn,
    startingPsn: rqPsn,
    responderResources,
    initiatorDepth,
    rnrRetryCount: fields.rnrRetry ?? TRANSPORT.rnrRetry,
    srq,
    localCaGuid: BigInt(state.mac),
  };
}

/**
 * Refuses a request (REJ, reason 28); the requester's program receives `privateData`, at most 148
 * B. EINVAL for more, and for a request that is already answered or that its peer has given up.
 */
export function* reject(
  listener: Listener,
  request: ConnectRequest,
  options: { readonly privateData?: Uint8Array } = {},
): Steps<VerbError | undefined> {
  const { phase } = request.endpoint;
  const wrong = refusePrivateData("REJ", options.privateData) ??
    (phase === "req-received" ? undefined : `The request is ${phase}: expected req-received`);
  if (wrong !== undefined) return verbError("EINVAL", wrong);
  const privateData = new Uint8Array(options.privateData ?? NO_DATA);
  yield* rejectWith(listener, request, { reason: REJECT_REASON.consumer, privateData });
  return undefined;
}

function rejectWith(
  { device }: Listener,
  { endpoint }: ConnectRequest,
  rejection: { readonly reason: number; readonly privateData?: Uint8Array<ArrayBuffer> },
): Steps<void> {
  return sendRej(device, endpoint, rejFor(endpoint.req!, rejection));
}
