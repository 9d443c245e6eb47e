/**
 * Matches steps of the document with captured frames. A device traces a step maybe before its frame
 * leaves, and one ACK answers several messages. A step that sends something waits here for its
 * frame; any other belongs to the frame whose arrival caused it.
 */
import type { TraceStep } from "../node.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import { hostOfRnic, machineOf, rnicName } from "../rack/plan/names.ts";
import { endsOf, hostsByAddress } from "../trace/trace.ts";
import { mechanismOf } from "../trace/mechanism_steps.ts";
import {
  arrowOf,
  documentText,
  type Figure,
  figureOfPost,
  stepIn,
} from "../trace/trace_figures.ts";
import { nakText } from "../wire/roce/aeth.ts";
import { type OpcodeRow, opcodeRow, type Operation } from "../wire/roce/opcode.ts";
import { type BthPeek, peekBth } from "./bth_peek.ts";
import type { SeenEvent } from "./instants.ts";
import { type FrameSeen, isFrameSeen, type MessageSeen } from "./observation.ts";

interface Role {
  readonly figure: Figure;
  readonly host: string;
}

interface Claim {
  readonly step: TraceStep;
  readonly psn: number;
  /** Undefined for datagrams. */
  readonly farQpn: number | undefined;
  readonly comment: string;
}

interface Packet extends BthPeek {
  readonly row: OpcodeRow;
}

const HALF_OF_PSNS = 0x80_0000;
const PSN_MASK = 0xff_ffff;
/** The oldest, whose answer was merged, are dropped. */
const WAITING_MAX = 256;

const ANSWERS: Readonly<Record<string, Operation>> = {
  "S205": "acknowledge",
  "S305": "acknowledge",
  "S1009": "acknowledge",
  "reception-ack": "acknowledge",
  "S314": "acknowledge",
  "send-ack": "acknowledge",
  "S212": "read-response",
  "S907": "persistence-acknowledge",
  "S1016": "persistence-acknowledge",
};

export class Commentator {
  readonly #plan: RackPlan;
  readonly #hosts: ReadonlyMap<string, string>;
  /** Hosts whose LLC receives writes: to them a plain WRITE is figure 3's, else figure 2's. */
  readonly #withCache: ReadonlySet<string>;
  readonly #roles = new Map<string, Role>();
  readonly #waiting = new Map<number, Claim[]>();

  constructor(plan: RackPlan) {
    this.#plan = plan;
    this.#hosts = hostsByAddress(plan);
    this.#withCache = new Set(plan.nodes.flatMap((node) => {
      const isCached = node.kind === "host" && node.config.ddio &&
        node.config.architecture === "ddio";
      return isCached ? [node.name] : [];
    }));
  }

  commentsOn(event: SeenEvent): ReadonlyMap<MessageSeen, string> {
    const said = new Map<MessageSeen, string>();
    for (const [frame, claims] of this.#claimsOn(event)) {
      said.set(frame, claims.map(({ comment }) => comment).join("; "));
    }
    return said;
  }

  stepsOn(event: SeenEvent): ReadonlyMap<FrameSeen, readonly TraceStep[]> {
    const claims = this.#claimsOn(event);
    return new Map(
      [...claims].map(([frame, own]) => [frame, own.map(({ step }) => step)] as const),
    );
  }

  #claimsOn({ node, seen }: SeenEvent): Map<FrameSeen, readonly Claim[]> {
    const arrived: Claim[] = [];
    for (const each of seen) {
      if (each.kind !== "step") continue;
      this.#noteRole(node, each.step);
      const claim = this.#claimOf(node, each.step);
      if (claim === undefined) continue;
      if (arrowOf(each.step.step) === "peer") this.#wait(node, claim);
      else arrived.push(claim);
    }
    const found = new Map<FrameSeen, readonly Claim[]>();
    for (const each of seen) {
      if (!isFrameSeen(each)) continue;
      const packet = packetOf(each.frame);
      if (packet === undefined) continue;
      const mine = each.kind === "sent"
        ? this.#takeWaiting(node, packet)
        : arrived.filter((claim) => isOfArrival(claim, packet));
      if (mine.length > 0) found.set(each, mine);
    }
    return found;
  }

  #noteRole(node: number, { step, connection, operation }: TraceStep): void {
    const figure = figureOfPost(step);
    if (figure === undefined || connection === undefined || operation === undefined) return;
    this.#roles.set(this.#keyOf(connection), { figure, host: this.#plan.nodes[node]!.name });
  }

  #keyOf(connection: string): string {
    return endsOf(connection, this.#hosts).map(({ host, qpn }) => `${host}:${qpn}`).join("-");
  }

  /** Undefined for a step without a packet. */
  #claimOf(node: number, step: TraceStep): Claim | undefined {
    const { psn, qpn, connection } = step;
    const plan = this.#plan.nodes[node]!;
    if (plan.kind !== "rnic" || psn === undefined) return undefined;
    // A preparation of a request has the request's PSN, and no part in its frames.
    if (mechanismOf(step.step) !== undefined) return undefined;
    // The read goes out when the DMA engine has room: a frame that arrives at that time did not
    // cause it.
    if (step.step === "dma-read") return undefined;
    // A NAK's frame shows its meaning.
    if (step.step === "nak" || step.step === "rnr-nak") return undefined;
    const ends = connection === undefined ? [] : endsOf(connection, this.#hosts);
    const own = rnicOfEnd(plan.name);
    const far = ends.find((end) => rnicOfEnd(end.host) !== own || end.qpn !== String(qpn));
    const name = this.#nameOf(step, {
      near: plan.config.host,
      far: far && machineOf(far.host),
    });
    const text = documentText(name) ?? step.text;
    const farQpn = far === undefined ? undefined : Number(far.qpn);
    return { step, psn, farQpn, comment: `${name} ${text}` };
  }

  #nameOf(
    { step, connection, inbound }: TraceStep,
    ends: { readonly near: string; readonly far: string | undefined },
  ): string {
    const role = connection === undefined ? undefined : this.#roles.get(this.#keyOf(connection));
    const requester = inbound ? ends.far : ends.near;
    const isOwn = role === undefined || requester === role.host;
    const responder = inbound ? ends.near : ends.far;
    const write = this.#withCache.has(responder ?? "") ? 3 : 2;
    return stepIn(role?.figure, { step, isOwn, write });
  }

  #wait(node: number, claim: Claim): void {
    const waiting = this.#waiting.get(node) ?? [];
    this.#waiting.set(node, waiting);
    waiting.push(claim);
    if (waiting.length > WAITING_MAX) waiting.shift();
  }

  #takeWaiting(node: number, packet: Packet): readonly Claim[] {
    const waiting = this.#waiting.get(node);
    if (waiting === undefined) return [];
    const mine = waiting.filter((claim) => isCarriedBy(claim, packet));
    if (mine.length > 0) {
      this.#waiting.set(node, waiting.filter((claim) => !mine.includes(claim)));
    }
    return mine;
  }
}

function rnicOfEnd(end: string): string {
  return hostOfRnic(end) === undefined ? rnicName(end) : end;
}

function packetOf(frame: Uint8Array<ArrayBuffer>): Packet | undefined {
  const bth = peekBth(frame);
  const row = bth && opcodeRow(bth.opcode);
  return row && { ...bth, row };
}

function isCarriedBy({ step, psn, farQpn }: Claim, { row, ...bth }: Packet): boolean {
  if (farQpn !== undefined && farQpn !== bth.destQpn) return false;
  const answer = ANSWERS[step.step];
  if (answer === undefined) return row.direction === "request" && bth.psn === psn;
  // A NAK acknowledges the PSNs before the one that it names (§3.4).
  const refuses = bth.syndrome !== undefined && nakText(bth.syndrome) !== undefined;
  const last = refuses ? (bth.psn - 1) & PSN_MASK : bth.psn;
  return row.operation === answer && isAtOrAfter(last, psn);
}

function isOfArrival({ step, psn }: Claim, { row, ...bth }: Packet): boolean {
  const direction = step.inbound ? "request" : "response";
  return bth.destQpn === step.qpn && row.direction === direction && isAtOrAfter(bth.psn, psn);
}

function isAtOrAfter(psn: number, first: number): boolean {
  return ((psn - first) & PSN_MASK) < HALF_OF_PSNS;
}
