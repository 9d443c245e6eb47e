/**
 * Whether the accesses to one line can have happened one after the other, each at an instant between its begin and
 * its end, so that every load returns the last store (C-09): linearizability, which holds for a rack where it holds
 * for each line (Herlihy and Wing, "Linearizability", TOPLAS 12(3), 1990, theorem 1). All orders of what overlaps in
 * time are kept, and each end leaves those in which its access is done: just-in-time linearization (Lowe, "Testing
 * for linearizability", CCPE 29(4), 2017).
 *
 * A line whose last value is gone is *lost* (decision 13): loads say so, and a store to the whole line ends that.
 */
export const LINE_BYTES = 64;
export const WORD_BYTES = 8;

export type LineEvent =
  | { readonly kind: "begin"; readonly op: LineOp }
  | { readonly kind: "end"; readonly op: LineOp }
  /** Home's power fails: from now on the line has what was persistent. */
  | { readonly kind: "restart"; readonly mayHave: MayHave };

/** Whether a word of the line may have these bytes, from `at` in the line on: at most to the word's end. */
export type MayHave = (at: number, bytes: Uint8Array) => boolean;

/** An access, as far as it is about this line. */
export interface LineOp {
  readonly name: string;
  readonly op: "load" | "store" | "add" | "compare-swap" | "lose";
  /** Bytes [from, from + length) of the line. */
  readonly from: number;
  readonly length: number;
  /** Of `store`, `add` and `compare-swap`: see `AccessRecord`. */
  readonly bytes?: Uint8Array | undefined;
  readonly compare?: Uint8Array | undefined;
  /** What a load returned, or an atomic's old value; undefined: its program does not know. */
  readonly seen?: Uint8Array | undefined;
  /** The program was told that the bytes are lost. */
  readonly isLost?: boolean;
  /** Of `lose`: it need not have been so. */
  readonly isPossible?: boolean;
}

export interface LineVerdict {
  /** The first access that no order allows, and the contents that the line can have had then. */
  readonly wrong?: { readonly op: LineOp; readonly mayBe: readonly string[] };
  /** More was under way at a time than is tried: the rest of the line's accesses are not judged. */
  readonly unchecked?: { readonly op: LineOp; readonly why: string };
}

/** Accesses under way at a time, ways in which they can have been done, and steps from one end to the next. */
export const LIMITS = { open: 30, ways: 4_096, steps: 200_000 } as const;

/** Of a byte: it is what was persistent when home's power failed; it is known; anything. */
const PERSISTENT = 0, KNOWN = 1, ANYTHING = 2;

/** A line's content; `known` says of each byte what is known of it. Null: the content is lost. */
type Content = { readonly bytes: Uint8Array; readonly known: Uint8Array } | null;

/** What may have happened: the content, and which open accesses are done, a bit for each. */
interface Way {
  readonly content: number;
  readonly done: number;
}

export function judgeLine(events: Iterable<LineEvent>): LineVerdict {
  const line = new Line();
  for (const event of events) {
    const verdict = line.see(event);
    if (verdict !== undefined) return verdict;
  }
  return {};
}

class Line {
  readonly #contents = new Contents();
  /** Places of accesses that are under way. */
  readonly #open: (LineOp | undefined)[] = [];
  /** Accesses that home's power failure has met, done before it or after it. */
  readonly #met = new Set<LineOp>();
  #ways: Way[];
  #mayHave: MayHave = () => true;

  constructor() {
    const zeros = {
      bytes: new Uint8Array(LINE_BYTES),
      known: new Uint8Array(LINE_BYTES).fill(KNOWN),
    };
    this.#ways = [{ content: this.#contents.number(zeros), done: 0 }];
  }

  see(event: LineEvent): LineVerdict | undefined {
    if (event.kind === "restart") return this.#restart(event.mayHave);
    const { op } = event;
    if (event.kind === "end") return this.#end(op);
    const free = this.#open.indexOf(undefined);
    const place = free < 0 ? this.#open.length : free;
    if (place >= LIMITS.open) {
      return { unchecked: { op, why: `more than ${LIMITS.open} accesses at a time` } };
    }
    this.#open[place] = op;
    return undefined;
  }

  /** What was under way may be done after it, and need not be: its effect may be in what is found. */
  #restart(mayHave: MayHave): undefined {
    this.#mayHave = mayHave;
    for (const [index, op] of this.#open.entries()) {
      if (op === undefined) continue;
      this.#met.add(op);
      if (op.op === "load" || op.op === "lose") this.#open[index] = undefined;
    }
    const bytes = new Uint8Array(LINE_BYTES), known = new Uint8Array(LINE_BYTES);
    this.#ways = [{ content: this.#contents.number({ bytes, known }), done: 0 }];
  }

  #end(op: LineOp): LineVerdict | undefined {
    if (this.#met.has(op)) return undefined;
    const place = this.#open.indexOf(op), own = 1 << place;
    const next = new Map<string, Way>(), seen = new Set<string>();
    const stack: Way[] = [];
    const add = (way: Way) => {
      const key = `${way.content} ${way.done}`;
      if ((way.done & own) !== 0) next.set(key, way);
      else if (!seen.has(key)) stack.push(way);
      seen.add(key);
    };
    if (op.isPossible === true) {
      for (const way of this.#ways) next.set(`${way.content} ${way.done}`, way);
    }
    this.#ways.forEach(add);
    for (let way = stack.pop(), steps = 0; way !== undefined; way = stack.pop()) {
      if (++steps > LIMITS.steps || next.size > LIMITS.ways) {
        return { unchecked: { op, why: `more than ${LIMITS.ways} orders of what overlaps` } };
      }
      for (const [index, each] of this.#open.entries()) {
        if (each === undefined || (way.done & 1 << index) !== 0) continue;
        const content = this.#after(way.content, each);
        if (content !== undefined) add({ content, done: way.done | 1 << index });
      }
    }
    if (next.size === 0) return { wrong: { op, mayBe: this.#texts(op) } };
    this.#open[place] = undefined;
    this.#ways = [...next.values()].map(({ content, done }) => ({ content, done: done & ~own }));
    return undefined;
  }

  /** The content after an access that saw what it saw; undefined where it cannot have seen that. */
  #after(number: number, op: LineOp): number | undefined {
    const after = this.#contents.after(number, op, this.#mayHave);
    return after === undefined ? undefined : this.#contents.number(after);
  }

  #texts({ from, length }: LineOp): string[] {
    const found = this.#ways.map(({ content }) => {
      const { bytes, known } = this.#contents.of(content) ?? {};
      if (bytes === undefined || known === undefined) return "lost";
      if (known.subarray(from, from + length).some((each) => each !== KNOWN)) {
        return "what is persistent";
      }
      return bytes.subarray(from, from + length).toHex();
    });
    return [...new Set(found)].sort();
  }
}

/** Contents that the line may have had, by number. */
class Contents {
  readonly #all: Content[] = [];
  readonly #numbers = new Map<string, number>();

  of(number: number): Content {
    return this.#all[number]!;
  }

  number(content: Content): number {
    const key = content === null ? "" : String.fromCharCode(...content.bytes, ...content.known);
    let number = this.#numbers.get(key);
    if (number !== undefined) return number;
    number = this.#all.push(content) - 1;
    this.#numbers.set(key, number);
    return number;
  }

  after(number: number, op: LineOp, mayHave: MayHave): Content | undefined {
    const content = this.of(number);
    // The line may be lost by then: what is reported later counts from its report on.
    if (op.op === "lose" || op.isLost === true) return null;
    const isWhole = op.op === "store" && op.length === LINE_BYTES;
    if (content === null) return isWhole ? stored(UNKNOWN, { ...op, at: op.from }) : undefined;
    const found = op.seen === undefined
      ? content
      : bound(content, { ...op, seen: op.seen, mayHave });
    if (found === undefined) return undefined;
    switch (op.op) {
      case "load":
        return found;
      case "store":
        return stored(found, { ...op, at: op.from });
      case "add":
      case "compare-swap":
        return changed(found, op);
    }
  }
}

const UNKNOWN = { bytes: new Uint8Array(LINE_BYTES), known: new Uint8Array(LINE_BYTES) };

/** The content, where these bytes are seen in it: those that were unknown are known now. */
function bound(
  content: NonNullable<Content>,
  { from, seen, mayHave }: {
    readonly from: number;
    readonly seen: Uint8Array;
    readonly mayHave: MayHave;
  },
): NonNullable<Content> | undefined {
  const { bytes, known } = content;
  let isNew = false;
  for (const [i, byte] of seen.entries()) {
    if (known[from + i] !== KNOWN) isNew = true;
    else if (bytes[from + i] !== byte) return undefined;
  }
  if (!isNew) return content;
  for (let at = from; at < from + seen.length;) {
    const wordEnd = at - at % WORD_BYTES + WORD_BYTES;
    const isUnknown = (index: number) => known[index] === PERSISTENT;
    let end = at;
    while (end < Math.min(wordEnd, from + seen.length) && isUnknown(end)) end++;
    if (end > at && !mayHave(at, seen.subarray(at - from, end - from))) return undefined;
    at = Math.max(end, at + 1);
  }
  return stored(content, { at: from, bytes: seen });
}

function stored(
  { bytes, known }: NonNullable<Content>,
  change: { readonly at: number; readonly bytes?: Uint8Array | undefined },
): NonNullable<Content> {
  const after = { bytes: bytes.slice(), known: known.slice() };
  if (change.bytes === undefined) return after;
  after.bytes.set(change.bytes, change.at);
  after.known.fill(KNOWN, change.at, change.at + change.bytes.length);
  return after;
}

/** An atomic's effect on what is there: its old value is bound already, where its program knows it. */
function changed(
  content: NonNullable<Content>,
  { op, from, bytes, compare }: LineOp,
): NonNullable<Content> {
  const old = content.bytes.slice(from, from + WORD_BYTES);
  // Of a word that no access has seen since home's power failed, an atomic makes one that is not known either.
  if (content.known.subarray(from, from + WORD_BYTES).some((each) => each !== KNOWN)) {
    const after = stored(content, { at: from });
    after.known.fill(ANYTHING, from, from + WORD_BYTES);
    return after;
  }
  if (bytes === undefined) return content;
  if (op === "compare-swap") {
    return isEqual(old, compare) ? stored(content, { at: from, bytes }) : content;
  }
  return stored(content, { at: from, bytes: sumOf(old, bytes) });
}

/** The sum of two words, little-endian, modulo 2⁶⁴. */
export function sumOf(x: Uint8Array, y: Uint8Array): Uint8Array {
  const word = (bytes: Uint8Array) =>
    new DataView(bytes.buffer, bytes.byteOffset, WORD_BYTES).getBigUint64(0, true);
  const sum = new Uint8Array(WORD_BYTES);
  new DataView(sum.buffer).setBigUint64(0, BigInt.asUintN(64, word(x) + word(y)), true);
  return sum;
}

export function isEqual(x: Uint8Array, y: Uint8Array | undefined): boolean {
  return y !== undefined && x.length === y.length && x.every((byte, i) => byte === y[i]);
}
