/**
 * Service ID resolution (architecture §12.11): finds the UD queue pair that serves a port, by one request and one reply.
 * A pure machine beside `cm_agent.ts`, which passes it messages and the time.
 *
 *   requester  sent → answered, or closed at the last time-out      service  received → answered
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import {
  type CmSidrRep,
  type CmSidrReq,
  SIDR_STATUS,
  type SidrMessage,
} from "../../../fabric/wire/roce/cm.ts";
import {
  type CmAgent,
  type CmListener,
  type CmOutput,
  isBacklogFull,
  type SidrRequest,
} from "./cm_state.ts";

interface Context {
  readonly now: Time;
  readonly output: CmOutput;
}

const ANSWERED_MAX = 1024;

export function resolveService(
  agent: CmAgent,
  asked: Pick<SidrRequest, "peerAddress" | "retry" | "req" | "sink">,
  { now, output }: Context,
): SidrRequest {
  const { peerAddress, retry, req } = asked;
  const request: SidrRequest = {
    ...asked,
    key: `asked ${req.requestId}`,
    listener: undefined,
    rep: undefined,
    phase: "sent",
    triesLeft: retry.tries - 1,
    deadline: now + retry.timeoutPs,
  };
  agent.sidr.set(request.key, request);
  agent.stirred = true;
  output.send.push({ to: peerAddress, message: req });
  return request;
}

/** Copies of the request get the same answer. */
export function answerService(
  agent: CmAgent,
  request: SidrRequest,
  answer: Pick<CmSidrRep, "status" | "qpn" | "qKey" | "privateData"> & Context,
): void {
  const { now, output, ...fields } = answer;
  request.rep = repFor(request.req, fields);
  request.phase = "answered";
  const { timeoutPs, tries } = request.retry;
  request.deadline = now + 2 * timeoutPs * (tries + 1);
  output.send.push({ to: request.peerAddress, message: request.rep });
  forgetOld(agent, now);
}

export function cancelService(agent: CmAgent, request: SidrRequest): void {
  request.phase = "closed";
  request.sink = undefined;
  agent.sidr.delete(request.key);
}

function repFor(
  { transactionId, requestId, serviceId }: CmSidrReq,
  fields: Pick<CmSidrRep, "status" | "qpn" | "qKey" | "privateData">,
): CmSidrRep {
  return { type: "SIDR_REP", transactionId, requestId, serviceId, infoLength: 0, ...fields };
}

function forgetOld(agent: CmAgent, now: Time): void {
  let surplus = agent.sidr.size - ANSWERED_MAX;
  for (const [key, { phase, deadline }] of agent.sidr) {
    if (phase !== "answered" || (deadline > now && surplus-- <= 0)) continue;
    agent.sidr.delete(key);
  }
}

export function receiveSidr(
  agent: CmAgent,
  message: SidrMessage,
  context: Context & { readonly from: number },
): void {
  if (message.type === "SIDR_REQ") return receiveRequest(agent, message, context);
  const { from, output } = context;
  const request = agent.sidr.get(`asked ${message.requestId}`);
  const isMeant = request?.peerAddress === from && request.phase === "sent" &&
    request.req.transactionId === message.transactionId;
  if (!isMeant) return;
  request.rep = message;
  request.phase = "answered";
  agent.sidr.delete(request.key);
  notify(request, "sidr-answered", output);
}

function receiveRequest(
  agent: CmAgent,
  req: CmSidrReq,
  { from, now, output }: Context & { readonly from: number },
): void {
  const key = `from ${from} ${req.requestId} ${req.transactionId}`;
  const known = agent.sidr.get(key);
  if (known !== undefined && (known.phase === "received" || known.deadline > now)) {
    if (known.rep !== undefined) output.send.push({ to: from, message: known.rep });
    return;
  }
  const listener = agent.listeners.get(req.serviceId);
  if (listener?.datagrams !== true) {
    const message = repFor(req, { ...REFUSED, status: SIDR_STATUS.unsupported });
    output.send.push({ to: from, message });
    return;
  }
  if (isBacklogFull(listener)) return;
  const request: SidrRequest = {
    key,
    peerAddress: from,
    retry: listener.retry,
    req,
    listener,
    sink: listener,
    rep: undefined,
    phase: "received",
    triesLeft: 0,
    deadline: NEVER,
  };
  agent.sidr.set(key, request);
  notify(request, "sidr-request", output);
}

export const REFUSED = { qpn: 0, qKey: 0, privateData: new Uint8Array(0) } as const;

/** Requests that the program has not taken are refused. */
export function endSidr(agent: CmAgent, listener: CmListener, context: Context): void {
  for (const request of [...agent.sidr.values()]) {
    if (request.sink !== listener || request.phase !== "received") continue;
    answerService(agent, request, { ...REFUSED, status: SIDR_STATUS.unsupported, ...context });
  }
}

/** An answer is late: repeats the request, or gives it up. */
export function expireSidr(agent: CmAgent, { now, output }: Context): void {
  for (const request of [...agent.sidr.values()]) {
    if (request.phase !== "sent" || request.deadline > now) continue;
    if (request.triesLeft > 0) {
      request.triesLeft--;
      request.deadline = now + request.retry.timeoutPs;
      output.send.push({ to: request.peerAddress, message: request.req });
      continue;
    }
    request.phase = "closed";
    agent.sidr.delete(request.key);
    notify(request, "sidr-timeout", output);
  }
}

function notify(
  request: SidrRequest,
  kind: "sidr-request" | "sidr-answered" | "sidr-timeout",
  output: CmOutput,
): void {
  if (request.sink === undefined) return;
  request.sink.events.push({ kind, request });
  output.signals.add(request.sink.signal);
}
