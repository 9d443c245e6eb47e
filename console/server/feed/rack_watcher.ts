/**
 * One connection to a rack's bus, one subscription, one look at its clock and counters per
 * interval, for all pages.
 */
import { sleep } from "../../../fabric/bus/wall_time.ts";
import type { Change, StateMessage } from "../../api/feed.ts";
import { countersOf, type LiveCounters, trafficOf } from "../../rack/live/counters.ts";
import { type RackEvent, rackEvents } from "../../rack/live/events.ts";
import { findUp, linkedTo, type RackLink } from "../../rack/live/racks.ts";
import { readEnd } from "../../rack/run_directory.ts";
import { plainly } from "../../reports/json.ts";
import { clockOf } from "../documents.ts";
import { changedCounters, withChanged } from "./counter_changes.ts";
import { Ring, type RingLimits } from "./ring.ts";

export interface WatcherOptions extends RingLimits {
  readonly wallMs: () => number;
  readonly onChange: () => void;
}

const LOOK_MS = 500;
/** A process takes about 0.6 ms to report its counters: at most 1 % of its time. */
const COUNTERS_MS_PER_PROCESS = 20;
const AGAIN_MS = 500;

export class RackWatcher {
  readonly run: string;
  readonly ring: Ring;
  readonly #options: WatcherOptions;
  readonly #ending = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  #state: StateMessage | undefined;
  #traffic = "";
  readonly done: Promise<void>;

  constructor(run: string, options: WatcherOptions) {
    this.run = run;
    this.#options = options;
    // Greater than any number of an earlier watcher.
    this.ring = new Ring(Date.now() * 1_000, options);
    // Readers await it.
    this.#first.promise.catch(() => {});
    this.done = this.#watch();
  }

  /** @throws where the rack could not be looked at. */
  async state(): Promise<StateMessage> {
    await this.#first.promise;
    return this.#state!;
  }

  get isOver(): boolean {
    return this.#state?.ended !== undefined;
  }

  async end(): Promise<void> {
    this.#ending.abort();
    await this.done;
  }

  async #watch(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted && !this.isOver) {
      try {
        const rack = await findUp(this.run);
        await linkedTo(rack, (link) => this.#watchLink(link), { as: "viewer" });
      } catch (error) {
        // Its broker is being started again, or the rack has gone down.
        if (this.#state === undefined) return this.#first.reject(error);
        if (!(await this.#isUp())) this.#push({ type: "ended", message: this.#whyEnded() });
        else await sleep(AGAIN_MS);
      }
    }
  }

  async #isUp(): Promise<boolean> {
    return await findUp(this.run).then(() => true, () => false);
  }

  #directory = "";

  #whyEnded(): string {
    return readEnd(this.#directory)?.message ?? "";
  }

  async #watchLink(link: RackLink): Promise<void> {
    this.#directory = link.rack.directory;
    const over = new AbortController();
    const signal = AbortSignal.any([this.#ending.signal, over.signal]);
    const looking = this.#look(link, signal);
    try {
      for await (const event of rackEvents(link, signal)) await this.#take(event, link);
    } finally {
      over.abort();
      await looking;
    }
  }

  async #take(event: RackEvent, { control }: RackLink): Promise<void> {
    if (event.event === "state") {
      const { clock: _, event: __, ...state } = event;
      const status = await control.statusNow();
      const isFirst = this.#state === undefined;
      this.#state = {
        type: "state",
        ...state,
        nodes: state.nodes.map(({ name, power }) => ({ name, power })),
        processes: state.processes.map((each) => ({ ...each, nodes: this.#nodesOf(each.name) })),
        links: [...state.links],
        clock: status === undefined ? null : clockOf(status),
        counters: this.#state?.counters ?? {},
        traffic: this.#state?.traffic ?? [],
      };
      // Behind an outage of the bus.
      if (!isFirst) this.ring.forget();
      this.#first.resolve();
      this.#options.onChange();
      return;
    }
    // Time is held for another reason; the next look shows it in full.
    if (event.event === "clock") return await this.#lookAtClock(control);
    this.#push(changeOf(event, (name) => this.#nodesOf(name)));
  }

  #partitions: ReadonlyMap<string, readonly string[]> = new Map();

  #nodesOf(process: string): string[] {
    return [...this.#partitions.get(process) ?? []];
  }

  #push(change: Change): void {
    if (this.isOver) return;
    // In JSON's form, once for all readers: bytes in hex, big numbers as text.
    const plain: Change = change.type === "report"
      ? JSON.parse(JSON.stringify(change, plainly))
      : change;
    this.#state = applied(this.#state!, plain);
    this.ring.push(plain);
    this.#options.onChange();
  }

  async #look(link: RackLink, signal: AbortSignal): Promise<void> {
    const { wallMs } = this.#options;
    const { partitions } = link.rack.file;
    this.#partitions = new Map(partitions.map(({ name, nodes }) => [name, nodes]));
    const everyMs = Math.max(LOOK_MS, partitions.length * COUNTERS_MS_PER_PROCESS);
    let countedMs = wallMs() - everyMs;
    while (!signal.aborted) {
      if (this.#state !== undefined) {
        const overMs = wallMs() - countedMs, isDue = overMs >= everyMs;
        if (isDue) countedMs = wallMs();
        const counted = isDue ? await countersOf(link) : undefined;
        await this.#lookAtClock(link.control);
        // In one line of the feed with the clock: a page makes one picture of it.
        if (counted !== undefined) this.#count(link, { counted, overMs });
      }
      await sleep(LOOK_MS);
    }
  }

  async #lookAtClock(control: RackLink["control"]): Promise<void> {
    const status = await control.statusNow();
    if (status === undefined || this.#state === undefined) return;
    const clock = clockOf(status), before = this.#state.clock;
    if (before !== null && before.digest === clock.digest && isSameHold(before, clock)) return;
    this.#push({ type: "clock", clock });
  }

  #count(
    { rack }: RackLink,
    { counted, overMs }: { readonly counted: LiveCounters; readonly overMs: number },
  ): void {
    const { counters, clock } = this.#state!;
    const nodes = changedCounters(counters, counted.nodes);
    const traffic = trafficOf(rack.file.plan, counted.nodes);
    const text = JSON.stringify(traffic);
    if (Object.keys(nodes).length === 0 && text === this.#traffic) return;
    this.#traffic = text;
    this.#push({ type: "counters", atPs: clock?.virtualPs ?? 0, overMs, nodes, traffic });
  }
}

/** A wait of less than a second is no change. */
function isSameHold(
  before: NonNullable<StateMessage["clock"]>,
  now: NonNullable<StateMessage["clock"]>,
): boolean {
  const key = ({ waiting, why: _, whyParts: __, ...clock }: typeof before) =>
    JSON.stringify([
      clock,
      waiting.map(({ partition, status, heldBy, forMs }) => {
        const seconds = status === "idle" || status === "dead" ? 0 : Math.floor(forMs / 1_000);
        return [partition, status, heldBy, seconds];
      }),
    ]);
  return key(before) === key(now);
}

type Told = Exclude<RackEvent, { readonly event: "state" } | { readonly event: "clock" }>;

function changeOf(event: Told, nodesOf: (process: string) => string[]): Change {
  switch (event.event) {
    case "process": {
      const { name, kind, pid, alive } = event;
      return { type: "process", process: { name, kind, pid, alive, nodes: nodesOf(name) } };
    }
    case "power": {
      const { action, nodes, atPs } = event;
      return { type: "power", action, nodes: [...nodes], atPs };
    }
    case "link": {
      const { event: _, ...fault } = event;
      return { type: "link", ...fault };
    }
    case "report": {
      const { node, topic, value, atPs } = event;
      return { type: "report", node, topic, value, atPs };
    }
    case "ended":
      return { type: "ended", message: event.message ?? "" };
  }
}

/** The page does the same. */
function applied(state: StateMessage, change: Change): StateMessage {
  switch (change.type) {
    case "clock":
      return { ...state, clock: change.clock };
    case "power": {
      const power = change.action === "start";
      const nodes = state.nodes.map((node) =>
        change.nodes.includes(node.name) ? { ...node, power } : node
      );
      return { ...state, nodes };
    }
    case "process": {
      const { process } = change;
      const others = state.processes.filter(({ name }) => name !== process.name);
      return { ...state, processes: [...others, process] };
    }
    case "link": {
      const { type: _, ...fault } = change;
      const others = state.links.filter((each) => each.fault !== fault.fault);
      return { ...state, links: [...others, fault] };
    }
    case "counters":
      return {
        ...state,
        counters: withChanged(state.counters, change.nodes),
        traffic: change.traffic,
      };
    case "ended":
      return { ...state, ended: { message: change.message } };
    case "report":
      return state;
  }
}
