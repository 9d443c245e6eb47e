/** Views read these signals; only this file writes them. */
import { batch, computed, effect, signal, untracked } from "@preact/signals";
import type { Message, StateMessage } from "../../api/feed.ts";
import type { Job } from "../../api/jobs.ts";
import type { Clock, ProcessState, Topology, Traffic } from "../../api/rack.ts";
import type { ApiError } from "../../api/common.ts";
import type { Runs } from "../../api/runs.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { go, place, run } from "../state.ts";
import { api } from "./api.ts";
import { followFeed } from "./feed.ts";
import { session } from "./session.ts";

export const runs = signal<Runs | undefined>(undefined);
export const jobs = signal<readonly Job[]>([]);
export const topology = signal<Topology | undefined>(undefined);
export const trouble = signal<string | undefined>(undefined);
export const clock = signal<Clock | null>(null);
export const power = signal<ReadonlyMap<string, boolean>>(new Map());
export const processes = signal<ReadonlyMap<string, ProcessState>>(new Map());
export const links = signal<StateMessage["links"]>([]);
export const counters = signal<ReadonlyMap<string, Readonly<Record<string, number>>>>(new Map());
/** By host: how far its program has said that it is, while the page was watching. */
export const progress = signal<ReadonlyMap<string, { readonly done: number; readonly of: number }>>(
  new Map(),
);
/** Why the rack is down; empty: it was taken down; undefined: it is up. */
export const ended = signal<string | undefined>(undefined);
/** Virtual ps per second of wall time, over the last second. */
export const speed = signal(0);

export interface Flow {
  readonly frames: number;
  readonly bytes: number;
  readonly bitsPerSecond: number;
}

/** By `flowKey`. */
export const flows = signal<ReadonlyMap<string, Flow>>(new Map());

/** `cable`: an index in the topology. */
export function flowKey(cable: number, from: string): string {
  return `${cable} ${from}`;
}

/** Happened while the page was watching. */
export interface PowerNews {
  readonly atPs: Time;
  readonly action: "kill" | "start";
  readonly nodes: readonly string[];
}

const NEWS_MAX = 20_000;
/** In the order of their arrival; the oldest are dropped. */
export const powerNews = signal<readonly PowerNews[]>([]);

/** The run has ended, or was never a rack that stays up: the page shows its replay. */
export const isKept = signal(false);
export const variants = signal<readonly string[]>([]);
export const variant = computed(() =>
  variants.value.find((each) => each === place.value.variant) ?? variants.value[0]
);

export const isUp = computed(() =>
  topology.value !== undefined && ended.value === undefined && !isKept.value
);

let lastClock: { readonly atMs: number; readonly ps: Time } | undefined;
let lastTraffic: { readonly atPs: Time; readonly of: ReadonlyMap<string, Traffic> } | undefined;

function forget(): void {
  batch(() => {
    topology.value =
      trouble.value =
      ended.value =
        undefined;
    variants.value = [];
    isKept.value = false;
    clock.value = null;
    power.value = new Map();
    processes.value = new Map();
    counters.value = new Map();
    flows.value = new Map();
    progress.value = new Map();
    links.value = [];
    powerNews.value = [];
    speed.value = 0;
  });
  lastClock = lastTraffic = undefined;
}

const SPEED_MS = 900;
const STANDS_MS = 2_500;
let standstill: ReturnType<typeof setTimeout> | undefined;

function takeClock(now: Clock | null): void {
  clock.value = now;
  if (now === null) return;
  const atMs = performance.now();
  if (lastClock === undefined || atMs - lastClock.atMs > SPEED_MS || now.virtualPs < lastClock.ps) {
    if (lastClock !== undefined) {
      speed.value = Math.max(0, (now.virtualPs - lastClock.ps) / (atMs - lastClock.atMs) * 1_000);
    }
    lastClock = { atMs, ps: now.virtualPs };
    // The feed reports a clock only when it has moved.
    clearTimeout(standstill);
    standstill = setTimeout(() => speed.value = 0, STANDS_MS);
  }
  if (now.paused || now.finished) speed.value = 0;
}

function takeTraffic(traffic: readonly Traffic[], atPs: Time): void {
  const of = new Map(traffic.map((each) => [flowKey(each.cable, each.from), each]));
  const before = lastTraffic;
  const span = before === undefined ? 0 : atPs - before.atPs;
  const next = new Map<string, Flow>();
  for (const [key, { frames, bytes }] of of) {
    const moved = bytes - (before?.of.get(key)?.bytes ?? bytes);
    // A card that was off counts from 0 again.
    const bitsPerSecond = span > 0 && moved > 0 ? moved * 8 / span * 1e12 : 0;
    next.set(key, { frames, bytes, bitsPerSecond });
  }
  flows.value = next;
  lastTraffic = { atPs, of };
}

function takeReport({ node, topic, value }: Extract<Message, { type: "report" }>): void {
  const { written, messages } = Object(value) as { written?: unknown; messages?: unknown };
  if (topic !== "progress" || typeof written !== "number" || typeof messages !== "number") return;
  progress.value = new Map([...progress.value, [node, { done: written, of: messages }]]);
}

function takeState(state: StateMessage): void {
  takeClock(state.clock);
  power.value = new Map(state.nodes.map(({ name, power }) => [name, power]));
  processes.value = new Map(state.processes.map((each) => [each.name, each]));
  links.value = state.links;
  counters.value = new Map(Object.entries(state.counters));
  takeTraffic(state.traffic, state.clock?.virtualPs ?? 0);
  ended.value = state.ended?.message;
}

export function takeJob(job: Job): void {
  jobs.value = [job, ...jobs.value.filter(({ id }) => id !== job.id)]
    .sort((x, y) => x.startedAt < y.startedAt ? 1 : -1);
}

function take(message: Message): void {
  switch (message.type) {
    case "state":
      return takeState(message);
    case "clock":
      return takeClock(message.clock);
    case "power": {
      const { action, nodes, atPs } = message;
      power.value = new Map([
        ...power.value,
        ...nodes.map((name) => [name, action === "start"] as const),
      ]);
      powerNews.value = [...powerNews.value.slice(-NEWS_MAX), { atPs, action, nodes }];
      return;
    }
    case "process":
      processes.value = new Map([
        ...processes.value,
        [message.process.name, message.process],
      ]);
      return;
    case "link":
      links.value = [...links.value, message];
      return;
    case "counters":
      counters.value = new Map([
        ...counters.value,
        ...Object.entries(message.nodes).map(([name, changed]) =>
          [name, { ...counters.value.get(name), ...changed }] as const
        ),
      ]);
      return takeTraffic(message.traffic, message.atPs);
    case "ended":
      ended.value = message.message;
      void readRuns();
      return;
    case "job":
      return takeJob(message.job);
    case "runs":
      void readRuns();
      return;
    case "report":
      return takeReport(message);
    case "dropped":
      return;
  }
}

/** The feed reports that the server is away: the list stays. */
async function readRuns(): Promise<void> {
  const read = await api.runs().catch(() => undefined);
  if (read === undefined) return;
  const id = run.peek(), lists = [runs.peek(), read];
  const [was, is] = lists.map((list) => list?.runs.some((each) => each.id === id));
  runs.value = read;
  if (id !== undefined && was && !is) await tellDeleted(id);
}

/** What the page has read of it stays, and nothing more can be asked. */
async function tellDeleted(id: string): Promise<void> {
  try {
    await api.run(id);
  } catch (error) {
    if ((error as { readonly detail?: ApiError }).detail?.kind !== "not-found") return;
    if (run.peek() === id) trouble.value = `${id} is deleted: this was read before`;
  }
}

function firstRun(): string | undefined {
  const own = session.value?.rack ?? undefined;
  return own ?? runs.value?.runs.find(({ state }) => state === "up")?.id;
}

async function readVariant(id: string): Promise<void> {
  const of = variant.peek(), found = await api.topology(id, of);
  if (run.value !== id) return;
  if (variant.peek() !== of) return await readVariant(id);
  topology.value = found;
}

/**
 * Decided once for a run. The list may be older than the run's coming up: then the server is asked.
 * Undefined: the run is no longer shown.
 */
async function isLive(id: string, signal: AbortSignal): Promise<boolean | undefined> {
  if (runs.peek()?.runs.find((each) => each.id === id)?.state === "up") return true;
  const found = await api.run(id);
  if (signal.aborted) return undefined;
  if (found.state !== "up") variants.value = found.variants;
  return found.state === "up";
}

async function follow(id: string | undefined, signal: AbortSignal): Promise<void> {
  let follows = false;
  try {
    if (id !== undefined) {
      const isUp = await isLive(id, signal);
      if (isUp === undefined) return;
      follows = isUp;
      isKept.value = !follows;
      void readVariant(id).catch((error) => sayTrouble(id, error));
    }
  } catch (error) {
    if (signal.aborted) return;
    isKept.value = true;
    sayTrouble(id, error);
  }
  await followFeed({
    run: follows ? id : undefined,
    signal,
    onMessages: (messages) => batch(() => messages.forEach(take)),
  });
}

function sayTrouble(id: string | undefined, error: unknown): void {
  if (run.peek() === id) trouble.value = (error as Error).message;
}

/** Reads and follows the run of the address, once a user is signed in. */
export function followRack(): void {
  effect(() => {
    if (session.value === undefined) return;
    void api.jobs().then(({ jobs: all }) => jobs.value = all);
    void readRuns().then(() => {
      const first = firstRun();
      // The first screen is a place, too: who has gone there while the runs were read, stays there.
      if (location.hash === "" && first !== undefined) go({ run: first });
    });
  });
  effect(() => {
    const id = run.peek(), isChanged = variant.value !== undefined && topology.peek() !== undefined;
    if (id === undefined || !isChanged) return;
    topology.value = undefined;
    void readVariant(id).catch((error) => sayTrouble(id, error));
  });
  const areKnown = computed(() => runs.value !== undefined);
  effect(() => {
    if (session.value === undefined || !areKnown.value) return;
    const id = run.value, end = new AbortController();
    forget();
    void untracked(() => follow(id, end.signal));
    return () => end.abort();
  });
}
