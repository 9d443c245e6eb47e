/**
 * All that survivors see of a power failure at `t` are the frames that the host's RNICs have sent
 * until they detect the failure, a fixed time later. So one run stands for all instants with
 * equally many frames before `t` + that time. An acknowledgement that is under way at `t`, or that
 * the RNIC still sends, belongs to them: it may break a promise (P-12).
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import { lookaheadPs } from "../../fabric/rack/plan/lookahead.ts";
import type { FaultPlan, HostPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { Reported } from "../../nodes/host/recovery/protocol.ts";
import { machineOf } from "../../fabric/rack/plan/names.ts";
import { framesOf } from "./cards.ts";
import { edgeOf } from "./history.ts";
import { eventsMaxOf, type RackRun, runRack } from "./rerun.ts";
import type { ExploredRack } from "./types.ts";

export interface PostCrashRun {
  readonly frames: number;
  /** Of the survivors, before the failure and after it. */
  readonly reports: readonly Reported[];
  readonly notes: readonly TimedRecord[];
  readonly run: RackRun;
  readonly cutAt: Time;
  /** Undefined: it ends. */
  readonly endless: string | undefined;
}

export interface Victim {
  readonly host: string;
  readonly config: HostPlan;
  /** After so long its RNICs detect the failure: their buses are of one kind. */
  readonly noticePs: Time;
}

/** @throws Error where the plan has no such host. */
export function victimOf(plan: RackPlan, host: string): Victim {
  const node = plan.nodes.find(({ name }) => name === host);
  if (node?.kind !== "host") throw new Error(`${host} is no host of the rack`);
  const { config } = node;
  for (const cable of plan.cables) {
    for (const [near, far] of [[cable.a, cable.b], [cable.b, cable.a]] as const) {
      if (near.node !== host || far.node !== config.rnics[0]) continue;
      return { host, config, noticePs: lookaheadPs(plan, cable, { near, far }) };
    }
  }
  throw new Error(`${host} has no RNIC`);
}

/** Adds a power failure at `at`, from which the hosts do not come back. */
export function faultsWith(
  faults: readonly FaultPlan[],
  cut: { readonly hosts: readonly string[]; readonly at: Time },
): FaultPlan[] {
  const { hosts, at } = cut;
  const kept = faults.filter((fault) => !hosts.includes(fault.node) || fault.at < at)
    .sort((x, y) => x.at - y.at);
  const isOff = (host: string) => kept.findLast(({ node }) => node === host)?.action === "kill";
  const kills = hosts.filter((host) => !isOff(host))
    .map((node): FaultPlan => ({ at, action: "kill", node }));
  return [...kept, ...kills].sort((x, y) => x.at - y.at);
}

export class PostCrashRuns {
  readonly #rack: ExploredRack;
  readonly #recording: RackRun;
  readonly #victim: Victim;
  readonly #frames: readonly Time[];
  readonly #options: { readonly histories: boolean; readonly keep: number };
  #last: PostCrashRun | undefined;
  readonly #kept = new Map<number, PostCrashRun>();
  count = 0;

  /** @param options.keep number of runs that are kept, as they may be asked for again. */
  constructor(
    rack: ExploredRack,
    { recording, victim }: { readonly recording: RackRun; readonly victim: Victim },
    options: { readonly histories: boolean; readonly keep: number },
  ) {
    this.#rack = rack;
    this.#recording = recording;
    this.#victim = victim;
    this.#frames = framesOf(recording, victim.config.rnics).frames;
    this.#options = options;
  }

  *edges(): Generator<Time> {
    for (const at of this.#frames) yield edgeOf(at, this.#victim.noticePs);
  }

  framesBy(at: Time): number {
    const end = at + this.#victim.noticePs;
    return lowerBound(this.#frames, (sentAt) => sentAt >= end);
  }

  /**
   * The survivors' run after a power failure at `at`.
   * @param cutAt an instant at which survivors see equally many frames: it is cut there.
   * @throws Error where a run begins otherwise than the same run before: a program keeps state.
   */
  at(at: Time, cutAt = at): PostCrashRun {
    const frames = this.framesBy(at);
    const known = this.#last?.frames === frames ? this.#last : this.#kept.get(frames);
    if (known !== undefined) return this.#last = known;
    const faults = faultsWith(this.#rack.plan.faults, { hosts: [this.#victim.host], at: cutAt });
    const { histories, keep } = this.#options;
    const eventsMax = eventsMaxOf(this.#recording);
    const run = runRack(this.#rack, { faults, histories, eventsMax });
    const reports = run.reports.filter((report) => !this.#isOwn(report));
    this.#assertSameUntil(cutAt, reports);
    const notes = run.notes.filter((note) => !this.#isOwn(note));
    this.count++;
    const endless = run.isEndless ? endlessText(run, this.#victim.host) : undefined;
    this.#last = { frames, reports, notes, run, cutAt, endless };
    if (this.#kept.size < keep) this.#kept.set(frames, this.#last);
    return this.#last;
  }

  #isOwn({ node }: { readonly node: string }): boolean {
    return machineOf(node) === this.#victim.host;
  }

  #assertSameUntil(at: Time, reports: readonly Reported[]): void {
    const others = this.#recording.reports.filter((report) => !this.#isOwn(report));
    const differs = others.find((report, i) => {
      if (report.time >= at) return false;
      const again = reports[i];
      return again?.time !== report.time || again.node !== report.node ||
        again.topic !== report.topic;
    });
    if (differs === undefined) return;
    const { node, time, topic } = differs;
    throw new Error(
      `A run of the same rack went another way: ${node} reported "${topic}" at ${time} ps the first ` +
        "time only. A program that keeps something outside its generator from run to run cannot be explored",
    );
  }
}

function endlessText({ unfinished, events }: RackRun, host: string): string {
  const others = unfinished.filter(({ node, value }) => node !== host && !value.serves)
    .map(({ node, value }) => `${value.program} of ${node}`);
  const who = others.length > 0 ? others.join(", ") : "something";
  return `where the power of ${host} fails, ${who} goes on without an end, here for ${events} events: ` +
    "with `until` the scenario says when such a run ends";
}

/** Sorts in place; stable. */
export function byTime<Timed extends { readonly time: Time }>(all: Timed[]): Timed[] {
  return all.sort((x, y) => x.time - y.time);
}

/**
 * The index of the first item that `isBehind`, which holds for all after it; their number: none.
 */
export function lowerBound<Item>(
  items: readonly Item[],
  isBehind: (item: Item) => boolean,
): number {
  let from = 0, to = items.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (isBehind(items[middle]!)) to = middle;
    else from = middle + 1;
  }
  return from;
}
