/**
 * The host as a node: cores and memory, and a bus to each of its RNICs. Messages of a bus go to
 * memory, to programs and to the driver.
 */
import type { Tables } from "../../fabric/coherence/tables.ts";
import { fail, unreachable } from "../../fabric/base/assert.ts";
import {
  type DurableWrite,
  type HeldThing,
  type Input,
  type Node,
  type Outputs,
  PORTS,
  type UnfinishedProgram,
} from "../../fabric/node.ts";
import type { HostLoss, OperationFigures } from "../../fabric/inspection.ts";
import type { HostPlan, HostTiming } from "../../fabric/rack/plan/plan.ts";
import { QUEUE_PLAN } from "../../fabric/rack/plan/queue_plan.ts";
import { hostProcessingPs } from "../../fabric/rack/plan/processing.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import type { RnicEvent } from "../../fabric/wire/host_bus/rnic_command.ts";
import { heldAtRest } from "./at_rest.ts";
import { AddressMap, SCM_BASE } from "./memory/address_map.ts";
import type { Machine } from "./cpu/cpu.ts";
import { type HostBus, NO_DEVICE } from "./cpu/host_bus.ts";
import { HostCard } from "./host_card.ts";
import { HostPrograms, type Job, type ProgramOptions } from "./host_programs.ts";
import { HostSight } from "./host_sight.ts";
import { hostStatistics } from "./host_statistics.ts";
import { traceWork } from "./host_trace.ts";
import { IioStacks } from "./memory/iio_stacks.ts";
import { lossOf } from "./memory/loss.ts";
import type { MemoryLog } from "./memory/memory_log.ts";
import { MemorySystem } from "./memory/memory_system.ts";
import { Iommu } from "./memory/iommu.ts";
import type { JudgeRule } from "../../fabric/coherence/judge_placement.ts";
import { HostRegions } from "./coherence/shared_regions.ts";
import { PageTable } from "./memory/page_table.ts";
import { Pager } from "./paging/pager.ts";
import { OperationCounts } from "./cpu/operation_counts.ts";
import { type Account, Processor, type Rests } from "./cpu/processor.ts";
import { type Outside, signalOf, SIGNALS, type Steps } from "./cpu/program.ts";
import type { ImageReader } from "./memory/sparse_bytes.ts";
import type { OpenDevice } from "./open_device.ts";
import type { ThreadContext } from "./program_context.ts";

export interface HostOptions extends ProgramOptions {
  readonly seed: number;
  readonly tables?: Tables | undefined;
  /** SCM's content of earlier lives; absent: zeros. */
  readonly image?: ImageReader;
  readonly memoryLog?: MemoryLog;
  readonly addresses: Readonly<Record<string, number>>;
  readonly inputs: Readonly<Record<string, Uint8Array>>;
  /** Loads the judge's rule of a user's file (C-04). */
  readonly judgeRule?: (path: string) => JudgeRule;
  /** See {@link Rests}. */
  readonly rests?: Rests;
  readonly onEvent?: (device: OpenDevice, event: RnicEvent) => void;
}

/** The host has no power; the first input must be `power`. */
export class Host implements Node, Machine<ThreadContext> {
  readonly name: string;
  readonly kind = "host";
  readonly processingPs: Time;
  readonly timing: HostTiming;
  readonly options: HostOptions;
  readonly map: AddressMap;
  readonly memory: MemorySystem;
  readonly cards: readonly HostCard[];
  readonly iio: IioStacks;
  readonly outside: Outside;
  readonly pages: PageTable;
  readonly paging: Pager;
  readonly iommu: Iommu | undefined;
  /** Regions of its only card (C-03). */
  readonly regions: HostRegions | undefined;
  now: Time = 0;
  readonly #plan: HostPlan;
  readonly #processor: Processor;
  readonly #programs: HostPrograms;
  readonly owners = new Map<number, string>();
  readonly measurements = new OperationCounts();
  #out: Outputs | undefined;
  #powered = false;
  readonly #hasNative: boolean;
  readonly #sight: HostSight;
  readonly #sightOfWrites: HostSight;
  #onlyLooked = false;

  constructor(name: string, plan: HostPlan, options: HostOptions) {
    const { timing } = plan;
    this.name = name;
    this.processingPs = hostProcessingPs(timing);
    this.#plan = plan;
    this.#hasNative = plan.programs.some(({ native }) => native !== undefined);
    this.timing = timing;
    this.options = options;
    this.map = new AddressMap(plan);
    const { store } = plan.queuePlan ?? QUEUE_PLAN;
    const { image, memoryLog, seed, life } = options;
    const random = plan.llc.evict === "random" ? rngFor(seed, `${name}/${life}/llc`) : undefined;
    this.memory = new MemorySystem(plan, image, {
      log: memoryLog,
      random,
      ...(store === "node" && { isPlugged: (address) => this.#isPlugged(address) }),
    });
    const { iommu } = plan;
    this.iommu = iommu && new Iommu({
      iotlb: iommu.iotlb,
      missPs: timing.iotlbMissPs,
      scmPageBytes: this.map.scm.pageBytes,
    });
    this.map.onContiguous = ({ pages }, card) => this.iommu?.map(pages, card);
    this.map.onFree = (buffer, { kind, card }) => {
      this.pages.forget(buffer);
      if (kind === "contiguous") this.iommu?.unmap(buffer.pages, card);
    };
    this.outside = {
      quietUntil: (of) => this.#quietUntil(of === "reads" ? this.#sight : this.#sightOfWrites),
      isAlone: () => this.#processor.isAlone,
      acted: () => this.#processor.acted = true,
      interrupt: (program, error) => this.#processor.throwInto(program, error, this.now),
      foreign: this.memory.foreign,
      peek: (physical, length) => this.memory.peek(physical, length),
      physical: (address) => this.map.physical(address),
      isCached: (physical) => this.memory.isCached(physical),
    };
    this.pages = new PageTable(this.map, this.memory, timing);
    this.paging = new Pager({
      pin: plan.pin !== false,
      map: this.map,
      table: this.pages,
      iommu: this.iommu,
      onWork: () => this.#programs.servePages(),
    });
    this.#processor = new Processor({
      cores: plan.cores,
      pollPs: timing.pollPs,
      interruptPs: timing.interruptPs,
      map: this.map,
      ...(options.rests && { rests: options.rests }),
      onBusy: ({ index, busyUntil, from = this.now }, program) => {
        const times = { fromPs: from, untilPs: busyUntil };
        traceWork(this.out, { core: index, program, ...times });
      },
    });
    this.regions = plan.shared && new HostRegions({
      host: this,
      plan,
      life,
      ruleOf: (path) => options.judgeRule?.(path) ?? fail(`${name} has no rule ${path}`),
      table: options.tables?.host,
      ended: (ticket) => this.#processor.lineDone(ticket, this.now),
      drive: (run) => this.#programs.drive("store-buffer", run),
    });
    const onEvent = (card: HostCard, event: RnicEvent) => this.#event(card, event);
    const cards = plan.rnics.map((_, index) =>
      new HostCard(index, {
        host: this,
        plan,
        processor: this.#processor,
        onWritten: (card, from, length) => this.#written(card, from, length),
        onEvent,
        onRefused: (program, error) => this.#programs.fail(program, error),
      })
    );
    this.cards = cards;
    this.iio = new IioStacks(cards.map(({ iio }) => iio));
    const sight = {
      cards,
      timing,
      processor: this.#processor,
      foreign: this.memory.foreign,
      sharesRegions: plan.shared !== undefined,
    };
    this.#sight = new HostSight(sight);
    this.#sightOfWrites = new HostSight({ ...sight, seesReads: false });
    const [first, ...others] = cards;
    this.memory.onStored = others.length === 0
      ? (from, length) => first!.snoops.stored(from, length)
      : (from, length) => {
        for (const { snoops } of cards) snoops.stored(from, length);
      };
    this.#programs = new HostPrograms({
      machine: this,
      plan,
      options,
      processor: this.#processor,
      onEvent,
    });
  }

  get bus(): HostBus {
    return this.cards[0]!.bus;
  }

  #isPlugged(address: number): boolean {
    for (const { guard } of this.cards) if (guard.holds(address)) return true;
    return false;
  }

  /** Other cards' copies are invalidated (H-23). */
  #written(card: HostCard, address: number, length: number): void {
    if (this.cards.length === 1) return;
    for (const other of this.cards) if (other !== card) other.snoops.stored(address, length);
  }

  step(now: Time, input: Input, out: Outputs): void {
    this.now = now;
    this.#out = out;
    // More than programs is due: also a wake in which none acts is an event.
    const isMoreDue = this.#isMoreDue(input);
    this.#processor.acted = isMoreDue;
    this.#processor.interruptSpins(now, isMoreDue ? "more" : "programs");
    this.iio.catchUp(now);
    this.memory.advance(now);
    if (this.#powered === (input.kind === "power")) {
      fail(`${this.name} got ${input.kind} out of turn`);
    }
    switch (input.kind) {
      case "power":
        this.#powered = true;
        this.regions?.boot(now);
        this.#programs.boot();
        break;
      case "run":
        this.#programs.order(input.program, now + input.program.at);
        break;
      case "link":
        this.#linkChanged(this.#cardAt(input.port), input.up);
        break;
      case "message":
        this.#cardAt(input.port).receive(input.message);
        break;
      case "wake":
        // Memory is updated before programs run at the same instant.
        this.iio.run(now);
        this.regions?.run(now);
        for (const { ats } of this.cards) ats?.run(now);
        this.#processor.run(now);
        break;
      case "writeback":
        // The write-back is at the end of its instant, after pieces of a DMA write that leave then.
        this.iio.catchUp(now + 1);
        this.#keep(input);
        break;
      default:
        unreachable(input);
    }
    this.#onlyLooked = !this.#processor.acted;
    this.#out = undefined;
  }

  get onlyLooked(): boolean | undefined {
    return this.#hasNative ? this.#onlyLooked : undefined;
  }

  #cardAt(port: number): HostCard {
    return this.cards[port - PORTS.hostBus] ?? fail(`${this.name} has no RNIC at port ${port}`);
  }

  #isMoreDue({ kind }: Input): boolean {
    const { iio, regions, now } = this;
    return kind !== "wake" || Math.min(iio.nextAt, regions?.nextAt ?? NEVER, this.#atsAt) <= now;
  }

  get #atsAt(): Time {
    let at = NEVER;
    for (const { ats } of this.cards) if (ats !== undefined) at = Math.min(at, ats.nextAt);
    return at;
  }

  /** `WritebackPlan`: bytes that cores see, or of a pending DMA write. */
  #keep({ from, to, buffered, data }: Extract<Input, { readonly kind: "writeback" }>): void {
    if (data !== undefined) return this.memory.durable.add(from, Uint8Array.fromHex(data));
    const address = SCM_BASE + from;
    const bytes = this.memory.peek(address, to - from);
    if (buffered) this.iio.overlay(address, bytes);
    this.memory.durable.add(from, bytes);
  }

  wakeAt(): Time {
    const next = Math.min(this.iio.nextAt, this.#processor.nextAt, this.#atsAt);
    return this.regions === undefined ? next : Math.min(next, this.regions.nextAt);
  }

  /** In a step: the earliest time at which the running thread sees what it has not done itself. */
  #quietUntil(sight: HostSight): Time {
    const { regions, now } = this;
    const own = Math.min(this.#processor.nextOfOthers, sight.nextAt, this.#atsAt);
    const outside = this.out.quietUntil?.(sight) ?? now;
    return Math.max(now, Math.min(own, regions?.nextAt ?? NEVER, outside));
  }

  nextDurableAt(): Time {
    return this.iio.nextDurableAt;
  }

  takeDurable(before: Time): DurableWrite[] {
    this.iio.catchUp(before);
    return this.memory.durable.take();
  }

  statistics(): Record<string, number> {
    return hostStatistics(this.#processor, this, {
      programs: this.#programs.scheduled,
      hintJobs: this.#programs.hintJobs,
    });
  }

  unfinished(): UnfinishedProgram[] {
    return this.#programs.unfinished();
  }

  heldAtRest(): HeldThing[] {
    return heldAtRest(this);
  }

  loss(): HostLoss {
    return lossOf(this, this.#plan.domain);
  }

  operations(): OperationFigures[] {
    return this.measurements.rows();
  }

  get payer(): Account | undefined {
    return this.#processor.payer;
  }

  handledAt(vector: number, since: Time): Time {
    return this.#processor.handledAt(vector, since);
  }

  signal(name: string): void {
    this.#processor.signal(name, this.now);
  }

  spawn(
    thread: Pick<Job, "name" | "plan" | "isKernel" | "isProcess">,
    run: (context: ThreadContext) => Steps<void>,
  ): void {
    this.#programs.spawn(thread, run);
  }

  get out(): Outputs {
    if (this.#out === undefined) fail(`${this.name} acts outside a step`);
    return this.#out;
  }

  #linkChanged(card: HostCard, up: boolean): void {
    if (!card.bus.setUp(up)) return;
    this.regions?.linkChanged(up);
    if (!up) {
      card.reset();
      this.#programs.cardLost(card);
      this.#processor.replyToAll(card.bus, NO_DEVICE, this.now);
      this.signal(signalOf(SIGNALS.busDown, card.index));
      this.#event(card, { type: "DEVICE_FATAL" });
      return;
    }
    this.signal(signalOf(SIGNALS.busUp, card.index));
    this.#programs.reopen(card);
  }

  #event(card: HostCard, event: RnicEvent): void {
    if (event.type === "PAGE_FAULT") return card.paging.fault(event);
    if (event.type === "HINT_WORK") return this.#programs.hintWork(card, event);
    if (this.regions?.event(event)) return;
    const { index } = card;
    this.out.report("rnic-event", index === 0 ? event : { ...event, rnic: index });
    const device = this.#programs.deviceOf(card);
    if (device !== undefined) this.options.onEvent?.(device, event);
    this.signal(SIGNALS.rnicEvent);
  }
}
