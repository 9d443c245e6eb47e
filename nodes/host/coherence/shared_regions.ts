/**
 * The shared regions of a host (C-03): of those at home it is the home agent (`home_agent.ts`), of the others a far
 * host (`far_port.ts`). Programs have `region_handle.ts`. Here is what lasts: who has registered what, accesses and
 * their ends, leases that a lost card leaves behind (decisions 13, 14), and counters.
 */
import { fail } from "../../../fabric/base/assert.ts";
import type { Outputs } from "../../../fabric/node.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { cardLostAt } from "../../../fabric/coherence/lease.ts";
import type { Answer } from "../../../fabric/coherence/messages.ts";
import { rangesOf } from "../../../fabric/coherence/output.ts";
import type { LineChange } from "../../../fabric/coherence/line_bytes.ts";
import type { HostPlan } from "../../../fabric/rack/plan/plan.ts";
import { partIn, SCM_BASE, type SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type {
  FarAnswer,
  FarInvalidate,
  FarOp,
  FarResult,
  LineMessage,
  RegionMessage,
} from "../../../fabric/wire/host_bus/region_messages.ts";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import { type Region, RegionRefused, type SharedRegions } from "../cpu/region.ts";
import type { HostBus } from "../cpu/host_bus.ts";
import { AddressFault, type AddressMap } from "../memory/address_map.ts";
import { LINE_BYTES } from "../memory/llc.ts";
import type { MemorySystem } from "../memory/memory_system.ts";
import { FarPort } from "./far_port.ts";
import { HomeAgent } from "./home_agent.ts";
import { PlacementJudge } from "./placement_judge.ts";
import { type RegionAccess, RegionHandle } from "./region_handle.ts";
import { traceBegin, traceEnd, traceLineMessage, traceState } from "./region_trace.ts";

/** The parts of a host that shared regions work with. */
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
  /** Number of this life of the host, from 0. */
  readonly life: number;
  /** The access with this number, for which a core waits, has ended. */
  readonly ended: (ticket: number) => void;
}

/** What a core asks of a line; `lines`: of a flush. */
export interface LineRequest {
  readonly op: Exclude<FarOp, "own">;
  /** Index in the region. */
  readonly line: number;
  readonly change?: LineChange | undefined;
  readonly lines?: number | undefined;
}

/** How an access has ended. `data`: the line as a load saw it, as it was before an atomic. */
export interface Outcome {
  readonly result: FarResult;
  readonly data?: Uint8Array | undefined;
  /** What its core owes beyond its wait. */
  readonly costPs: Time;
}

/** Virtual addresses [from, to) of a region at home. */
interface Place {
  readonly region: SharedRegion;
  readonly from: number;
  readonly to: number;
}

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
  readonly #places: readonly Place[];
  #tickets = 0;
  /** Of audit records. */
  #ids = 0;
  readonly #outcomes = new Map<number, Outcome>();
  /** By region: the power-on of the card at which it was registered. */
  readonly #registered = new Map<number, number>();
  /** Regions that audit records know. */
  readonly #declared = new Set<number>();
  /** How often what cores may have seen of a line has changed, by region and line. */
  readonly #changes = new Map<string, number>();
  /** When what the lost card had lent counts as lost; NEVER without one. */
  #lostAt: Time = NEVER;
  /** Since when cores of this life may access regions at home: leases of an earlier life are over then. */
  #homeFrom: Time = 0;

  constructor(parts: RegionParts) {
    this.#parts = parts;
    const { host, plan } = parts;
    this.#places = this.regions.filter((region) => partIn(region, host.name) === "home")
      .map((region) => placeOf(host.map, region));
    const judged = this.#places.map(({ region }) => region).filter(({ placement }) =>
      placement === "auto"
    );
    this.judge = judged.length === 0
      ? undefined
      : new PlacementJudge(judged, (signal) => host.signal(signal));
    this.#home = new HomeAgent({
      memory: host.memory,
      timing: plan.timing,
      processingPs: host.processingPs,
      send: (message) => {
        if (host.out.tracing) this.#traceSent(message);
        host.bus.send(message);
      },
      ended: (answer, costPs) => this.#endedAtHome(answer, costPs),
      changed: (line) => this.#changedAtHome(line),
      state: (line, state) => this.#state(line, state),
    });
    this.#far = new FarPort({
      send: (access) => host.bus.send(access),
      ended: (ticket, result, data) => this.#end(ticket, { result, data, costPs: 0 }),
    });
  }

  get regions(): readonly SharedRegion[] {
    return this.#parts.plan.shared ?? [];
  }

  get hasHomes(): boolean {
    return this.#places.length > 0;
  }

  /** When {@link run} has something to do. */
  get nextAt(): Time {
    return Math.min(this.#home.nextAt, this.#lostAt);
  }

  run(now: Time): void {
    if (now >= this.#lostAt) this.#cardLost(now);
    this.#home.run(now);
  }

  /** The host has power: cards of other hosts may serve lines that an earlier life has lent. */
  boot(now: Time): void {
    if (this.#parts.life > 0) this.#homeFrom = this.#leasesEndAt(now);
  }

  take(message: RegionMessage): void {
    switch (message.kind) {
      case "line":
        return this.#fromCard(message);
      case "far-answer":
        return this.#answered(message);
      case "far-invalidate":
        return this.#invalidated(message);
      case "far-access":
        return fail(`${this.#parts.host.name} got a far access on its bus`);
    }
  }

  /** The card has lost its power, or has it back. */
  linkChanged(isUp: boolean): void {
    const { now } = this.#parts.host;
    if (isUp) return;
    this.#far.disconnected();
    this.#registered.clear();
    if (this.#places.length > 0) {
      this.#home.disconnected(now);
      this.#lostAt = this.#leasesEndAt(now);
    }
    for (const region of this.regions) this.#wakeAll(region);
  }

  /** An event of the firmware. @returns whether it was about a region. */
  event(event: RnicEvent): boolean {
    switch (event.type) {
      case "REGION_LOST": {
        const region = this.#regionOf(event.region);
        this.#reportLost(region, [{ line: event.first, lines: event.count }]);
        return true;
      }
      case "REGION_FENCED": {
        const region = this.#regionOf(event.region);
        this.#parts.host.out.report("region-fenced", { region: region.name, agent: event.agent });
        this.#wakeAll(region);
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

  // ── what programs use ──────────────────────────────────────────────────────────────────────────

  *open(name: string, cpu: Cpu): Steps<Region> {
    const region = this.regions.find((each) => each.name === name);
    if (region === undefined) {
      const known = this.regions.map((each) => each.name).join(", ");
      throw new RegionRefused(
        `Cannot use region ${name}: ${this.#parts.host.name} has a part in ${known || "none"}`,
      );
    }
    yield* this.ready(region, cpu);
    if (!this.isHome(region) && !this.#isRegistered(region)) yield* this.#register(region, cpu);
    this.#declare(region, cpu);
    return new RegionHandle(this, { region, isHome: this.isHome(region), cpu });
  }

  isHome(region: SharedRegion): boolean {
    return partIn(region, this.#parts.host.name) === "home";
  }

  /**
   * Returns when the region can be accessed: a far host's is registered (C-03). Without a card it returns at once:
   * an access ends as fenced then. @throws RegionRefused
   */
  *ready(region: SharedRegion, cpu: Cpu): Steps<void> {
    if (this.isHome(region)) {
      if (cpu.now < this.#homeFrom) yield* cpu.sleep(this.#homeFrom - cpu.now);
      return;
    }
    if (cpu.card === undefined || this.#isRegistered(region)) return;
    yield* this.#register(region, cpu);
  }

  #isRegistered({ id }: SharedRegion): boolean {
    const { card } = this.#parts.host.bus;
    return card !== undefined && this.#registered.get(id) === card;
  }

  /**
   * Exposes this home's regions to far cards; then they may register them (decision 21). Only when no card serves
   * lines that an earlier life of this host or of its card has lent.
   */
  *expose(cpu: Cpu): Steps<void> {
    const { card } = cpu;
    while (this.#exposedFrom > cpu.now) yield* cpu.sleep(this.#exposedFrom - cpu.now);
    for (const { region } of this.#places) {
      if (cpu.card !== card || card === undefined) return;
      yield* this.#register(region, cpu);
    }
  }

  /** The region is registered no more: its copies are written back. @throws RegionRefused */
  *deregister(region: SharedRegion, cpu: Cpu): Steps<void> {
    this.#registered.delete(region.id);
    if (cpu.card === undefined) return;
    const reply = yield* cpu.command({ op: "deregister-region", region: region.id });
    if (reply.status === "ok") return;
    throw new RegionRefused(`Cannot deregister region ${region.name}: ${reply.reason}`);
  }

  /** Begins an access; {@link outcome} has its end. @returns its number. */
  begin(region: SharedRegion, request: LineRequest): number {
    const { host } = this.#parts, { op, line, change, lines } = request;
    const ticket = this.#tickets++;
    this.#count(op, change);
    const isHome = this.isHome(region);
    if (host.out.tracing) traceBegin(host.out, { region, isHome, request, ticket });
    if (!isHome) {
      if (host.bus.card === undefined) this.#end(ticket, { result: "fenced", costPs: 0 });
      else this.#far.request(ticket, { region: region.id, line, op, change, lines });
      return ticket;
    }
    const at = region.address / LINE_BYTES + line;
    if (op !== "flush") this.judge?.accessed(region, host.now);
    this.#home.access({ kind: op, line: at, change, ticket }, host.now);
    return ticket;
  }

  /** How an access has ended, once; undefined while it has not. */
  outcome(ticket: number): Outcome | undefined {
    const outcome = this.#outcomes.get(ticket);
    this.#outcomes.delete(ticket);
    return outcome;
  }

  /** When the iMC has room for a write-back of a line at home. */
  flushRoomAt(region: SharedRegion, line: number): Time {
    return this.#home.flushRoomAt(region.address / LINE_BYTES + line);
  }

  /** How often what cores have seen of a line may have changed; see {@link lineSignal}. */
  changesOf(region: SharedRegion, line: number): number {
    return (this.#changes.get(lineSignal(region, line)) ?? 0) +
      (this.#changes.get(regionSignal(region)) ?? 0);
  }

  polled(): void {
    this.polls++;
  }

  signalsOf(region: SharedRegion, line: number): readonly string[] {
    return [lineSignal(region, line), regionSignal(region)];
  }

  nextId(): number {
    return this.#ids++;
  }

  get flushCosts(): { readonly issuePs: Time; readonly fencePs: Time } {
    const { flushIssuePs: issuePs, fencePs } = this.#parts.plan.timing;
    return { issuePs, fencePs };
  }

  /** This host's own store: its other programs may wait for it. */
  stored(region: SharedRegion, line: number): void {
    this.#wake(lineSignal(region, line));
  }

  refusePlain(address: number, length: number): void {
    for (const { region, from, to } of this.#places) {
      if (address >= to || address + length <= from) continue;
      const where = `${length} B at 0x${address.toString(16)}`;
      throw new AddressFault(
        `Cannot access ${where} by plain instructions: they are of region ${region.name}, whose ` +
          `lines other hosts may have: expected const r = yield* cpu.region("${region.name}"), ` +
          `then yield* r.load or r.store at ${Math.max(0, address - from)}`,
      );
    }
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
      ...(this.#places.length > 0 && {
        regionHits: hits,
        regionMisses: misses,
        regionSnoops: snoops,
        regionNotices: notices,
        regionWriteBacksScm: writeBacksScm,
        regionWriteBacksDram: writeBacksDram,
        ...(this.judge && { regionMoves: this.judge.moves }),
      }),
    };
  }

  // ── ends of accesses ───────────────────────────────────────────────────────────────────────────

  #endedAtHome({ access, result, data }: Answer, costPs: Time): void {
    const bytes = data instanceof Uint8Array ? data.slice() : undefined;
    this.#end(access.ticket, { result, data: bytes, costPs });
  }

  #end(ticket: number, outcome: Outcome): void {
    if (outcome.result === "fenced") this.fenced++;
    const { out } = this.#parts.host;
    if (out.tracing) traceEnd(out, { ticket, result: outcome.result });
    this.#outcomes.set(ticket, outcome);
    this.#parts.ended(ticket);
  }

  #answered(message: FarAnswer): void {
    const request = this.#far.take(message);
    if (request === undefined || message.result !== "done" || request.op !== "store") return;
    this.#wake(lineSignal(this.#regionOf(request.region), request.line));
  }

  #count(op: LineRequest["op"], change: LineChange | undefined): void {
    if (op === "load") this.loads++;
    else if (op === "flush") this.flushes++;
    else if (change?.kind === "write") this.stores++;
    else this.atomics++;
  }

  // ── changes ────────────────────────────────────────────────────────────────────────────────────

  #fromCard(message: LineMessage): void {
    // A card that is new serves nothing before the leases of the old one are over: it is not registered.
    if (this.#lostAt < NEVER) return;
    this.#home.take(message, this.#parts.host.now);
  }

  #traceSent({ op, address, data }: LineMessage): void {
    const line = address / LINE_BYTES, region = this.#regionAt(line);
    if (region === undefined) return;
    const index = line - region.address / LINE_BYTES;
    traceLineMessage(this.#parts.host.out, { region, line: index, op, data });
  }

  #invalidated({ region, line }: FarInvalidate): void {
    this.invalidations++;
    this.#wake(lineSignal(this.#regionOf(region), line));
  }

  #changedAtHome(line: number): void {
    const region = this.#regionAt(line);
    if (region === undefined) return;
    this.invalidations++;
    this.#wake(lineSignal(region, line - region.address / LINE_BYTES));
  }

  #wakeAll(region: SharedRegion): void {
    this.#wake(regionSignal(region));
  }

  #wake(name: string): void {
    this.#changes.set(name, (this.#changes.get(name) ?? 0) + 1);
    this.#parts.host.signal(name);
  }

  #state(line: number, state: "M" | "E" | "S" | "I"): void {
    const { host } = this.#parts, region = this.#regionAt(line);
    if (region === undefined) return;
    const index = line - region.address / LINE_BYTES;
    if (host.out.tracing) traceState(host.out, { region, line: index, state });
    if (!host.out.auditing) return;
    host.out.audit?.(host.name, {
      kind: "line-state",
      region: region.name,
      line: index,
      cache: "llc",
      state,
    });
  }

  // ── registration, loss ─────────────────────────────────────────────────────────────────────────

  *#register(region: SharedRegion, cpu: Cpu): Steps<void> {
    const retryPs = Math.ceil(region.leasePs / TRIES_PER_LEASE);
    let reason = "the card has no power";
    for (let tries = 0; tries < REGISTER_TRIES; tries++) {
      const { card } = cpu;
      if (card !== undefined) {
        const reply = yield* cpu.command({ op: "register-region", region: region.id });
        if (reply.status === "ok") {
          this.#registered.set(region.id, card);
          return;
        }
        reason = reply.reason;
        // EBUSY: home has not exposed it, or an earlier life of a card has to end first.
        if (reply.errno !== "EBUSY" && cpu.card === card) break;
      }
      yield* cpu.sleep(retryPs);
    }
    throw new RegionRefused(`Cannot register region ${region.name}: ${reason}`);
  }

  #declare(region: SharedRegion, cpu: Cpu): void {
    if (this.#declared.has(region.id) || !cpu.auditing) return;
    this.#declared.add(region.id);
    const { name, home, bytes, memory, address, leasePs, leaseMarginPs } = region;
    cpu.audit({
      kind: "region",
      region: name,
      home: home.host,
      bytes,
      ...(memory === "scm" && { at: address - SCM_BASE }),
      answerWithinPs: ANSWER_LEASES * (leasePs + leaseMarginPs),
    });
  }

  #cardLost(now: Time): void {
    this.#lostAt = NEVER;
    const lost = this.#home.cardLost(now);
    for (const { region } of this.#places) {
      const first = region.address / LINE_BYTES;
      const its = lost.filter((line) => this.#regionAt(line) === region).map((each) =>
        each - first
      );
      if (its.length > 0) this.#reportLost(region, rangesOf(its));
      this.#wakeAll(region);
    }
  }

  #reportLost(
    region: SharedRegion,
    lines: readonly { readonly line: number; readonly lines: number }[],
  ): void {
    const { host } = this.#parts;
    const ranges = lines.map(({ line, lines: count }) => ({
      offset: line * LINE_BYTES,
      length: count * LINE_BYTES,
    }));
    for (const { lines: count } of lines) this.lostLines += count;
    host.out.report("region-lost", { region: region.name, ranges });
    if (host.out.auditing) {
      host.out.audit?.(host.name, { kind: "region-lost", region: region.name, ranges });
    }
    this.#wakeAll(region);
  }

  /** When no far card serves what was lent up to `from` (decision 13). */
  #leasesEndAt(from: Time): Time {
    const ends = this.#places.map(({ region: { leasePs, leaseMarginPs } }) =>
      cardLostAt(from, { lease: leasePs, grace: leaseMarginPs })
    );
    return Math.max(0, ...ends);
  }

  /** From when on the card may lend lines. */
  get #exposedFrom(): Time {
    return this.#lostAt < NEVER ? this.#lostAt : this.#homeFrom;
  }

  #regionOf(id: number): SharedRegion {
    const region = this.regions.find((each) => each.id === id);
    return region ?? fail(`${this.#parts.host.name} got a message about region ${id}`);
  }

  /** The region at home that has this line of memory. */
  #regionAt(line: number): SharedRegion | undefined {
    const address = line * LINE_BYTES;
    return this.#places.find(({ region }) =>
      address >= region.address && address < region.address + region.bytes
    )?.region;
  }
}

/**
 * A choice: home may need a boot, or the rest of a lease, before it exposes a region; a far host asks for 8 leases.
 */
const TRIES_PER_LEASE = 4, REGISTER_TRIES = 32;
/**
 * What an access waits for at most, one after the other: a registration's end, the far card's lease, home's wait
 * for another far card's, and home's card.
 */
const ANSWER_LEASES = 4;

/** Raised when what cores have seen of a line may have changed. */
function lineSignal(region: SharedRegion, line: number): string {
  return `region-${region.id}-${line}`;
}

/** Raised when that holds for all lines of a region. */
function regionSignal(region: SharedRegion): string {
  return `region-${region.id}`;
}

/** A region in DRAM takes the memory that the plan has for it, before all else. */
function placeOf(map: AddressMap, region: SharedRegion): Place {
  const { memory, address, bytes } = region;
  if (memory === "scm") {
    const from = map.scm.address + address - SCM_BASE;
    return { region, from, to: from + bytes };
  }
  const buffer = map.allocateContiguous(bytes);
  if (buffer.pages[0] !== address) fail(`Region ${region.name} is not where the plan has it`);
  return { region, from: buffer.address, to: buffer.address + bytes };
}
