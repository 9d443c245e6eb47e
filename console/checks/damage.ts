/**
 * V-08: what faults inside machines may have made of data that was not promised. A bit that turned over on the
 * way into memory is there until the message is written again, and a power failure may come between. What was
 * promised has to be right whatever the faults do.
 */
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { type NotedWrite, partOf, UNIT_BYTES } from "./values.ts";

/** What may be wrong with eight bytes of a host's SCM. */
export interface Damage {
  /** So many faults turn over a bit of a packet's data, at most one each. */
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
      // A bit may turn over where a device fetches data, or where it takes data in.
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
 * Whether `found` is one of the values that may be there, of which writes without a promise have been damaged.
 * @param of.writes that touch the unit, @param of.allowed what they may have made of it.
 */
export function isDamaged(
  { faults, stuck }: Damage,
  unit: number,
  of: {
    readonly found: Uint8Array;
    readonly writes: readonly NotedWrite[];
    readonly allowed: Iterable<Uint8Array>;
  },
): boolean {
  const { found, writes, allowed } = of;
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
    if (turnedOver({ found, value, there, cells }) <= faults * packets) return true;
  }
  return false;
}

/** How many bits of these writes' bytes differ; infinitely many where others do, or there is no such write. */
function turnedOver(of: {
  readonly found: Uint8Array;
  readonly value: Uint8Array;
  readonly there: readonly { readonly begin: number; readonly end: number }[];
  readonly cells: Uint8Array;
}): number {
  const { found, value, there, cells } = of;
  if (there.length === 0) return Infinity;
  let count = 0;
  for (const [i, byte] of found.entries()) {
    let bits = (byte ^ value[i]!) & ~cells[i]!;
    if (bits !== 0 && !there.some(({ begin, end }) => i >= begin && i < end)) return Infinity;
    for (; bits !== 0; bits &= bits - 1) count++;
  }
  return count;
}
