import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { type CmMessage, type CmSidrReq, SIDR_STATUS } from "../../../fabric/wire/roce/cm.ts";
import { endListening, expire, receive } from "./cm_agent.ts";
import {
  type CmAgent,
  type CmListener,
  type CmOutput,
  type CmSink,
  makeCmAgent,
  nextDeadline,
  type SidrRequest,
} from "./cm_state.ts";
import { answerService, cancelService, REFUSED, resolveService } from "./sidr.ts";
import { NEVER } from "../../../fabric/base/time.ts";

const A = 0x0a000001, B = 0x0a000002;
const RETRY = { timeoutPs: 100, tries: 3 };
const REQ: CmSidrReq = {
  type: "SIDR_REQ",
  transactionId: 5n,
  requestId: 9,
  pKey: 0xffff,
  serviceId: 77n,
  privateData: new Uint8Array(3),
};

let a: CmAgent, b: CmAgent, asker: CmSink, listener: CmListener, output: CmOutput;

/** The messages that were sent since the last call. */
function sent(): CmMessage[] {
  return output.send.splice(0).map(({ message }) => message);
}

function ask(now = 0): SidrRequest {
  return resolveService(a, { peerAddress: B, retry: RETRY, req: REQ, sink: asker }, {
    now,
    output,
  });
}

function arrive(message: CmMessage, now: number): void {
  const toB = message.type === "SIDR_REQ";
  receive(toB ? b : a, message, { from: toB ? A : B, now, output });
}

function answer(now: number): void {
  const [event] = listener.events;
  if (event?.kind !== "sidr-request") throw new Error("No request");
  const privateData = new Uint8Array(1);
  const fields = { status: SIDR_STATUS.valid, qpn: 18, qKey: 3, privateData };
  answerService(b, event.request, { ...fields, now, output });
}

const kinds = ({ events }: CmSink) => events.map(({ kind }) => kind);

beforeEach(() => {
  a = makeCmAgent();
  b = makeCmAgent();
  output = { send: [], signals: new Set() };
  asker = { program: "client#0", signal: "a", events: [] };
  listener = {
    serviceId: 77n,
    program: "server#0",
    signal: "b",
    retry: RETRY,
    datagrams: true,
    events: [],
  };
  b.listeners.set(77n, listener);
});

describe("service ID resolution", () => {
  it("asks, is answered, and nothing is left at the requester", () => {
    const request = ask();
    const [req] = sent();
    arrive(req!, 10);
    answer(20);
    const [rep] = sent();
    arrive(rep!, 30);
    same([kinds(listener), kinds(asker)], [["sidr-request"], ["sidr-answered"]]);
    same([request.rep?.qpn, request.rep?.qKey, a.sidr.size], [18, 3, 0]);
    equal(nextDeadline(a), NEVER);
  });

  it("a lost or doubled message: one event at each end, and the same answer again", () => {
    ask();
    const [req] = sent();
    arrive(req!, 10);
    arrive(req!, 11);
    same([sent(), kinds(listener)], [[], ["sidr-request"]], "it is being thought about");
    answer(20);
    const [rep] = sent();
    expire(a, 100, output);
    const [again] = sent();
    equal(again, req, "the answer was lost");
    arrive(again!, 110);
    const [repeated] = sent();
    same(repeated, rep);
    arrive(repeated!, 120);
    arrive(repeated!, 121);
    same([kinds(listener), kinds(asker)], [["sidr-request"], ["sidr-answered"]]);
  });

  it("gives up after its tries", () => {
    ask();
    for (const now of [100, 200]) expire(a, now, output);
    equal(sent().length, 3);
    equal(nextDeadline(a), 300);
    expire(a, 300, output);
    same([sent(), kinds(asker), a.sidr.size], [[], ["sidr-timeout"], 0]);
  });

  it("remembers an answer for twice as long as its requester asks, then asks its program anew", () => {
    ask();
    const [req] = sent();
    arrive(req!, 0);
    answer(0);
    sent();
    arrive(req!, 2 * 100 * 4 - 1);
    equal(sent().length, 1);
    arrive(req!, 2 * 100 * 4);
    same([sent(), kinds(listener)], [[], ["sidr-request", "sidr-request"]]);
  });

  it("remembers at most 1024 of them", () => {
    for (let requestId = 1; requestId <= 1100; requestId++) {
      arrive({ ...REQ, requestId }, 0);
      const event = listener.events.shift();
      if (event?.kind !== "sidr-request") throw new Error("No request");
      answerService(b, event.request, { ...REFUSED, status: 0, now: 0, output });
    }
    equal(b.sidr.size, 1024);
  });

  it("ignores an answer from elsewhere, of another exchange, or that was cancelled", () => {
    const request = ask();
    arrive(sent()[0]!, 10);
    answer(20);
    const [rep] = sent();
    receive(a, rep!, { from: 0x0a000009, now: 30, output });
    receive(a, { ...rep!, transactionId: 6n }, { from: B, now: 30, output });
    same([request.phase, kinds(asker)], ["sent", []]);
    cancelService(a, request);
    arrive(rep!, 40);
    same([request.phase, kinds(asker), nextDeadline(a)], ["closed", [], NEVER]);
  });

  it("finds no service without a listener, or where it listens no more", () => {
    const statuses = () =>
      sent().map((message) => message.type === "SIDR_REP" ? message.status : message.type);
    arrive({ ...REQ, serviceId: 78n }, 0);
    same(statuses(), [SIDR_STATUS.unsupported]);
    arrive(REQ, 0);
    endListening(b, listener, { now: 0, output });
    same(statuses(), [SIDR_STATUS.unsupported]);
    arrive({ ...REQ, requestId: 10 }, 0);
    same(statuses(), [SIDR_STATUS.unsupported]);
    same(kinds(listener), ["sidr-request", "ended"]);
  });

  it("has so many requests wait as its listener's backlog, and refuses those alone where that ends", () => {
    const small: CmListener = { ...listener, serviceId: 78n, backlog: 1, events: [] };
    b.listeners.set(78n, small);
    const from = (requestId: number, serviceId: bigint, now = 0) =>
      receive(b, { ...REQ, requestId, serviceId }, { from: A, now, output });
    from(1, 78n);
    from(2, 78n);
    from(3, 77n);
    same([kinds(small), kinds(listener)], [["sidr-request"], ["sidr-request"]]);
    // A copy of one that waits is none, however late it is.
    from(1, 78n, 100_000);
    same([kinds(small), sent()], [["sidr-request"], []]);
    endListening(b, small, { now: 0, output });
    const refused = sent().map((message) => message.type === "SIDR_REP" && message.requestId);
    same(refused, [1]);
  });

  it("sets no deadline for a program that has not answered", () => {
    a.stirred = false;
    ask();
    equal(a.stirred, true, "the service reads its deadlines again");
    const [req] = sent();
    arrive(req!, 0);
    equal(nextDeadline(b), NEVER);
    answer(10);
    equal(nextDeadline(b), NEVER, "an answered one is only remembered");
  });
});
