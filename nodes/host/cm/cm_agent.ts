/**
 * The communication manager of one host as a pure state machine: messages and time in, messages and signals out.
 * `cm.ts` has QP 1.
 *
 *   active   req-sent → rep-received → established      passive  req-received → rep-sent → established
 *   either   established → dreq-sent → closed
 *
 * A disconnect is possible in each phase ({@link disconnectEndpoint}).
 *
 * Every message that needs a response is retransmitted a bounded number of times, so no end waits
 * for ever on a peer that has failed; every response is repeated when its request is repeated.
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import {
  addressOfGid,
  type CmConnectionMessage,
  type CmMessage,
  type CmMra,
  type CmRep,
  type CmReq,
  isSidr,
  RECEIVED,
  REJECT_REASON,
  timeoutOfCode,
  TRANSPORT_SERVICE,
} from "../../../fabric/wire/roce/cm.ts";
import { drepFor, giveUp, headOf, mraFor, rejFor } from "./cm_messages.ts";
import {
  addEndpoint,
  awaitUntil,
  closeEndpoint,
  type CmAgent,
  type CmEndpoint,
  type CmListener,
  type CmOutput,
  connectionWith,
  dueAt,
  end,
  endpointSignal,
  establish,
  exchangeOf,
  expectAnswer,
  isBacklogFull,
  notePeerQp,
  notify,
} from "./cm_state.ts";
import { endSidr, expireSidr, receiveSidr } from "./sidr.ts";

/** A response is late: repeats the message, or closes the endpoint. */
export function expire(agent: CmAgent, now: Time, output: CmOutput): void {
  expireSidr(agent, { now, output });
  for (const timer of agent.timers.filter(({ at }) => at <= now)) {
    agent.timers.splice(agent.timers.indexOf(timer), 1);
    timer.sink.events.push(timer.event);
    output.signals.add(timer.sink.signal);
  }
  for (const endpoint of dueAt(agent, now)) {
    if (endpoint.triesLeft > 0 && endpoint.lastSent !== undefined) {
      endpoint.triesLeft--;
      endpoint.deadline = now + endpoint.retry.timeoutPs;
      output.send.push({ to: endpoint.peerAddress, message: endpoint.lastSent });
    } else {
      // The peer may regard the connection as established, or still process the request.
      if (endpoint.phase !== "dreq-sent") {
        output.send.push({ to: endpoint.peerAddress, message: giveUp(endpoint) });
      }
      end(agent, endpoint, { end: { kind: "timeout" }, now, output });
    }
  }
}

/**
 * Ends a connection, or a pending one, in any phase (architecture §12.9):
 *
 *   established              DREQ, repeated until DREP or the last time-out
 *   rep-sent                 the same when the RTU has come; its time-out ends it with a REJ
 *   req-sent                 REJ (time-out), as after the last time-out for a REP
 *   rep-received             REJ of the REP (consumer)
 *   req-received             REJ of the REQ (consumer)
 *
 * A lost REJ does no harm: the peer repeats its REQ or REP, and is refused again.
 */
export function disconnectEndpoint(
  agent: CmAgent,
  endpoint: CmEndpoint,
  context: { readonly now: Time; readonly output: CmOutput },
): void {
  const { now, output } = context;
  const { peerAddress: to, req, rep } = endpoint;
  switch (endpoint.phase) {
    case "established":
      return sendDreq(agent, endpoint, context);
    case "rep-sent":
      endpoint.wantsDisconnect = true;
      return;
    case "req-sent":
    case "rep-received": {
      const message = rep === undefined
        ? giveUp(endpoint)
        : rejFor(rep, { reason: REJECT_REASON.consumer });
      output.send.push({ to, message });
      return end(agent, endpoint, { end: { kind: "disconnected" }, now, output });
    }
    case "req-received": {
      // The REJ is that of its program, which gets no event.
      const message = rejFor(req!, { reason: REJECT_REASON.consumer });
      output.send.push({ to, message });
      return closeEndpoint(agent, endpoint, { end: { kind: "rejected", message }, now });
    }
    case "dreq-sent":
    case "closed":
      return;
  }
}

function sendDreq(
  agent: CmAgent,
  endpoint: CmEndpoint,
  { now, output }: { readonly now: Time; readonly output: CmOutput },
): void {
  const remoteQpn = (endpoint.rep ?? endpoint.req)?.localQpn ?? 0;
  const message = { type: "DREQ", ...headOf(endpoint), remoteQpn } as const;
  expectAnswer(agent, endpoint, { message, now, phase: "dreq-sent" });
  output.send.push({ to: endpoint.peerAddress, message });
}

/**
 * Later REQs are refused (invalid service ID), and so are unanswered ones, except those that have
 * an id. Connections stay.
 */
export function endListening(
  agent: CmAgent,
  listener: CmListener,
  { now, output }: { readonly now: Time; readonly output: CmOutput },
): void {
  if (agent.listeners.get(listener.serviceId) !== listener) return;
  agent.listeners.delete(listener.serviceId);
  const reason = REJECT_REASON.invalidServiceId;
  for (const endpoint of [...agent.endpoints.values()]) {
    if (endpoint.sink !== listener || endpoint.phase !== "req-received") continue;
    const message = rejFor(endpoint.req!, { reason });
    output.send.push({ to: endpoint.peerAddress, message });
    closeEndpoint(agent, endpoint, { end: { kind: "rejected", message }, now });
    output.signals.add(endpointSignal(endpoint));
  }
  endSidr(agent, listener, { now, output });
  // An id's program has ended its listener itself.
  if (listener.backlog !== undefined) return;
  listener.events.push({ kind: "ended" });
  output.signals.add(listener.signal);
}

export function receive(
  agent: CmAgent,
  message: CmMessage,
  context: { readonly from: number; readonly now: Time; readonly output: CmOutput },
): void {
  const { from, now, output } = context;
  if (isSidr(message)) return receiveSidr(agent, message, context);
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
      return receiveRep(agent, endpoint, { rep: message, output });
    case "RTU":
      if (endpoint.phase !== "rep-sent") return;
      establish(endpoint, undefined);
      if (endpoint.wantsDisconnect) {
        output.signals.add(endpointSignal(endpoint));
        return sendDreq(agent, endpoint, { now, output });
      }
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
  // Its GID must be its sender's address.
  if (addressOfGid(req.primaryLocalGid) !== peerAddress) return;
  const exchange = exchangeOf(peerAddress, req), known = agent.requested.get(exchange);
  if (known !== undefined) {
    // A repeated REQ: its response was lost, or is not ready.
    if (known.phase === "rep-sent") {
      output.send.push({ to: peerAddress, message: known.lastSent! });
    } else if (known.phase === "req-received") {
      output.send.push({ to: peerAddress, message: mraFor(known, RECEIVED.req) });
    }
    return;
  }
  const over = agent.over.get(exchange);
  if (over !== undefined && over.until > now) {
    if (over.rej !== undefined) output.send.push({ to: peerAddress, message: over.rej });
    return;
  }
  const { rc, uc } = TRANSPORT_SERVICE;
  const isConnected = req.transportService === rc || req.transportService === uc;
  const listener = agent.listeners.get(req.serviceId);
  if (!isConnected || listener === undefined || listener.datagrams) {
    const { invalidTransport, invalidServiceId } = REJECT_REASON;
    const message = rejFor(req, { reason: isConnected ? invalidServiceId : invalidTransport });
    output.send.push({ to: peerAddress, message });
    return;
  }
  // The REQ's queue pair has a connection here: its host or card has lost its power, and assigns
  // the same numbers again (§12.9.8.3.1; Linux: `cm_match_req`). The old one ends by a DREQ, and
  // its program gets the event.
  const stale = connectionWith(agent, { peerAddress, qpn: req.localQpn });
  if (stale !== undefined && listener.backlog !== undefined) {
    const message = rejFor(req, { reason: REJECT_REASON.staleConnection });
    output.send.push({ to: peerAddress, message });
    return sendDreq(agent, stale, context);
  }
  if (isBacklogFull(listener)) return;
  const { transactionId } = req;
  const { retry } = listener;
  const endpoint = addEndpoint(agent, { peerAddress, transactionId, listener, retry, req });
  notify(endpoint, "request", output);
}

function receiveRep(
  agent: CmAgent,
  endpoint: CmEndpoint,
  { rep, output }: { readonly rep: CmRep; readonly output: CmOutput },
): void {
  if (endpoint.phase === "req-sent") {
    endpoint.phase = "rep-received";
    endpoint.rep = rep;
    notePeerQp(agent, endpoint);
    endpoint.peerCommId = rep.localCommId;
    endpoint.deadline = NEVER;
    output.signals.add(endpointSignal(endpoint));
    notify(endpoint, "rep", output);
  } else if (endpoint.phase === "rep-received") {
    output.send.push({ to: endpoint.peerAddress, message: mraFor(endpoint, RECEIVED.rep) });
  } else if (endpoint.phase === "established" && endpoint.lastSent?.type === "RTU") {
    output.send.push({ to: endpoint.peerAddress, message: endpoint.lastSent });
  }
}

/**
 * Message receipt acknowledgement: the peer needs longer, so the request is not repeated before.
 * Only the first counts, so that a peer that sends only MRAs still times out.
 */
function receiveMra(
  agent: CmAgent,
  endpoint: CmEndpoint,
  { mra, now }: { readonly mra: CmMra; readonly now: Time },
): void {
  const asked = mra.received === RECEIVED.req ? "req-sent" : "rep-sent";
  if (endpoint.phase !== asked || endpoint.isPatient) return;
  endpoint.isPatient = true;
  const { retry: { timeoutPs } } = endpoint;
  awaitUntil(agent, endpoint, now + timeoutOfCode(mra.serviceTimeout) + timeoutPs);
}

/** A peer that timed out may not know this end's number, so its own identifies the connection. */
function timedOut(
  agent: CmAgent,
  message: Exclude<CmConnectionMessage, CmReq>,
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

function answerStranger(
  message: Exclude<CmConnectionMessage, CmReq>,
  from: number,
  output: CmOutput,
): void {
  if (message.type === "DREQ") output.send.push({ to: from, message: drepFor(message) });
  if (message.type === "REP") {
    const rej = rejFor(message, { reason: REJECT_REASON.invalidCommId });
    output.send.push({ to: from, message: rej });
  }
}

/** The RNIC has failed: endpoints close, listeners are told. @returns signals. */
export function resetAgent(agent: CmAgent): Set<string> {
  const signals = new Set<string>();
  for (const endpoint of [...agent.endpoints.values()]) {
    closeEndpoint(agent, endpoint, { end: { kind: "disconnected" }, now: 0 });
    signals.add(endpointSignal(endpoint));
  }
  for (const request of agent.sidr.values()) request.phase = "closed";
  agent.sidr.clear();
  agent.timers.length = 0;
  for (const channel of agent.channels) {
    channel.events.push({ kind: "reset", agent });
    signals.add(channel.signal);
  }
  for (const listener of agent.listeners.values()) {
    if (listener.backlog !== undefined) continue;
    listener.events.length = 0;
    listener.events.push({ kind: "reset" });
    signals.add(listener.signal);
  }
  agent.stirred = true;
  return signals;
}
