/**
 * For tests only: judges of what cores have seen, outside of the protocol. They know no states, only when an
 * access began, when it was answered, and with which bytes.
 */

/** A load or a store of one byte; stores of a byte have values of their own. */
export interface ByteAccess {
  readonly kind: "load" | "store";
  readonly value: number;
  readonly began: number;
  /** Infinity for a store of which its core does not know whether it was done. */
  readonly ended: number;
}

/**
 * What is wrong with the accesses of one byte that held `initial` in the beginning; null where there is an order of
 * them, each between its begin and its end, in which every load returns the last store: the zones of Gibbons
 * and Korach, "Testing Shared Memories", SIAM J. Comput. 26(4), 1997, theorem 4.1.
 */
export function judgeByte(accesses: readonly ByteAccess[], initial = 0): string | null {
  const clusters = new Map<number, ByteAccess[]>();
  const first: ByteAccess = { kind: "store", value: initial, began: -2, ended: -1 };
  for (const access of [first, ...accesses]) {
    const cluster = clusters.get(access.value);
    if (cluster === undefined) clusters.set(access.value, [access]);
    else cluster.push(access);
  }
  const forward: { value: number; from: number; to: number }[] = [], backward: typeof forward = [];
  for (const [value, cluster] of clusters) {
    const store = cluster.find(({ kind }) => kind === "store");
    if (store === undefined) return `a load returned ${value}, which no store has written`;
    const early = cluster.find(({ ended }) => ended < store.began);
    if (early !== undefined) return `a load returned ${value} before its store began`;
    // One that was not answered, and that no load has seen, may not have been done.
    if (store.ended === Infinity && cluster.length === 1) continue;
    const end = Math.min(...cluster.map(({ ended }) => ended));
    const start = Math.max(...cluster.map(({ began }) => began));
    if (end < start) forward.push({ value, from: end, to: start });
    else backward.push({ value, from: start, to: end });
  }
  forward.sort((a, b) => a.from - b.from);
  for (const [index, zone] of forward.entries()) {
    const next = forward[index + 1];
    if (next !== undefined && next.from < zone.to) {
      return `${zone.value} was seen until ${zone.to}, and ${next.value} from ${next.from} on`;
    }
    const within = backward.find(({ from, to }) => zone.from < from && to < zone.to);
    if (within !== undefined) {
      return `${within.value} was stored from ${within.from} to ${within.to}, and ${zone.value} was ` +
        `seen from ${zone.from} to ${zone.to}`;
    }
  }
  return null;
}
