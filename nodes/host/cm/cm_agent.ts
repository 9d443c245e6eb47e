/**
 * The communication manager of one host as a pure state machine: its inputs are received messages
 * and the time; its outputs are messages to send and signals to raise. `cm.ts` exchanges its
 * messages over QP 1.
 *
 *   active   req-sent → rep-received → established      passive  req-received → rep-sent → established
 *   either   established → dreq-sent → closed
 *
 * Every message that needs a response is retransmitted a bounded number of times, so no end waits
 * for ever on a peer that has failed; every response is repeated when its request is repeated.
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import {
  addressOfGid,
  type CmMessage,
  type CmMra,
  type CmRej,
  type CmRep,
  type CmReq,
  REJECT_REASON,
  timeoutOfCode,
  TRANSPORT_SERVICE,
} from "../../../fabric/wire/roce/cm.ts";

export type CmPhase =
  | "req-sent"
  | "rep-received"
  | "req-received"
  | "rep-sent"
  | "established"
  | "dreq-sent"
  | "closed";

/** Why an endpoint is closed. */
export type CmEnd =
  | { readonly kind: "rejected"; readonly message: CmRej }
  | { readonly kind: "timeout" }
  | { readonly kind: "disconnected" };

/** One end of one connection. */
export interface CmEndpoint {
  readonly commId: number;
  readonly peerAddress: number;
  readonly transactionId: bigint;
  /** The listener that receives its events, on the passive side. */
  readonly listener: CmListener | undefined;
  readonly retry: CmRetry;
  /** The request, on the passive side. */
  readonly req: CmReq | undefined;
  /** The queue pair of this end, once there is one. */
  qpn: number | undefined;
  peerCommId: number;
  phase: CmPhase;
  end: CmEnd | undefined;
  /** The response, on the active side. */
  rep: CmRep | undefined;
  /** The last message sent: it is repeated on a timeout, or when the peer repeats its request. */
  lastSent: CmMessage | undefined;
  triesLeft: number;
  /** The peer has sent an MRA; only the first MRA extends the timeout. */
  isPatient: boolean;
  deadline: Time;
}

export interface CmRetry {
  /** Timeout of a response, in ps. */
  readonly timeoutPs: Time;
  /** Maximum number of transmissions of a message. */
  readonly tries: number;
}

/** The events of a service's connections. */
export type CmEvent =
  | { readonly kind: "request"; readonly endpoint: CmEndpoint }
  | { readonly kind: "established" | "closed"; readonly endpoint: CmEndpoint }
  /** The RNIC has failed and is back: all earlier connections, queues and regions are gone. */
  | { readonly kind: "reset" };

export interface CmListener {
  readonly serviceId: bigint;
  /** The name of the program that listens. */
  readonly program: string;
  /** The signal that is raised when `events` is not empty. */
  readonly signal: string;
  readonly retry: CmRetry;
  readonly events: CmEvent[];
}

/** The outputs of the state machine. */
export interface CmOutput {
  readonly send: { readonly to: number; readonly message: CmMessage }[];
  readonly signals: Set<string>;
}

/** Maximum number of remembered finished requests. */
const OVER_MAX = 1024;

export function makeCmAgent() {
  return {
    endpoints: new Map<number, CmEndpoint>(),
    listeners: new Map<bigint, CmListener>(),
    nextCommId: 1,
    /** A deadline was set since the service last read them. */
    stirred: false,
    /** Finished requests, to recognise copies that the network still holds; oldest first. */
    over: new Map<string, { readonly rej: CmRej | undefined; readonly until: Time }>(),
  };
}

export type CmAgent = ReturnType<typeof makeCmAgent>;

/** The signal of an endpoint on which a program waits. */
export function endpointSignal(endpoint: CmEndpoint): string {
  return `cm:${endpoint.commId}`;
}

/** A new endpoint with a number of its own. */
export function addEndpoint(
  agent: CmAgent,
  endpoint: Pick<CmEndpoint, "peerAddress" | "transactionId" | "listener" | "retry" | "req">,
): CmEndpoint {
  while (agent.endpoints.has(agent.nextCommId) || agent.nextCommId === 0) {
    agent.nextCommId = (agent.nextCommId + 1) >>> 0;
  }
  const made: CmEndpoint = {
    ...endpoint,
    commId: agent.nextCommId,
    qpn: undefined,
    peerCommId: endpoint.req?.localCommId ?? 0,
    phase: endpoint.req === undefined ? "req-sent" : "req-received",
    end: undefined,
    rep: undefined,
    lastSent: undefined,
    triesLeft: 0,
    isPatient: false,
    deadline: NEVER,
  };
  agent.nextCommId = (agent.nextCommId + 1) >>> 0;
  agent.endpoints.set(made.commId, made);
  return made;
}

/** Records that `message` is being sent and needs a response. */
export function expectAnswer(
  agent: CmAgent,
  endpoint: CmEndpoint,
  sent: { readonly message: CmMessage; readonly now: Time; readonly phase: CmPhase },
): void {
  endpoint.lastSent = sent.message;
  endpoint.phase = sent.phase;
  endpoint.triesLeft = endpoint.retry.tries - 1;
  endpoint.isPatient = false;
  endpoint.deadline = sent.now + endpoint.retry.timeoutPs;
  agent.stirred = true;
}

/** Records that the connection is established; `reply` is the response to a repeated request. */
export function establish(endpoint: CmEndpoint, reply: CmMessage | undefined): void {
  endpoint.phase = "established";
  endpoint.deadline = NEVER;
  if (reply !== undefined) endpoint.lastSent = reply;
}

/** Removes the endpoint, and remembers its request for a while: a late copy makes no new one. */
export function closeEndpoint(
  agent: CmAgent,
  endpoint: CmEndpoint,
  closing: { readonly end: CmEnd; readonly now: Time },
): void {
  const { end, now } = closing;
  const { req, retry } = endpoint;
  endpoint.phase = "closed";
  endpoint.end = end;
  endpoint.deadline = NEVER;
  agent.endpoints.delete(endpoint.commId);
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
  agent.over.set(exchangeOf(endpoint.peerAddress, req), { rej, until });
}

function exchangeOf(peerAddress: number, req: CmReq): string {
  return `${peerAddress}/${req.localCommId}/${req.transactionId}`;
}

export function nextDeadline(agent: CmAgent): Time {
  let earliest = NEVER;
  for (const endpoint of agent.endpoints.values()) {
    if (endpoint.deadline < earliest) earliest = endpoint.deadline;
  }
  return earliest;
}

/** Repeats messages whose response is late, or closes their endpoints. */
export function expire(agent: CmAgent, now: Time, output: CmOutput): void {
  for (const endpoint of [...agent.endpoints.values()]) {
    if (endpoint.deadline > now) continue;
    if (endpoint.triesLeft > 0 && endpoint.lastSent !== undefined) {
      endpoint.triesLeft--;
      endpoint.deadline = now + endpoint.retry.timeoutPs;
      output.send.push({ to: endpoint.peerAddress, message: endpoint.lastSent });
    } else {
      // The peer may believe in a connection, or still be processing the request.
      if (endpoint.phase !== "dreq-sent") {
        output.send.push({ to: endpoint.peerAddress, message: giveUp(endpoint) });
      }
      end(agent, endpoint, { end: { kind: "timeout" }, now, output });
    }
  }
}

function end(
  agent: CmAgent,
  endpoint: CmEndpoint,
  closing: { readonly end: CmEnd; readonly now: Time; readonly output: CmOutput },
): void {
  const known = endpoint.phase !== "req-received";
  closeEndpoint(agent, endpoint, closing);
  closing.output.signals.add(endpointSignal(endpoint));
  if (known) notify(endpoint, "closed", closing.output);
}

function notify(
  endpoint: CmEndpoint,
  kind: "request" | "established" | "closed",
  output: CmOutput,
): void {
  if (endpoint.listener === undefined) return;
  endpoint.listener.events.push({ kind, endpoint });
  output.signals.add(endpoint.listener.signal);
}

/** Processes a message from the IPv4 address `from`. */
export function receive(
  agent: CmAgent,
  message: CmMessage,
  context: { readonly from: number; readonly now: Time; readonly output: CmOutput },
): void {
  const { from, now, output } = context;
  if (message.type === "REQ") return receiveReq(agent, message, context);
  const endpoint = agent.endpoints.get(message.remoteCommId) ?? timedOut(agent, message, from);
  const known = endpoint !== undefined && endpoint.peerAddress === from &&
    endpoint.transactionId === message.transactionId &&
    (endpoint.peerCommId === message.localCommId || endpoint.phase === "req-sent");
  if (!known) return answerStranger(message, from, output);
  switch (message.type) {
    case "MRA":
      return receiveMra(agent, endpoint, { mra: message, now });
    case "REP":
      return receiveRep(endpoint, message, output);
    case "RTU":
      if (endpoint.phase !== "rep-sent") return;
      establish(endpoint, undefined);
      return notify(endpoint, "established", output);
    case "REJ":
      // An established connection ends only by "no RTU received": other refusals are late copies.
      if (endpoint.phase === "established" && message.reason !== REJECT_REASON.timeout) return;
      return end(agent, endpoint, { end: { kind: "rejected", message }, now, output });
    case "DREQ":
      output.send.push({ to: from, message: drepFor(message) });
      return end(agent, endpoint, { end: { kind: "disconnected" }, now, output });
    case "DREP":
      if (endpoint.phase !== "dreq-sent") return;
      return end(agent, endpoint, { end: { kind: "disconnected" }, now, output });
  }
}

function receiveReq(
  agent: CmAgent,
  req: CmReq,
  context: { readonly from: number; readonly now: Time; readonly output: CmOutput },
): void {
  const { from: peerAddress, now, output } = context;
  // Drops a request whose GID is not its sender's address.
  if (addressOfGid(req.primaryLocalGid) !== peerAddress) return;
  for (const endpoint of agent.endpoints.values()) {
    if (endpoint.req === undefined || endpoint.peerAddress !== peerAddress) continue;
    if (endpoint.peerCommId !== req.localCommId) continue;
    if (endpoint.transactionId !== req.transactionId) continue;
    // A repeated request: its response was lost, or is not ready yet.
    if (endpoint.phase === "rep-sent") {
      output.send.push({ to: peerAddress, message: endpoint.lastSent! });
    } else if (endpoint.phase === "req-received") {
      output.send.push({ to: peerAddress, message: mraFor(endpoint, RECEIVED.req) });
    }
    return;
  }
  const over = agent.over.get(exchangeOf(peerAddress, req));
  if (over !== undefined && over.until > now) {
    if (over.rej !== undefined) output.send.push({ to: peerAddress, message: over.rej });
    return;
  }
  const { rc, uc } = TRANSPORT_SERVICE;
  const isConnected = req.transportService === rc || req.transportService === uc;
  const listener = agent.listeners.get(req.serviceId);
  if (!isConnected || listener === undefined) {
    const { invalidTransport, invalidServiceId } = REJECT_REASON;
    const message = rejFor(req, { reason: isConnected ? invalidServiceId : invalidTransport });
    output.send.push({ to: peerAddress, message });
    return;
  }
  const { transactionId } = req;
  const { retry } = listener;
  const endpoint = addEndpoint(agent, { peerAddress, transactionId, listener, retry, req });
  notify(endpoint, "request", output);
}

function receiveRep(endpoint: CmEndpoint, rep: CmRep, output: CmOutput): void {
  if (endpoint.phase === "req-sent") {
    endpoint.phase = "rep-received";
    endpoint.rep = rep;
    endpoint.peerCommId = rep.localCommId;
    endpoint.deadline = NEVER;
    output.signals.add(endpointSignal(endpoint));
  } else if (endpoint.phase === "rep-received") {
    output.send.push({ to: endpoint.peerAddress, message: mraFor(endpoint, RECEIVED.rep) });
  } else if (endpoint.phase === "established" && endpoint.lastSent?.type === "RTU") {
    output.send.push({ to: endpoint.peerAddress, message: endpoint.lastSent });
  }
}

/**
 * Message receipt acknowledgement: the peer needs longer to respond, so the request is not repeated
 * before that time. Only the first MRA counts, so that a peer that sends only MRAs still times out.
 */
function receiveMra(
  agent: CmAgent,
  endpoint: CmEndpoint,
  { mra, now }: { readonly mra: CmMra; readonly now: Time },
): void {
  const asked = mra.received === RECEIVED.req ? "req-sent" : "rep-sent";
  if (endpoint.phase !== asked || endpoint.isPatient) return;
  endpoint.isPatient = true;
  endpoint.deadline = now + timeoutOfCode(mra.serviceTimeout) + endpoint.retry.timeoutPs;
  agent.stirred = true;
}

/** A peer that timed out may not know this end's number: its own one identifies the connection. */
function timedOut(
  agent: CmAgent,
  message: Exclude<CmMessage, CmReq>,
  from: number,
): CmEndpoint | undefined {
  if (message.type !== "REJ" || message.reason !== REJECT_REASON.timeout) return undefined;
  for (const endpoint of agent.endpoints.values()) {
    if (endpoint.peerAddress === from && endpoint.peerCommId === message.localCommId) {
      return endpoint;
    }
  }
  return undefined;
}

/** A message for an unknown endpoint: rejects a REP, answers a DREQ. */
function answerStranger(
  message: Exclude<CmMessage, CmReq>,
  from: number,
  output: CmOutput,
): void {
  if (message.type === "DREQ") output.send.push({ to: from, message: drepFor(message) });
  if (message.type === "REP") {
    const rej = rejFor(message, { reason: REJECT_REASON.invalidCommId });
    output.send.push({ to: from, message: rej });
  }
}

/** After a failure of the RNIC: closes all endpoints, notifies all listeners. @returns signals. */
export function resetAgent(agent: CmAgent): Set<string> {
  const signals = new Set<string>();
  for (const endpoint of [...agent.endpoints.values()]) {
    closeEndpoint(agent, endpoint, { end: { kind: "disconnected" }, now: 0 });
    signals.add(endpointSignal(endpoint));
  }
  for (const listener of agent.listeners.values()) {
    listener.events.length = 0;
    listener.events.push({ kind: "reset" });
    signals.add(listener.signal);
  }
  agent.stirred = true;
  return signals;
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
  rejection: { readonly reason: number; readonly privateData?: Uint8Array<ArrayBuffer> },
): CmRej {
  return {
    type: "REJ",
    transactionId: refused.transactionId,
    privateData: rejection.privateData ?? NO_DATA,
    localCommId: refused.type === "REP" ? refused.remoteCommId : 0,
    remoteCommId: refused.localCommId,
    rejected: refused.type === "REQ" ? REJECTED.req : REJECTED.rep,
    infoLength: 0,
    reason: rejection.reason,
  };
}

/** The fields of every message of an endpoint. */
export function headOf({ transactionId, commId, peerCommId }: CmEndpoint) {
  const ids = { localCommId: commId, remoteCommId: peerCommId };
  return { transactionId, privateData: NO_DATA, ...ids };
}

/** The REJ "timeout": the last message of an endpoint without tries left. */
export function giveUp(endpoint: CmEndpoint): CmRej {
  return {
    type: "REJ",
    ...headOf(endpoint),
    rejected: REJECTED.nothing,
    infoLength: 0,
    reason: REJECT_REASON.timeout,
  };
}

/** The MRA: the message was received, the response needs longer. */
export function mraFor(endpoint: CmEndpoint, received: number): CmMra {
  return {
    type: "MRA",
    ...headOf(endpoint),
    received,
    serviceTimeout: SERVICE_TIMEOUT_CODE,
  };
}
