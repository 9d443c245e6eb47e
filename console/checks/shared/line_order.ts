/**
 * Checks that the accesses to one line can have happened one after the other, each at an instant
 * between its begin and its end, so that every load returns the last store (C-09): linearizability,
 * which holds for a rack where it holds for each line (Herlihy and Wing, "Linearizability", TOPLAS
 * 12(3), 1990, theorem 1). All orders of accesses that overlap in time are kept as *ways*, and each
 * end leaves those in which its access is done: just-in-time linearization (Lowe, "Testing for
 * linearizability", CCPE 29(4), 2017). A way that allows no more than another one is left out:
 *
 * - a load whose value is present is done at once;
 * - an access that need not happen, as its program received no result, is better left open than
 *   done;
 * - a store under way when another one covers all its bytes may have been done just before that
 *   one: it need not happen any more;
 * - accesses that share no byte, and none with an access in between, have no order.
 *
 * A line whose last value is gone is *lost* (decision 13): loads report it, and a store to the
 * whole line ends that.
 */
import type { Steps } from "../run_record.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import {
  bytesText,
  type Content,
  contentAfter,
  isPlainRead,
  keyOf,
  type LineOp,
  type MayHave,
  UNSEEN,
  ZEROS,
} from "./line_content.ts";

export type LineEvent =
  | { readonly kind: "begin"; readonly op: LineOp }
  | { readonly kind: "end"; readonly op: LineOp }
  /** Home's power fails: from now on the line has its persistent content. */
  | { readonly kind: "restart"; readonly mayHave: MayHave };

export interface LineVerdict {
  /** `op`: no order allows it; `mayBe`: contents that the line can have had then. */
  readonly wrong?: { readonly op: LineOp; readonly mayBe: readonly string[] };
  /** From `op` on: too many accesses were under way at once. */
  readonly unchecked?: { readonly op: LineOp; readonly why: string };
}

const LIMITS = { open: 256, ways: 4_096, steps: 50_000 } as const;

interface Way {
  readonly content: Content;
  readonly done: bigint;
  /** Not done, and need not happen by its end: see the file's comment. */
  readonly free: bigint;
}

interface Open {
  readonly op: LineOp;
  readonly bit: bigint;
  readonly from: number;
  readonly to: number;
  /** Of endless ones with equal effect, the lower place is tried first. */
  isEndless: boolean;
  readonly kind: string;
}

/** Judges the events of one line, in steps: each end may try {@link LIMITS}. */
export function* lineSteps(events: Iterable<LineEvent>): Steps<LineVerdict> {
  const all = [...events];
  const ended = new Set(all.flatMap((event) => event.kind === "end" ? [event.op] : []));
  const line = new Line(ended);
  for (const [i, event] of all.entries()) {
    if (i > 0) yield;
    const verdict = line.see(event);
    if (verdict !== undefined) return verdict;
  }
  return {};
}

class Line {
  readonly #ended: ReadonlySet<LineOp>;
  readonly #open: (Open | undefined)[] = [];
  readonly #met = new Set<LineOp>();
  #ways: readonly Way[] = [{ content: ZEROS, done: 0n, free: 0n }];
  #mayHave: MayHave = () => true;

  constructor(ended: ReadonlySet<LineOp>) {
    this.#ended = ended;
  }

  see(event: LineEvent): LineVerdict | undefined {
    if (event.kind === "restart") return this.#restart(event.mayHave);
    return event.kind === "begin" ? this.#begin(event.op) : this.#end(event.op);
  }

  #begin(op: LineOp): LineVerdict | undefined {
    const unused = this.#open.indexOf(undefined);
    const place = unused < 0 ? this.#open.length : unused;
    if (place >= LIMITS.open) {
      return { unchecked: { op, why: `more than ${LIMITS.open} accesses at a time` } };
    }
    const isWhole = op.op === "lose" || op.isLost === true;
    const bit = 1n << BigInt(place);
    const isEndless = !this.#ended.has(op);
    this.#open[place] = {
      op,
      bit,
      from: isWhole ? 0 : op.from,
      to: isWhole ? LINE_BYTES : op.from + op.length,
      isEndless,
      kind: `${op.op} ${op.from} ${op.bytes?.toHex()} ${op.compare?.toHex()} ${op.seen?.toHex()}`,
    };
    const isFree = isEndless || op.isPossible === true;
    this.#ways = this.#ways.map((way) => {
      if (isFree) return { ...way, free: way.free | bit };
      return isPlainRead(way.content, op) ? { ...way, done: way.done | bit } : way;
    });
    return undefined;
  }

  /**
   * Accesses under way may be done after the restart, and need not be: their effect may be in the
   * content.
   */
  #restart(mayHave: MayHave): undefined {
    this.#mayHave = mayHave;
    let free = 0n;
    for (const [place, open] of this.#open.entries()) {
      if (open === undefined) continue;
      const { op, bit } = open;
      this.#met.add(op);
      if (op.op === "load" || op.op === "lose") this.#open[place] = undefined;
      else {
        open.isEndless = true;
        free |= bit;
      }
    }
    this.#ways = [{ content: UNSEEN, done: 0n, free }];
  }

  #end(op: LineOp): LineVerdict | undefined {
    if (this.#met.has(op)) return undefined;
    const place = this.#open.findIndex((open) => open?.op === op);
    const own = this.#open[place]!;
    const rest = ~own.bit;
    const next = new Ways(), seen = new Ways(), stack: Way[] = [];
    const add = (way: Way) => {
      if (((way.done | way.free) & own.bit) !== 0n) {
        next.add({ ...way, done: way.done & rest, free: way.free & rest });
      }
      if ((way.done & own.bit) === 0n && seen.add(way)) stack.push(way);
    };
    this.#ways.forEach(add);
    const tried = this.#ways.every(({ done }) => (done & own.bit) !== 0n) ? [] : this.#around(own);
    for (let way = stack.pop(), steps = 0; way !== undefined; way = stack.pop()) {
      for (const each of tried) {
        if ((way.done & each.bit) !== 0n || this.#isTwin(way, each)) continue;
        if (++steps > LIMITS.steps || next.size > LIMITS.ways) {
          return { unchecked: { op, why: `more than ${LIMITS.ways} orders of what overlaps` } };
        }
        const after = this.#after(way, each);
        if (after !== undefined) add(after);
      }
    }
    if (next.size === 0) return { wrong: { op, mayBe: this.#texts(op) } };
    this.#open[place] = undefined;
    this.#ways = [...next.all()];
    return undefined;
  }

  #around(own: Open): Open[] {
    const found = [own];
    const left = new Set(this.#open.filter((open) => open !== undefined && open !== own));
    for (const { from, to } of found) {
      for (const each of left) {
        if (each === undefined || each.from >= to || each.to <= from) continue;
        found.push(each);
        left.delete(each);
      }
    }
    return found;
  }

  /** Of like accesses the order makes no difference: the one in the lower place is before. */
  #isTwin({ done }: Way, { op, kind, isEndless }: Open): boolean {
    if (!isEndless) return false;
    for (const open of this.#open) {
      if (open?.op === op) return false;
      if (open?.kind === kind && open.isEndless && (done & open.bit) === 0n) return true;
    }
    return false;
  }

  #after({ content, done, free }: Way, { op, bit, from, to }: Open): Way | undefined {
    const after = contentAfter(content, op, this.#mayHave);
    if (after === undefined) return undefined;
    const isCover = op.op === "store" || op.op === "lose" || op.isLost === true;
    let nowDone = done | bit, nowFree = free & ~bit;
    for (const open of this.#open) {
      if (open === undefined || (nowDone & open.bit) !== 0n) continue;
      const { op: other } = open;
      if (isPlainRead(after, other)) nowDone |= open.bit;
      else if (isCover && other.op === "store" && other.isLost !== true) {
        const isCovered = open.from >= from && open.to <= to;
        const isPossible = content !== null || other.length === LINE_BYTES;
        if (isCovered && isPossible) nowFree |= open.bit;
      }
    }
    return { content: after, done: nowDone, free: nowFree & ~nowDone };
  }

  #texts(op: LineOp): string[] {
    return [...new Set(this.#ways.map(({ content }) => bytesText(content, op)))].sort();
  }
}

class Ways {
  readonly #byContent = new Map<string, Way[]>();
  size = 0;

  add(way: Way): boolean {
    const key = keyOf(way.content);
    const alike = this.#byContent.get(key) ?? [];
    if (alike.some((each) => allows(each, way))) return false;
    const kept = alike.filter((each) => !allows(way, each));
    kept.push(way);
    this.#byContent.set(key, kept);
    this.size += kept.length - alike.length;
    return true;
  }

  *all(): Generator<Way> {
    for (const ways of this.#byContent.values()) yield* ways;
  }
}

function allows(one: Way, other: Way): boolean {
  return (other.free & ~one.free) === 0n && ((one.done ^ other.done) & ~one.free) === 0n;
}
