/**
 * The communication manager of one host as a pure machine: it is told which message came or that time
 * has passed, and says what to send and whom to wake. `cm.ts` moves its messages over QP 1.
 *
 *   active   req-sent → rep-received → established      passive  req-received → rep-sent → established
 *   either   established → dreq-sent → closed
 *
 * Every message that needs an answer is sent again a bounded number of times, so nobody waits for ever
 * on a peer that is dead; every answer is given again where its question comes again.
 */
import { NEVER, type Time } from "../../fabric/time/time.ts";
import {
  addressOfGid,
  type CmMessage,
  type CmRej,
  type CmRep,
  type CmReq,
  type CmRtu,
  REJECT_REASON,
} from "../../fabric/wire/cm.ts";

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
  /** Where its events go, on the passive side. */
  readonly listener: CmListener | undefined;
  readonly retry: CmRetry;
  /** The passive side's: what was asked. */
  readonly req: CmReq | undefined;
  peerCommId: number;
  phase: CmPhase;
  end: CmEnd | undefined;
  /** The active side's: what was answered. */
  rep: CmRep | undefined;
  /** What was sent last: said again on time-out, or where the peer asks again. */
  said: CmMessage | undefined;
  triesLeft: number;
  deadline: Time;
}

export interface CmRetry {
  /** How long an answer is waited for, in ps. */
  readonly timeoutPs: Time;
  /** How often a message is sent at most. */
  readonly tries: number;
}

/** What a service is told of its connections. */
export type CmEvent =
  | { readonly kind: "request" | "established" | "closed"; readonly endpoint: CmEndpoint }
  /** The RNIC has failed and is back: no connection, queue or region of before exists any more. */
  | { readonly kind: "reset" };

export interface CmListener {
  readonly serviceId: bigint;
  /** The signal that says `events` has something. */
  readonly signal: string;
  readonly retry: CmRetry;
  readonly events: CmEvent[];
}

export interface CmAgent {
  readonly endpoints: Map<number, CmEndpoint>;
  readonly listeners: Map<bigint, CmListener>;
  nextCommId: number;
  /** A deadline was set since the service last looked. */
  stirred: boolean;
}

/** What the machine wants done. */
export interface CmOutput {
  readonly send: { readonly to: number; readonly message: CmMessage }[];
  readonly signals: Set<string>;
}

const NO_DATA = new Uint8Array(0);

export function makeCmAgent(): CmAgent {
  return { endpoints: new Map(), listeners: new Map(), nextCommId: 1, stirred: false };
}

/** The signal of an endpoint that a program waits for. */
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
    peerCommId: endpoint.req?.localCommId ?? 0,
    phase: endpoint.req === undefined ? "req-sent" : "req-received",
    end: undefined,
    rep: undefined,
    said: undefined,
    triesLeft: 0,
    deadline: NEVER,
  };
  agent.nextCommId = (agent.nextCommId + 1) >>> 0;
  agent.endpoints.set(made.commId, made);
  return made;
}

/** Notes that `message` is being sent and wants an answer. */
export function expectAnswer(
  agent: CmAgent,
  endpoint: CmEndpoint,
  sent: { readonly message: CmMessage; readonly now: Time; readonly phase: CmPhase },
): void {
  endpoint.said = sent.message;
  endpoint.phase = sent.phase;
  endpoint.triesLeft = endpoint.retry.tries - 1;
  endpoint.deadline = sent.now + endpoint.retry.timeoutPs;
  agent.stirred = true;
}

/** Notes that the connection stands; `said` is what the peer is told if it asks again. */
export function establish(endpoint: CmEndpoint, said: CmMessage | undefined): void {
  endpoint.phase = "established";
  endpoint.deadline = NEVER;
  if (said !== undefined) endpoint.said = said;
}

/** Forgets the endpoint. */
export function closeEndpoint(agent: CmAgent, endpoint: CmEndpoint, end: CmEnd): void {
  endpoint.phase = "closed";
  endpoint.end = end;
  endpoint.deadline = NEVER;
  agent.endpoints.delete(endpoint.commId);
}

export function nextDeadline(agent: CmAgent): Time {
  let earliest = NEVER;
  for (const endpoint of agent.endpoints.values()) {
    if (endpoint.deadline < earliest) earliest = endpoint.deadline;
  }
  return earliest;
}

/** Sends again, or gives up, what was not answered in time. */
export function expire(agent: CmAgent, now: Time, output: CmOutput): void {
  for (const endpoint of [...agent.endpoints.values()]) {
    if (endpoint.deadline > now) continue;
    if (endpoint.triesLeft > 0 && endpoint.said !== undefined) {
      endpoint.triesLeft--;
      endpoint.deadline = now + endpoint.retry.timeoutPs;
      output.send.push({ to: endpoint.peerAddress, message: endpoint.said });
    } else {
      end(agent, endpoint, { end: { kind: "timeout" }, output });
    }
  }
}

/** Closes and tells whoever must know. */
function end(
  agent: CmAgent,
  endpoint: CmEndpoint,
  how: { readonly end: CmEnd; readonly output: CmOutput },
): void {
  const known = endpoint.phase !== "req-received";
  closeEndpoint(agent, endpoint, how.end);
  how.output.signals.add(endpointSignal(endpoint));
  if (known) tell(endpoint, "closed", how.output);
}

function tell(
  endpoint: CmEndpoint,
  kind: "request" | "established" | "closed",
  output: CmOutput,
): void {
  if (endpoint.listener === undefined) return;
  endpoint.listener.events.push({ kind, endpoint });
  output.signals.add(endpoint.listener.signal);
}

/** A message has come. `from` is the IPv4 address it came from. */
export function receive(
  agent: CmAgent,
  message: CmMessage,
  context: { readonly from: number; readonly output: CmOutput },
): void {
  const { from, output } = context;
  if (message.type === "REQ") return receiveReq(agent, message, output);
  const endpoint = agent.endpoints.get(message.remoteCommId);
  const known = endpoint !== undefined && endpoint.peerAddress === from &&
    endpoint.transactionId === message.transactionId &&
    (endpoint.peerCommId === message.localCommId || endpoint.phase === "req-sent");
  if (!known) return answerStranger(message, from, output);
  switch (message.type) {
    case "REP":
      return receiveRep(endpoint, message, output);
    case "RTU":
      if (endpoint.phase !== "rep-sent") return;
      establish(endpoint, undefined);
      return tell(endpoint, "established", output);
    case "REJ":
      if (endpoint.phase === "established") return;
      return end(agent, endpoint, { end: { kind: "rejected", message }, output });
    case "DREQ":
      output.send.push({ to: from, message: drepFor(message) });
      return end(agent, endpoint, { end: { kind: "disconnected" }, output });
    case "DREP":
      if (endpoint.phase !== "dreq-sent") return;
      return end(agent, endpoint, { end: { kind: "disconnected" }, output });
  }
}

function receiveReq(agent: CmAgent, req: CmReq, output: CmOutput): void {
  const peerAddress = addressOfGid(req.primaryLocalGid);
  if (peerAddress === undefined) return;
  for (const endpoint of agent.endpoints.values()) {
    if (endpoint.req === undefined || endpoint.peerAddress !== peerAddress) continue;
    if (endpoint.peerCommId !== req.localCommId) continue;
    if (endpoint.transactionId !== req.transactionId) continue;
    // The same request again: its answer was lost or is still being thought about.
    if (endpoint.phase === "rep-sent") {
      output.send.push({ to: peerAddress, message: endpoint.said! });
    }
    return;
  }
  const listener = agent.listeners.get(req.serviceId);
  if (listener === undefined) {
    const message = rejFor(req, { reason: REJECT_REASON.invalidServiceId });
    output.send.push({ to: peerAddress, message });
    return;
  }
  const { transactionId } = req;
  const { retry } = listener;
  const endpoint = addEndpoint(agent, { peerAddress, transactionId, listener, retry, req });
  tell(endpoint, "request", output);
}

function receiveRep(endpoint: CmEndpoint, rep: CmRep, output: CmOutput): void {
  if (endpoint.phase === "req-sent") {
    endpoint.phase = "rep-received";
    endpoint.rep = rep;
    endpoint.peerCommId = rep.localCommId;
    endpoint.deadline = NEVER;
    output.signals.add(endpointSignal(endpoint));
  } else if (endpoint.phase === "established" && endpoint.said?.type === "RTU") {
    output.send.push({ to: endpoint.peerAddress, message: endpoint.said });
  }
}

/** The endpoint is gone, or never was: a REP is refused, a DREQ has its will. */
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

function drepFor(dreq: Extract<CmMessage, { type: "DREQ" }>): CmMessage {
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
    rejected: refused.type === "REQ" ? 0 : 1,
    infoLength: 0,
    reason: why.reason,
  };
}

/** "Ready to use": the active side's last word. */
export function rtuFor(endpoint: CmEndpoint): CmRtu {
  return {
    type: "RTU",
    transactionId: endpoint.transactionId,
    privateData: NO_DATA,
    localCommId: endpoint.commId,
    remoteCommId: endpoint.peerCommId,
  };
}

/** The RNIC has lost everything: ends all endpoints and tells all listeners. @returns signals. */
export function resetAgent(agent: CmAgent): Set<string> {
  const signals = new Set<string>();
  for (const endpoint of [...agent.endpoints.values()]) {
    closeEndpoint(agent, endpoint, { kind: "disconnected" });
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
