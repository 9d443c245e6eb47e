/**
 * Events of librdmacm's ids. As in librdmacm, the queue pair is changed for a response when the
 * program takes its event.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { REJECT_REASON, rejectText, SIDR_STATUS, sidrText } from "../../../fabric/wire/roce/cm.ts";
import type { Steps } from "../cpu/program.ts";
import { verbError } from "../verbs/device.ts";
import type { VerbError } from "../verbs/objects.ts";
import { modifyQp } from "../verbs/queue_pair.ts";
import { rejFor } from "./cm_messages.ts";
import type { CmEndpoint, CmEvent, RdmaCmEventType, SidrRequest } from "./cm_state.ts";
import { hostAt, sendRej, TRANSPORT } from "./connection.ts";
import { IP_HEADER_BYTES, ipEndsIn } from "./ip_header.ts";
import { bringUpId, offered, sendRtu, timeWaitOf } from "./rdma_connect.ts";
import {
  ETIMEDOUT,
  makeId,
  type RdmaConnParam,
  type RdmaEventChannel,
  type RdmaId,
  type RdmaIdState,
} from "./rdma_id.ts";

/** `rdma_ud_param`: the service's queue pair, and the address of its host for an address handle. */
export interface RdmaUdParam {
  /** Of the peer's program. */
  readonly privateData: Uint8Array;
  /** IPv4 address of the service's host. */
  readonly address: number;
  /** The service's queue pair. */
  readonly qpNum: number;
  /** The Q_Key of the service's queue pair. */
  readonly qKey: number;
}

/** `rdma_cm_event`: an event of an id. */
export interface RdmaCmEvent {
  /** Its name, without `RDMA_CM_EVENT_`. */
  readonly event: RdmaCmEventType;
  /** The event's id; for CONNECT_REQUEST a new one. */
  readonly id: RdmaId;
  /** For CONNECT_REQUEST: the listening id. */
  readonly listenId?: RdmaId;
  /** For MULTICAST_JOIN: the membership. @ignore */
  readonly of?: object;
  /** 0; else a negative errno (−110 is ETIMEDOUT), REJ's reason, or SIDR REP's status. */
  readonly status: number;
  /** The status in words; "" for 0. */
  readonly reason: string;
  /** `rdma_conn_param` or `rdma_ud_param`, for events that have one. */
  readonly param: {
    /**
     * For CONNECT_REQUEST, CONNECT_RESPONSE, ESTABLISHED (active end) and REJECTED, in port space
     * tcp.
     */
    readonly conn?: RdmaConnParam & { readonly privateData: Uint8Array };
    /** For CONNECT_REQUEST (without queue pair), ESTABLISHED and UNREACHABLE, in port space udp. */
    readonly ud?: Partial<RdmaUdParam> & Pick<RdmaUdParam, "privateData">;
  };
}

const taken = new WeakSet<RdmaCmEvent>();

/**
 * `rdma_get_cm_event`: the oldest event of the channel's ids; waits for one. EINVAL for a destroyed
 * channel, also where another thread destroys it meanwhile.
 */
export function rdmaGetCmEvent(channel: RdmaEventChannel): Steps<RdmaCmEvent | VerbError>;
/** The same, until a deadline: then "timeout". */
export function rdmaGetCmEvent(
  channel: RdmaEventChannel,
  options: { readonly deadline?: Time },
): Steps<RdmaCmEvent | "timeout" | VerbError>;
export function* rdmaGetCmEvent(
  channel: RdmaEventChannel,
  { deadline = NEVER }: { readonly deadline?: Time } = {},
): Steps<RdmaCmEvent | "timeout" | VerbError> {
  const { cpu } = channel.device;
  for (;;) {
    if (!channel.isAlive) return verbError("EINVAL", "The event channel is gone");
    const next = channel.events.shift();
    if (next !== undefined) {
      const event = yield* eventOf(channel, next);
      if (event === undefined) continue;
      event.id.unacknowledged++;
      if (event.listenId !== undefined) event.listenId.unacknowledged++;
      taken.add(event);
      return event;
    }
    if ((yield* cpu.waitSignal(channel.signal, deadline)) === "timeout") {
      if (channel.events.length === 0) return "timeout";
    }
  }
}

/**
 * The fate of an event of an id: `drop` ends it unseen. A request's is its listener's.
 */
export type EventRoute = (id: RdmaId) => "take" | "leave" | "drop";

/**
 * True if there is an event that {@link takeCmEvent} takes. Events that end unseen are removed.
 */
export function hasCmEvent(channel: RdmaEventChannel, route: EventRoute): boolean {
  return nextOf(channel, route) !== undefined;
}

/**
 * The oldest event that the route takes, acknowledged: undefined without one. Of ids without a queue
 * pair (`qpNum`) only, where taking an event changes none.
 */
export function takeCmEvent(
  channel: RdmaEventChannel,
  route: EventRoute,
): RdmaCmEvent | undefined {
  for (let at = nextOf(channel, route); at !== undefined; at = nextOf(channel, route)) {
    const [next] = channel.events.splice(at, 1);
    const step = eventOf(channel, next!).next();
    assert(step.done === true, "An event of an id without a queue pair takes no time");
    if (step.value !== undefined) return step.value;
  }
  return undefined;
}

/** The place of the oldest event that the route takes. */
function nextOf(channel: RdmaEventChannel, route: EventRoute): number | undefined {
  const { events } = channel;
  for (let at = 0; at < events.length;) {
    const next = events[at]!;
    if (next.kind === "reset") {
      events.splice(at, 1);
      removeAll(channel, next.agent);
      at = 0;
      continue;
    }
    const owner = ownerOf(channel, next);
    const way = owner === undefined || isMoot(next, owner) ? "drop" : route(owner);
    if (way === "take") return at;
    if (way === "drop") events.splice(at, 1);
    else at++;
  }
  return undefined;
}

/** The id that an event is about, of a request the listening one. */
function ownerOf(channel: RdmaEventChannel, next: CmEvent): RdmaId | undefined {
  const { byEndpoint, ids } = channel;
  switch (next.kind) {
    case "request":
      return listenIdOf(channel, next.endpoint.listener);
    case "sidr-request":
      return listenIdOf(channel, next.request.listener);
    case "rep":
    case "established":
    case "closed":
      return byEndpoint.get(next.endpoint);
    case "sidr-answered":
    case "sidr-timeout":
      return byEndpoint.get(next.request);
    case "timer":
    case "ready":
      return byEndpoint.get(next.of) ?? [...ids].find((each) => each === next.of);
    case "ended":
    case "reset":
      return undefined;
  }
}

/** True if what the event tells of is over. */
function isMoot(next: CmEvent, owner: RdmaId): boolean {
  switch (next.kind) {
    case "request":
      return next.endpoint.phase !== "req-received";
    case "sidr-request":
      return next.request.phase !== "received";
    case "rep":
      return next.endpoint.phase !== "rep-received";
    case "timer":
      return next.of === owner && owner.state !== "addr-query";
    default:
      return false;
  }
}

/** `rdma_ack_cm_event`. EINVAL for an event that is already acknowledged. */
export function rdmaAckCmEvent(event: RdmaCmEvent): VerbError | undefined {
  if (!taken.delete(event)) return verbError("EINVAL", "The event is acknowledged already");
  event.id.unacknowledged--;
  if (event.listenId !== undefined) event.listenId.unacknowledged--;
  return undefined;
}

/**
 * Option of `waitCompletion`: also return when the channel has events, or was destroyed, which
 * {@link rdmaGetCmEvent} then reports (POLLNVAL of `poll` on its fd).
 */
export function rdmaEventsOf(
  channel: RdmaEventChannel,
): { readonly signal: string; readonly ready: () => boolean } {
  const { signal, events } = channel;
  return { signal, ready: () => events.length > 0 || !channel.isAlive };
}

function plain(
  id: RdmaId,
  event: RdmaCmEventType,
  { status = 0, reason = "", param = {} }: Partial<
    Pick<RdmaCmEvent, "status" | "reason" | "param">
  > = {},
): RdmaCmEvent {
  return { event, id, status, reason, param };
}

/** @returns undefined where the id or the request is gone. */
function* eventOf(
  channel: RdmaEventChannel,
  next: CmEvent,
): Steps<RdmaCmEvent | undefined> {
  switch (next.kind) {
    case "request":
      return requestEvent(channel, next.endpoint);
    case "sidr-request":
      return sidrRequestEvent(channel, next.request);
    case "rep": {
      const id = channel.byEndpoint.get(next.endpoint);
      return id && (yield* responseEvent(id, next.endpoint));
    }
    case "established": {
      const id = channel.byEndpoint.get(next.endpoint);
      return id && plain(id, "ESTABLISHED");
    }
    case "closed": {
      const id = channel.byEndpoint.get(next.endpoint);
      return id && (yield* closedEvent(id, next.endpoint));
    }
    case "sidr-answered":
    case "sidr-timeout": {
      const id = channel.byEndpoint.get(next.request);
      return id && resolvedEvent(id, next.request);
    }
    case "timer": {
      const id = channel.byEndpoint.get(next.of);
      return id === undefined ? addressEvent(channel, next.of) : plain(id, "TIMEWAIT_EXIT");
    }
    case "ready": {
      const { status, reason, of } = next;
      const member = channel.byEndpoint.get(of);
      if (member !== undefined) return { ...plain(member, next.event, { status, reason }), of };
      const id = [...channel.ids].find((each) => each === of);
      return id && plain(id, next.event, { status, reason });
    }
    case "reset":
      return removeAll(channel, next.agent);
    case "ended":
      return undefined;
  }
}

function addressEvent(channel: RdmaEventChannel, of: object): RdmaCmEvent | undefined {
  const id = [...channel.ids].find((each) => each === of);
  if (id?.state !== "addr-query") return undefined;
  id.state = "addr-bound";
  const reason = "no host of the rack has this address";
  return plain(id, "ADDR_ERROR", { status: ETIMEDOUT, reason });
}

/** States in which an id may be bound to a port of all addresses (Linux: `cma_listen_on_all`). */
const WITHOUT_DEVICE: ReadonlySet<RdmaIdState> = new Set(["idle", "addr-bound", "listen"]);

/**
 * An RNIC has failed: DEVICE_REMOVAL for each id that has used it. Listening ids continue when it
 * is back.
 */
function removeAll(channel: RdmaEventChannel, agent: object | undefined): RdmaCmEvent | undefined {
  const ids = [...channel.ids].filter(({ state, device }) =>
    device.cm.agent === agent && state !== "device-removal" && !WITHOUT_DEVICE.has(state)
  );
  const events = ids.map((id): CmEvent => {
    id.state = "device-removal";
    const status = 0, reason = "the RNIC has failed: its objects are gone";
    return { kind: "ready", of: id, event: "DEVICE_REMOVAL", status, reason };
  });
  channel.events.unshift(...events);
  return undefined;
}

function listenIdOf(channel: RdmaEventChannel, listener: object | undefined): RdmaId | undefined {
  return listener && channel.byEndpoint.get(listener);
}

function requestEvent(channel: RdmaEventChannel, endpoint: CmEndpoint): RdmaCmEvent | undefined {
  const listenId = listenIdOf(channel, endpoint.listener);
  const { req, phase } = endpoint;
  if (listenId === undefined || req === undefined || phase !== "req-received") return undefined;
  const id = acceptingId(listenId, {
    address: endpoint.peerAddress,
    privateData: req.privateData,
  });
  id.endpoint = endpoint;
  endpoint.sink = channel;
  endpoint.timeWaitPs = timeWaitOf(req.primaryLocalAckTimeout || TRANSPORT.timeout);
  channel.byEndpoint.set(endpoint, id);
  const privateData = req.privateData.subarray(IP_HEADER_BYTES);
  const { srq, localQpn: qpNum } = req;
  // The parameters are the request's until rdmaAccept gives others.
  id.param = offered(id);
  const conn = { ...id.param, srq, qpNum, privateData };
  return { ...plain(id, "CONNECT_REQUEST", { param: { conn } }), listenId };
}

function sidrRequestEvent(
  channel: RdmaEventChannel,
  request: SidrRequest,
): RdmaCmEvent | undefined {
  const listenId = listenIdOf(channel, request.listener);
  if (listenId === undefined || request.phase !== "received") return undefined;
  const { peerAddress: address, req: { privateData } } = request;
  const id = acceptingId(listenId, { address, privateData });
  id.sidr = request;
  request.sink = channel;
  channel.byEndpoint.set(request, id);
  const ud = { privateData: privateData.subarray(IP_HEADER_BYTES), address };
  return { ...plain(id, "CONNECT_REQUEST", { param: { ud } }), listenId };
}

function acceptingId(
  listenId: RdmaId,
  { address, privateData }: { readonly address: number; readonly privateData: Uint8Array },
): RdmaId {
  const { channel, ps, retry, qpType, device, port } = listenId;
  const id = makeId(channel, { ps, retry, qpType });
  id.state = "connect";
  id.device = device;
  id.port = port;
  id.ends = ipEndsIn(privateData);
  id.peer = { address, port: id.ends?.sourcePort ?? 0, host: hostAt(device, address) };
  return id;
}

/** The queue pair goes to RTS and the RTU is sent, unless the queue pair is the program's. */
function* responseEvent(id: RdmaId, endpoint: CmEndpoint): Steps<RdmaCmEvent | undefined> {
  const { rep } = endpoint;
  if (endpoint.phase !== "rep-received" || rep === undefined) return undefined;
  const conn = {
    privateData: rep.privateData,
    responderResources: rep.initiatorDepth,
    initiatorDepth: rep.responderResources,
    rnrRetryCount: rep.rnrRetryCount,
    srq: rep.srq,
    qpNum: rep.localQpn,
  };
  if (id.qp === undefined) return plain(id, "CONNECT_RESPONSE", { param: { conn } });
  const wrong = yield* bringUpId(id);
  if (wrong === undefined && endpoint.phase === "rep-received") {
    yield* sendRtu(id);
    return plain(id, "ESTABLISHED", { param: { conn } });
  }
  // The other end has ended the connection: that event follows.
  if (wrong === undefined) return undefined;
  endpoint.sink = undefined;
  yield* sendRej(id.device, endpoint, rejFor(rep, { reason: REJECT_REASON.noResources }));
  return plain(id, "CONNECT_ERROR", { status: -22, reason: `${wrong.errno}: ${wrong.reason}` });
}

function* closedEvent(id: RdmaId, endpoint: CmEndpoint): Steps<RdmaCmEvent | undefined> {
  const { end, endedIn } = endpoint;
  const stood = endedIn === "established" || endedIn === "dreq-sent";
  if (id.state === "connect") id.state = "disconnect";
  if (endpoint.wantsDisconnect && !stood) {
    // The program ended it before it was established: a time-out or a refusal is no error then.
    if (end?.kind !== "timeout") return plain(id, "DISCONNECTED");
    return plain(id, "DISCONNECTED", { status: ETIMEDOUT, reason: "no answer to the REP" });
  }
  if (stood || end === undefined || end.kind === "disconnected") {
    if (end?.kind !== "timeout") return plain(id, "DISCONNECTED");
    return plain(id, "DISCONNECTED", { status: ETIMEDOUT, reason: "no answer to the DREQ" });
  }
  yield* failQp(id);
  if (end.kind === "timeout") {
    const reason = `no answer to ${endpoint.retry.tries} requests`;
    noteRefused(id, endpoint.peerAddress, reason);
    return plain(id, "UNREACHABLE", { status: ETIMEDOUT, reason });
  }
  const { reason: status, privateData } = end.message;
  const param = { conn: { privateData } }, reason = rejectText(status);
  noteRefused(id, endpoint.peerAddress, reason);
  return plain(id, "REJECTED", { status, reason, param });
}

/** Notes the refusal for the run's judgement. */
function noteRefused({ channel: { device } }: RdmaId, address: number, reason: string): void {
  const { cpu } = device;
  if (cpu.auditing) cpu.note({ kind: "refused", to: hostAt(device, address), reason });
}

/** Takes the queue pair to ERR (librdmacm: `ucma_modify_qp_err`). */
function* failQp({ qp }: RdmaId): Steps<void> {
  if (qp === undefined || qp.life.state === "reset" || qp.life.state === "err") return;
  yield* modifyQp(qp, { state: "err" });
}

function resolvedEvent(id: RdmaId, { rep, retry, peerAddress }: SidrRequest): RdmaCmEvent {
  if (rep === undefined) {
    const reason = `no answer to ${retry.tries} requests`;
    noteRefused(id, peerAddress, reason);
    id.state = "route-resolved";
    return plain(id, "UNREACHABLE", { status: ETIMEDOUT, reason });
  }
  const { status, privateData, qpn: qpNum, qKey } = rep;
  if (status !== SIDR_STATUS.valid) {
    id.state = "route-resolved";
    const param = { ud: { privateData } }, reason = sidrText(status);
    noteRefused(id, peerAddress, reason);
    return plain(id, "UNREACHABLE", { status, reason, param });
  }
  const ud = { privateData, address: peerAddress, qpNum, qKey };
  return plain(id, "ESTABLISHED", { param: { ud } });
}
