/** A list used from the front without moving what is in it for each taken. */
export class Fifo<T> {
  #items: T[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  some(holds: (item: T) => boolean): boolean {
    for (let i = this.#head; i < this.#items.length; i++) if (holds(this.#items[i]!)) return true;
    return false;
  }

  shift(): void {
    if (++this.#head < 64 || this.#head * 2 < this.#items.length) return;
    this.#items = this.#items.slice(this.#head);
    this.#head = 0;
  }
}
