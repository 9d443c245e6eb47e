/** Two connection managers and a network between them that does to each message what a test says. */
import { ok } from "node:assert/strict";
import { NEVER } from "../../../fabric/base/time.ts";
import {
  type CmMessage,
  type CmRep,
  type CmReq,
  type CmType,
  gidOfAddress,
  mtuCode,
  REJECT_REASON,
  REP_DEFAULTS,
  REQ_DEFAULTS,
} from "../../../fabric/wire/roce/cm.ts";
import { disconnectEndpoint, expire, receive } from "./cm_agent.ts";
import { headOf, rejFor } from "./cm_messages.ts";
import {
  addEndpoint,
  closeEndpoint,
  type CmAgent,
  type CmEndpoint,
  type CmListener,
  type CmOutput,
  establish,
  expectAnswer,
  makeCmAgent,
  nextDeadline,
} from "./cm_state.ts";

const A = 0x0a000001, B = 0x0a000002;
const SERVICE_ID = 77n;
export const RETRY = { timeoutPs: 500_000_000, tries: 3 };
export const LATENCY_PS = 2_000_000;
const NO_DATA = new Uint8Array(0);

export type Fate = "pass" | "drop" | "twice" | { readonly delayPs: number };
export type Rule = (message: CmMessage, index: number) => Fate;

interface Flight {
  readonly at: number;
  readonly order: number;
  readonly to: "a" | "b";
  readonly message: CmMessage;
}

export interface WorldOptions {
  /** How long the service thinks about a request. */
  readonly thinkPs?: number;
  /** How long the active side takes to bring its queue pair up. */
  readonly bringUpPs?: number;
  readonly rejects?: boolean;
}

/** A host `a` that connects and one `b` that listens, both without programs: the test is those. */
export class World {
  readonly a: CmAgent = makeCmAgent();
  readonly b: CmAgent = makeCmAgent();
  readonly listener: CmListener = {
    serviceId: SERVICE_ID,
    program: "server#0",
    signal: "s",
    retry: RETRY,
    events: [],
  };
  readonly log: string[] = [];
  /** Events of `b`'s program. */
  readonly events: string[] = [];
  readonly sent: CmType[] = [];
  rule: Rule = () => "pass";
  now = 0;
  active: CmEndpoint;
  passive: CmEndpoint | undefined;
  readonly #counts = new Map<CmType, number>();
  readonly #todo: { at: number; run: () => void }[] = [];
  #flights: Flight[] = [];
  #order = 0;
  readonly #options: WorldOptions;

  constructor(options: WorldOptions = {}) {
    this.#options = options;
    this.b.nextCommId = 500;
    this.b.listeners.set(SERVICE_ID, this.listener);
    this.active = addEndpoint(this.a, {
      peerAddress: B,
      transactionId: 99n,
      listener: undefined,
      retry: RETRY,
      req: undefined,
    });
  }

  connect(change: Partial<CmReq> = {}): void {
    const message = { ...reqOf(this.active), ...change };
    expectAnswer(this.a, this.active, { message, now: this.now, phase: "req-sent" });
    this.send("b", message);
  }

  disconnect(side: "a" | "b"): void {
    const endpoint = side === "a" ? this.active : this.passive!;
    const agent = side === "a" ? this.a : this.b;
    const output: CmOutput = { send: [], signals: new Set() };
    disconnectEndpoint(agent, endpoint, { now: this.now, output });
    for (const { message } of output.send) this.send(side === "a" ? "b" : "a", message);
  }

  /** Runs until this holds: it must come to hold. */
  runUntil(holds: () => boolean): void {
    this.run(holds);
    ok(holds(), "the state is reached");
  }

  send(to: "a" | "b", message: CmMessage): void {
    const index = this.#counts.get(message.type) ?? 0;
    this.#counts.set(message.type, index + 1);
    this.sent.push(message.type);
    const fate = this.rule(message, index);
    if (fate === "drop") return;
    const delay = typeof fate === "object" ? fate.delayPs : 0;
    this.#fly(this.now + LATENCY_PS + delay, to, message);
    if (fate === "twice") this.#fly(this.now + LATENCY_PS + 1, to, message);
  }

  #fly(at: number, to: "a" | "b", message: CmMessage): void {
    this.#flights.push({ at, order: this.#order++, to, message });
    this.#flights.sort((x, y) => x.at - y.at || x.order - y.order);
  }

  /** Until no frame is in flight and no program waits, or until this holds. */
  run(holds: () => boolean = () => false): void {
    for (let steps = 0; !holds(); steps++) {
      ok(steps < 10_000, "the connection managers come to an end");
      const at = Math.min(
        this.#flights[0]?.at ?? NEVER,
        nextDeadline(this.a),
        nextDeadline(this.b),
        ...this.#todo.map((todo) => todo.at),
      );
      if (at === NEVER) return;
      this.now = at;
      this.#step();
    }
  }

  #step(): void {
    const due = this.#todo.findIndex(({ at }) => at <= this.now);
    if (due >= 0) return this.#todo.splice(due, 1)[0]!.run();
    const flight = this.#flights[0];
    const hasArrived = flight !== undefined && flight.at <= this.now;
    if (hasArrived) this.#flights = this.#flights.slice(1);
    for (const side of ["a", "b"] as const) {
      const output: CmOutput = { send: [], signals: new Set() };
      const agent = side === "a" ? this.a : this.b;
      if (hasArrived && flight.to === side) {
        receive(agent, flight.message, { from: side === "a" ? B : A, now: this.now, output });
      } else if (!hasArrived) {
        expire(agent, this.now, output);
      }
      for (const { message } of output.send) this.send(side === "a" ? "b" : "a", message);
    }
    this.#actAsPrograms();
  }

  #later(ps: number | undefined, run: () => void): void {
    this.#todo.push({ at: this.now + (ps ?? 0), run });
  }

  #actAsPrograms(): void {
    if (this.active.phase === "rep-received" && !this.log.includes("rep")) {
      this.log.push("rep");
      this.#later(this.#options.bringUpPs, () => {
        if (this.active.phase !== "rep-received") return;
        const rtu = { type: "RTU", ...headOf(this.active) } as const;
        establish(this.active, rtu);
        this.send("b", rtu);
      });
    }
    for (let event = this.listener.events.shift(); event; event = this.listener.events.shift()) {
      this.events.push(event.kind);
      if (event.kind !== "request") continue;
      const { endpoint } = event;
      this.passive = endpoint;
      this.#later(this.#options.thinkPs, () => this.#answer(endpoint));
    }
  }

  #answer(endpoint: CmEndpoint): void {
    if (endpoint.phase !== "req-received") return;
    if (this.#options.rejects) {
      const message = rejFor(endpoint.req!, { reason: REJECT_REASON.consumer });
      closeEndpoint(this.b, endpoint, { end: { kind: "rejected", message }, now: this.now });
      return this.send("a", message);
    }
    const message = repOf(endpoint);
    expectAnswer(this.b, endpoint, { message, now: this.now, phase: "rep-sent" });
    this.send("a", message);
  }

  phases(): (string | undefined)[] {
    return [this.active.phase, this.passive?.phase];
  }
}

export function reqOf(endpoint: Pick<CmEndpoint, "transactionId" | "commId">): CmReq {
  return {
    type: "REQ",
    ...REQ_DEFAULTS,
    transactionId: endpoint.transactionId,
    privateData: NO_DATA,
    localCommId: endpoint.commId,
    serviceId: SERVICE_ID,
    localCaGuid: 1n,
    localQpn: 17,
    responderResources: 16,
    initiatorDepth: 16,
    remoteCmResponseTimeout: 7,
    startingPsn: 3,
    localCmResponseTimeout: 7,
    retryCount: 7,
    pathMtu: mtuCode(4096),
    rnrRetryCount: 7,
    maxCmRetries: 3,
    primaryLocalGid: gidOfAddress(A),
    primaryRemoteGid: gidOfAddress(B),
    primaryLocalAckTimeout: 8,
  };
}

function repOf(endpoint: CmEndpoint): CmRep {
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
