import { computed, effect, type Signal, signal, untracked, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Clock } from "../../api/rack.ts";
import type { ReplayState, Timeline } from "../../api/replay.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { count, percent, plural, time } from "../figures.ts";
import { instant, isPast, run } from "../state.ts";
import { api } from "./api.ts";
import {
  clock,
  ended,
  isKept,
  links,
  power,
  type PowerNews,
  powerNews,
  topology,
  variant,
} from "./rack.ts";
import { answersAwaited, session } from "./session.ts";

export const timeline = signal<Timeline | undefined>(undefined);
export const timelineTrouble = signal<string | undefined>(undefined);

export interface PowerSpan {
  readonly from: Time;
  readonly to: Time;
}

export const endPs = computed(() =>
  Math.max(timeline.value?.endPs ?? 0, clock.value?.virtualPs ?? 0, 1)
);

/** Where the instant that is asked for is none of the past: what is wrong with it. */
export const beyondText = computed(() => {
  const at = instant.value, now = clock.value?.virtualPs;
  const last = isKept.value ? timeline.value?.endPs : now && Math.max(now + 1, endPs.value);
  if (at === undefined || last === undefined || at <= last) return undefined;
  return isKept.value
    ? `There is no instant ${time(at)}: the run ended at ${time(last)}`
    : `${time(at)} is to come: the rack is at ${time(now!)}`;
});

/** When the page came to the run: the replay knows the time before. */
const cameAt = signal<Time | undefined>(undefined);

/** Nothing is left to do before the instant of an order, at which time stands. */
export function isAtLimit({ limitPs, nextPs }: Pick<Clock, "limitPs" | "nextPs">): boolean {
  return limitPs !== null && (nextPs ?? Infinity) >= limitPs;
}

/** Where time stands; undefined: it moves. A rack in which nothing is left to do stands, too. */
export const stand = computed(() => {
  const now = clock.value;
  if (now?.paused || now?.finished || ended.value !== undefined) return now?.virtualPs ?? 0;
  // At a pace it stands again and again, for milliseconds.
  const isMoving = now !== null && now.psPerSecond > 0 && now.nextPs !== null && !isAtLimit(now);
  if (isMoving) return undefined;
  return now?.standsAtPs ?? undefined;
});

const readings = signal(0);

/** Of the time before the page came, of a rack whose time moves. */
export const past = computed((): "read" | "unread" | "being read" => {
  const isRead = timeline.value !== undefined || timelineTrouble.value !== undefined;
  if (isRead || isKept.value || (cameAt.value ?? 0) === 0) return "read";
  if (readings.value > 0) return "being read";
  return stand.value === undefined ? "unread" : "read";
});

/** What the replay has told of power: a device that does nothing fails at an instant of the past. */
const replayed = computed(() =>
  new Set(
    (timeline.value?.faults ?? []).flatMap(({ at, action, nodes }) =>
      nodes.map((node) => `${action} ${at} ${node}`)
    ),
  )
);

/** What the replay has not told yet. */
const unreadNews = computed(() =>
  powerNews.value.filter(({ action, atPs, nodes }) =>
    nodes.some((node) => !replayed.value.has(`${action} ${atPs} ${node}`))
  )
);

const newsOf = computed(() => {
  const of = new Map<string, PowerNews[]>();
  for (const news of unreadNews.value) {
    for (const name of news.nodes) {
      const own = of.get(name);
      if (own === undefined) of.set(name, [news]);
      else own.push(news);
    }
  }
  return of;
});

const devicesOf = computed(() =>
  new Map((timeline.value?.devices ?? []).map(({ node, power }) => [node, power]))
);

/** From the replay, then from the feed. */
export function powerSpans(name: string): PowerSpan[] {
  const known = devicesOf.value.get(name) ??
    (hadPower(name) ? [{ from: cameAt.value ?? 0, to: null }] : []);
  const spans = known.map(({ from, to }) => ({ from, to: to ?? Infinity }));
  for (const { action, atPs } of newsOf.value.get(name) ?? []) {
    const last = spans.at(-1);
    const isOn = last !== undefined && last.to === Infinity;
    if (action === "kill" && isOn) spans[spans.length - 1] = { from: last.from, to: atPs };
    if (action === "start" && !isOn) spans.push({ from: atPs, to: Infinity });
  }
  return spans;
}

function hadPower(name: string): boolean {
  const next = newsOf.value.get(name)?.[0];
  return next === undefined ? power.value.get(name) !== false : next.action === "kill";
}

/** `to`: where the fault of a cable ends by itself. */
export interface Mark {
  readonly at: Time;
  readonly to?: Time;
  readonly text: string;
}

export const marks = computed<readonly Mark[]>(() => {
  const known = timeline.value;
  const all: Mark[] = (known?.faults ?? []).filter(({ cable }) => cable === undefined)
    .map(({ at, action, nodes }) => ({ at, text: `${action} ${hostsOf(nodes).join(", ")}` }));
  for (const { action, atPs, nodes } of unreadNews.value) {
    all.push({ at: atPs, text: `${action} ${hostsOf(nodes).join(", ")}` });
  }
  if (isKept.value) {
    const cables = topology.value?.cables ?? [];
    for (const { at, action, cable, until } of known?.faults ?? []) {
      if (cable === undefined) continue;
      const text = `${action} ${cables[cable]?.name ?? cable}`;
      all.push({ at, text, ...(until !== undefined && { to: until }) });
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

function hostsOf(nodes: readonly string[]): readonly string[] {
  const kinds = new Map(topology.value?.nodes.map(({ name, host }) => [name, host]));
  return nodes.filter((name) => !nodes.includes(kinds.get(name) ?? ""));
}

const LOOK_MS = 500;

/** While the time line is read: how far its replay is. */
const replaying = signal<ReplayState | undefined>(undefined);

/** How far the replay is that the time line waits for, in words. */
export const replayText = computed(() => replayWords(replaying.value));

/** @param now undefined: not known yet. */
export function replayWords(now: ReplayState | undefined): string {
  if (now?.state === "waiting") {
    const { place, length, before } = now;
    return `The run waits for its replay: place ${count(place)} of ${count(length)} in the line, ` +
      `behind ${plural(before.length, "run")} being replayed`;
  }
  if (now?.state !== "replaying" || now.events === 0) return "The run is being replayed …";
  return `The run is being replayed: ${passed(now)}`;
}

function passed({ atPs, endPs, events }: Extract<ReplayState, { state: "replaying" }>): string {
  const where = endPs === null ? time(atPs) : `${percent(atPs / endPs)} of ${time(endPs)}`;
  return `${where}, ${count(events)} events`;
}

/** While an answer takes another pass over the run: how far it is, in words; else empty. */
export const passText = signal("");

async function watchPass(id: string): Promise<void> {
  while (answersAwaited.peek() > 0 && run.peek() === id) {
    const now = await api.replayState(id, variant.peek()).catch(() => undefined);
    passText.value = now?.state === "replaying" && now.pass === "again"
      ? `The run is replayed again, up to the instant that is asked for: ${passed(now)}`
      : "";
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  passText.value = "";
}

/** Until `isOver`. A server that does not answer is the feed's subject. */
async function watchReplay(
  id: string,
  of: string | undefined,
  { into, isOver }: { into: Signal<ReplayState | undefined>; isOver: () => boolean },
) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    if (isOver()) return;
    const now = await api.replayState(id, of).catch(() => undefined);
    if (!isOver()) into.value = now;
  }
}

/** Of any run: how far its replay is, as long as its user is shown. */
export function useReplayState(id: string, of: string | undefined) {
  const state = useSignal<ReplayState | undefined>(undefined);
  useEffect(() => {
    let isOver = false;
    state.value = undefined;
    void watchReplay(id, of, { into: state, isOver: () => isOver });
    return () => {
      isOver = true;
    };
  }, [id, of]);
  return state;
}

async function read(id: string): Promise<void> {
  const of = variant.peek(), isStill = () => run.peek() === id && variant.peek() === of;
  let isRead = false;
  if (readings.peek() === 0) replaying.value = undefined;
  readings.value++;
  void watchReplay(id, of, { into: replaying, isOver: () => isRead || !isStill() });
  try {
    const found = await api.timeline(id, of);
    if (!isStill()) return;
    timeline.value = found;
    timelineTrouble.value = undefined;
  } catch (error) {
    if (isStill()) timelineTrouble.value = (error as Error).message;
  } finally {
    isRead = true;
    readings.value--;
  }
}

/** Where time has moved since: each time the replay goes on to where the rack is. */
export async function readTimeline(): Promise<void> {
  const id = run.peek();
  if (id !== undefined && (timeline.peek()?.endPs ?? -1) < (clock.peek()?.virtualPs ?? 0)) {
    await read(id);
  }
}

/**
 * Reads it where time does not move. A replay of a rack that moves would take a core from it: there
 * the past is read on request.
 */
export function followTimeline(): void {
  let isWatched = false;
  effect(() => {
    const id = run.value, isAwaited = answersAwaited.value > 0;
    if (!isAwaited || id === undefined || isWatched) return;
    isWatched = true;
    void watchPass(id).finally(() => isWatched = false);
  });
  effect(() => {
    const id = run.value;
    timeline.value = timelineTrouble.value = cameAt.value = undefined;
    // With the topology it is known which part of the run is meant.
    if (id === undefined || session.value === undefined || topology.value === undefined) return;
    if (isKept.value) untracked(() => void read(id));
  });
  effect(() => {
    if (clock.value !== null && topology.value !== undefined) {
      cameAt.value = untracked(() => cameAt.value ?? clock.value!.virtualPs);
    }
  });
  effect(() => {
    if (topology.value === undefined) return;
    if (stand.value !== undefined || isPast.value) untracked(() => void readTimeline());
  });
}
