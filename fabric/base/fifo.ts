export type ReadonlyFifo<T> = Pick<
  Fifo<T>,
  "first" | "end" | "length" | "at" | "some" | "values" | "peek"
>;

/** Elements keep their number, so that a cursor stays valid after removals. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;
  #first = 0;

  /** Of the oldest element: the number of removed ones. */
  get first(): number {
    return this.#first;
  }

  get end(): number {
    return this.#first + this.length;
  }

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Undefined where it was removed or not yet added. */
  at(number: number): T | undefined {
    const place = number - this.#first + this.#head;
    return place < this.#head ? undefined : this.#items[place];
  }

  some(holds: (item: T) => boolean): boolean {
    for (let i = this.#head; i < this.#items.length; i++) if (holds(this.#items[i]!)) return true;
    return false;
  }

  /** From the oldest on. */
  *values(): Generator<T> {
    for (let i = this.#head; i < this.#items.length; i++) yield this.#items[i]!;
  }

  peek(): T | undefined {
    return this.#items[this.#head];
  }

  shift(): T | undefined {
    const head = this.#head;
    if (head === this.#items.length) return undefined;
    const item = this.#items[head];
    this.#items[head] = undefined;
    this.#first++;
    // Compacts when half of the array is free: amortised constant time per shift.
    if (++this.#head > 32 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  clear(): void {
    this.#first = this.end;
    this.#items = [];
    this.#head = 0;
  }
}
