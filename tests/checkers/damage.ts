/**
 * V-08: what faults inside machines may have made of data that nobody was promised. A bit that turned over on the
 * way into memory is there until the message is written again, and a power failure may come between. What was
 * promised has to be right whatever the faults do.
 */
import type { RackPlan } from "../../fabric/rack/plan.ts";
import { type NotedWrite, partOf, UNIT_BYTES } from "./values.ts";

/** What may be wrong with eight bytes of a host's SCM. */
export interface Damage {
  /** At most so many bits have turned over. */
  readonly bits: number;
  /** Cells that hold one value whatever is written: offset and bit. */
  readonly stuck: readonly { readonly offset: number; readonly bit: number }[];
}

/** Undefined where a plan damages nothing that this host takes in. */
export function damageOf(plan: RackPlan, host: string): Damage | undefined {
  let faults = (plan.linkFaults ?? []).filter(({ sealed }) => sealed === true).length;
  let stuck: Damage["stuck"] = [];
  for (const node of plan.nodes) {
    if (node.kind === "rnic") {
      // A bit may turn over where data is fetched, whoever does that, or where it is taken in.
      const isHere = node.config.host === host;
      const flips = node.config.flips ?? [];
      faults += flips.filter(({ where }) => where === "fetch" || isHere).length;
    }
    if (node.kind === "host" && node.name === host) stuck = node.config.stuckBits ?? [];
  }
  if (faults === 0 && stuck.length === 0) return undefined;
  // Each fault hits a packet's data once, and eight bytes may be of two packets.
  return { bits: 2 * faults, stuck };
}

/**
 * Whether `found` is one of the values that may be there, of which a write without a promise has been damaged.
 * @param of.writes that touch the unit, @param of.allowed what they may have made of it.
 */
export function isDamaged(
  { bits, stuck }: Damage,
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
    for (const { begin, end, bytes } of open) {
      if (!bytes.every((byte, i) => byte === value[begin + i])) continue;
      if (turnedOver({ found, value, begin, end, cells }) <= bits) return true;
    }
  }
  return false;
}

/** How many bits differ from `begin` on and before `end`; infinitely many where others differ as well. */
function turnedOver(of: {
  readonly found: Uint8Array;
  readonly value: Uint8Array;
  readonly begin: number;
  readonly end: number;
  readonly cells: Uint8Array;
}): number {
  const { found, value, begin, end, cells } = of;
  let count = 0;
  for (const [i, byte] of found.entries()) {
    let bits = (byte ^ value[i]!) & ~cells[i]!;
    if (bits !== 0 && (i < begin || i >= end)) return Infinity;
    for (; bits !== 0; bits &= bits - 1) count++;
  }
  return count;
}
