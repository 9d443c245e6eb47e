/**
 * NATS delivers at most once and reports no loss, so a pair's events are numbered: the sender keeps
 * each until the timekeeper confirms that it was taken, the receiver requests missing ones.
 */
import type { Event } from "../partition/event_queue.ts";
import { NEVER, type Time } from "../base/time.ts";
import type { WireBatch } from "./wire_batch.ts";

interface Outbox {
  first: number;
  kept: Event[];
  earliest: Time;
}

interface Inbox {
  readonly peer: string;
  readonly incarnation: number;
  taken: number;
  /** Not taken: the first is number `taken`. */
  waiting: Event[];
}

export class ResendBuffer {
  readonly #out = new Map<string, Outbox>();
  readonly #in = new Map<string, Inbox>();

  keep(peer: string, event: Event): void {
    let box = this.#out.get(peer);
    if (box === undefined) this.#out.set(peer, box = { first: 0, kept: [], earliest: NEVER });
    box.kept.push(event);
    box.earliest = Math.min(box.earliest, event.time);
  }

  /** In all, with the earliest of this span; peers with none in it are left out. */
  takeSent(): [peer: string, count: number, earliest: Time][] {
    const sent: [string, number, Time][] = [];
    for (const [peer, box] of this.#out) {
      if (box.earliest === NEVER) continue;
      sent.push([peer, box.first + box.kept.length, box.earliest]);
      box.earliest = NEVER;
    }
    return sent;
  }

  /** In all, with the earliest that is not confirmed. */
  allSent(): [peer: string, count: number, earliest: Time][] {
    return [...this.#out].map(([peer, box]) => [
      peer,
      box.first + box.kept.length,
      box.kept.reduce((least, { time }) => Math.min(least, time), NEVER),
    ]);
  }

  confirm(peer: string, count: number): void {
    const box = this.#out.get(peer);
    if (box === undefined || count <= box.first) return;
    box.kept.splice(0, count - box.first);
    box.first = count;
  }

  sentTo(peer: string): number {
    const box = this.#out.get(peer);
    return box === undefined ? 0 : box.first + box.kept.length;
  }

  keptFor(peer: string, from: number): { first: number; events: readonly Event[] } {
    const box = this.#out.get(peer);
    if (box === undefined) return { first: from, events: [] };
    const skip = Math.max(0, from - box.first);
    return { first: box.first + skip, events: box.kept.slice(skip) };
  }

  /** Events behind a gap wait to be resent. */
  receive(peer: string, batch: WireBatch): void {
    const box = this.#inboxOf(peer, batch.incarnation);
    const have = box.taken + box.waiting.length;
    if (batch.first > have) return;
    const known = have - batch.first;
    for (let i = known; i < batch.events.length; i++) box.waiting.push(batch.events[i]!);
  }

  skip(peer: string, incarnation: number, count: number): void {
    const box = this.#inboxOf(peer, incarnation);
    box.waiting.splice(0, count - box.taken);
    box.taken = count;
  }

  have(peer: string, incarnation: number, count: number): number {
    const box = this.#inboxOf(peer, incarnation);
    return Math.min(count, box.taken + box.waiting.length);
  }

  take(peer: string, incarnation: number, count: number): readonly Event[] {
    const box = this.#inboxOf(peer, incarnation);
    if (count <= box.taken) return [];
    const events = box.waiting.splice(0, count - box.taken);
    box.taken += events.length;
    return events;
  }

  taken(): [peer: string, incarnation: number, count: number][] {
    return [...this.#in.values()].map(({ peer, incarnation, taken }) => [peer, incarnation, taken]);
  }

  #inboxOf(peer: string, incarnation: number): Inbox {
    const key = `${peer}/${incarnation}`;
    let box = this.#in.get(key);
    if (box === undefined) this.#in.set(key, box = { peer, incarnation, taken: 0, waiting: [] });
    return box;
  }
}
