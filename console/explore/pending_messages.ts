/**
 * Receive buffers in persistent memory (`receive: scm`): what a power failure leaves there is stored where
 * it belongs before anybody looks, so bytes that nobody touched may become others as a buffer changes.
 */
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { receivedIn } from "../checks/received.ts";
import { type Cell, type Picker, readCrashed } from "./choices.ts";
import { LINE_BYTES, type Range } from "./history.ts";
import type { CrashState, Settled } from "./judge.ts";
import { forEachPath } from "./paths.ts";

/** What will be stored, and choices by which it is. */
interface Stored {
  readonly writes: readonly { readonly at: number; readonly data: Uint8Array }[];
  readonly settled: Settled;
}

export interface Deposits {
  /** All that may be stored; no more than nothing, where the host has no such buffers. */
  readonly ways: readonly Stored[];
  /** There are more than were tried. */
  readonly isBounded: boolean;
  /** Lines of SCM that say so: as long as they stay as they are, so do these. */
  readonly read: ReadonlySet<number>;
}

/** More ways to find receive buffers are not gone through. */
const WAYS_MAX = 64;

const NOTHING: Stored = { writes: [], settled: new Map() };
export const NO_DEPOSITS: Deposits = { ways: [NOTHING], isBounded: false, read: new Set() };

/** Whether a host has receive buffers in persistent memory. */
export function receivesInScm(plan: RackPlan, host: string): boolean {
  const node = plan.nodes.find(({ name }) => name === host);
  return node?.kind === "host" &&
    node.config.programs.some(({ run, options }) =>
      run === "persistd" && options["receive"] === "scm"
    );
}

/** Whether a change of these bytes may change what will be stored. */
export function concerns({ read }: Deposits, ranges: readonly Range[]): boolean {
  if (read.size === 0) return true;
  return ranges.some(({ from, to }) => {
    for (let line = Math.floor(from / LINE_BYTES); line * LINE_BYTES < to; line++) {
      if (read.has(line)) return true;
    }
    return false;
  });
}

/** What will be stored from a host's receive buffers after a power failure. */
export function depositsOf(plan: RackPlan, state: CrashState): Deposits {
  const read = new Set<number>();
  const least = storedBy({ plan, state, read }, () => 0);
  let ways = 1;
  for (const { alternatives } of least.settled.keys()) ways *= alternatives.length;
  if (ways === 1) return { ways: [least], isBounded: false, read };
  if (ways > WAYS_MAX) {
    const most = storedBy(
      { plan, state, read },
      ({ alternatives }) => alternatives.length - 1,
    );
    return { ways: distinct([least, most]), isBounded: true, read };
  }
  const found: Stored[] = [];
  const { isBounded } = forEachPath({ most: WAYS_MAX, seed: plan.seed }, (pick) => {
    found.push(storedBy({ plan, state, read }, pick));
    return false;
  });
  return { ways: distinct(found), isBounded, read };
}

function storedBy(
  of: { readonly plan: RackPlan; readonly state: CrashState; readonly read: Set<number> },
  choose: Picker,
): Stored {
  const { plan, state } = of;
  const settled = new Map<Cell, number>();
  const pick = (cell: Cell) => {
    const alternative = choose(cell);
    settled.set(cell, alternative);
    return alternative;
  };
  const image = {
    read(from: number, to: number) {
      for (let line = Math.floor(from / LINE_BYTES); line * LINE_BYTES < to; line++) {
        of.read.add(line);
      }
      const bytes = new Uint8Array(to - from);
      readCrashed({ ...state, pick }, from, bytes);
      return bytes;
    },
  };
  return { writes: receivedIn(plan, { host: state.host, image }), settled };
}

/** The buffers matter by what is stored of them only. */
function distinct(ways: readonly Stored[]): Stored[] {
  return [...new Map(ways.map((way) => [[...keysOf(way)].join(), way])).values()];
}

function keysOf({ writes }: Pick<Stored, "writes">): Map<string, Range> {
  return new Map(
    writes.map(({ at, data }) => [`${at} ${data.toHex()}`, { from: at, to: at + data.length }]),
  );
}

/** Bytes that are stored in one of two cases only, or in more of the ways of one than of the other. */
export function differences(before: Deposits, after: Deposits): Range[] {
  const whenOf = ({ ways }: Deposits) => {
    const when = new Map<string, { readonly range: Range; ways: number }>();
    for (const way of ways) {
      for (const [key, range] of keysOf(way)) {
        const known = when.get(key);
        if (known === undefined) when.set(key, { range, ways: 1 });
        else known.ways++;
      }
    }
    return when;
  };
  const [first, second] = [whenOf(before), whenOf(after)];
  const isSame = before.ways.length === after.ways.length;
  return [...first, ...second].filter(([key]) =>
    !isSame || first.get(key)?.ways !== second.get(key)?.ways
  ).map(([, { range }]) => range);
}
