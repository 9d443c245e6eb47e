/**
 * What the card asks of the host for pages, in turn: what requests need comes first, in order; what hints alone have
 * named gives way to that, and has its turns by requester, so that none of them holds the others up (H-24).
 */
import { Fifo } from "../../../fabric/base/fifo.ts";

export class Turns<T> {
  readonly #first = new Fifo<T>();
  /** By the requester's address, the one whose turn it is in front; each has something. */
  readonly #hints = new Map<number, Fifo<T>>();

  /** @param hintsOf the requester whose hints alone need it. */
  push(item: T, hintsOf?: number): void {
    if (hintsOf === undefined) return this.#first.push(item);
    let its = this.#hints.get(hintsOf);
    if (its === undefined) this.#hints.set(hintsOf, its = new Fifo());
    its.push(item);
  }

  get isEmpty(): boolean {
    return this.#first.length === 0 && this.#hints.size === 0;
  }

  shift(): T | undefined {
    if (this.#first.length > 0) return this.#first.shift();
    const [next] = this.#hints;
    if (next === undefined) return undefined;
    const [requester, its] = next;
    const item = its.shift();
    this.#hints.delete(requester);
    if (its.length > 0) this.#hints.set(requester, its);
    return item;
  }

  clear(): void {
    this.#first.clear();
    this.#hints.clear();
  }
}
