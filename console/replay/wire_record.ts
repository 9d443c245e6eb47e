/**
 * Messages on the cables of a run: for each direction, when each was on it, and its first bytes.
 */
import { peekBth } from "../../fabric/capture/bth_peek.ts";
import type { MessageSeen } from "../../fabric/capture/observation.ts";
import type { CablePlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import { opcodeRow } from "../../fabric/wire/roce/opcode.ts";
import { hostsByAddress } from "../../fabric/trace/trace.ts";
import { formatAddress } from "../../fabric/trace/describe.ts";
import { Numbers } from "./log_arrays.ts";
import type { CableState, InFlight } from "../api/replay.ts";
import { RECENT_PS } from "../api/replay_terms.ts";

const HEAD_BYTES = 128;
const HEADS_OF_CHUNK = 8_192;
const LOOK_BACK = 4_096;
const LISTED = 64;

export interface Direction {
  readonly cable: number;
  readonly plan: CablePlan;
  readonly from: string;
  readonly to: string;
  readonly startPs: Numbers;
  readonly endPs: Numbers;
  readonly bytes: Numbers;
  readonly total: Numbers;
  /** Of a frame its head's number, of a bus message one of its kind. */
  readonly what: Numbers;
  readonly order: Numbers;
  forgotten: number;
  forgottenBytes: number;
  /** By the message's number from the start of the run. */
  readonly effects: Map<number, { readonly says: readonly string[]; readonly latePs: number }>;
}

export class WireRecord {
  readonly #byPort = new Map<string, Direction>();
  readonly directions: Direction[] = [];
  readonly #names: ReadonlyMap<string, string>;
  readonly #chunks: (Uint8Array<ArrayBuffer> | undefined)[] = [];
  #headsForgotten = 0;
  readonly #heads = new WeakMap<Uint8Array, number>();
  #headCount = 0;
  readonly #kinds: string[] = [];

  readonly #recentPs: Time;

  /** @param recentPs the stretch of {@link CableState.recentBytes}. */
  constructor(plan: RackPlan, recentPs: Time = RECENT_PS) {
    this.#recentPs = recentPs;
    this.#names = hostsByAddress(plan);
    for (const [cable, each] of plan.cables.entries()) {
      for (const [near, far] of [[each.a, each.b], [each.b, each.a]] as const) {
        const direction: Direction = {
          cable,
          plan: each,
          from: near.node,
          to: far.node,
          startPs: new Numbers(),
          endPs: new Numbers(),
          bytes: new Numbers(),
          total: new Numbers(),
          what: new Numbers(),
          order: new Numbers(),
          forgotten: 0,
          forgottenBytes: 0,
          effects: new Map(),
        };
        this.directions.push(direction);
        this.#byPort.set(`${near.node} ${near.port}`, direction);
      }
    }
  }

  get heldBytes(): number {
    const rows = this.directions.reduce((sum, { startPs }) => sum + startPs.length, 0);
    return 48 * rows + HEAD_BYTES * (this.#headCount - this.#headsForgotten);
  }

  directionOf(node: string, port: number): Direction | undefined {
    return this.#byPort.get(`${node} ${port}`);
  }

  frame(node: string, seen: MessageSeen, order: number): void {
    const direction = this.directionOf(node, seen.port);
    if (direction === undefined || seen.frame === undefined) return;
    const { effect } = seen;
    if (effect !== undefined) {
      const latePs = effect.copies === 0 ? Infinity : effect.latePs;
      direction.effects.set(direction.forgotten + direction.startPs.length, {
        says: effect.says,
        latePs,
      });
    }
    this.#add(direction, {
      ...seen,
      bytes: seen.frame.length,
      what: this.#headOf(seen.frame),
      order,
    });
  }

  bus(
    direction: Direction,
    message: { kind: string; startPs: Time; endPs: Time; bytes: number; order: number },
  ): void {
    let what = this.#kinds.indexOf(message.kind);
    if (what < 0) what = this.#kinds.push(message.kind) - 1;
    this.#add(direction, { ...message, what });
  }

  #add(
    direction: Direction,
    { startPs, endPs, bytes, what, order }: {
      startPs: Time;
      endPs: Time;
      bytes: number;
      what: number;
      order: number;
    },
  ): void {
    const { total, forgottenBytes } = direction;
    total.push((total.length === 0 ? forgottenBytes : total.at(total.length - 1)) + bytes);
    direction.startPs.push(startPs);
    direction.endPs.push(endPs);
    direction.bytes.push(bytes);
    direction.what.push(what);
    direction.order.push(order);
  }

  /** Frames are passed on as they are: each is kept once. */
  #headOf(frame: Uint8Array): number {
    const known = this.#heads.get(frame);
    // Long after its coming a switch may pass a frame on.
    if (known !== undefined && known >= this.#headsForgotten) return known;
    const number = this.#headCount++;
    const place = number % HEADS_OF_CHUNK;
    if (place === 0) this.#chunks.push(new Uint8Array(HEADS_OF_CHUNK * HEAD_BYTES));
    this.#chunks.at(-1)!.set(frame.subarray(0, HEAD_BYTES), place * HEAD_BYTES);
    this.#heads.set(frame, number);
    return number;
  }

  head(direction: Direction, index: number): Uint8Array<ArrayBuffer> {
    const number = direction.what.at(index);
    const at = number % HEADS_OF_CHUNK * HEAD_BYTES;
    const chunk = this.#chunks[Math.floor(number / HEADS_OF_CHUNK)]!;
    return chunk.subarray(at, at + Math.min(HEAD_BYTES, direction.bytes.at(index)));
  }

  text(direction: Direction, index: number): string {
    if (direction.plan.kind === "bus") return this.#kinds[direction.what.at(index)]!;
    return frameText(this.head(direction, index), {
      bytes: direction.bytes.at(index),
      names: this.#names,
    });
  }

  forgetBefore(at: Time): void {
    let head = this.#headCount;
    for (const direction of this.directions) {
      const { startPs, endPs, bytes, total, what, order, effects } = direction;
      const sent = startPs.countBelow(at);
      let count = startPs.countBelow(at - this.#recentPs);
      // One may have begun before, and ended in it.
      while (count > 0 && endPs.at(count - 1) > at - this.#recentPs) count--;
      for (let i = sent - 1; i >= Math.max(0, sent - LOOK_BACK); i--) {
        const { arrivesPs } = this.inFlight(direction, i);
        if ((arrivesPs ?? endPs.at(i) + direction.plan.latencyPs) >= at) count = Math.min(count, i);
      }
      if (count > 0) direction.forgottenBytes = total.at(count - 1);
      direction.forgotten += count;
      for (const column of [startPs, endPs, bytes, total, what, order]) column.drop(count);
      for (const index of effects.keys()) if (index < direction.forgotten) effects.delete(index);
      if (direction.plan.kind === "bus") continue;
      for (let i = 0; i < what.length; i++) head = Math.min(head, what.at(i));
    }
    const first = Math.floor(head / HEADS_OF_CHUNK);
    for (let i = 0; i < first; i++) this.#chunks[i] = undefined;
    this.#headsForgotten = head;
  }

  stateOf(direction: Direction, at: Time): CableState {
    const { cable, plan, from, to, total } = direction;
    const sent = direction.startPs.countBelow(at);
    const inFlight: InFlight[] = [];
    let count = 0;
    for (let i = sent - 1; i >= Math.max(0, sent - LOOK_BACK); i--) {
      const row = this.inFlight(direction, i);
      if ((row.arrivesPs ?? row.endPs + plan.latencyPs) < at) {
        // A held frame may be behind later ones.
        if (direction.effects.size === 0) break;
        continue;
      }
      count++;
      inFlight.push(row);
    }
    return {
      cable,
      kind: plan.kind,
      from,
      to,
      inFlight: inFlight.reverse().slice(0, LISTED),
      inFlightCount: count,
      sent: direction.forgotten + sent,
      sentBytes: sent === 0 ? direction.forgottenBytes : total.at(sent - 1),
      recentBytes: this.#recentBytes(direction, { sent, at }),
    };
  }

  /** Of a frame that is half in the stretch, half. */
  #recentBytes(
    { startPs, endPs, bytes }: Direction,
    { sent, at }: { readonly sent: number; readonly at: Time },
  ): number {
    const from = at - this.#recentPs;
    let sum = 0;
    for (let i = sent - 1; i >= 0 && endPs.at(i) > from; i--) {
      const start = startPs.at(i), end = endPs.at(i);
      const within = Math.min(end, at) - Math.max(start, from);
      sum += bytes.at(i) * within / Math.max(1, end - start);
    }
    return Math.round(sum);
  }

  inFlight(direction: Direction, index: number): InFlight {
    const { plan, effects } = direction;
    const startPs = direction.startPs.at(index), endPs = direction.endPs.at(index);
    const effect = effects.get(direction.forgotten + index);
    const arrivesPs = endPs + plan.latencyPs + (effect?.latePs ?? 0);
    return {
      startPs,
      endPs,
      arrivesPs: arrivesPs === Infinity ? null : arrivesPs,
      bytes: direction.bytes.at(index),
      text: this.text(direction, index),
      ...(plan.kind === "network" && { head: this.head(direction, index).toHex() }),
      ...(effect && { effect: effect.says }),
    };
  }
}

/** `a→b RDMA WRITE only qp=0x22 psn=7, 4154 B`; the length of other frames than RoCE. */
function frameText(
  head: Uint8Array<ArrayBuffer>,
  { bytes, names }: { readonly bytes: number; readonly names: ReadonlyMap<string, string> },
): string {
  const bth = peekBth(head);
  if (bth === undefined) return `${bytes} B`;
  const name = (of: number) => names.get(formatAddress(of)) ?? formatAddress(of);
  const words = [
    `${name(bth.source)}→${name(bth.destination)}`,
    opcodeRow(bth.opcode)?.name ?? `opcode ${bth.opcode}`,
    `qp=0x${bth.destQpn.toString(16)}`,
    `psn=${bth.psn},`,
    `${bytes} B`,
  ];
  return words.join(" ");
}
