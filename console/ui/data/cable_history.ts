/** What the feed has told of cables while this page looked: of a rack whose time moves. */
import { computed, effect, signal, untracked } from "@preact/signals";
import type { CableHistory } from "../../api/cables.ts";
import type { Topology } from "../../api/rack.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { clock, counters, type Flow, flowKey, flows, isUp } from "./rack.ts";
import { run } from "../state.ts";

interface Seen {
  readonly at: Time;
  readonly flows: ReadonlyMap<string, Flow>;
  readonly counters: ReadonlyMap<string, Readonly<Record<string, number>>>;
}

/** Five minutes, as the feed counts twice a second. */
const SEEN_MAX = 600;

const seen = signal<readonly Seen[]>([]);

/** Notes what the feed tells. */
export function followHistory(): void {
  effect(() => {
    void run.value;
    seen.value = [];
  });
  effect(() => {
    const told = flows.value;
    untracked(() => {
      const at = clock.value?.virtualPs, last = seen.value.at(-1)?.at ?? -1;
      if (!isUp.value || at === undefined || told.size === 0 || at <= last) return;
      const row = { at, flows: told, counters: counters.value };
      seen.value = [...seen.value.slice(1 - SEEN_MAX), row];
    });
  });
}

/** In the form in which a replay tells it. */
export function seenOf({ cables }: Pick<Topology, "cables">, cable: number): CableHistory {
  const { a, b, bitsPerSecond } = cables[cable]!, rows = seen.value;
  const directions = [a, b].map(({ node, port }) => {
    const total = rows.map(({ flows }) => flows.get(flowKey(cable, node))?.bytes ?? null);
    const queuedBytes = rows.map(({ counters }) =>
      counters.get(node)?.[`port${port}.queuedBytes`] ?? null
    );
    return {
      from: node,
      sentBytes: total.map((bytes, i) => {
        const before = total[i - 1];
        return bytes === null || before === undefined || before === null
          ? null
          : Math.max(0, bytes - before);
      }),
      ...(queuedBytes.some((bytes) => bytes !== null) && { queuedBytes }),
    };
  });
  return { at: rows.map(({ at }) => at), bitsPerSecond, directions };
}

export const hasSeen = computed(() => seen.value.length > 1);
