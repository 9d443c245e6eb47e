/**
 * One time per slot, with access to the minimum. An indexed binary heap: a retransmission timer
 * that moves with every ACK leaves no stale entry.
 */
import { NEVER, type Time } from "./time.ts";

export class Deadlines {
  readonly #times: Float64Array;
  readonly #heap: Int32Array;
  readonly #place: Int32Array;
  #size = 0;

  constructor(slots: number) {
    this.#times = new Float64Array(slots).fill(NEVER);
    this.#heap = new Int32Array(slots);
    this.#place = new Int32Array(slots).fill(-1);
  }

  /** NEVER without a deadline. */
  get earliest(): Time {
    return this.#size === 0 ? NEVER : this.#times[this.#heap[0]!]!;
  }

  get slot(): number {
    return this.#heap[0]!;
  }

  earliestBut(slot: number): Time {
    if (this.#size === 0 || this.#heap[0] !== slot) return this.earliest;
    // Below the top of a heap, one of its two children is the least.
    const second = this.#size > 1 ? this.#times[this.#heap[1]!]! : NEVER;
    return this.#size > 2 ? Math.min(second, this.#times[this.#heap[2]!]!) : second;
  }

  at(slot: number): Time {
    return this.#times[slot]!;
  }

  /** NEVER removes the deadline. */
  set(slot: number, time: Time): void {
    if (this.#times[slot] === time) return;
    this.#times[slot] = time;
    let place = this.#place[slot]!;
    if (place < 0) {
      place = this.#size++;
    } else if (time === NEVER) {
      this.#place[slot] = -1;
      const last = this.#heap[--this.#size]!;
      if (last === slot) return;
      this.#settle(last, place);
      return;
    }
    this.#settle(slot, place);
  }

  #before(x: number, y: number): boolean {
    const order = this.#times[x]! - this.#times[y]!;
    return order < 0 || (order === 0 && x < y);
  }

  #settle(slot: number, place: number): void {
    const heap = this.#heap;
    let at = place;
    while (at > 0 && this.#before(slot, heap[(at - 1) >> 1]!)) {
      this.#put(heap[(at - 1) >> 1]!, at);
      at = (at - 1) >> 1;
    }
    for (;;) {
      let child = 2 * at + 1;
      if (child >= this.#size) break;
      if (child + 1 < this.#size && this.#before(heap[child + 1]!, heap[child]!)) child++;
      if (this.#before(slot, heap[child]!)) break;
      this.#put(heap[child]!, at);
      at = child;
    }
    this.#put(slot, at);
  }

  #put(slot: number, place: number): void {
    this.#heap[place] = slot;
    this.#place[slot] = place;
  }
}
