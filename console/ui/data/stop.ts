import { computed, effect, signal, untracked } from "@preact/signals";
import type { Time } from "../../../fabric/base/time.ts";
import type { EventRow } from "../../api/replay.ts";
import { api } from "./api.ts";
import { clock, isUp } from "./rack.ts";
import { lookAt, run, select } from "../state.ts";

interface Found {
  readonly of: string;
  readonly row?: EventRow;
  readonly trouble?: string;
}

const found = signal<Found | undefined>(undefined);

const hit = computed(() => {
  const now = clock.value, first = now?.hits?.[0];
  const what = first === undefined ? undefined : now?.breaks?.[first.break];
  if (now === null || !now.paused || !isUp.value || first === undefined || what === undefined) {
    return undefined;
  }
  const key = `${run.value} ${now.watchedFromPs} ${JSON.stringify(what)} ${first.atPs}`;
  return { ...first, what, from: now.watchedFromPs ?? 0, key };
});

export interface Stop {
  readonly node: string;
  readonly step: string;
  readonly at: Time;
  /** Undefined: the replay has not come there yet, or {@link trouble} says why it does not. */
  readonly row: EventRow | undefined;
  readonly trouble: string | undefined;
}

/** Undefined while the rack does not stand at a break. */
export const stop = computed((): Stop | undefined => {
  if (hit.value === undefined) return undefined;
  const { key, what: { step }, node, atPs } = hit.value;
  const { row, trouble } = found.value?.of === key ? found.value : {};
  return { node: row?.node ?? node, step, at: row?.time ?? atPs, row, trouble };
});

/** Shows the instant with the step in it, and the device that takes it. */
export function goToStop({ node, at }: Stop): void {
  // Everything before an instant has happened: the step is in the next one.
  lookAt(at + 1);
  select({ kind: "device", name: node });
}

async function find(id: string, { key, what, from }: NonNullable<typeof hit.value>): Promise<void> {
  try {
    const { event } = await api.find(id, { ...what, ...(from > 0 && { after: from - 1 }) });
    if (event === null) found.value = { of: key, trouble: "The replay has no such step" };
    else found.value = { of: key, row: event };
  } catch (error) {
    found.value = { of: key, trouble: (error as Error).message };
  }
}

/** Asks the replay whenever a rack comes to a break. */
export function followStop(): void {
  let asked = "";
  effect(() => {
    const now = hit.value, id = run.value;
    if (now === undefined || id === undefined || now.key === asked) return;
    asked = now.key;
    untracked(() => void find(id, now));
  });
}
