/**
 * Jobs for hints only (H-24): requesters are served in turn, an item each, so that none delays the
 * others.
 */
import { Fifo } from "../../../fabric/base/fifo.ts";

export class FairQueue<T> {
  readonly #items = new Map<number, Fifo<T>>();

  push(item: T, requester: number): void {
    let its = this.#items.get(requester);
    if (its === undefined) this.#items.set(requester, its = new Fifo());
    its.push(item);
  }

  get isEmpty(): boolean {
    return this.#items.size === 0;
  }

  get length(): number {
    let length = 0;
    for (const its of this.#items.values()) length += its.length;
    return length;
  }

  shift(): T | undefined {
    const [next] = this.#items;
    if (next === undefined) return undefined;
    const [requester, its] = next;
    const item = its.shift();
    this.#items.delete(requester);
    if (its.length > 0) this.#items.set(requester, its);
    return item;
  }

  remove(isGone: (item: T) => boolean): void {
    for (const [requester, its] of this.#items) {
      if (!its.some(isGone)) continue;
      const left = new Fifo<T>();
      for (let item = its.shift(); item !== undefined; item = its.shift()) {
        if (!isGone(item)) left.push(item);
      }
      if (left.length > 0) this.#items.set(requester, left);
      else this.#items.delete(requester);
    }
  }

  clear(): void {
    this.#items.clear();
  }
}
