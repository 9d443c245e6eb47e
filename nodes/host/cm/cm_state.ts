/** State of a host's communication manager, which `cm_agent.ts` changes. */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import {
  type CmMessage,
  type CmRej,
  type CmRep,
  type CmReq,
  type CmSidrRep,
  type CmSidrReq,
  REJECTED,
} from "../../../fabric/wire/roce/cm.ts";
import type { PortSpace } from "./ip_header.ts";

export type CmPhase =
  | "req-sent"
  | "rep-received"
  | "req-received"
  | "rep-sent"
  | "established"
  | "dreq-sent"
  | "closed";

export type CmEnd =
  | { readonly kind: "rejected"; readonly message: CmRej }
  | { readonly kind: "timeout" }
  | { readonly kind: "disconnected" };

export interface CmEndpoint {
  readonly commId: number;
  readonly peerAddress: number;
  readonly transactionId: bigint;
  readonly listener: CmListener | undefined;
  /** The listener at first. */
  sink: CmSink | undefined;
  readonly retry: CmRetry;
  readonly req: CmReq | undefined;
  qpn: number | undefined;
  peerCommId: number;
  phase: CmPhase;
  end: CmEnd | undefined;
  endedIn: CmPhase | undefined;
  /** The sink gets an event at the end of the time wait, unless 0. */
  timeWaitPs: Time;
  rep: CmRep | undefined;
  /** Repeated on a timeout, or when the peer repeats its request. */
  lastSent: CmMessage | undefined;
  triesLeft: number;
  /** An MRA has come; only the first extends the timeout. */
  isPatient: boolean;
  /** A DREQ must follow the RTU: before it the peer has no connection that could end. */
  wantsDisconnect: boolean;
  deadline: Time;
}

/** How long and how often a message of the connection manager waits for its answer. */
export interface CmRetry {
  /** Timeout of a response, in ps. */
  readonly timeoutPs: Time;
  /** Maximum number of transmissions of a message. */
  readonly tries: number;
}

/** A request for a service's queue pair, at either end. */
export interface SidrRequest {
  readonly key: string;
  readonly peerAddress: number;
  readonly retry: CmRetry;
  readonly req: CmSidrReq;
  readonly listener: CmListener | undefined;
  sink: CmSink | undefined;
  rep: CmSidrRep | undefined;
  phase: "sent" | "received" | "answered" | "closed";
  triesLeft: number;
  /**
   * An unanswered request is sent again then; copies of an answered one get the same answer until
   * then.
   */
  deadline: Time;
}

/** `rdma_cm_event_type`, without `RDMA_CM_EVENT_`. */
export type RdmaCmEventType =
  | "ADDR_RESOLVED"
  | "ADDR_ERROR"
  | "ROUTE_RESOLVED"
  | "ROUTE_ERROR"
  | "CONNECT_REQUEST"
  | "CONNECT_RESPONSE"
  | "CONNECT_ERROR"
  | "UNREACHABLE"
  | "REJECTED"
  | "ESTABLISHED"
  | "DISCONNECTED"
  | "DEVICE_REMOVAL"
  | "MULTICAST_JOIN"
  | "TIMEWAIT_EXIT";

/** Events of a service's connections. */
export type CmEvent =
  | { readonly kind: "request"; readonly endpoint: CmEndpoint }
  | { readonly kind: "established" | "closed"; readonly endpoint: CmEndpoint }
  /** Events of ids (`rdma_id.ts`): a response; service ID resolution; a time has come. */
  | { readonly kind: "rep"; readonly endpoint: CmEndpoint }
  | {
    readonly kind: "sidr-request" | "sidr-answered" | "sidr-timeout";
    readonly request: SidrRequest;
  }
  | { readonly kind: "timer"; readonly of: object }
  | {
    readonly kind: "ready";
    readonly of: object;
    readonly event: RdmaCmEventType;
    readonly status: number;
    readonly reason: string;
  }
  /** Listening has ended: only existing connections' events follow. */
  | { readonly kind: "ended" }
  /**
   * The RNIC has failed and is back: earlier connections, queues and regions are gone. `agent` is
   * the manager of ids.
   */
  | { readonly kind: "reset"; readonly agent?: object };

export interface CmSink {
  readonly program: string;
  /** Raised when `events` is not empty. */
  readonly signal: string;
  readonly events: CmEvent[];
}

export interface CmChannelId {
  readonly ps: PortSpace;
  readonly port: number;
  readonly isBound: boolean;
  readonly device: { readonly cm: { readonly agent: object } };
}

export interface CmChannel extends CmSink {
  readonly ids: Iterable<CmChannelId>;
}

export interface CmListener extends CmSink {
  readonly serviceId: bigint;
  readonly retry: CmRetry;
  /** Further requests are dropped, and the peer repeats them. */
  readonly backlog?: number;
  /** Its requests are resolutions of service IDs instead of connections. */
  readonly datagrams?: true;
}

interface CmTimer {
  readonly at: Time;
  readonly sink: CmSink;
  readonly event: CmEvent;
}

export interface CmOutput {
  readonly send: { readonly to: number; readonly message: CmMessage }[];
  readonly signals: Set<string>;
}

const OVER_MAX = 1024;

export function makeCmAgent() {
  return {
    endpoints: new Map<number, CmEndpoint>(),
    /** Endpoints with a deadline, and some that had one; few established ones. */
    waiting: new Set<CmEndpoint>(),
    requested: new Map<string, CmEndpoint>(),
    /** Endpoints by the peer's address and queue pair, once known. */
    byPeerQp: new Map<string, Set<CmEndpoint>>(),
    listeners: new Map<bigint, CmListener>(),
    sidr: new Map<string, SidrRequest>(),
    /** Channels of ids get an event after a failure of the RNIC. */
    channels: new Set<CmChannel>(),
    timers: [] as CmTimer[],
    nextChannel: 0,
    nextPort: 0,
    nextCommId: 1,
    /** A deadline was set since the service read them. */
    stirred: false,
    /** Finished requests, oldest first: the network may hold copies. */
    over: new Map<string, { readonly rej: CmRej | undefined; readonly until: Time }>(),
  };
}

export type CmAgent = ReturnType<typeof makeCmAgent>;

export function endpointSignal(endpoint: CmEndpoint): string {
  return `cm:${endpoint.commId}`;
}

export function addEndpoint(
  agent: CmAgent,
  endpoint:
    & Pick<CmEndpoint, "peerAddress" | "transactionId" | "listener" | "retry" | "req">
    & Partial<Pick<CmEndpoint, "sink">>,
): CmEndpoint {
  while (agent.endpoints.has(agent.nextCommId) || agent.nextCommId === 0) {
    agent.nextCommId = (agent.nextCommId + 1) >>> 0;
  }
  const made: CmEndpoint = {
    sink: endpoint.listener,
    ...endpoint,
    commId: agent.nextCommId,
    qpn: undefined,
    peerCommId: endpoint.req?.localCommId ?? 0,
    phase: endpoint.req === undefined ? "req-sent" : "req-received",
    end: undefined,
    endedIn: undefined,
    timeWaitPs: 0,
    rep: undefined,
    lastSent: undefined,
    triesLeft: 0,
    isPatient: false,
    wantsDisconnect: false,
    deadline: NEVER,
  };
  agent.nextCommId = (agent.nextCommId + 1) >>> 0;
  agent.endpoints.set(made.commId, made);
  if (made.req !== undefined) {
    agent.requested.set(exchangeOf(made.peerAddress, made.req), made);
    notePeerQp(agent, made);
  }
  return made;
}

export function notePeerQp(agent: CmAgent, endpoint: CmEndpoint): void {
  const key = peerQpOf(endpoint), known = agent.byPeerQp.get(key);
  if (known === undefined) agent.byPeerQp.set(key, new Set([endpoint]));
  else known.add(endpoint);
}

function peerQpOf({ peerAddress, rep, req }: CmEndpoint): string {
  return `${peerAddress}/${(rep ?? req)?.localQpn}`;
}

export function connectionWith(
  agent: CmAgent,
  peer: { readonly peerAddress: number; readonly qpn: number },
): CmEndpoint | undefined {
  const known = agent.byPeerQp.get(`${peer.peerAddress}/${peer.qpn}`) ?? [];
  return [...known].filter(({ phase }) => phase === "established").sort(byCommId)[0];
}

function byCommId(x: CmEndpoint, y: CmEndpoint): number {
  return x.commId - y.commId;
}

export function expectAnswer(
  agent: CmAgent,
  endpoint: CmEndpoint,
  sent: { readonly message: CmMessage; readonly now: Time; readonly phase: CmPhase },
): void {
  endpoint.lastSent = sent.message;
  endpoint.phase = sent.phase;
  endpoint.triesLeft = endpoint.retry.tries - 1;
  endpoint.isPatient = false;
  awaitUntil(agent, endpoint, sent.now + endpoint.retry.timeoutPs);
}

export function awaitUntil(agent: CmAgent, endpoint: CmEndpoint, deadline: Time): void {
  endpoint.deadline = deadline;
  agent.waiting.add(endpoint);
  agent.stirred = true;
}

export function dueAt({ waiting }: CmAgent, now: Time): CmEndpoint[] {
  const due: CmEndpoint[] = [];
  for (const endpoint of waiting) {
    if (endpoint.deadline === NEVER) waiting.delete(endpoint);
    else if (endpoint.deadline <= now) due.push(endpoint);
  }
  return due.sort(byCommId);
}

export function establish(endpoint: CmEndpoint, reply: CmMessage | undefined): void {
  endpoint.phase = "established";
  endpoint.deadline = NEVER;
  if (reply !== undefined) endpoint.lastSent = reply;
}

/** Its request is remembered for a while, so that a late copy creates no endpoint. */
export function closeEndpoint(
  agent: CmAgent,
  endpoint: CmEndpoint,
  closing: { readonly end: CmEnd; readonly now: Time },
): void {
  const { end, now } = closing;
  const { req, retry } = endpoint;
  endpoint.endedIn = endpoint.phase;
  endpoint.phase = "closed";
  endpoint.end = end;
  endpoint.deadline = NEVER;
  agent.endpoints.delete(endpoint.commId);
  const peerQp = peerQpOf(endpoint), others = agent.byPeerQp.get(peerQp);
  others?.delete(endpoint);
  if (others?.size === 0) agent.byPeerQp.delete(peerQp);
  if (req === undefined) return;
  for (const [exchange, { until }] of agent.over) {
    if (until > now && agent.over.size < OVER_MAX) break;
    agent.over.delete(exchange);
  }
  // Twice the time during which the peer repeats: its last copy may still be in the network.
  const until = now + 2 * retry.timeoutPs * (retry.tries + 1);
  const rej = end.kind === "rejected" && end.message.rejected === REJECTED.req
    ? end.message
    : undefined;
  const exchange = exchangeOf(endpoint.peerAddress, req);
  if (agent.requested.get(exchange) === endpoint) agent.requested.delete(exchange);
  agent.over.set(exchange, { rej, until });
}

export function exchangeOf(peerAddress: number, req: CmReq): string {
  return `${peerAddress}/${req.localCommId}/${req.transactionId}`;
}

export function nextDeadline(agent: CmAgent): Time {
  let earliest = NEVER;
  for (const { deadline } of agent.waiting) if (deadline < earliest) earliest = deadline;
  for (const { phase, deadline } of agent.sidr.values()) {
    if (phase === "sent" && deadline < earliest) earliest = deadline;
  }
  for (const { at } of agent.timers) if (at < earliest) earliest = at;
  return earliest;
}

export function end(
  agent: CmAgent,
  endpoint: CmEndpoint,
  closing: { readonly end: CmEnd; readonly now: Time; readonly output: CmOutput },
): void {
  // No program has received the request: it ends silently.
  const known = endpoint.phase !== "req-received" || endpoint.sink !== endpoint.listener;
  closeEndpoint(agent, endpoint, closing);
  closing.output.signals.add(endpointSignal(endpoint));
  if (!known) return;
  notify(endpoint, "closed", closing.output);
  const { sink, endedIn, timeWaitPs } = endpoint;
  // A DREQ proves that the peer was established: the RTU was lost.
  const isOvertaken = endedIn === "rep-sent" && endpoint.end?.kind === "disconnected";
  const stood = endedIn === "established" || endedIn === "dreq-sent" || isOvertaken;
  if (sink === undefined || !stood || timeWaitPs === 0) return;
  const event = { kind: "timer", of: endpoint } as const;
  agent.timers.push({ at: closing.now + timeWaitPs, sink, event });
}

export function notify(
  endpoint: CmEndpoint,
  kind: "request" | "rep" | "established" | "closed",
  output: CmOutput,
): void {
  if (endpoint.sink === undefined) return;
  endpoint.sink.events.push({ kind, endpoint });
  output.signals.add(endpoint.sink.signal);
}

export function isBacklogFull(listener: CmListener): boolean {
  const { backlog, events } = listener;
  if (backlog === undefined) return false;
  const waiting = events.filter((event) =>
    (event.kind === "request" && event.endpoint.listener === listener) ||
    (event.kind === "sidr-request" && event.request.listener === listener)
  );
  return waiting.length >= backlog;
}
