/**
 * A run has half as many steps of operations as events: as objects with texts they would be most of
 * what a replay holds, and of what the collector looks at. A row is made when it is asked for.
 */
import type { Time } from "../../fabric/base/time.ts";
import type { TraceStep } from "../../fabric/node.ts";
import type { TraceLine } from "../../fabric/trace/trace.ts";
import { ByteLog, Numbers } from "./log_arrays.ts";

/** `order`: among all that the run has recorded. */
export type StepRow = TraceLine & { readonly order: number };

const NUMBERS = [
  "psn",
  "lastPsn",
  "wrId",
  "qpn",
  "operation",
  "wqe",
  "tag",
  "queue",
  "stamp",
  "hint",
] as const;
const RECVS = 1 << NUMBERS.length, SCM = RECVS << 1, INBOUND = SCM << 1;
const UNITS = INBOUND << 1, PAGES = UNITS << 1;
/** A work request's id is a text: two numbers. */
const WIDE = PAGES << 1;
const HALF = 2n ** 32n;
const LETTER_BYTES = 3, TEXT_MOST = 64 << 10;
const ENCODER = new TextEncoder(), DECODER = new TextDecoder();

export class StepLog {
  readonly #at = new Numbers();
  readonly #order = new Numbers();
  readonly #node = new Numbers(Uint32Array);
  readonly #step = new Numbers(Uint32Array);
  readonly #connection = new Numbers(Uint32Array);
  readonly #members = new Numbers(Uint32Array);
  readonly #first = new Numbers(Uint32Array);
  readonly #text = new Numbers(Uint32Array);
  readonly #textBytes = new Numbers(Uint32Array);
  readonly #numbers = new Numbers();
  readonly #texts = new ByteLog();
  readonly #names: string[] = [""];
  readonly #indexes = new Map<string, number>([["", 0]]);

  dropped = 0;

  get length(): number {
    return this.#at.length;
  }

  get heldBytes(): number {
    return this.#texts.heldBytes + 8 * this.#numbers.length + 44 * this.length;
  }

  push({ time, node, order }: Pick<StepRow, "time" | "node" | "order">, step: TraceStep): void {
    this.#at.push(time);
    this.#order.push(order);
    this.#node.push(this.#indexOf(node));
    this.#step.push(this.#indexOf(step.step));
    this.#connection.push(this.#indexOf(step.connection ?? ""));
    this.#first.push(this.#numbers.length);
    this.#members.push(this.#addNumbers(step));
    const text = step.text.length > TEXT_MOST ? step.text.slice(0, TEXT_MOST) : step.text;
    const { at, bytes } = this.#texts.room(LETTER_BYTES * text.length);
    const { written } = ENCODER.encodeInto(text, bytes);
    this.#texts.take(written);
    this.#text.push(at);
    this.#textBytes.push(written);
  }

  #addNumbers(step: TraceStep): number {
    const { recvs, scm, inbound, units, pages } = step, numbers = this.#numbers;
    let members = inbound === undefined ? 0 : INBOUND;
    for (let i = 0; i < NUMBERS.length; i++) {
      const value = step[NUMBERS[i]!];
      if (value === undefined) continue;
      members |= 1 << i;
      if (typeof value === "string") {
        members |= WIDE;
        numbers.push(Number(BigInt(value) / HALF));
        numbers.push(Number(BigInt(value) % HALF));
      } else numbers.push(value);
    }
    if (scm !== undefined) {
      members |= SCM;
      numbers.push(scm[0]);
      numbers.push(scm[1]);
    }
    if (units !== undefined) {
      members |= UNITS;
      for (const each of units) numbers.push(each);
    }
    if (pages !== undefined) {
      members |= PAGES;
      for (const each of pages) numbers.push(each);
    }
    if (recvs !== undefined) {
      members |= RECVS;
      numbers.push(recvs.length);
      for (const each of recvs) numbers.push(each);
    }
    return members;
  }

  at(index: number): StepRow {
    const members = this.#members.at(index), connection = this.#connection.at(index);
    const row: { -readonly [K in keyof StepRow]: StepRow[K] } = {
      time: this.#at.at(index),
      node: this.#names[this.#node.at(index)]!,
      step: this.#names[this.#step.at(index)]!,
      text: DECODER.decode(this.#texts.read(this.#text.at(index), this.#textBytes.at(index))),
      order: this.#order.at(index),
    };
    if (connection !== 0) row.connection = this.#names[connection]!;
    let next = this.#first.at(index);
    for (let i = 0; i < NUMBERS.length; i++) {
      if ((members & 1 << i) === 0) continue;
      const name = NUMBERS[i]!, value = this.#numbers.at(next++);
      if (name !== "wrId" || (members & WIDE) === 0) row[name] = value;
      else row.wrId = `${BigInt(value) * HALF + BigInt(this.#numbers.at(next++))}`;
    }
    if ((members & SCM) !== 0) row.scm = [this.#numbers.at(next++), this.#numbers.at(next++)];
    if ((members & UNITS) !== 0) row.units = [this.#numbers.at(next++), this.#numbers.at(next++)];
    if ((members & PAGES) !== 0) {
      const key = this.#numbers.at(next++);
      row.pages = [key, this.#numbers.at(next++), this.#numbers.at(next++)];
    }
    if ((members & RECVS) !== 0) {
      const from = next + 1, count = this.#numbers.at(next);
      row.recvs = Array.from({ length: count }, (_, i) => this.#numbers.at(from + i));
    }
    if ((members & INBOUND) !== 0) row.inbound = true;
    return row;
  }

  timeAt(index: number): Time {
    return this.#at.at(index);
  }

  countBefore(at: Time): number {
    return this.#at.countBelow(at);
  }

  slice(from: number, to: number): StepRow[] {
    const end = Math.min(to, this.length);
    return Array.from({ length: Math.max(0, end - from) }, (_, i) => this.at(from + i));
  }

  drop(count: number): void {
    if (count === 0) return;
    this.dropped += count;
    const first = count < this.length ? this.#first.at(count) : this.#numbers.length;
    if (count < this.length) this.#texts.dropBefore(this.#text.at(count));
    this.#numbers.drop(first);
    const columns = [this.#at, this.#order, this.#node, this.#step, this.#connection];
    for (const column of [...columns, this.#members, this.#text, this.#textBytes, this.#first]) {
      column.drop(count);
    }
    this.#first.subtract(first);
  }

  #indexOf(name: string): number {
    const known = this.#indexes.get(name);
    if (known !== undefined) return known;
    const index = this.#names.push(name) - 1;
    this.#indexes.set(name, index);
    return index;
  }
}
