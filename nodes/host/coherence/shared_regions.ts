/**
 * The shared regions of a host (C-03): it is the home agent of regions at home (`home_agent.ts`),
 * and a far host of the others (`far_port.ts`). Programs use `region_handle.ts`. This file keeps
 * the lasting state: registrations, accesses and their ends, leases that a lost card leaves behind
 * (decisions 13, 14), and counters.
 */
import { fail } from "../../../fabric/base/assert.ts";
import type { Outputs } from "../../../fabric/node.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { cardLostAt } from "../../../fabric/coherence/lease.ts";
import type { JudgeRule } from "../../../fabric/coherence/judge_placement.ts";
import type { Answer } from "../../../fabric/coherence/access.ts";
import { rangesOf } from "../../../fabric/coherence/output.ts";
import type { LineChange } from "../../../fabric/wire/host_bus/line_change.ts";
import { cardsKeepWrites } from "../../../fabric/rack/plan/persistence_domain.ts";
import type { HoldPlan, HostPlan } from "../../../fabric/rack/plan/plan.ts";
import { partIn, type SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type {
  FarInvalidate,
  LineMessage,
  RegionMessage,
} from "../../../fabric/wire/host_bus/region_messages.ts";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Cpu, Region, Steps } from "../cpu/program.ts";
import { HostShutdown, RegionRefused, type SharedRegions } from "../cpu/region.ts";
import type { HostBus } from "../cpu/host_bus.ts";
import type { AddressMap } from "../memory/address_map.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { MemorySystem } from "../memory/memory_system.ts";
import type { HostTable } from "../../../fabric/coherence/host_agent_table.ts";
import { FarPort } from "./far_port.ts";
import type { Spent } from "../../../fabric/trace/access_modules.ts";
import { type CoreCost, HomeAgent } from "./home_agent.ts";
import { PlacementJudge } from "./placement_judge.ts";
import { HomePlaces } from "./home_places.ts";
import type { LineRequest, Outcome, RegionAccess } from "./line_access.ts";
import { LineChanges } from "./line_changes.ts";
import { MemoryDirectory } from "./memory_directory.ts";
import { Registration } from "./registration.ts";
import { RegionHandle } from "./region_handle.ts";
import { type StoreBuffer, StoreBuffers } from "./store_buffer.ts";
import { declareRegion, noteState, reportLost, reportMoved } from "./region_reports.ts";
import { traceBegin, traceEnd, traceJudged, traceLineMessage, traceMoved } from "./region_trace.ts";

export interface RegionHost {
  readonly name: string;
  readonly now: Time;
  readonly out: Outputs;
  readonly processingPs: Time;
  readonly memory: MemorySystem;
  readonly map: AddressMap;
  readonly bus: HostBus;
  signal(name: string): void;
}

export interface RegionParts {
  readonly host: RegionHost;
  readonly plan: HostPlan;
  readonly life: number;
  /** Loads the rule in a user's file, by which home's judge moves copies (C-04). */
  readonly ruleOf: (path: string) => JudgeRule;
  /** The home agent's; absent: the protocol's own. */
  readonly table?: HostTable | undefined;
  /** The access for which a core waits has ended. */
  readonly ended: (ticket: number) => void;
  readonly drive: (run: (cpu: Cpu) => Steps<void>) => void;
}

/** The card knows a region again for which a buffered store waits, or never will. */
const REOPENED = "store-buffer-reopened";

export class HostRegions implements SharedRegions, RegionAccess {
  loads = 0;
  stores = 0;
  atomics = 0;
  flushes = 0;
  polls = 0;
  invalidations = 0;
  lostLines = 0;
  fenced = 0;
  /** Of regions at home with `placement: auto`; absent without one. */
  readonly judge: PlacementJudge | undefined;
  readonly #parts: RegionParts;
  readonly #home: HomeAgent;
  readonly #far: FarPort;
  readonly #places: HomePlaces;
  #tickets = 0;
  #ends = 0;
  /** The error of accesses since the host shuts down. */
  #closed: HostShutdown | undefined;
  /** The last number of an audit record. */
  #ids = 0;
  readonly #outcomes = new Map<number, Outcome>();
  /** The current or last access, and its outcome where it ended at once, without a waiting core. */
  #beginning = -1;
  #atOnce: Outcome | undefined;
  readonly #registration = new Registration();
  readonly #declared = new Set<number>();
  /** Regions at home that a program has deregistered: no far host can register them. */
  readonly #withdrawn = new Set<number>();
  readonly #changes: LineChanges;
  readonly holdOf: RegionAccess["holdOf"];
  readonly #buffers: StoreBuffers | undefined;
  /** When lines lent to the lost card count as lost; NEVER without one. */
  #lostAt: Time = NEVER;
  /** Requests of a new card before that time: no line is lent to it until then. */
  readonly #early: LineMessage[] = [];
  /**
   * Cores of this life may access regions at home from then on: leases of an earlier life are over.
   */
  #homeFrom: Time = 0;

  /** When this life finds the losses of an earlier one, where it cannot at its boot; else NEVER. */
  #judgesAt: Time = NEVER;

  constructor(parts: RegionParts) {
    this.#parts = parts;
    const { host, plan } = parts;
    this.#changes = new LineChanges((name) => host.signal(name));
    const own = this.regions.filter((region) => this.isHome(region));
    this.#places = new HomePlaces(own, host.map);
    const judged = own.filter(({ placement }) => placement === "auto");
    this.judge = judged.length === 0 ? undefined : new PlacementJudge(judged, {
      wake: (signal) => host.signal(signal),
      ruleOf: parts.ruleOf,
      judged: (verdict) => {
        if (host.out.tracing) traceJudged(host.out, verdict);
      },
      moved: (verdict, refused) => {
        if (host.out.tracing) traceMoved(host.out, verdict, refused);
        reportMoved(host.out, verdict, refused);
      },
    });
    this.#home = new HomeAgent({
      table: parts.table,
      memory: host.memory,
      timing: plan.timing,
      processingPs: host.processingPs,
      directory: new MemoryDirectory(host.memory, own),
      directoryOf: (line) => this.#places.at(line)?.region.directory ?? "card",
      send: (message, spent) => {
        // A snoop meant for the lost card: a new card does not know the line.
        if (this.#lostAt < NEVER) return;
        if (host.out.tracing) this.#traceSent(message, spent);
        host.bus.send(message);
      },
      ended: (answer, cost) => this.#endedAtHome(answer, cost),
      changed: (line) => this.#changedAtHome(line),
      state: (line, state) => {
        const at = this.#places.at(line);
        if (at !== undefined) noteState(host, at, state);
      },
    });
    this.holdOf = plan.holds && holdsOf(plan.holds, `${host.name}/${parts.life}`);
    this.#buffers = plan.memory === "tso" ? this.#newBuffers(plan) : undefined;
    this.#far = new FarPort({
      send: (access) => host.bus.send(access),
      ended: (ticket, outcome) => this.#end(ticket, { ...outcome, cost: {} }),
      refused: (region) => this.#registration.forget(region),
    });
  }

  #newBuffers({ timing }: HostPlan): StoreBuffers {
    return new StoreBuffers({
      entries: timing.storeBufferEntries,
      drainPs: timing.storeBufferPs,
      begin: ({ region, piece: { line }, change }) => {
        const ticket = this.begin(region, { op: "store", line, change });
        return [ticket, this.outcome(ticket)];
      },
      paid: (ticket, outcome) => this.paid(ticket, outcome),
      knows: (region) =>
        this.isHome(region) || this.#parts.host.bus.card === undefined ||
        this.#isRegistered(region),
      reopen: (region, then) =>
        this.#parts.drive(function* (this: HostRegions, cpu: Cpu): Steps<void> {
          let isKnown = true;
          try {
            yield* this.ready(region, cpu);
          } catch (error) {
            if (!(error instanceof RegionRefused || error instanceof HostShutdown)) throw error;
            isKnown = false;
          }
          then(cpu.now, isKnown);
          this.#parts.host.signal(REOPENED);
        }.bind(this)),
      reopened: REOPENED,
      ticket: () => this.#tickets++,
      woken: (ticket) => {
        this.#ends++;
        this.#parts.ended(ticket);
      },
    });
  }

  get regions(): readonly SharedRegion[] {
    return this.#parts.plan.shared ?? [];
  }

  get hasHomes(): boolean {
    return !this.#places.isEmpty;
  }

  /** Accesses and messages that have not ended. */
  get unended(): {
    readonly far: number;
    readonly home: number;
    readonly early: number;
    readonly cores: number;
  } {
    return {
      far: this.#far.waiting,
      home: this.#home.messages,
      early: this.#early.length,
      cores: this.#home.waiting,
    };
  }

  /** When {@link run} has something to do. */
  get nextAt(): Time {
    const next = Math.min(this.#home.nextAt, this.#lostAt, this.#judgesAt);
    return this.#buffers === undefined ? next : Math.min(next, this.#buffers.nextAt);
  }

  run(now: Time): void {
    if (now >= this.#judgesAt) {
      this.#judgesAt = NEVER;
      this.#lostAtHome(this.#home.boot(false));
    }
    if (now >= this.#lostAt) this.#cardLost(now);
    this.#home.run(now);
    this.#buffers?.run(now);
  }

  /**
   * The host has power. Cards of other hosts may still serve lines that an earlier life has lent.
   */
  boot(now: Time): void {
    const isFirst = this.#parts.life === 0;
    if (!isFirst) this.#homeFrom = this.#leasesEndAt(now);
    // A card that has kept writes first brings them, directory entries too; no access comes before
    // the leases' end.
    if (!isFirst && cardsKeepWrites(this.#parts.plan.domain)) this.#judgesAt = this.#homeFrom - 1;
    else this.#lostAtHome(this.#home.boot(isFirst));
  }

  take(message: RegionMessage): void {
    switch (message.kind) {
      case "line":
        return this.#fromCard(message);
      case "far-answer":
        this.#far.take(message);
        return;
      case "far-invalidate":
        return this.#invalidated(message);
      case "far-access":
        return fail(`${this.#parts.host.name} got a far access on its bus`);
    }
  }

  linkChanged(isUp: boolean): void {
    const { now } = this.#parts.host;
    if (isUp) return;
    this.#far.disconnected();
    this.#registration.clear();
    this.#withdrawn.clear();
    // Requests of the lost card need no answer.
    this.#early.length = 0;
    if (this.hasHomes) {
      this.#home.disconnected(now);
      this.#lostAt = this.#leasesEndAt(now);
    }
    for (const region of this.regions) this.#changes.add(region);
  }

  /** An event of the firmware. @returns whether it was about a region. */
  event(event: RnicEvent): boolean {
    switch (event.type) {
      case "REGION_LOST": {
        const region = this.#regionOf(event.region);
        this.#lost(region, [{ line: event.first, lines: event.count }]);
        return true;
      }
      case "REGION_FENCED": {
        const region = this.#regionOf(event.region);
        this.#parts.host.out.report("region-fenced", { region: region.name, agent: event.agent });
        this.#changes.add(region);
        return true;
      }
      case "REGION_COUNTS": {
        const { region, agent, loads, stores } = event;
        const report = { agent, accesses: loads + stores, at: this.#parts.host.now };
        this.judge?.reported(region, report);
        return true;
      }
      default:
        return false;
    }
  }

  // ── the programs' interface
  // ─────────────────────────────────────────────────────────────────────

  *open(name: string, cpu: Cpu): Steps<Region> {
    const region = this.regions.find((each) => each.name === name);
    if (region === undefined) {
      const known = this.regions.map((each) => each.name).join(", ");
      throw new RegionRefused(
        `Cannot use region ${name}: ${this.#parts.host.name} has a part in ${known || "none"}`,
      );
    }
    yield* this.ready(region, cpu);
    if (!this.isHome(region) && !this.#isRegistered(region)) {
      yield* this.#registration.register(region, cpu);
    }
    if (this.#withdrawn.delete(region.id)) yield* this.#registration.register(region, cpu);
    if (cpu.auditing && !this.#declared.has(region.id)) declareRegion(cpu, region);
    this.#declared.add(region.id);
    return new RegionHandle(this, { region, isHome: this.isHome(region), cpu });
  }

  isHome(region: SharedRegion): boolean {
    return partIn(region, this.#parts.host.name) === "home";
  }

  isReady(region: SharedRegion, cpu: Cpu): boolean {
    if (this.#closed !== undefined) return false;
    if (this.isHome(region)) return cpu.now >= this.#homeFrom;
    return cpu.card === undefined || this.#isRegistered(region);
  }

  *ready(region: SharedRegion, cpu: Cpu): Steps<void> {
    if (this.#closed !== undefined) throw this.#closed;
    if (this.isHome(region)) {
      if (cpu.now < this.#homeFrom) yield* cpu.sleep(this.#homeFrom - cpu.now);
      return;
    }
    if (!this.isReady(region, cpu)) yield* this.#registration.register(region, cpu);
  }

  #isRegistered(region: SharedRegion): boolean {
    return this.#registration.has(region, this.#parts.host.bus.card);
  }

  /**
   * Exposes this home's regions to far cards, which may then register them (decision 21). It first
   * waits until no card serves lines that an earlier life of this host or of its card has lent.
   */
  *expose(cpu: Cpu): Steps<void> {
    const { card } = cpu;
    while (this.#exposedFrom > cpu.now) yield* cpu.sleep(this.#exposedFrom - cpu.now);
    for (const region of this.#places.regions) {
      if (cpu.card !== card || card === undefined || this.#closed !== undefined) return;
      yield* this.#registration.register(region, cpu, card);
    }
  }

  *deregister(region: SharedRegion, cpu: Cpu): Steps<void> {
    const { card } = cpu;
    yield* this.#registration.deregister(region, cpu);
    // A new card has all regions exposed.
    if (this.isHome(region) && card !== undefined && cpu.card === card) {
      this.#withdrawn.add(region.id);
    }
  }

  get pending(): number {
    return this.#tickets - this.#ends + (this.#buffers?.size ?? 0);
  }

  buffer(core: number): StoreBuffer | undefined {
    return this.#buffers?.of(core);
  }

  held(core: number): StoreBuffer | undefined {
    return this.#buffers?.held(core);
  }

  get storePs(): Time {
    return this.#parts.plan.timing.storePs;
  }

  close(error: HostShutdown): void {
    this.#closed = error;
  }

  *giveBack(
    cpu: Cpu,
    onLeft: (left: readonly string[]) => void,
  ): Steps<{ regions: string[]; failed: string[] }> {
    const regions: string[] = [], failed: string[] = [];
    for (const [i, region] of this.regions.entries()) {
      onLeft(this.regions.slice(i).map(({ name }) => name));
      const reason = yield* this.#registration.giveBack(region, cpu);
      if (reason === undefined) regions.push(region.name);
      else failed.push(reason);
    }
    return { regions, failed };
  }

  begin(region: SharedRegion, request: LineRequest): number {
    const { host } = this.#parts, { op, line, change, lines } = request;
    const ticket = this.#tickets++;
    this.#beginning = ticket;
    this.#atOnce = undefined;
    this.#count(op, change);
    const isHome = this.isHome(region);
    if (host.out.tracing) {
      const { now, processingPs } = host;
      const spent = isHome
        ? undefined
        : { untilPs: now + processingPs, by: { "host port": processingPs } };
      traceBegin(host.out, { region, isHome, request, ticket, spent });
    }
    if (!isHome) {
      if (host.bus.card === undefined) this.#end(ticket, { result: "fenced", cost: {} });
      else this.#far.request(ticket, { region: region.id, line, op, change, lines });
      return ticket;
    }
    const at = region.address / LINE_BYTES + line;
    if (op !== "flush") this.judge?.accessed(region, host.now);
    this.#home.access({ kind: op, line: at, change, ticket }, host.now);
    return ticket;
  }

  outcome(ticket: number): Outcome | undefined {
    if (ticket === this.#beginning) {
      // An access that ends later has a waiting core.
      this.#beginning = -1;
      return this.#atOnce;
    }
    const outcome = this.#outcomes.get(ticket);
    if (outcome !== undefined) this.#outcomes.delete(ticket);
    return outcome;
  }

  paid(ticket: number, { result, cost }: Outcome): void {
    const { out, now } = this.#parts.host;
    if (out.tracing) traceEnd(out, { ticket, result, spent: { untilPs: now, by: cost } });
  }

  flushRoomAt(region: SharedRegion, line: number): Time {
    return this.#home.flushRoomAt(region.address / LINE_BYTES + line);
  }

  changesOf(region: SharedRegion, line: number): number {
    return this.#changes.of(region, line);
  }

  polled(): void {
    this.polls++;
  }

  signalsOf(region: SharedRegion, line: number): readonly string[] {
    return this.#changes.signalsOf(region, line);
  }

  nextId(): number {
    return this.#ids++;
  }

  get flushCosts(): { readonly issuePs: Time; readonly fencePs: Time } {
    const { flushIssuePs: issuePs, fencePs } = this.#parts.plan.timing;
    return { issuePs, fencePs };
  }

  stored(region: SharedRegion, line: number): void {
    this.#changes.add(region, line);
  }

  refusePlain(address: number, length: number): void {
    this.#places.refusePlain(address, length);
  }

  statistics(): Record<string, number> {
    const { hits, misses, snoops, writeBacksScm, writeBacksDram, notices } = this.#home;
    return {
      regionLoads: this.loads,
      regionStores: this.stores,
      regionAtomics: this.atomics,
      regionFlushes: this.flushes,
      regionPolls: this.polls,
      regionInvalidations: this.invalidations,
      regionLostLines: this.lostLines,
      regionFenced: this.fenced,
      ...this.#buffers?.statistics(),
      ...(this.hasHomes && {
        regionHits: hits,
        regionMisses: misses,
        regionSnoops: snoops,
        regionNotices: notices,
        regionWriteBacksScm: writeBacksScm,
        regionWriteBacksDram: writeBacksDram,
        ...(this.#places.regions.some(({ directory }) => directory === "memory") && {
          regionDirectoryWrites: this.#home.directoryWrites,
        }),
        ...(this.judge && { regionMoves: this.judge.moves, ...this.judge.statistics() }),
      }),
    };
  }

  // ── ends of accesses ───────────────────────────────────────────────────────────────────────────

  #endedAtHome({ access, result, data }: Answer, cost: CoreCost): void {
    const bytes = data instanceof Uint8Array ? data : undefined;
    this.#end(access.ticket, { result, data: bytes, cost });
  }

  #end(ticket: number, outcome: Outcome): void {
    this.#ends++;
    if (outcome.result === "fenced") this.fenced++;
    if (ticket === this.#beginning) {
      this.#atOnce = outcome;
      return;
    }
    if (this.#buffers?.ended(ticket, outcome, this.#parts.host.now)) return;
    this.#outcomes.set(ticket, outcome);
    this.#parts.ended(ticket);
  }

  #count(op: LineRequest["op"], change: LineChange | undefined): void {
    if (op === "load") this.loads++;
    else if (op === "flush") this.flushes++;
    else if (change?.kind === "write") this.stores++;
    else this.atomics++;
  }

  // ── changes ────────────────────────────────────────────────────────────────────────────────────

  #fromCard(message: LineMessage): void {
    // A new card's own DMA and verbs ask for lines at once; the leases of the old one have to be
    // over first.
    const { bus, now } = this.#parts.host;
    if (this.#lostAt === NEVER) this.#home.take(message, now);
    else if (bus.card !== undefined) this.#early.push(message);
  }

  #traceSent({ op, address, data }: LineMessage, spent: Spent): void {
    const at = this.#places.at(address / LINE_BYTES);
    if (at !== undefined) traceLineMessage(this.#parts.host.out, { ...at, op, data, spent });
  }

  #invalidated({ region, line }: FarInvalidate): void {
    this.invalidations++;
    this.#changes.add(this.#regionOf(region), line);
  }

  #changedAtHome(number: number): void {
    const at = this.#places.at(number);
    if (at === undefined) return;
    this.invalidations++;
    this.#changes.add(at.region, at.line);
  }

  // ── loss ───────────────────────────────────────────────────────────────────────────────────────

  #cardLost(now: Time): void {
    this.#lostAt = NEVER;
    this.#lostAtHome(this.#home.cardLost(now));
    for (const region of this.#places.regions) this.#changes.add(region);
    for (const message of this.#early.splice(0)) this.#home.take(message, now);
  }

  #lostAtHome(numbers: readonly number[]): void {
    const lost = numbers.flatMap((number) => this.#places.at(number) ?? []);
    for (const region of this.#places.regions) {
      const lines = lost.filter((each) => each.region === region).map(({ line }) => line);
      if (lines.length > 0) this.#lost(region, rangesOf(lines));
    }
  }

  #lost(
    region: SharedRegion,
    lines: readonly { readonly line: number; readonly lines: number }[],
  ): void {
    for (const { lines: count } of lines) this.lostLines += count;
    reportLost(this.#parts.host, region, lines);
    this.#changes.add(region);
  }

  /** When no far card serves lines that were lent up to `from` (decision 13). */
  #leasesEndAt(from: Time): Time {
    const ends = this.#places.regions.map(({ leasePs, leaseMarginPs }) =>
      cardLostAt(from, { lease: leasePs, grace: leaseMarginPs })
    );
    return Math.max(0, ...ends);
  }

  get #exposedFrom(): Time {
    return this.#lostAt < NEVER ? this.#lostAt : this.#homeFrom;
  }

  #regionOf(id: number): SharedRegion {
    const region = this.regions.find((each) => each.id === id);
    return region ?? fail(`${this.#parts.host.name} got a message about region ${id}`);
  }
}

/**
 * Counts the steps of programs, and looks up their holds. @param life host and life, as in the
 * names of `by`.
 */
function holdsOf(
  holds: readonly HoldPlan[],
  life: string,
): NonNullable<RegionAccess["holdOf"]> {
  const untils = new Map(
    holds.map(({ by, step, number, until }) => [`${by} ${step} ${number}`, until]),
  );
  const counts = new Map<string, number>();
  return (program, step) => {
    const key = `${life}/${program} ${step}`, number = (counts.get(key) ?? 0) + 1;
    counts.set(key, number);
    return untils.get(`${key} ${number}`) ?? 0;
  };
}
