/**
 * V-08: damage that faults inside machines may do to data without a promise. A bit that flips on the way
 * into memory is wrong until the message is written again, and the power may fail between. Promised data has
 * to be right in spite of faults.
 */
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { type NotedWrite, partOf, UNIT_BYTES } from "./values.ts";

export interface Damage {
  /** Faults that flip a bit of a packet's data, at most one each. */
  readonly faults: number;
  /** Cells that hold one value whatever is written: offset and bit. */
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

/**
 * Whether `found` is an allowed value in which writes without a promise are damaged.
 * @param unit offset of the eight bytes, which all of `writes` touch.
 */
export function isDamaged(
  { faults, stuck }: Damage,
  unit: number,
  { found, writes, allowed }: {
    readonly found: Uint8Array;
    readonly writes: readonly NotedWrite[];
    readonly allowed: Iterable<Uint8Array>;
  },
): boolean {
  const cells = new Uint8Array(UNIT_BYTES);
  for (const { offset, bit } of stuck) {
    if (offset >= unit && offset < unit + UNIT_BYTES) cells[offset - unit]! |= 1 << bit;
  }
  const open = writes.filter(({ promised }) => promised === undefined)
    .map((write) => partOf(write, unit));
  for (const value of allowed) {
    const there = open.filter(({ begin, bytes }) =>
      bytes.every((byte, i) => byte === value[begin + i])
    );
    // A fault hits each packet's data once: of every write, and of one that goes on within the eight bytes.
    const packets = new Set(there.map(({ begin }) => begin)).size + 1;
    if (flippedBits({ found, value, there, cells }) <= faults * packets) return true;
  }
  return false;
}

/** Bits of these writes' bytes that differ; Infinity where other bits do, or there is no such write. */
function flippedBits({ found, value, there, cells }: {
  readonly found: Uint8Array;
  readonly value: Uint8Array;
  readonly there: readonly { readonly begin: number; readonly end: number }[];
  readonly cells: Uint8Array;
}): number {
  if (there.length === 0) return Infinity;
  let count = 0;
  for (const [i, byte] of found.entries()) {
    let bits = (byte ^ value[i]!) & ~cells[i]!;
    if (bits !== 0 && !there.some(({ begin, end }) => i >= begin && i < end)) return Infinity;
    for (; bits !== 0; bits &= bits - 1) count++;
  }
  return count;
}
