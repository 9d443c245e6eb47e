import { sleep } from "../../fabric/bus/wall_time.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import { formatSize } from "../../fabric/rack/plan/units.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { formatTime, NEVER, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { nativeIn } from "../../fabric/rack/plan/plan.ts";
import { parseTarget } from "../../fabric/rack/plan/cable_names.ts";
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { predicateProblem } from "../../fabric/trace/predicate.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import { RackError } from "../base/rack_error.ts";
import { victimOf } from "../explore/post_crash_run.ts";
import type { CableHistory, CaptureOrder } from "../api/cables.ts";
import { captureCable, type Captured, SeenInOrder } from "./cable_capture.ts";
import { cableHistory } from "./cable_history.ts";
import { configurationOf } from "./configuration.ts";
import { eventsAround, StepFinder, textOfValue, type Ticks } from "./event_rows.ts";
import { HostMemory } from "./host_memory.ts";
import { faultsIn, type KnownDigest, type ReplayJob } from "./job.ts";
import { lossOf, memoryMap, memoryView } from "./memory_view.ts";
import { programsAt, withProgress } from "./programs.ts";
import { countBefore } from "./log_arrays.ts";
import type { ReportSeen } from "../checks/run_record.ts";
import { verdictsAt } from "./verdicts.ts";
import { type Watch, watchRun } from "../rack/run_record.ts";
import { AROUND_PS, ladderIn, operationAt, operationsIn } from "./operations.ts";
import { type Loaded, Recording, type RecordingOptions } from "./recording.ts";
import type {
  Density,
  DensityQuery,
  DeviceState,
  EventRow,
  Events,
  EventsQuery,
  Exactness,
  FindQuery,
  Loss,
  MemoryMap,
  MemoryMapQuery,
  MemoryQuery,
  MemoryView,
  Operations,
  OperationsQuery,
  Programs,
  ProgramsQuery,
  ProgramState,
  PromiseTick,
  Snapshot,
  SnapshotQuery,
  Timeline,
  Verdicts,
  VerdictsQuery,
} from "../api/replay.ts";
import { BUCKETS, EVENTS } from "../api/replay_terms.ts";
import type { LadderDocument } from "../api/operations.ts";
import type { ReplayProgress } from "./job.ts";
import { SpooledPages } from "./spool.ts";

const TURN_MS = 50;
const PROMISES_MOST = 20_000;
/** Of orders, and of reports, in a time line: it is read anew at each change. */
const ROWS_MOST = 1_000;
const EXACT_EVENTS = 20_000;
/** Of a run that is gone through again for one question; what is judged is in memory meanwhile. */
const PASS_EVENTS_MOST = 1_000_000;
/** Programs' waits, of which a host's picture asks all the time. */
const WAITS_EVENTS = 1_000_000;
/** Of a pass without a record, between two looks at what else there is to do. */
const SLICE_PS = PS_PER_US;
/** Of this process: what it keeps grows with the run, see the README. */
const RESIDENT_BYTES_MAX = 3 * 2 ** 30;

interface Follower {
  readonly simulator: Simulator;
  at: Time;
}

export interface EngineOptions extends RecordingOptions {
  readonly residentBytes?: number;
  readonly waitsEvents?: number;
}

export class ReplayEngine {
  readonly #recording: Recording;
  readonly #loaded: Loaded;
  #known: KnownDigest[] = [];
  #compared = 0;
  readonly #memory = new Map<string, HostMemory>();
  #follower: Follower | undefined;

  readonly #options: EngineOptions;
  #stretch: Recording | undefined;
  #onProgress: (progress: ReplayProgress) => void = () => {};

  constructor(job: ReplayJob, loaded: Loaded, options: EngineOptions = {}) {
    this.#recording = new Recording(job, loaded, options);
    this.#options = options;
    this.#loaded = loaded;
    this.#known = job.known.toSorted((x, y) => (x.at ?? Infinity) - (y.at ?? Infinity));
  }

  get #job(): ReplayJob {
    return this.#recording.job;
  }

  /**
   * Replays up to `until`, exclusive, and compares digests on the way.
   * @throws RackError naming the device whose events differ from those of the run.
   */
  async run(until: Time | null, onProgress: (progress: ReplayProgress) => void): Promise<void> {
    this.#onProgress = onProgress;
    const end = until ?? NEVER, turns = this.#turns(until ?? this.#job.expectedPs);
    for (;;) {
      const due = this.#known[0]?.at ?? NEVER;
      if (this.#recording.advance(Math.min(end, due))) await turns.next(this.#recording.simulator);
      else if (due <= end && due !== NEVER) this.#compare(this.#known.shift()!);
      else break;
    }
    for (const known of this.#known.splice(0)) this.#compare(known);
  }

  /** No fault has come since, and no order before the instant that this replay stands at. */
  canExtend(job: ReplayJob): boolean {
    const { plan, orders } = this.#job;
    return faultsIn(plan) === faultsIn(job.plan) && job.orders.length >= orders.length &&
      job.orders.slice(orders.length).every(({ time }) => time >= this.#recording.reached);
  }

  /** Goes on to a later state of the same run: see {@link canExtend}, {@link run}. */
  async extend(job: ReplayJob, onProgress: (progress: ReplayProgress) => void): Promise<void> {
    const { reached } = this.#recording;
    this.#recording.extend(job);
    // Older ones were compared, or were passed before the run reported them.
    this.#known = job.known.filter(({ at }) => at === null || at > reached)
      .sort((x, y) => (x.at ?? Infinity) - (y.at ?? Infinity));
    this.#follower = this.#stretch = undefined;
    this.#memory.clear();
    await this.run(job.until, onProgress);
  }

  /**
   * From the first pass where it still has the details, else from another pass, which ends behind
   * the instant. @param from where possible, details from here on.
   */
  async #around(at: Time, from: Time = at): Promise<Recording> {
    const all = this.#recording;
    if (all.holds(from, at) || from >= all.reached) return all;
    if (this.#stretch?.holds(from, at)) return this.#stretch;
    this.#memory.clear();
    if (this.#stretch === undefined || this.#stretch.reached > at) {
      this.#stretch = new Recording(this.#job, this.#loaded, this.#options);
    }
    const stretch = this.#stretch, turns = this.#turns(at);
    while (stretch.advance(at)) await turns.next(stretch.simulator);
    stretch.makeRoom();
    while (!stretch.isFull && stretch.advance(all.reached)) await turns.next(stretch.simulator);
    return stretch;
  }

  #turns(endPs: Time | null): Turns {
    return new Turns(this.#onProgress, {
      endPs,
      residentBytes: this.#options.residentBytes ?? RESIDENT_BYTES_MAX,
    });
  }

  /** Up to an instant, exclusive: others are served meanwhile. */
  async #advance(simulator: Simulator, at: Time): Promise<void> {
    const turns = this.#turns(at);
    while (simulator.next < at) {
      simulator.run(Math.min(at, simulator.next + SLICE_PS));
      await turns.next(simulator);
    }
    simulator.run(at);
  }

  #compare({ node, at, digest }: KnownDigest): void {
    const replayed = this.#recording.simulator.nodes().find(([name]) => name === node)?.[1];
    this.#compared++;
    if (replayed === digest) return;
    const when = at === null ? "its end" : formatTime(at);
    throw new RackError(
      `Found other events on ${node} in the replay than in the run by ${when}: digest ${replayed}, ` +
        `expected ${digest}`,
      EXIT.failed,
    );
  }

  get exactness(): Exactness {
    const { unknownEnd } = this.#job;
    if (unknownEnd !== "") return { state: "unknown", why: unknownEnd };
    return { state: "equal", digest: this.#recording.simulator.digest, nodes: this.#compared };
  }

  timeline(): Timeline {
    const { simulator, lives, reports, samples, detailFrom, events } = this.#recording;
    const { plan, run, variant, isLive } = this.#job;
    const { faults, orders } = this.#ticks();
    const promises = this.#promises();
    return {
      ...{ run, variant, scenario: plan.scenario, seed: plan.seed, isLive },
      natives: nativeIn(plan).length,
      exactness: this.exactness,
      endPs: this.#endPs,
      events: simulator.events,
      devices: plan.nodes.map(({ name, kind }) => ({
        node: name,
        kind,
        power: lives.get(name)!.map(({ from, to }) => ({ from, to: to === Infinity ? null : to })),
        events: events.get(name)!.length,
      })),
      promises: promises.slice(0, PROMISES_MOST),
      morePromises: Math.max(0, promises.length - PROMISES_MOST),
      faults,
      orders: latestOf(orders),
      moreOrders: orders.length - latestOf(orders).length,
      reports: latestOf(reports).map(({ time: at, node, topic, value }) => {
        return { at, node, topic, text: textOfValue(value) };
      }),
      moreReports: reports.length - latestOf(reports).length,
      density: this.density({}),
      kept: {
        detailFromPs: detailFrom,
        samples: samples.length,
        detailBytes: this.#recording.heldBytes + (this.#stretch?.heldBytes ?? 0),
        residentBytes: Deno.memoryUsage().rss,
        spoolBytes: this.#loaded.spool?.bytes.kept ?? 0,
      },
    };
  }

  get #endPs(): Time {
    return this.#recording.endBefore(this.#recording.reached);
  }

  #promises(): PromiseTick[] {
    const { notes } = this.#recording;
    return notes.flatMap(({ time: at, node, by, note }) => {
      if (note.kind !== "persistent") return [];
      const write = this.#recording.writeOf(by, note.id);
      if (write === undefined) return [];
      const { on, landing: { offset: from, end: to } } = write;
      return [{ ...{ at, node, by, id: note.id, on, from, to }, promised: note.promised }];
    });
  }

  #ticks(): Ticks {
    const { plan, orders } = this.#job;
    const links = (plan.linkFaults ?? []).map(({ cable, action, at, until }) => {
      const { a, b } = plan.cables[cable]!, nodes = [a.node, b.node];
      return { at, action, nodes, cable, ...(until !== undefined && { until }) };
    });
    const power = plan.faults.map(({ at, action, node }) => ({ at, action, nodes: [node] }));
    return {
      faults: [...power, ...links].filter(({ at }) => at < this.#recording.reached)
        .sort((x, y) => x.at - y.at),
      orders: orders.map(({ time: at, host, counter: order, program: { run, options } }) => {
        const names = Object.keys(options).filter((name) => name !== "content");
        const rest = Object.fromEntries(names.map((name) => [name, options[name]]));
        return { at, host, order, program: run, options: rest };
      }),
    };
  }

  density(query: DensityQuery): Density {
    const { from = 0, to = this.#endPs, byNode = false } = query;
    const buckets = Math.max(1, Math.min(BUCKETS.most, query.buckets ?? BUCKETS.usual));
    const edges = Array.from({ length: buckets + 1 }, (_, i) => from + (to - from) * i / buckets);
    const counts = new Array<number>(buckets).fill(0);
    const nodes: Record<string, number[]> = {};
    for (const [node, times] of this.#recording.events) {
      const below = edges.map((edge) => times.countBelow(edge));
      const own = counts.map((_, i) => below[i + 1]! - below[i]!);
      for (const [i, count] of own.entries()) counts[i]! += count;
      nodes[node] = own;
    }
    return { from, to, counts, ...(byNode && { byNode: nodes }) };
  }

  /** @throws Refusal for an instant beyond the end. */
  async snapshot(at: Time, { exact }: SnapshotQuery): Promise<Snapshot> {
    this.#checkInstant(at);
    const { plan } = this.#job;
    const { events: times } = this.#recording;
    const around = await this.#around(at), { wire } = around;
    const follower = await this.#followTo(
      at,
      exact === false ? 0 : exact ? Infinity : EXACT_EVENTS,
    );
    const sample = this.#recording.samples.findLast((each) => each.at <= at);
    const statistics = follower?.simulator.statistics();
    const inspected = new Map(
      follower?.simulator.inspect().map(({ node, rnic }) => [node, rnic] as const),
    );
    let events = 0, lastEventAt: Time | null = null, nextEventAt: Time | null = null;
    const devices = plan.nodes.map(({ name: node, kind }): DeviceState => {
      const own = times.get(node)!, before = own.countBelow(at);
      events += before;
      if (before > 0) lastEventAt = Math.max(lastEventAt ?? 0, own.at(before - 1));
      if (before < own.length) nextEventAt = Math.min(nextEventAt ?? Infinity, own.at(before));
      const power = this.#powerOf(node, at);
      const counted = sample?.counters.get(node), rnic = inspected.get(node);
      const sampled = counted === undefined || !power.hasPower || sample!.at <= power.since
        ? {}
        : Object.fromEntries(counted.names.map((name, i) => [name, counted.values[i]!]));
      return {
        ...{ node, kind, ...power, events: before },
        counters: statistics === undefined ? sampled : statistics[node] ?? {},
        countersAt: statistics === undefined ? sample?.at ?? 0 : at,
        queues: kind === "host" && power.hasPower
          ? around.queuesAt(node, { since: power.since, at }).states()
          : [],
        ...(rnic && { rnic }),
      };
    });
    const cables = wire.directions.map((direction) => wire.stateOf(direction, at));
    const programs = follower === undefined
      ? null
      : withProgress(this.#programsOf(follower), this.#progressBefore(at));
    return { at, events, nextEventAt, lastEventAt, devices, cables, programs };
  }

  /** Since each host has had its power. */
  #progressBefore(at: Time): ReportSeen[] {
    const { progress } = this.#recording;
    return progress.slice(0, countBefore(progress, at)).filter(({ node, time }) =>
      time >= this.#powerOf(node, at).since
    );
  }

  #powerOf(node: string, at: Time): Pick<DeviceState, "hasPower" | "life" | "since"> {
    const lives = this.#recording.lives.get(node)!;
    // Events at the instant itself have not happened.
    const life = Math.max(0, lives.findLastIndex(({ from }) => from < at));
    const { from, to } = lives[life]!;
    const hasPower = to >= at;
    return { hasPower, life, since: hasPower ? from : to };
  }

  /** @param most events that may be replayed for it; beyond: undefined. */
  async #followTo(at: Time, most: number): Promise<Follower | undefined> {
    const { simulator } = this.#recording;
    // The first pass stands there itself; but a look at an own program's wait may change it.
    if (at > simulator.now && at <= simulator.next && !this.#hasOwn) return { simulator, at };
    const known = this.#follower;
    const isBehind = known !== undefined && known.at <= at;
    const done = isBehind ? known.simulator.events : 0;
    if (this.#eventsBefore(at) - done > most) return undefined;
    const follower = isBehind ? known : this.#newFollower();
    // Else one that was left half way would pass for one that is there.
    this.#follower = undefined;
    await this.#advance(follower.simulator, at);
    follower.at = at;
    return this.#follower = follower;
  }

  #eventsBefore(at: Time): number {
    let events = 0;
    for (const times of this.#recording.events.values()) events += times.countBelow(at);
    return events;
  }

  #newFollower(): Follower {
    return { simulator: this.#newSimulator(), at: 0 };
  }

  #newSimulator(watch?: Partial<Watch>): Simulator {
    const { plan, orders } = this.#job;
    const scm = new Map(
      plan.nodes.map(({ name }) => [name, new SpooledPages(this.#loaded.spool)]),
    );
    const create = nodeFactory({
      plan,
      image: (host) => (offset, length) => scm.get(host)!.read(offset, offset + length),
      inputs: (host) => this.#loaded.inputs.get(host) ?? {},
      own: this.#loaded.own,
      native: this.#loaded.native,
      ...(watch?.memoryLog && { memoryLog: watch.memoryLog }),
    });
    return new Simulator({
      plan,
      orders,
      create: this.#loaded.replace(create),
      onDurable: (host, writes) => {
        for (const { offset, data } of writes) scm.get(host)!.write(offset, data);
      },
      ...(watch?.onAudit && { onAudit: watch.onAudit }),
      ...(watch?.onReport && { onReport: watch.onReport }),
      ...(watch?.observer && { observer: watch.observer }),
    });
  }

  /**
   * The checks of everything before an instant, SCM as a power failure of every host then leaves it:
   * all that can be told before the run has ended.
   * @throws Refusal where another pass over the run would take too long.
   */
  async verdicts(at: Time, { claims = false }: VerdictsQuery): Promise<Verdicts> {
    this.#checkInstant(at);
    this.#checkPassTo(at);
    const { plan: whole } = this.#job;
    // What fails later has power still.
    const plan = { ...whole, faults: whole.faults.filter((fault) => fault.at < at) };
    const watch = watchRun(plan), simulator = this.#newSimulator(watch);
    await this.#advance(simulator, at);
    const around = await this.#around(at);
    const { unknownEnd } = this.#job;
    const found = await verdictsAt(watch, {
      ...{ plan, at, claims },
      scm: (host) => this.#memoryAt(around, host, at).left(),
    });
    return unknownEnd === "" ? found : { ...found, unproved: unknownEnd };
  }

  /** @throws Refusal where another pass up to an instant would take too long. */
  #checkPassTo(at: Time): void {
    const events = this.#eventsBefore(at);
    if (events <= PASS_EVENTS_MOST) return;
    throw refusal("at", {
      found: `${events} events before ${formatTime(at)}`,
      expected: `an instant before which at most ${PASS_EVENTS_MOST} are`,
    });
  }

  #programsOf({ simulator }: Follower): ProgramState[] {
    const programs = simulator.unfinished().map(({ node: host, value }): ProgramState => {
      const { program, serves, waitsFor, since, at, order } = value;
      return {
        ...{ host, program, serves, waitsFor, since },
        ...(at !== undefined && { at }),
        ...(order !== undefined && { order }),
      };
    });
    // A look at an own program's wait may change one that makes its own waits.
    if (this.#hasOwn) this.#follower = undefined;
    return programs;
  }

  get #hasOwn(): boolean {
    return Object.keys(this.#loaded.own).length > 0;
  }

  /**
   * What programs have come to, and have said, before an instant. Waits take a pass up to it, and are
   * left out where that has more than {@link WAITS_EVENTS}, unless they are asked for.
   */
  async programs(at: Time, { host, exact = false }: ProgramsQuery): Promise<Programs> {
    this.#checkInstant(at);
    const hosts = this.#job.plan.nodes.flatMap(({ kind, name }) => kind === "host" ? [name] : []);
    if (host !== undefined && !hosts.includes(host)) {
      throw refusal("host", { found: `"${host}"`, expected: oneOf(hosts, host) });
    }
    const follower = await this.#followTo(
      at,
      exact ? Infinity : this.#options.waitsEvents ?? WAITS_EVENTS,
    );
    const waiting = follower && this.#programsOf(follower);
    return programsAt(this.#recording.reports, { at, host, waiting });
  }

  async memory(at: Time, query: MemoryQuery & { readonly host: string }): Promise<MemoryView> {
    const { host } = query;
    const around = await this.#memoryAround(at, query);
    const touched = this.#recording.memory.get(host);
    return memoryView(around, this.#memoryAt(around, host, at), { ...query, touched });
  }

  async memoryMap(at: Time, query: MemoryMapQuery & { readonly host: string }): Promise<MemoryMap> {
    const around = await this.#memoryAround(at, query);
    return memoryMap(this.#memoryAt(around, query.host, at), query);
  }

  async #memoryAround(at: Time, { from, to }: MemoryMapQuery): Promise<Recording> {
    this.#checkInstant(at);
    const isRange = Number.isSafeInteger(from) && Number.isSafeInteger(to) && 0 <= from &&
      from < to;
    if (!isRange) {
      const expected = "the first and the last byte's offset in SCM, one less";
      throw refusal("range", { found: `${from} to ${to}`, expected });
    }
    return await this.#around(at);
  }

  #memoryAt({ memory, lives }: Recording, host: string, at: Time): HostMemory {
    const record = memory.get(host);
    if (record === undefined) {
      throw refusal("host", { found: `"${host}"`, expected: oneOf([...memory.keys()], host) });
    }
    const known = this.#memory.get(host);
    if (known?.at === at) return known;
    const { config, noticePs } = victimOf(this.#job.plan, host);
    const found = new HostMemory(record, { config, noticePs, lives: lives.get(host)!, at });
    this.#memory.set(host, found);
    return found;
  }

  /**
   * What a power cut would lose; of devices that have no power then, what that cut has lost by which
   * they lost it.
   * @throws Refusal for unknown devices.
   */
  async loss(asked: Time, nodes: readonly string[]): Promise<Loss> {
    this.#checkInstant(asked);
    const known = this.#job.plan.nodes.map(({ name }) => name);
    for (const node of nodes) {
      if (known.includes(node)) continue;
      throw refusal("node", { found: `"${node}"`, expected: oneOf(known, node) });
    }
    const cuts = new Set(
      nodes.map((node) => this.#powerOf(node, asked)).map(({ hasPower, since }) =>
        hasPower ? undefined : since
      ),
    );
    const [cut] = cuts, happened = cuts.size === 1 && cut !== undefined;
    const at = happened ? cut : asked;
    const around = await this.#around(at);
    return lossOf(around, { at, nodes, happened }, (host) => this.#memoryAt(around, host, at));
  }

  /** @throws Refusal for a text that is no network cable's name. */
  #cableNamed(text: string): number {
    const target = parseTarget(this.#job.plan, text);
    if ("cable" in target && target.direction === "both") return target.cable;
    const expected = "expected" in target ? target.expected : "a cable with both directions: a/b";
    throw refusal("cable", { found: `"${text}"`, expected });
  }

  cableHistory(name: string): CableHistory {
    const { plan } = this.#job;
    return cableHistory(this.#recording.samples, plan, this.#cableNamed(name));
  }

  /**
   * A pcapng file of frames that one cable has carried in [from, to): another pass over the run.
   * @throws Refusal where that would take too long, or the file would be too large.
   */
  cableCapture({ cable: name, from, to, last }: CaptureOrder): Captured {
    const cable = this.#cableNamed(name);
    this.#checkInstant(to);
    this.#checkPassTo(to);
    if (from > to) {
      const found = formatTime(from), expected = `an instant before ${formatTime(to)}`;
      throw refusal("from", { found, expected });
    }
    const { plan, variant } = this.#job, seen = new SeenInOrder();
    const simulator = this.#newSimulator({ observer: seen.observer });
    return captureCable(plan, {
      ...{ simulator, seen, label: variant },
      only: { cable, from, to, ...(last !== undefined && { last }) },
      onTurn: () => this.#onProgress({ atPs: simulator.now, endPs: to, events: simulator.events }),
    });
  }

  operations(query: OperationsQuery): Operations {
    return operationsIn(this.#recording, query);
  }

  async ladder(index: number): Promise<LadderDocument> {
    const operation = operationAt(this.#recording, index);
    const { startPs } = operation, from = Math.max(0, startPs - AROUND_PS);
    return ladderIn(await this.#around(startPs + 1, from), operation);
  }

  /** A search looks at all of the run from the instant on, until it has found enough. */
  async eventsAround(query: EventsQuery): Promise<Events> {
    this.#checkInstant(query.at);
    const ticks = this.#ticks(), { after = EVENTS.usual } = query;
    let around = await this.#around(query.at);
    let found = eventsAround(around, ticks, query);
    while (query.text !== undefined && found.toPs === around.reached && !this.#isLast(around)) {
      const at = around.reached, left = after - (found.rows.length - found.split);
      if (left <= 0) break;
      around = await this.#around(at + 1, at);
      const next = eventsAround(around, ticks, { ...query, at, before: 0, after: left });
      found = { ...found, rows: [...found.rows, ...next.rows], toPs: next.toPs };
    }
    const isAll = found.toPs === around.reached && this.#isLast(around);
    return isAll ? { ...found, toPs: null } : found;
  }

  #isLast(around: Recording): boolean {
    return around === this.#recording || around.reached >= this.#recording.reached;
  }

  /** @throws Refusal for an unknown step or device. */
  async find(query: FindQuery): Promise<EventRow | null> {
    const problem = predicateProblem(query, this.#job.plan.nodes.map(({ name }) => name));
    if (problem !== undefined) throw refusal("", problem);
    const finder = new StepFinder(query);
    for (let from = query.after === undefined ? 0 : query.after + 1;;) {
      // The instant's own steps come with a pass that has gone beyond it.
      const around = await this.#around(from + 1, from), found = finder.findIn(around, from);
      const isAll = around === this.#recording || around.reached >= (query.atPs ?? NEVER);
      if (found !== null || isAll) return found;
      from = around.reached;
    }
  }

  /** For a comparison, by number of events: instants that two runs with one past share. */
  digests(): [at: Time, events: number, digest: string][] {
    return this.#recording.samples.map(({ at, events, digest }) => [at, events, digest]);
  }

  async digestsAt(
    at: Time,
  ): Promise<{ readonly nodes: [node: string, digest: string][]; readonly events: number }> {
    const last = Math.max(this.#recording.reached, this.#endPs);
    if (!Number.isSafeInteger(at) || at < 0 || at > last) {
      const expected = `an instant up to ${formatTime(last)}, which is as far as the run is known`;
      throw refusal("The instant", { found: formatTime(at), expected });
    }
    const { simulator } = (await this.#followTo(at, Infinity))!;
    return { nodes: simulator.nodes(), events: simulator.events };
  }

  digestsIn(from: Time, to: Time): [at: Time, digests: [node: string, digest: string][]][] {
    const { simulator } = this.#newFollower();
    simulator.run(from);
    const rows: [Time, [string, string][]][] = [];
    while (simulator.next < to) {
      const at = simulator.next;
      if (simulator.run(at + 1) > 0) rows.push([at, simulator.nodes()]);
    }
    return rows;
  }

  end() {
    const { simulator } = this.#recording;
    const { digest, events } = simulator;
    const nodes = simulator.nodes(), counters = simulator.statistics();
    const configuration = configurationOf(this.#job.plan);
    return { digest, events, endPs: this.#endPs, nodes, counters, configuration };
  }

  #checkInstant(at: Time): void {
    const { reached } = this.#recording;
    const last = Math.max(reached, this.#endPs);
    if (!Number.isSafeInteger(at) || at < 0 || at > last) {
      throw refusal("at", { found: String(at), expected: `an instant in ps, from 0 to ${last}` });
    }
  }
}

function latestOf<T>(rows: readonly T[]): readonly T[] {
  return rows.slice(-ROWS_MOST);
}

class Turns {
  readonly #onProgress: (progress: ReplayProgress) => void;
  readonly #of: { readonly endPs: Time | null; readonly residentBytes: number };
  #at = performance.now() + TURN_MS;

  constructor(
    onProgress: (progress: ReplayProgress) => void,
    of: { readonly endPs: Time | null; readonly residentBytes: number },
  ) {
    this.#onProgress = onProgress;
    this.#of = of;
  }

  /** @throws RackError where the process holds more memory than it may. */
  async next({ now: atPs, events }: Simulator): Promise<void> {
    if (performance.now() < this.#at) return;
    const { endPs, residentBytes } = this.#of;
    if (Deno.memoryUsage().rss > residentBytes) {
      throw new RackError(
        `The replay of this run needs more than ${
          formatSize(residentBytes)
        } of memory, the most: it ` +
          `was ended at ${formatTime(atPs)}, after ${events} events`,
      );
    }
    this.#onProgress({ atPs, endPs, events });
    await sleep(0);
    this.#at = performance.now() + TURN_MS;
  }
}
