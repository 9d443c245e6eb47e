/** Views read these signals, not those of `rack.ts`, wherever both exist. */
import { computed, effect, signal } from "@preact/signals";
import type { StateMessage } from "../../api/feed.ts";
import type { Topology } from "../../api/rack.ts";
import type { InFlight, QueueState, Snapshot } from "../../api/replay.ts";
import { instant, run } from "../state.ts";
import { api } from "./api.ts";
import { timeline } from "./timeline.ts";
import {
  clock,
  counters,
  type Flow,
  flowKey,
  flows,
  isKept,
  links,
  power,
  topology,
  variant,
} from "./rack.ts";
import { faultsAt } from "./cable_faults.ts";

/** While the instant's snapshot is read, the one before stays. */
const snapshot = signal<Snapshot | undefined>(undefined);
export const snapshotTrouble = signal<string | undefined>(undefined);

/** Asked of the replay; undefined: now, of a rack that is up. */
export const replayedAt = computed(() =>
  instant.value ?? (isKept.value ? timeline.value?.endPs : undefined)
);

const past = computed(() => replayedAt.value === undefined ? undefined : snapshot.value);

export const shownAt = computed(() => replayedAt.value ?? clock.value?.virtualPs ?? 0);

export const shownPower = computed<ReadonlyMap<string, boolean>>(() =>
  past.value === undefined
    ? power.value
    : new Map(past.value.devices.map(({ node, hasPower }) => [node, hasPower]))
);

export const shownCounters = computed<ReadonlyMap<string, Readonly<Record<string, number>>>>(() =>
  past.value === undefined
    ? counters.value
    : new Map(past.value.devices.map(({ node, counters }) => [node, counters]))
);

/** By `flowKey`. */
export const shownFlows = computed<ReadonlyMap<string, Flow>>(() =>
  past.value === undefined ? flows.value : new Map(past.value.cables.map((cable) => [
    flowKey(cable.cable, cable.from),
    { frames: cable.sent, bytes: cable.sentBytes, bitsPerSecond: 0 },
  ]))
);

/** At a past instant, by `flowKey`: the feed has none. */
export const inFlight = computed<ReadonlyMap<string, readonly InFlight[]>>(() =>
  new Map(
    (past.value?.cables ?? []).map(({ cable, from, inFlight }) => [flowKey(cable, from), inFlight]),
  )
);

export function queuesOf(host: string): readonly QueueState[] {
  return past.value?.devices.find(({ node }) => node === host)?.queues ?? [];
}

const NO_FAULTS: ReturnType<typeof faultsAt> = new Map();

/** In force, by the cable's index. */
export const shownFaults = computed(() => {
  const rack = topology.value;
  const known = rack === undefined ? [] : isKept.value ? replayedFaults(rack) : links.value;
  // One value for all instants: its readers have nothing to do.
  if (rack === undefined || known.length === 0) return NO_FAULTS;
  // An order is dated a picosecond behind an instant at which time stands.
  return faultsAt(rack, known, shownAt.value + (replayedAt.value === undefined ? 1 : 0));
});

function replayedFaults({ cables }: Pick<Topology, "cables">): StateMessage["links"] {
  return (timeline.value?.faults ?? []).flatMap(({ at, action, cable, until }, fault) => {
    const target = cable === undefined ? undefined : cables[cable]?.name;
    return target === undefined ? [] : [{
      ...{ fault, action, target, atPs: at },
      ...(until !== undefined && { untilPs: until }),
    }];
  });
}

const SLOW_MS = 500;

/** In one text: equal while they are the same ones. */
const waitedForNames = computed(() => {
  const now = clock.value;
  if (now === null || now.paused || now.finished || instant.value !== undefined) return "";
  const slow = new Set(
    now.waiting.filter(({ status, forMs }) =>
      status === "absent" || status === "unknown" || (status === "running" && forMs > SLOW_MS)
    ).map(({ partition }) => partition),
  );
  if (slow.size === 0) return "";
  const nodes = topology.value?.nodes ?? [];
  return nodes.filter(({ process }) => slow.has(process)).map(({ name }) => name).join(" ");
});

/** Their processes compute for long, or are not there. */
export const waitedFor = computed<ReadonlySet<string>>(() =>
  new Set(waitedForNames.value.split(" "))
);

/** One request at a time: a slider moves faster. */
export function followInstant(): void {
  let isReading = false;
  async function read(): Promise<void> {
    if (isReading) return;
    isReading = true;
    let done = "";
    for (;;) {
      const id = run.peek(), at = replayedAt.peek(), of = variant.peek();
      const wanted = `${id} ${of} ${at}`;
      if (id === undefined || at === undefined || done === wanted) break;
      done = wanted;
      try {
        snapshot.value = await api.snapshot(id, { at, variant: of });
        snapshotTrouble.value = undefined;
      } catch (error) {
        snapshotTrouble.value = (error as Error).message;
      }
    }
    isReading = false;
  }
  effect(() => {
    if (run.value === undefined || replayedAt.value === undefined) {
      snapshotTrouble.value = undefined;
      return;
    }
    void variant.value;
    void read();
  });
}
