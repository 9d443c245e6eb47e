import {
  deepStrictEqual as same,
  equal as looseEqual,
  ok,
  strictEqual as equal,
} from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { NEVER } from "../../../fabric/base/time.ts";
import {
  type CmMessage,
  type CmRep,
  type CmReq,
  gidOfAddress,
  RECEIVED,
  REJECT_REASON,
  REP_DEFAULTS,
  timeoutOfCode,
} from "../../../fabric/wire/roce/cm.ts";
import { disconnectEndpoint, endListening, expire, receive, resetAgent } from "./cm_agent.ts";
import { headOf, mraFor, rejFor } from "./cm_messages.ts";
import {
  addEndpoint,
  type CmAgent,
  type CmChannel,
  type CmEndpoint,
  type CmListener,
  type CmOutput,
  endpointSignal,
  establish,
  expectAnswer,
  makeCmAgent,
  nextDeadline,
} from "./cm_state.ts";
import { reqOf } from "./cm_loss_testing.ts";

const A = 0x0a000001, B = 0x0a000002;
const SERVICE_ID = 77n;
const RETRY = { timeoutPs: 100, tries: 3 };
const NO_DATA = new Uint8Array(0);

function reqFrom(commId: number, serviceId = SERVICE_ID): CmReq {
  return { ...reqOf({ commId, transactionId: BigInt(commId) + 1000n }), serviceId };
}

function repFor(endpoint: CmEndpoint): CmRep {
  return {
    type: "REP",
    ...REP_DEFAULTS,
    transactionId: endpoint.transactionId,
    privateData: NO_DATA,
    localCommId: endpoint.commId,
    remoteCommId: endpoint.peerCommId,
    localQpn: 18,
    startingPsn: 9,
    responderResources: 16,
    initiatorDepth: 16,
    rnrRetryCount: 7,
    localCaGuid: 2n,
  };
}

/** Numbers of a message from the endpoint's peer. */
function fromPeer(endpoint: CmEndpoint): { localCommId: number; remoteCommId: number } {
  return { localCommId: endpoint.peerCommId, remoteCommId: endpoint.commId };
}

function dreqFor(endpoint: CmEndpoint): CmMessage {
  return {
    type: "DREQ",
    transactionId: endpoint.transactionId,
    privateData: NO_DATA,
    ...fromPeer(endpoint),
    remoteQpn: 18,
  };
}

let agent: CmAgent, listener: CmListener, output: CmOutput;

function sentTypes(): string[] {
  return output.send.map(({ message }) => message.type);
}

function startActive(): CmEndpoint {
  const endpoint = addEndpoint(agent, {
    peerAddress: B,
    transactionId: 5n,
    listener: undefined,
    retry: RETRY,
    req: undefined,
  });
  expectAnswer(agent, endpoint, { message: reqFrom(endpoint.commId), now: 0, phase: "req-sent" });
  return endpoint;
}

function startPassive(): CmEndpoint {
  receive(agent, reqFrom(40), { from: A, now: 0, output });
  const event = listener.events.shift()!;
  ok(event.kind === "request");
  return event.endpoint;
}

function answer(endpoint: CmEndpoint): void {
  expectAnswer(agent, endpoint, { message: repFor(endpoint), now: 0, phase: "rep-sent" });
}

beforeEach(() => {
  agent = makeCmAgent();
  output = { send: [], signals: new Set() };
  listener = {
    serviceId: SERVICE_ID,
    program: "server#0",
    signal: "service",
    retry: RETRY,
    events: [],
  };
  agent.listeners.set(SERVICE_ID, listener);
});

describe("the passive side", () => {
  it("passes a request to its listener, and refuses one for a service without a listener", () => {
    const endpoint = startPassive();
    equal(endpoint.peerAddress, A);
    ok(output.signals.has("service"));
    receive(agent, reqFrom(41, 78n), { from: A, now: 0, output });
    same(sentTypes(), ["REJ"]);
    const { message } = output.send[0]!;
    ok(message.type === "REJ" && message.reason === REJECT_REASON.invalidServiceId);
    equal(message.remoteCommId, 41);
  });

  it("refuses a request for a service that has datagrams alone", () => {
    agent.listeners.set(SERVICE_ID, { ...listener, datagrams: true });
    receive(agent, reqFrom(40), { from: A, now: 0, output });
    same([listener.events, sentTypes()], [[], ["REJ"]]);
  });

  it("makes one connection of a request that comes again, and answers it again", () => {
    const endpoint = startPassive();
    receive(agent, reqFrom(40), { from: A, now: 0, output });
    same([listener.events.length, sentTypes()], [0, ["MRA"]], "it is being thought about");
    answer(endpoint);
    receive(agent, reqFrom(40), { from: A, now: 0, output });
    same([listener.events.length, sentTypes()], [0, ["MRA", "REP"]]);
  });

  it("is established by RTU", () => {
    const endpoint = startPassive();
    answer(endpoint);
    const rtu = { type: "RTU", ...headOf(endpoint), ...fromPeer(endpoint) } as const;
    receive(agent, rtu, { from: A, now: 0, output });
    equal(endpoint.phase, "established");
    equal(endpoint.deadline, NEVER);
    equal(listener.events[0]?.kind, "established");
  });

  it("sends its REP three times to a dead peer, then notifies the listener", () => {
    answer(startPassive());
    for (const now of [100, 200, 300]) expire(agent, now, output);
    same(sentTypes(), ["REP", "REP", "REJ"]);
    const event = listener.events[0]!;
    ok(event.kind === "closed");
    same(event.endpoint.end, { kind: "timeout" });
    equal(agent.endpoints.size, 0);
  });

  it("takes no refusal once it is established, unless it says that no RTU came", () => {
    const endpoint = startPassive();
    answer(endpoint);
    establish(endpoint, undefined);
    const rej = rejFor(repFor(endpoint), { reason: REJECT_REASON.consumer });
    const copy = { ...rej, ...fromPeer(endpoint) };
    receive(agent, copy, { from: A, now: 0, output });
    equal(endpoint.phase, "established");
    receive(agent, { ...copy, reason: REJECT_REASON.timeout }, { from: A, now: 0, output });
    equal(endpoint.phase, "closed");
  });

  it("remembers a request that is over for twice as long as its peer asks", () => {
    const endpoint = startPassive();
    answer(endpoint);
    receive(agent, dreqFor(endpoint), { from: A, now: 0, output });
    listener.events.length = 0;
    const until = 2 * RETRY.timeoutPs * (RETRY.tries + 1);
    receive(agent, reqFrom(40), { from: A, now: until - 1, output });
    same([agent.endpoints.size, listener.events.length], [0, 0], "a late copy");
    receive(agent, reqFrom(40), { from: A, now: until, output });
    same(listener.events.map(({ kind }) => kind), ["request"]);
  });

  it("remembers at most 1024 of them: the oldest goes", () => {
    for (let commId = 1; commId <= 1100; commId++) {
      receive(agent, reqFrom(commId), { from: A, now: 0, output });
      const event = listener.events.shift()!;
      ok(event.kind === "request");
      receive(agent, dreqFor(event.endpoint), { from: A, now: 0, output });
      ok(agent.over.size <= 1024);
    }
    listener.events.length = 0;
    receive(agent, reqFrom(1100), { from: A, now: 0, output });
    equal(listener.events.length, 0);
    receive(agent, reqFrom(1), { from: A, now: 0, output });
    equal(listener.events.length, 1);
  });

  it("sends its DREQ three times to a dead peer, and no refusal behind it", () => {
    const endpoint = startPassive();
    answer(endpoint);
    establish(endpoint, undefined);
    disconnectEndpoint(agent, endpoint, { now: 0, output });
    for (const now of [100, 200, 299]) expire(agent, now, output);
    same([endpoint.phase, sentTypes()], ["dreq-sent", ["DREQ", "DREQ", "DREQ"]]);
    expire(agent, 300, output);
    same([endpoint.end, sentTypes().length], [{ kind: "timeout" }, 3]);
  });

  it("answers a DREQ, also the same one again when the connection is long gone", () => {
    const endpoint = startPassive();
    answer(endpoint);
    const dreq = dreqFor(endpoint);
    receive(agent, dreq, { from: A, now: 0, output });
    receive(agent, dreq, { from: A, now: 0, output });
    same(sentTypes(), ["DREP", "DREP"]);
    equal(listener.events.filter(({ kind }) => kind === "closed").length, 1);
  });
});

describe("the active side", () => {
  it("takes one REP, and repeats RTU for each later one", () => {
    const endpoint = startActive();
    const rep = { ...repFor(endpoint), localCommId: 90, remoteCommId: endpoint.commId };
    receive(agent, rep, { from: B, now: 0, output });
    equal(endpoint.phase, "rep-received");
    ok(output.signals.has(endpointSignal(endpoint)));
    receive(agent, rep, { from: B, now: 0, output });
    same(sentTypes(), ["MRA"], "the queue pair is being brought up");
    establish(endpoint, { type: "RTU", ...headOf(endpoint) });
    receive(agent, rep, { from: B, now: 0, output });
    same(sentTypes(), ["MRA", "RTU"]);
  });

  it("gives up after its tries: no wait for ever on a dead peer", () => {
    const endpoint = startActive();
    equal(nextDeadline(agent), 100);
    for (const now of [100, 200, 299]) expire(agent, now, output);
    same(sentTypes(), ["REQ", "REQ"]);
    equal(endpoint.phase, "req-sent");
    expire(agent, 300, output);
    same([endpoint.phase, endpoint.end], ["closed", { kind: "timeout" }]);
    looseEqual(nextDeadline(agent), NEVER);
  });

  it("believes one MRA, and no second one that would put its next try off again", () => {
    const endpoint = startActive();
    const mra = {
      ...mraFor(endpoint, RECEIVED.req),
      localCommId: 90,
      remoteCommId: endpoint.commId,
    };
    receive(agent, mra, { from: B, now: 50, output });
    const patient = 50 + timeoutOfCode(mra.serviceTimeout) + RETRY.timeoutPs;
    equal(nextDeadline(agent), patient);
    receive(agent, mra, { from: B, now: 60, output });
    equal(nextDeadline(agent), patient);
    // What it says again waits its own time again.
    expire(agent, patient, output);
    receive(agent, mra, { from: B, now: patient + 10, output });
    same([sentTypes(), nextDeadline(agent)], [["REQ"], patient + RETRY.timeoutPs]);
  });

  it("closes with the reason of a REJ", () => {
    const endpoint = startActive();
    const req = endpoint.lastSent as CmReq;
    const rej = rejFor({ ...req, transactionId: 5n }, { reason: REJECT_REASON.consumer });
    receive(agent, rej, { from: B, now: 0, output });
    ok(endpoint.end?.kind === "rejected");
    equal(endpoint.end.message.reason, REJECT_REASON.consumer);
  });

  it("refuses the REP of a connection that has timed out, so that the peer closes, too", () => {
    const endpoint = startActive();
    const rep = { ...repFor(endpoint), localCommId: 90, remoteCommId: endpoint.commId };
    for (const now of [100, 200, 300]) expire(agent, now, output);
    output.send.length = 0;
    receive(agent, rep, { from: B, now: 0, output });
    same(sentTypes(), ["REJ"]);
  });

  it("ignores what comes from another address or another exchange", () => {
    const endpoint = startActive();
    const rep = { ...repFor(endpoint), localCommId: 90, remoteCommId: endpoint.commId };
    receive(agent, rep, { from: 0x0a000009, now: 0, output });
    receive(agent, { ...rep, transactionId: 6n }, { from: B, now: 0, output });
    equal(endpoint.phase, "req-sent");
  });
});

describe("resetAgent", () => {
  it("closes every endpoint and notifies every listener when the RNIC has lost everything", () => {
    const active = startActive(), passive = startPassive();
    const signals = resetAgent(agent);
    same([active.phase, passive.phase], ["closed", "closed"]);
    same(listener.events, [{ kind: "reset" }]);
    ok(signals.has("service") && signals.has(endpointSignal(active)));
  });

  it("forgets times that an earlier life of the RNIC has waited for", () => {
    const endpoint = startPassive(), ids: CmChannel = { ...listener, events: [], ids: [] };
    answer(endpoint);
    establish(endpoint, undefined);
    // A connection of an id, which is told of the end of time wait.
    Object.assign(endpoint, { sink: ids, timeWaitPs: 1000 });
    receive(agent, dreqFor(endpoint), { from: A, now: 10, output });
    equal(nextDeadline(agent), 1010);
    ids.events.length = 0;
    resetAgent(agent);
    looseEqual(nextDeadline(agent), NEVER);
    expire(agent, 2000, output);
    same(ids.events, []);
  });
});

/** A listener beside the first one. */
function listenerOf(serviceId: bigint, more: Partial<CmListener> = {}): CmListener {
  const made = { ...listener, serviceId, signal: `${serviceId}`, events: [], ...more };
  agent.listeners.set(serviceId, made);
  return made;
}

const rejections = () =>
  output.send.flatMap(({ message }) => message.type === "REJ" ? [message.reason] : []);

describe("the end of listening", () => {
  it("refuses the requests that wait for its program, and no others; it comes once", () => {
    const other = listenerOf(78n), own = startPassive(), taken = { ...other, events: [] };
    for (const [commId, serviceId] of [[41, SERVICE_ID], [42, 78n]] as const) {
      receive(agent, reqFrom(commId, serviceId), { from: A, now: 0, output });
    }
    const event = listener.events.shift()!;
    ok(event.kind === "request");
    // An id of its own has it.
    event.endpoint.sink = taken;
    endListening(agent, listener, { now: 0, output });
    endListening(agent, listener, { now: 0, output });
    same([...agent.endpoints.values()].map(({ phase, commId }) => [phase, commId === own.commId]), [
      ...[["req-received", false], ["req-received", false]],
    ]);
    same(rejections(), [REJECT_REASON.invalidServiceId]);
    same(listener.events, [{ kind: "ended" }]);
    const ids = listenerOf(79n, { backlog: 1 });
    endListening(agent, ids, { now: 0, output });
    same(ids.events, [], "its program has ended it");
  });
});

describe("a listener's backlog", () => {
  it("has so many requests of its own at a time, and drops the next one, which comes again", () => {
    // Ids of one channel share its events.
    const events: CmListener["events"] = [];
    for (const id of [80n, 81n]) listenerOf(id, { backlog: 1, events });
    for (const [commId, id] of [[50, 80n], [51, 80n], [52, 81n]] as const) {
      receive(agent, reqFrom(commId, id), { from: A, now: 0, output });
    }
    same(events.map((event) => event.kind === "request" && event.endpoint.peerCommId), [50, 52]);
    events.length = 0;
    receive(agent, reqFrom(51, 80n), { from: A, now: 1, output });
    equal(events.length, 1);
    same(sentTypes(), []);
  });
});

describe("a queue pair of the peer's that asks again", () => {
  it("has its connection ended first where an id listens, if that stands", () => {
    listenerOf(80n, { backlog: 8 });
    const before = startPassive();
    const ask = (commId: number) => {
      output.send.length = 0;
      receive(agent, reqFrom(commId, 80n), { from: A, now: 0, output });
      return sentTypes();
    };
    same(ask(60), [], "the other request has no answer yet");
    answer(before);
    establish(before, undefined);
    same(ask(61), ["REJ", "DREQ"]);
    same([before.phase, rejections()], ["dreq-sent", [REJECT_REASON.staleConnection]]);
    // Of a program's own listener it is another request.
    const again = startActive(), rep = { ...repFor(again), localCommId: 90, localQpn: 17 };
    receive(agent, { ...rep, remoteCommId: again.commId }, { from: B, now: 0, output });
    establish(again, undefined);
    listener.events.length = 0;
    const req = { ...reqFrom(62), primaryLocalGid: gidOfAddress(B) };
    receive(agent, req, { from: B, now: 0, output });
    same([listener.events.length, again.phase], [1, "established"]);
    receive(agent, { ...req, localCommId: 63, serviceId: 80n }, { from: B, now: 0, output });
    equal(again.phase, "dreq-sent", "this end has asked for that connection");
  });
});

describe("messages", () => {
  it("are of a connection by both of its numbers, and a time-out's by the peer's alone, from that peer", () => {
    const endpoint = startPassive();
    answer(endpoint);
    establish(endpoint, undefined);
    const dreq = dreqFor(endpoint);
    receive(agent, { ...dreq, localCommId: 41 } as CmMessage, { from: A, now: 0, output });
    same([endpoint.phase, sentTypes()], ["established", ["DREP"]]);
    const rej = rejFor(repFor(endpoint), { reason: REJECT_REASON.timeout });
    const late = { ...rej, localCommId: endpoint.peerCommId, remoteCommId: 0 };
    receive(agent, late, { from: B, now: 0, output });
    equal(endpoint.phase, "established");
    receive(agent, late, { from: A, now: 0, output });
    equal(endpoint.phase, "closed");
  });

  it("refuse a response that its program will not have as its program, not as a time-out", () => {
    const endpoint = startActive();
    const rep = { ...repFor(endpoint), localCommId: 90, remoteCommId: endpoint.commId };
    receive(agent, rep, { from: B, now: 0, output });
    disconnectEndpoint(agent, endpoint, { now: 0, output });
    same(rejections(), [REJECT_REASON.consumer]);
  });
});

describe("endpoints", () => {
  it("have numbers that no other one has, and that are not 0", () => {
    agent.nextCommId = 0xffff_ffff;
    const numbers = [startActive(), startActive()].map(({ commId }) => commId);
    same(numbers, [0xffff_ffff, 1]);
    agent.nextCommId = 0xffff_ffff;
    equal(startActive().commId, 2);
  });

  it("that wait for an answer have the service read its deadlines again", () => {
    agent.stirred = false;
    const endpoint = startActive();
    equal(agent.stirred, true);
    agent.stirred = false;
    const mra = {
      ...mraFor(endpoint, RECEIVED.req),
      localCommId: 90,
      remoteCommId: endpoint.commId,
    };
    receive(agent, mra, { from: B, now: 50, output });
    equal(agent.stirred, true);
  });

  it("that a DREQ overtakes its RTU for have stood: their ids are told of the end of time wait", () => {
    const endpoint = startPassive();
    answer(endpoint);
    endpoint.timeWaitPs = 50;
    receive(agent, dreqFor(endpoint), { from: A, now: 10, output });
    same(agent.timers.map(({ at }) => at), [60]);
    const other = startActive();
    other.timeWaitPs = 50;
    Object.assign(other, { sink: listener });
    for (const now of [100, 200, 300]) expire(agent, now, output);
    equal(other.phase, "closed");
    same(agent.timers, [], "that one never stood");
  });
});

describe("a failure of the RNIC", () => {
  it("leaves nothing of what waited before it", () => {
    receive(agent, reqFrom(40), { from: A, now: 0, output });
    listenerOf(90n, { datagrams: true });
    const privateData = new Uint8Array(1);
    const asks = { type: "SIDR_REQ", transactionId: 5n, requestId: 9, pKey: 0xffff } as const;
    receive(agent, { ...asks, serviceId: 90n, privateData }, { from: A, now: 0, output });
    const [request] = agent.sidr.values();
    agent.stirred = false;
    resetAgent(agent);
    same([request!.phase, agent.sidr.size, agent.stirred], ["closed", 0, true]);
    same(listener.events, [{ kind: "reset" }]);
  });
});
