/** The whole run as the replay knows it, and what the feed has said since. */
import { computed, effect, signal, untracked } from "@preact/signals";
import type { Timeline } from "../../replay/types.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { run } from "../state.ts";
import { api } from "./api.ts";
import { clock, ended, happenings, isKept, links, topology, variant } from "./rack.ts";
import { session } from "./session.ts";

export const timeline = signal<Timeline | undefined>(undefined);
/** Why there is none. */
export const timelineTrouble = signal<string | undefined>(undefined);

export interface PowerSpan {
  readonly from: Time;
  /** Infinity: to the end. */
  readonly to: Time;
}

/** The end of what is known of the run, in ps. */
export const endPs = computed(() =>
  Math.max(timeline.value?.endPs ?? 0, clock.value?.virtualPs ?? 0, 1)
);

/** Spans with power of a device: of the replay, then of the feed. */
export function powerSpans(name: string): PowerSpan[] {
  const known = timeline.value?.devices.find(({ node }) => node === name)?.power ??
    [{ from: 0, to: null }];
  const spans = known.map(({ from, to }) => ({ from, to: to ?? Infinity }));
  const since = timeline.value?.endPs ?? 0;
  for (const what of happenings.value) {
    if (what.kind !== "power" || what.atPs < since || !what.nodes.includes(name)) continue;
    const last = spans.at(-1);
    const isOn = last !== undefined && last.to === Infinity;
    if (what.action === "kill" && isOn) {
      spans[spans.length - 1] = { from: last.from, to: what.atPs };
    }
    if (what.action === "start" && !isOn) spans.push({ from: what.atPs, to: Infinity });
  }
  return spans;
}

/** A power failure, or a fault of a cable: a mark that has a length where it ends by itself. */
export interface Mark {
  readonly at: Time;
  readonly to?: Time;
  readonly text: string;
}

export const marks = computed<readonly Mark[]>(() => {
  const known = timeline.value, since = known?.endPs ?? 0;
  const all: Mark[] = (known?.faults ?? []).filter(({ cable }) => cable === undefined)
    .map(({ at, action, nodes }) => ({ at, text: `${action} ${hostsOf(nodes).join(", ")}` }));
  for (const what of happenings.value) {
    if (what.kind !== "power" || what.atPs < since) continue;
    all.push({ at: what.atPs, text: `${what.action} ${hostsOf(what.nodes).join(", ")}` });
  }
  if (isKept.value) {
    const cables = topology.value?.cables ?? [];
    for (const { at, action, cable } of known?.faults ?? []) {
      if (cable !== undefined) all.push({ at, text: `${action} ${cables[cable]?.name ?? cable}` });
    }
  }
  for (const { action, target, atPs, untilPs } of links.value) {
    all.push({
      at: atPs,
      ...(untilPs !== undefined && { to: untilPs }),
      text: `${action} ${target}`,
    });
  }
  return all.sort((x, y) => x.at - y.at);
});

/** A host stands for its card, too. */
function hostsOf(nodes: readonly string[]): readonly string[] {
  const kinds = new Map(topology.value?.nodes.map(({ name, host }) => [name, host]));
  return nodes.filter((name) => !nodes.includes(kinds.get(name) ?? ""));
}

async function read(id: string): Promise<void> {
  const of = variant.peek(), isStill = () => run.peek() === id && variant.peek() === of;
  try {
    const found = await api.timeline(id, of);
    if (!isStill()) return;
    timeline.value = found;
    timelineTrouble.value = undefined;
  } catch (error) {
    if (isStill()) timelineTrouble.value = (error as Error).message;
  }
}

/** Reads it anew, where time has moved since: each time the replay goes on to where the rack is. */
export async function readTimeline(): Promise<void> {
  const id = run.peek();
  if (id !== undefined && (timeline.peek()?.endPs ?? -1) < (clock.peek()?.virtualPs ?? 0)) {
    await read(id);
  }
}

/** Reads it for each run that is looked at, and whenever its time comes to a stand. */
export function followTimeline(): void {
  effect(() => {
    const id = run.value;
    timeline.value = timelineTrouble.value = undefined;
    // With the topology it is known which part of the run is meant.
    if (id !== undefined && session.value !== undefined && topology.value !== undefined) {
      void read(id);
    }
  });
  // Where it stands; undefined: it moves. A rack in which nothing is left to do stands, too.
  const stand = computed(() => {
    const now = clock.value;
    if (now?.paused || now?.finished || ended.value !== undefined) return now?.virtualPs ?? 0;
    return now?.standsAtPs ?? undefined;
  });
  effect(() => {
    if (stand.value !== undefined) untracked(() => void readTimeline());
  });
}
