/** Counters go to pages as changes: of a hundred of a device, a look finds a dozen others. */
import type { Counters } from "../../rack/live/counters.ts";

type Of = Counters[string];

/** By node. A counter that has disappeared is 0. */
export function changedCounters(before: Counters, now: Counters): Record<string, Of> {
  const changes: Record<string, Of> = {};
  for (const [node, of] of Object.entries(now)) {
    const known = before[node] ?? {}, changed: Record<string, number> = {};
    for (const [name, value] of Object.entries(of)) {
      if (known[name] !== value) changed[name] = value;
    }
    for (const [name, value] of Object.entries(known)) {
      if (value !== 0 && !(name in of)) changed[name] = 0;
    }
    if (Object.keys(changed).length > 0) changes[node] = changed;
  }
  return changes;
}

/** Applies {@link changedCounters}. */
export function withChanged(before: Counters, changes: Counters): Record<string, Of> {
  const changed = Object.entries(changes).map(([node, of]) => [node, { ...before[node], ...of }]);
  return { ...before, ...Object.fromEntries(changed) };
}
