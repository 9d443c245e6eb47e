/**
 * Liveness on a graph of states: whether a run may stay for ever in states with a property, "an access
 * waits", though every link delivers that can. Fairness is weak: a link that can deliver from some state
 * on does; or, for links that take turns, strong: a link that can deliver again and again does.
 *
 * Such a run stays, from some state on, in one strongly connected component of the states with the
 * property, and can pass all of them again and again. It is fair to a link that delivers within the
 * component; to a weak one that cannot deliver in some state of it; to a strong one that can in none. If a
 * strong one can in some, the run has to keep out of these: the rest is examined in the same way (Emerson
 * and Lei's algorithm). So such a run exists exactly if such a component does.
 */

export interface Link {
  readonly name: string;
  /**
   * Strong fairness: it delivers at some time if it can again and again. False is weak: if it can all
   * the time.
   */
  readonly takesTurns: boolean;
}

/** Edges in the order of insertion; a state is a number from 0 on. */
export class StateGraph {
  readonly #from: number[] = [];
  readonly #to: number[] = [];
  readonly #by: number[] = [];
  readonly #links = new Map<string, number>();
  readonly #isStrong: boolean[] = [];
  /** For each state, from 0 on: a bit for each property that holds. */
  readonly holds: number[] = [];

  /** @param link that delivers by it; undefined for an optional step, a new access or a fault. */
  add(from: number, to: number, link: Link | undefined): void {
    this.#from.push(from);
    this.#to.push(to);
    this.#by.push(link === undefined ? -1 : this.#numberOf(link));
  }

  #numberOf({ name, takesTurns }: Link): number {
    let number = this.#links.get(name);
    if (number === undefined) {
      this.#links.set(name, number = this.#links.size);
      this.#isStrong.push(takesTurns);
    }
    return number;
  }

  /**
   * The first state of a component in which a fair run may stay for ever while `bit` holds;
   * undefined if there is none.
   */
  staysFor(bit: number): { readonly state: number; readonly size: number } | undefined {
    const out = edgesBySource(this.holds.length, this.#from);
    const isIn = Uint8Array.from(this.holds, (bits) => bits >> bit & 1);
    const graph = { ...out, to: this.#to };
    const left = [Array.from(isIn.keys()).filter((state) => isIn[state] === 1)];
    for (let states = left.pop(); states !== undefined; states = left.pop()) {
      for (const component of [...componentsOf(graph, states, isIn)]) {
        const found = this.#fairnessOf(component, out);
        if (found === "fair") {
          const state = component.reduce((least, each) => Math.min(least, each));
          return { state, size: component.length };
        }
        // The states in which such a link can deliver are out; a part of the others may be fair.
        for (const state of found === "unfair" ? component : found) isIn[state] = 0;
        if (found === "unfair") continue;
        left.push(component.filter((state) => isIn[state] === 1));
      }
    }
    return undefined;
  }

  /** The verdict on a component, or the states that a fair run keeps out of. */
  #fairnessOf(component: readonly number[], { first, next }: Edges): "fair" | "unfair" | number[] {
    const within = new Set(component);
    const able = this.#isStrong.map((): number[] => []);
    const delivers = new Uint8Array(able.length);
    let isRound = false;
    for (const state of component) {
      for (let edge = first[state]!; edge >= 0; edge = next[edge]!) {
        const by = this.#by[edge]!, stays = within.has(this.#to[edge]!);
        if (stays) isRound = true;
        if (by < 0) continue;
        if (able[by]!.at(-1) !== state) able[by]!.push(state);
        if (stays) delivers[by] = 1;
      }
    }
    // One state without an edge to itself: no step follows, which another check covers.
    if (!isRound) return "unfair";
    const waits = able.map((states, by) => delivers[by] === 1 ? [] : states);
    if (waits.some(({ length }) => length === component.length)) return "unfair";
    const out = waits.flatMap((states, by) => this.#isStrong[by] ? states : []);
    return out.length === 0 ? "fair" : out;
  }
}

type Edges = ReturnType<typeof edgesBySource>;

function edgesBySource(states: number, from: readonly number[]) {
  const first = new Int32Array(states).fill(-1), next = new Int32Array(from.length);
  for (let edge = from.length - 1; edge >= 0; edge--) {
    next[edge] = first[from[edge]!]!;
    first[from[edge]!] = edge;
  }
  return { first, next };
}

/**
 * Strongly connected components among `states`, of those with `isIn` (Tarjan's algorithm, without
 * recursion).
 */
function* componentsOf(
  { first, next, to }: Edges & { readonly to: readonly number[] },
  states: readonly number[],
  isIn: Uint8Array,
): Generator<number[]> {
  const index = new Map<number, number>(), low = new Map<number, number>();
  const isOpen = new Set<number>(), at = new Map<number, number>();
  const open: number[] = [], path: number[] = [];
  for (const root of states) {
    if (index.has(root)) continue;
    path.push(root);
    while (path.length > 0) {
      const state = path.at(-1)!;
      if (!index.has(state)) {
        low.set(state, index.size);
        index.set(state, index.size);
        at.set(state, first[state]!);
        isOpen.add(state);
        open.push(state);
      }
      const edge = at.get(state)!;
      if (edge >= 0) {
        const target = to[edge]!;
        if (isIn[target] === 1) {
          if (!index.has(target)) {
            path.push(target);
            continue;
          }
          if (isOpen.has(target)) low.set(state, Math.min(low.get(state)!, low.get(target)!));
        }
        at.set(state, next[edge]!);
        continue;
      }
      path.pop();
      if (low.get(state) !== index.get(state)) continue;
      const component = open.splice(open.lastIndexOf(state));
      for (const each of component) isOpen.delete(each);
      yield component;
    }
  }
}
