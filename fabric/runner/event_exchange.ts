import { nodeIndexes } from "../rack/plan/cabling.ts";
import type { Bus } from "../bus/bus.ts";
import { encodeSealed } from "../bus/codec.ts";
import { ForgeryError } from "../bus/refusals.ts";
import { subjectOf } from "../bus/subjects.ts";
import type { Departure } from "../partition/outgoing.ts";
import { ResendBuffer } from "./resend_buffer.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import type { Event } from "../partition/event_queue.ts";
import { batchFromBytes, batchToBytes, type WireBatch } from "./wire_batch.ts";

export interface EventExchangeOptions {
  readonly run: string;
  readonly partition: string;
  readonly nodes: readonly string[];
  readonly plan: RackPlan;
  readonly partitionOf: ReadonlyMap<string, string>;
  readonly bus: Pick<Bus, "publish" | "maxPayload">;
}

export type Expected = readonly [peer: string, incarnation: number, count: number];

export class EventExchange {
  readonly buffer = new ResendBuffer();
  readonly #options: EventExchangeOptions;
  readonly #subjects = new Map<string, string>();
  readonly #peers = new Map<string, string>();
  readonly #askers = new Map<string, string>();
  /** A neighbour's consecutive requests for events never sent. */
  readonly #impossible = new Map<string, number>();
  readonly #farEnds = new Map<number, { readonly node: number; readonly peer: string }>();

  constructor(options: EventExchangeOptions) {
    this.#options = options;
    const { run, partition, partitionOf, plan, nodes } = options;
    const indexOf = nodeIndexes(plan.nodes);
    for (const { a, b } of plan.cables) {
      for (const [near, far] of [[a, b], [b, a]] as const) {
        const peer = partitionOf.get(far.node)!;
        if (!nodes.includes(near.node) || peer === partition) continue;
        const end = endKey(indexOf.get(near.node)!, near.port);
        this.#farEnds.set(end, { node: indexOf.get(far.node)!, peer });
        this.#subjects.set(peer, subjectOf({ kind: "wire", run, from: partition, to: peer }));
        this.#peers.set(subjectOf({ kind: "wire", run, from: peer, to: partition }), peer);
        this.#askers.set(subjectOf({ kind: "again", run, asker: peer, of: partition }), peer);
      }
    }
  }

  get subjects(): { readonly wire: Iterable<string>; readonly again: Iterable<string> } {
    return { wire: this.#peers.keys(), again: this.#askers.keys() };
  }

  publish(incarnation: number, departures: readonly Departure[]): void {
    for (const [to, sent] of Map.groupBy(departures, (departure) => departure.to)) {
      const events = sent.map(({ event }) => event);
      const kept = this.buffer.keptFor(to, 0);
      for (const event of events) this.buffer.keep(to, event);
      this.#publishEvents(to, { incarnation, first: kept.first + kept.events.length, events });
    }
  }

  #publishEvents(to: string, batch: WireBatch): void {
    const { bus } = this.#options;
    const { incarnation, first, events } = batch;
    const payload = batchToBytes(batch);
    if (payload.length <= bus.maxPayload || events.length === 1) {
      bus.publish(this.#subjects.get(to)!, payload);
      return;
    }
    const half = events.length >> 1;
    this.#publishEvents(to, { incarnation, first, events: events.slice(0, half) });
    this.#publishEvents(to, { incarnation, first: first + half, events: events.slice(half) });
  }

  /** @returns whether it was a batch of events for this partition. */
  receive(payload: Uint8Array, subject: string): boolean {
    const peer = this.#peers.get(subject);
    const batch = batchFromBytes(payload);
    if (peer === undefined || batch === undefined) return false;
    if (!batch.events.every((event) => this.#isFrom(peer, event))) return false;
    this.buffer.receive(peer, batch);
    return true;
  }

  #isFrom(peer: string, { source, target, input }: Event): boolean {
    if (input.kind !== "message" && input.kind !== "link") return false;
    const far = this.#farEnds.get(endKey(target, input.port));
    return far?.node === source && far.peer === peer;
  }

  askFor(missing: readonly Expected[]): void {
    const { bus, run, partition } = this.#options;
    for (const [peer, incarnation, count] of missing) {
      const from = this.buffer.have(peer, incarnation, count);
      const subject = subjectOf({ kind: "again", run, asker: partition, of: peer });
      bus.publish(subject, encodeSealed([incarnation, from]));
    }
  }

  /**
   * @returns whether the request was well formed, and for existing messages. @throws ForgeryError
   */
  sendAgain(
    value: unknown,
    at: { readonly subject: string; readonly incarnation: number | undefined },
  ): boolean {
    const { subject, incarnation } = at;
    const { partition } = this.#options;
    const asker = this.#askers.get(subject);
    const [asked, from] = Array.isArray(value) ? value as unknown[] : [];
    if (asker === undefined || !Number.isSafeInteger(from)) return false;
    if (incarnation === undefined || asked !== incarnation) return true;
    const sent = this.buffer.sentTo(asker);
    // The clock names no message to a neighbour before it is sent.
    if ((from as number) >= sent) {
      const asks = (this.#impossible.get(asker) ?? 0) + 1;
      this.#impossible.set(asker, asks);
      if (asks < IMPOSSIBLE_MAX) return false;
      throw new ForgeryError(
        `${asker} asks on ${subject} for message ${Number(from) + 1} of ${partition}: ` +
          `found ${sent} sent, so another process speaks for one of them`,
      );
    }
    this.#impossible.delete(asker);
    const { first, events } = this.buffer.keptFor(asker, from as number);
    if (events.length > 0) this.#publishEvents(asker, { incarnation, first, events });
    return true;
  }
}

/** A forged request is refused; a neighbour that continues has it from a forged report. */
const IMPOSSIBLE_MAX = 10;

const PORTS_MAX = 2 ** 16;

function endKey(node: number, port: number): number {
  return port < PORTS_MAX ? node * PORTS_MAX + port : NaN;
}
