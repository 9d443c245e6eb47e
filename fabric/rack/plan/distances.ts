/**
 * The least delay from a cause in one partition to its effect in another. A matrix of all pairs
 * would dominate a large rack's memory, so only the **core**, a rack's switches, has one.
 * **Chains** hang from a partition of the core, as a host behind its RNIC from a switch, and all
 * ways between chains lead through it.
 */
import { Deadlines } from "../../base/deadlines.ts";
import { NEVER, type Time } from "../../base/time.ts";
import { type Crossing, crossings } from "./lookahead.ts";
import type { RackPlan } from "./plan.ts";

export interface Chain {
  readonly core: number;
  readonly members: readonly number[];
}

export class Distances {
  readonly count: number;
  readonly cores: readonly number[];
  readonly chains: readonly Chain[];
  /** By partition: its place in {@link chains}; −1 in the core. */
  readonly chainOf: Int32Array;
  /** By partition: the place in {@link cores} of itself, or of its chain's core partition. */
  readonly coreOf: Int32Array;
  readonly up: Float64Array;
  readonly down: Float64Array;
  readonly #across: Float64Array;

  constructor(count: number, crossings: readonly Crossing[]) {
    this.count = count;
    const ways = waysOf(count, crossings);
    const { parents, isHung } = strip(ways);
    this.chainOf = new Int32Array(count).fill(-1);
    this.coreOf = new Int32Array(count);
    this.up = new Float64Array(count);
    this.down = new Float64Array(count);
    const partitions = Array.from({ length: count }, (_, i) => i);
    this.cores = partitions.filter((i) => isHung[i] === 0);
    this.cores.forEach((i, core) => this.coreOf[i] = core);
    this.chains = this.#chains(ways, { parents, isHung });
    this.#across = acrossCore(this.cores, { ways, coreOf: this.coreOf, isHung });
  }

  /** In ps; 0 from a partition to itself, NEVER without a way. */
  between(from: number, to: number): Time {
    const up = this.up[from]!, down = this.down[to]!;
    const chain = this.chainOf[from]!;
    if (chain >= 0 && chain === this.chainOf[to]) {
      const isInward = up > this.up[to]!;
      return isInward ? up - this.up[to]! : down - this.down[from]!;
    }
    return up + this.across(this.coreOf[from]!, this.coreOf[to]!) + down;
  }

  across(from: number, to: number): Time {
    return this.#across[from * this.cores.length + to]!;
  }

  #chains(ways: Ways, { parents, isHung }: Stripped): Chain[] {
    const outward = new Map<number, number>();
    const innermost: number[] = [];
    for (let i = 0; i < this.count; i++) {
      if (isHung[i] === 0) continue;
      if (isHung[parents[i]!] === 0) innermost.push(i);
      else outward.set(parents[i]!, i);
    }
    return innermost.map((first, chain) => {
      const core = this.coreOf[parents[first]!]!;
      const members: number[] = [];
      for (let at: number | undefined = first; at !== undefined; at = outward.get(at)) {
        const parent = parents[at]!;
        this.chainOf[at] = chain;
        this.coreOf[at] = core;
        this.up[at] = this.up[parent]! + ways[at]!.get(parent)!;
        this.down[at] = this.down[parent]! + ways[parent]!.get(at)!;
        members.push(at);
      }
      return { core, members };
    });
  }
}

export function delaysTo(
  partition: string,
  of: {
    readonly plan: RackPlan;
    readonly partitions: ReadonlyArray<
      { readonly name: string; readonly nodes: readonly string[] }
    >;
  },
): (from: string) => Time {
  const { plan, partitions } = of;
  const distances = new Distances(partitions.length, crossings(plan, partitions));
  const index = new Map(partitions.map(({ name }, i) => [name, i]));
  const to = index.get(partition)!;
  return (from) => distances.between(index.get(from)!, to);
}

type Ways = ReadonlyArray<ReadonlyMap<number, Time>>;

function waysOf(count: number, crossings: readonly Crossing[]): Ways {
  const ways = Array.from({ length: count }, () => new Map<number, Time>());
  for (const { from, to, delayPs } of crossings) {
    ways[from]!.set(to, Math.min(ways[from]!.get(to) ?? NEVER, delayPs));
  }
  return ways;
}

interface Stripped {
  readonly parents: Int32Array;
  readonly isHung: Uint8Array;
}

/**
 * Removes partitions with one remaining neighbour and at most one that hangs from them: they form
 * chains.
 */
function strip(ways: Ways): Stripped {
  const parents = new Int32Array(ways.length).fill(-1);
  const isHung = new Uint8Array(ways.length);
  const left = ways.map((to) => to.size);
  const hanging = new Int32Array(ways.length);
  const ends = left.flatMap((degree, i) => degree === 1 ? [i] : []);
  for (let at = ends.pop(); at !== undefined; at = ends.pop()) {
    if (left[at] !== 1 || hanging[at]! > 1) continue;
    const parent = [...ways[at]!.keys()].find((to) => isHung[to] === 0)!;
    isHung[at] = 1;
    parents[at] = parent;
    hanging[parent]!++;
    left[parent]!--;
    if (left[parent] === 1) ends.push(parent);
  }
  return { parents, isHung };
}

/**
 * Dijkstra's algorithm from each core partition: no shortest way between two leads through a chain.
 */
function acrossCore(
  cores: readonly number[],
  { ways, coreOf, isHung }: { ways: Ways; coreOf: Int32Array; isHung: Uint8Array },
): Float64Array {
  const { length } = cores;
  const neighbours = cores.map((i) =>
    [...ways[i]!].filter(([to]) => isHung[to] === 0).map(([to, ps]) => [coreOf[to]!, ps] as const)
  );
  const all = new Float64Array(length * length);
  const open = new Deadlines(length);
  for (let from = 0; from < length; from++) {
    const row = all.subarray(from * length, (from + 1) * length).fill(NEVER);
    row[from] = 0;
    open.set(from, 0);
    while (open.earliest !== NEVER) {
      const at = open.slot, sum = open.earliest;
      open.set(at, NEVER);
      for (const [to, ps] of neighbours[at]!) {
        if (sum + ps >= row[to]!) continue;
        row[to] = sum + ps;
        open.set(to, sum + ps);
      }
    }
  }
  return all;
}
