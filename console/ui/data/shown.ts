/** Views read these signals, not those of `rack.ts`, wherever both exist. */
import { computed, effect, signal } from "@preact/signals";
import type { StateMessage } from "../../api/feed.ts";
import type { Topology } from "../../api/rack.ts";
import { RECENT_PS } from "../../api/replay_terms.ts";
import { PS_PER_S, type Time } from "../../../fabric/base/time.ts";
import type {
  DeviceState,
  InFlight,
  ProgramState,
  QueueState,
  Snapshot,
} from "../../api/replay.ts";
import { instant, run } from "../state.ts";
import { api } from "./api.ts";
import { stand, timeline, timelineTrouble } from "./timeline.ts";
import {
  clock,
  counters,
  type Flow,
  flowKey,
  flows,
  isKept,
  isUp,
  links,
  power,
  topology,
  variant,
} from "./rack.ts";
import { faultsAt } from "./cable_faults.ts";

export interface Work {
  readonly at: Time;
  readonly programs: readonly ProgramState[];
  /** By card. */
  readonly queuePairs: ReadonlyMap<string, NonNullable<DeviceState["rnic"]>["queuePairs"]>;
}

/** While the instant's snapshot is read, the one before stays. */
const snapshot = signal<Snapshot | undefined>(undefined);
export const snapshotTrouble = signal<string | undefined>(undefined);

/** Asked of the replay; undefined: now, of a rack that is up. */
export const replayedAt = computed(() =>
  instant.value ?? (isKept.value ? timeline.value?.endPs : undefined)
);

const past = computed(() => replayedAt.value === undefined ? undefined : snapshot.value);

/**
 * Of a rack that is up and stands, and whose replay has come to where it stands: asked of the
 * replay, too, as devices do not say what is on their cables.
 */
const stillAt = computed(() => {
  const known = timeline.value, now = clock.value;
  if (!isUp.value || instant.value !== undefined || stand.value === undefined) return undefined;
  if (known === undefined || now === null) return undefined;
  // Devices boot at 0; the replay goes on to behind that.
  if (now.events === 0) return 0;
  return known.events === now.events ? known.endPs : undefined;
});

/** What is known of one instant; undefined: time moves, or it is being read. */
const standing = computed(() => {
  const at = replayedAt.value ?? stillAt.value, found = snapshot.value;
  return at !== undefined && found?.at === at ? found : undefined;
});

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
export const shownFlows = computed<ReadonlyMap<string, Flow>>(() => {
  // The feed has no rate where time stands.
  const found = past.value ?? standing.value;
  if (found === undefined) return flows.value;
  return new Map(found.cables.map((cable) => [
    flowKey(cable.cable, cable.from),
    {
      frames: cable.sent,
      bytes: cable.sentBytes,
      bitsPerSecond: cable.recentBytes * 8 / RECENT_PS * PS_PER_S,
    },
  ]));
});

/** By `flowKey`, where time stands. */
export const inFlight = computed<ReadonlyMap<string, readonly InFlight[]>>(() =>
  new Map(
    (standing.value?.cables ?? []).map((
      { cable, from, inFlight },
    ) => [flowKey(cable, from), inFlight]),
  )
);

/** Of a switch's output port: what waits there to leave over the cable. */
export function queuedBytes(end: { readonly node: string; readonly port: number }): number {
  return shownCounters.value.get(end.node)?.[`port${end.port}.queuedBytes`] ?? 0;
}

export const isInstantKnown = computed(() => standing.value !== undefined);

/** Where what the replay knows is not there yet: why. */
export const unreadText = computed(() =>
  snapshotTrouble.value !== undefined || (isKept.value && timelineTrouble.value !== undefined)
    ? "not known"
    : isKept.value || replayedAt.value !== undefined || stand.value !== undefined
    ? "being worked out"
    : "shown where time stands"
);

/** What programs and cards do at an instant; undefined: time moves, or it is being worked out. */
export const shownWork = computed<Work | undefined>(() => {
  const found = standing.value;
  if (found?.programs === undefined || found.programs === null) return undefined;
  const queuePairs = new Map(
    found.devices.map(({ node, rnic }) => [node, rnic?.queuePairs ?? []] as const),
  );
  return { at: found.at, programs: found.programs, queuePairs };
});

export function queuesOf(host: string): readonly QueueState[] {
  const found = past.value ?? standing.value;
  return found?.devices.find(({ node }) => node === host)?.queues ?? [];
}

/** What the replay knows of a device where time stands, beside its counters. */
export function shownInspection(node: string) {
  const found = standing.value, device = found?.devices.find((each) => each.node === node);
  if (found === undefined || device === undefined) return undefined;
  const programs = found.programs?.filter(({ host }) => host === node);
  return {
    ...{ queues: device.queues, rnic: device.rnic },
    ...(programs !== undefined && { programs }),
  };
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

/** What programs do may take another pass over the run: only for an instant at which one stays. */
const SETTLED_MS = 400, EXACT_EVENTS_MOST = 500_000;

/** One request at a time: a slider moves faster. */
export function followInstant(): void {
  let isReading = false, settled = "", timer: ReturnType<typeof setTimeout> | undefined;
  function wanted() {
    const id = run.peek(), at = replayedAt.peek() ?? stillAt.peek(), of = variant.peek();
    return { id, at, of, text: `${id} ${of} ${at}` };
  }
  async function read(): Promise<void> {
    if (isReading) return;
    isReading = true;
    let done = "";
    for (;;) {
      const { id, at, of, text } = wanted();
      if (id === undefined || at === undefined || done === text) break;
      done = text;
      try {
        const isExact = text === settled;
        const found = await api.snapshot(id, { at, variant: of, ...(isExact && { exact: true }) });
        snapshot.value = found;
        snapshotTrouble.value = undefined;
        if (found.programs !== null || found.events > EXACT_EVENTS_MOST) continue;
        clearTimeout(timer);
        timer = setTimeout(() => {
          settled = text;
          if (wanted().text === text) void read();
        }, SETTLED_MS);
      } catch (error) {
        snapshotTrouble.value = (error as Error).message;
      }
    }
    isReading = false;
  }
  effect(() => {
    if (run.value === undefined || (replayedAt.value ?? stillAt.value) === undefined) {
      snapshotTrouble.value = undefined;
      return;
    }
    void variant.value;
    void read();
  });
}
