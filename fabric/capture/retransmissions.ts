/**
 * At the sending RNIC's port, a packet of a reliable connection whose PSN and kind have left
 * before, except ACKs and NAKs.
 */
import type { RackPlan } from "../rack/plan/plan.ts";
import { GSI_QPN } from "../wire/roce/bth.ts";
import { decodeCm } from "../wire/roce/cm.ts";
import { opcodeRow, type Operation } from "../wire/roce/opcode.ts";
import { decodePacket, isRefusal } from "../wire/roce/packet.ts";
import { type BthPeek, peekBth } from "./bth_peek.ts";
import type { FrameMark, Remark } from "./cable_effects.ts";

/** More than all RNICs of a rack have outstanding. */
const PACKETS_MAX = 2 ** 17;
/** Per direction. */
const READS_MAX = 64;
const PSNS = 2 ** 24;
const HALF_OF_PSNS = 2 ** 23;

interface Sent {
  readonly mark: FrameMark;
  readonly operation: Operation;
}

/** A repeated READ request for the rest ends at the same PSN. */
interface ReadAsked {
  readonly mark: FrameMark;
  readonly psn: number;
  readonly rkey: number;
  readonly end: bigint;
}

interface Flow {
  readonly id: number;
  readonly reads: ReadAsked[];
  lastPsn: number | undefined;
}

export interface LeavingFrame {
  readonly node: number;
  readonly frame: Uint8Array<ArrayBuffer>;
  readonly mark: FrameMark;
}

export class Retransmissions {
  readonly #plan: RackPlan;
  readonly #flows = new Map<string, Flow>();
  readonly #sent = new Map<number, Sent>();
  #flowsMade = 0;

  constructor(plan: RackPlan) {
    this.#plan = plan;
  }

  remarkOn(leaving: LeavingFrame): Remark | undefined {
    const bth = peekBth(leaving.frame);
    const row = bth && opcodeRow(bth.opcode);
    if (row === undefined) return undefined;
    if (bth!.destQpn === GSI_QPN) this.#forget(leaving.frame);
    const { service, direction, operation } = row;
    if (service !== "rc" || direction === "notice" || operation === "acknowledge") return undefined;
    const flow = this.#flowOf(flowName(bth!, direction));
    const key = flow.id * PSNS + bth!.psn;
    const first = this.#sent.get(key);
    if (first?.operation === operation) return { text: "retransmission of", about: first.mark };
    this.#remember(key, { mark: leaving.mark, operation });
    if (direction === "response") return undefined;
    return this.#request(flow, leaving, { psn: bth!.psn, operation });
  }

  #request(
    flow: Flow,
    { node, frame, mark }: LeavingFrame,
    { psn, operation }: { readonly psn: number; readonly operation: Operation },
  ): Remark | undefined {
    const { lastPsn } = flow;
    const isLater = lastPsn === undefined || isAfter(psn, lastPsn);
    if (operation !== "read-request") {
      if (isLater) flow.lastPsn = psn;
      return undefined;
    }
    const packet = decodePacket(frame);
    if (isRefusal(packet)) return undefined;
    const { va, length, rkey } = packet.reth!;
    const end = va + BigInt(length);
    if (!isLater) {
      const whole = flow.reads.findLast((read) => !isAfter(read.psn, psn));
      const isRest = whole !== undefined && whole.rkey === rkey && whole.end === end;
      return isRest
        ? { text: `retransmission from PSN ${psn} on of`, about: whole.mark }
        : undefined;
    }
    flow.reads.push({ mark, psn, rkey, end });
    if (flow.reads.length > READS_MAX) flow.reads.shift();
    // A READ uses one PSN per response packet, and no response packet is longer than the port's
    // MTU.
    flow.lastPsn = (psn + Math.max(1, Math.ceil(length / this.#mtuOf(node))) - 1) % PSNS;
    return undefined;
  }

  #mtuOf(node: number): number {
    const plan = this.#plan.nodes[node]!;
    return plan.kind === "rnic" ? plan.config.mtu : 4096;
  }

  #flowOf(name: string): Flow {
    let flow = this.#flows.get(name);
    if (flow === undefined) {
      flow = { id: this.#flowsMade++, reads: [], lastPsn: undefined };
      this.#flows.set(name, flow);
    }
    return flow;
  }

  /** A REQ or REP names a new queue pair: state of an earlier one with that number is dropped. */
  #forget(frame: Uint8Array<ArrayBuffer>): void {
    const packet = decodePacket(frame);
    if (isRefusal(packet)) return;
    const message = decodeCm(packet.payload);
    if (message?.type !== "REQ" && message?.type !== "REP") return;
    const to = { destination: packet.sourceAddress, destQpn: message.localQpn };
    for (const direction of ["request", "response"] as const) {
      this.#flows.delete(flowName(to, direction));
    }
  }

  #remember(key: number, sent: Sent): void {
    this.#sent.set(key, sent);
    if (this.#sent.size <= PACKETS_MAX) return;
    for (const [oldest] of this.#sent) {
      this.#sent.delete(oldest);
      return;
    }
  }
}

function flowName(
  { destination, destQpn }: Pick<BthPeek, "destination" | "destQpn">,
  direction: "request" | "response",
): string {
  return `${destination} ${destQpn} ${direction}`;
}

function isAfter(psn: number, other: number): boolean {
  const distance = (psn - other + PSNS) % PSNS;
  return distance > 0 && distance < HALF_OF_PSNS;
}
