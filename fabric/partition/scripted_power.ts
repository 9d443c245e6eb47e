/** Power changes of nodes and early write-backs of their SCM, as events of the queue. */
import { assert } from "../base/assert.ts";
import type { FaultPlan, WritebackPlan } from "../rack/plan/plan.ts";
import { type Event, EVENT_KINDS, ownEvent } from "./event_queue.ts";
import type { Time } from "../base/time.ts";

/**
 * A later process skips those planned before its start.
 * @param begun the life in which each node begins, at `bootAt`.
 */
export function scriptedPower(
  faults: readonly FaultPlan[],
  { indexOf, bootAt, begun }: {
    readonly indexOf: ReadonlyMap<string, number>;
    readonly bootAt: Time;
    readonly begun: ReadonlyMap<string, { readonly life: number }>;
  },
): Event[] {
  const events: Event[] = [];
  const lives = new Map<string, number>();
  for (const { node, action, at } of faults) {
    const index = indexOf.get(node);
    assert(index !== undefined, `Node ${node} is not in the plan`);
    const first = begun.get(node)?.life ?? 0;
    const isPast = first > 0 && (at <= bootAt || (action === "start" && !lives.has(node)));
    if (isPast) continue;
    const life = (lives.get(node) ?? first) + (action === "start" ? 1 : 0);
    lives.set(node, life);
    const kind = action === "kill" ? EVENT_KINDS.powerOff : EVENT_KINDS.powerOn;
    events.push(ownEvent(index, life, { time: at, kind, counter: life, input: { kind: "power" } }));
  }
  return events;
}

/** Independent of the host's life. */
export function writebackEvents(
  writebacks: readonly WritebackPlan[],
  indexOf: ReadonlyMap<string, number>,
): Event[] {
  return writebacks.map(({ at, node, from, to, buffered, data }, number) => {
    const index = indexOf.get(node);
    assert(index !== undefined, `Node ${node} is not in the plan`);
    return ownEvent(index, 0, {
      time: at,
      kind: EVENT_KINDS.writeback,
      counter: number,
      input: { kind: "writeback", from, to, buffered, ...(data !== undefined && { data }) },
    });
  });
}
