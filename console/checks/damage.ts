/**
 * V-08: damage by faults inside machines to data without a promise. A bit that flips on the way
 * into memory is wrong until the message is written again, and the power may fail between. Promised
 * data has to be right in spite of faults.
 */
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { maskOf, type Part, partOf, UNIT_BYTES, type WriteOrder } from "./values.ts";

export interface Damage {
  /** Each flips a bit of one packet's data at most. */
  readonly faults: number;
  readonly stuck: readonly { readonly offset: number; readonly bit: number }[];
}

/** Undefined where a plan damages nothing that this host takes in. */
export function damageOf(plan: RackPlan, host: string): Damage | undefined {
  let faults = (plan.linkFaults ?? []).filter(({ sealed }) => sealed === true).length;
  let stuck: Damage["stuck"] = [];
  for (const node of plan.nodes) {
    if (node.kind === "rnic") {
      // A bit may flip where a device fetches data, or where it receives data.
      const isHere = node.config.host === host;
      const flips = node.config.flips ?? [];
      faults += flips.filter(({ where }) => where === "fetch" || isHere).length;
    }
    if (node.kind === "host" && node.name === host) stuck = node.config.stuckBits ?? [];
  }
  if (faults === 0 && stuck.length === 0) return undefined;
  return { faults, stuck };
}

/** By number of damaged writes: the fewest flipped bits; Infinity: that number is not enough. */
type Flips = Float64Array;

interface Way {
  readonly flips: Flips;
  tried: number;
}

const MASKS = 1 << UNIT_BYTES, DAMAGED_MOST = UNIT_BYTES;

/**
 * True for a value that damaged writes without a promise can have left. Goes backwards in time as
 * `reaches` does, over all 256 sets of free bytes: its time grows as the number of writes. A fault
 * hits each packet's data once: of every write, and of one that goes on within the eight bytes.
 * @param unit offset of the eight bytes, which all writes of `order` touch.
 */
export function isDamaged(
  { faults, stuck }: Damage,
  unit: number,
  { found, order: { promised, behind } }: {
    readonly found: Uint8Array;
    readonly order: WriteOrder;
  },
): boolean {
  const cells = new Uint8Array(UNIT_BYTES);
  for (const { offset, bit } of stuck) {
    if (offset >= unit && offset < unit + UNIT_BYTES) cells[offset - unit]! |= 1 << bit;
  }
  let ways = new Map<number, Way>([[0, { flips: flipsFrom(0), tried: 0 }]]);
  const waiting: Part[] = [];
  for (let settled = promised.length;; settled--) {
    for (const write of behind[settled]!) waiting.push(partOf(write, unit));
    spread(ways, waiting, { found, cells });
    const last = promised[settled - 1];
    if (last === undefined) break;
    const promise = partOf(last, unit), after = new Map<number, Way>();
    for (const [free, { flips, tried }] of ways) {
      if (flippedBits(promise, { found, free }) > 0) continue;
      const now = free | maskOf(promise);
      least(after, now, { flips, tried: now === free ? tried : 0 });
    }
    ways = after;
  }
  const isOpen = waiting.some(({ write }) => write.promised === undefined);
  const rest = { begin: 0, end: UNIT_BYTES, bytes: new Uint8Array(UNIT_BYTES) };
  return isOpen &&
    ways.entries().some(([free, { flips }]) =>
      flippedBits(rest, { found, cells, free }) === 0 &&
      flips.some((bits, damaged) => bits <= faults * (damaged + 1))
    );
}

function flipsFrom(bits: number): Flips {
  const flips = new Float64Array(DAMAGED_MOST + 1).fill(Infinity);
  flips[0] = bits;
  return flips;
}

function spread(
  ways: Map<number, Way>,
  waiting: readonly Part[],
  seen: { readonly found: Uint8Array; readonly cells: Uint8Array },
): void {
  // A write sets bytes free, so sets with fewer of them are complete before those with more.
  for (let free = 0; free < MASKS; free++) {
    const way = ways.get(free);
    if (way === undefined) continue;
    const { flips } = way;
    for (; way.tried < waiting.length; way.tried++) {
      const part = waiting[way.tried]!, now = free | maskOf(part);
      if (now === free) continue;
      const bits = flippedBits(part, { ...seen, free });
      if (part.write.promised !== undefined) {
        const isRight = bits === 0 && flippedBits(part, { found: seen.found, free }) === 0;
        if (isRight) least(ways, now, { flips, tried: 0 });
      } else if (bits === 0) least(ways, now, { flips, tried: 0 });
      else {
        const more = flipsFrom(Infinity);
        for (let i = 0; i < DAMAGED_MOST; i++) more[i + 1] = flips[i]! + bits;
        least(ways, now, { flips: more, tried: 0 });
      }
    }
  }
}

function least(ways: Map<number, Way>, free: number, { flips, tried }: Way): void {
  const known = ways.get(free);
  if (known === undefined) {
    ways.set(free, { flips: flips.slice(), tried });
    return;
  }
  let isBetter = false;
  for (const [i, bits] of flips.entries()) {
    if (bits >= known.flips[i]!) continue;
    known.flips[i] = bits;
    isBetter = true;
  }
  known.tried = isBetter ? 0 : Math.min(known.tried, tried);
}

function flippedBits(
  { begin, end, bytes }: Pick<Part, "begin" | "end" | "bytes">,
  { found, free, cells }: {
    readonly found: Uint8Array;
    readonly free: number;
    readonly cells?: Uint8Array;
  },
): number {
  let count = 0;
  for (let i = begin; i < end; i++) {
    if ((free >> i & 1) === 1) continue;
    let bits = (bytes[i - begin]! ^ found[i]!) & ~(cells?.[i] ?? 0);
    for (; bits !== 0; bits &= bits - 1) count++;
  }
  return count;
}
