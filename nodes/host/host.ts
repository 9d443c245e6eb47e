/**
 * The host as a node: cores and memory on one bus to its RNIC. Messages of the bus go to memory, to programs and to
 * the driver. `memory_system.ts`, `iio.ts`, `processor.ts` and `host_programs.ts` have the parts; this file connects
 * them and passes them the time.
 */
import type { Tables } from "../../fabric/coherence/tables.ts";
import { fail, unreachable } from "../../fabric/base/assert.ts";
import type {
  DurableWrite,
  Input,
  Message,
  Node,
  Outputs,
  UnfinishedProgram,
} from "../../fabric/node.ts";
import type { HostLoss, OperationFigures } from "../../fabric/inspection.ts";
import type { HostPlan, HostTiming, ProgramPlan } from "../../fabric/rack/plan/plan.ts";
import { hostProcessingPs } from "../../fabric/rack/plan/processing.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import type { AccessError } from "../../fabric/wire/host_bus/pcie.ts";
import { isOfQueue, type RnicEvent } from "../../fabric/wire/host_bus/rnic_command.ts";
import { AddressMap, SCM_BASE } from "./memory/address_map.ts";
import type { Machine } from "./cpu/cpu.ts";
import { HostBus, NO_DEVICE } from "./cpu/host_bus.ts";
import { HostPrograms, type ProgramOptions } from "./host_programs.ts";
import { hostStatistics } from "./host_statistics.ts";
import { traceRead, traceWork, traceWritten } from "./host_trace.ts";
import { Iio } from "./memory/iio.ts";
import { lossOf } from "./memory/loss.ts";
import type { MemoryLog } from "./memory/memory_log.ts";
import { MemorySystem } from "./memory/memory_system.ts";
import { QueueGuard } from "./memory/queue_guard.ts";
import { layOut } from "../../fabric/wire/host_bus/queue_placement.ts";
import { QUEUE_PLAN } from "../../fabric/rack/plan/queue_plan.ts";
import { CardMemory } from "./memory/card_memory.ts";
import { CoherentAgent } from "./memory/coherent_agent.ts";
import { Iommu } from "./memory/iommu.ts";
import type { JudgeRule } from "../../fabric/coherence/judge_placement.ts";
import { HostRegions } from "./coherence/shared_regions.ts";
import { SnoopFilter } from "./memory/snoop_filter.ts";
import { PageTable } from "./memory/page_table.ts";
import { Pager } from "./paging/pager.ts";
import { Ats } from "./paging/ats.ts";
import type { HintThread } from "./paging/hint_thread.ts";
import { OperationCounts } from "./cpu/operation_counts.ts";
import { type Account, Processor } from "./cpu/processor.ts";
import { SIGNALS, type Steps } from "./cpu/program.ts";
import type { ImageReader } from "./memory/sparse_bytes.ts";
import type { OpenDevice } from "./verbs.ts";
import type { ThreadContext } from "./program_context.ts";

export interface HostOptions extends ProgramOptions {
  readonly seed: number;
  /** Of the protocol by which regions are shared; absent: the protocol's own. */
  readonly tables?: Tables | undefined;
  /** Persistent data of earlier lives; zeros without one. */
  readonly image?: ImageReader;
  /** Observes SCM, with times. Has no effect on the run. */
  readonly memoryLog?: MemoryLog;
  readonly addresses: Readonly<Record<string, number>>;
  /** Input files of programs, by their path in the scenario. */
  readonly inputs: Readonly<Record<string, Uint8Array>>;
  /** The rule in a file of the user's, by which the judge moves the copies of a region (C-04). */
  readonly judgeRule?: (path: string) => JudgeRule;
  /** Driver's handler of the firmware's asynchronous events. */
  readonly onEvent?: (device: OpenDevice, event: RnicEvent) => void;
}

/** A host without power. Its first input must be `power`. */
export class Host implements Node, Machine<ThreadContext> {
  readonly name: string;
  readonly kind = "host";
  readonly processingPs: Time;
  readonly timing: HostTiming;
  readonly options: HostOptions;
  readonly map: AddressMap;
  readonly memory: MemorySystem;
  readonly iio: Iio;
  readonly guard: QueueGuard;
  readonly cardMemory: CardMemory | undefined;
  readonly pages: PageTable;
  readonly paging: Pager;
  readonly iommu: Iommu | undefined;
  readonly bus: HostBus;
  /** Where the card is on the coherent bus; undefined on PCIe. */
  readonly agent: CoherentAgent | undefined;
  /** Where the card asks the IOMMU for pages and translations. */
  readonly ats: Ats | undefined;
  /** Regions that this host shares with others (C-03). */
  readonly regions: HostRegions | undefined;
  readonly #snoops = new SnoopFilter((address) =>
    this.bus.send({ kind: "snoop-invalidate", address })
  );
  now: Time = 0;
  readonly #plan: HostPlan;
  readonly #processor: Processor;
  readonly #programs: HostPrograms;
  readonly owners = new Map<number, string>();
  readonly measurements = new OperationCounts();
  #out: Outputs | undefined;
  #powered = false;
  /** Replies to commands for which no program waits any more. */
  #strayReplies = 0;

  constructor(name: string, plan: HostPlan, options: HostOptions) {
    const { timing } = plan;
    this.name = name;
    this.processingPs = hostProcessingPs(timing);
    this.#plan = plan;
    this.timing = timing;
    this.options = options;
    this.map = new AddressMap(plan);
    const { placement, layout, store } = plan.queuePlan ?? QUEUE_PLAN;
    const guard = new QueueGuard(layOut(placement, layout));
    this.guard = guard;
    this.cardMemory = store === "device" ? new CardMemory(guard) : undefined;
    const { image, memoryLog, seed, life } = options;
    const random = plan.llc.evict === "random" ? rngFor(seed, `${name}/${life}/llc`) : undefined;
    this.memory = new MemorySystem(plan, image, {
      log: memoryLog,
      random,
      ...(store === "node" && { isPlugged: (address) => guard.holds(address) }),
    });
    this.memory.onStored = (from, length) => this.#snoops.stored(from, length);
    const { iommu } = plan;
    this.iommu = iommu && new Iommu({
      iotlb: iommu.iotlb,
      missPs: timing.iotlbMissPs,
      scmPageBytes: this.map.scm.pageBytes,
    });
    this.map.onContiguous = ({ pages }) => this.iommu?.map(pages);
    this.map.onFree = (buffer, kind) => {
      this.pages.forget(buffer);
      if (kind === "contiguous") this.iommu?.unmap(buffer.pages);
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
      onBusy: ({ index, busyUntil, from = this.now }, program) => {
        const times = { fromPs: from, untilPs: busyUntil };
        traceWork(this.out, { core: index, program, ...times });
      },
    });
    this.bus = new HostBus(this);
    const { hintWork: work } = plan;
    this.ats = work?.request === "iommu"
      ? new Ats({ work, pager: this.paging, send: (message) => this.bus.send(message) })
      : undefined;
    this.regions = plan.shared && new HostRegions({
      host: this,
      plan,
      life,
      ruleOf: (path) => options.judgeRule?.(path) ?? fail(`${name} has no rule ${path}`),
      table: options.tables?.host,
      ended: (ticket) => this.#processor.lineDone(ticket, this.now),
      drive: (run) => this.#programs.drive("store-buffer", run),
    });
    this.iio = new Iio(plan, {
      memory: this.memory,
      processingPs: this.processingPs,
      iommu: this.iommu,
      sink: {
        refused: (access) => this.out.report("iommu-fault", access),
        visible: (from, length) => this.#processor.memoryChanged({ from, length }, this.now),
        isWatched: (from, length) => this.#processor.isWatched(from, length),
        written: (write, flow) => {
          const times = { fromPs: this.iio.leftSince, untilPs: this.now };
          traceWritten(this.out, write, { flow, ...times });
          this.agent?.complete();
        },
        complete: (completion, read) => {
          if (this.agent === undefined) this.bus.send(completion);
          else this.agent.answer(completion, read);
        },
        tracked: (address) => {
          if (this.agent !== undefined) this.memory.share(address, 1);
          this.#snoops.track(address);
        },
        loaded: ({ tag, status, data }) => {
          this.#processor.loaded(tag, status === "success" ? data : undefined, this.now);
        },
        interrupt: (vector) => this.#processor.raise(vector, this.now),
        event: (event) => this.#event(event),
      },
    });
    this.agent = plan.attach && new CoherentAgent({
      iio: this.iio,
      grantPs: timing.dmaReadLlcPs - this.processingPs,
      sink: {
        send: (message, afterPs) => this.bus.send(message, afterPs),
        reading: (read) => traceRead(this.out, read, 0),
        writing: (address, data) => this.guard.checkDevice(address, data),
        interrupt: (vector) => this.#processor.raise(vector, this.now),
        loaded: (tag, data) => {
          this.#processor.loaded(tag, data.length > 0 ? data : undefined, this.now);
        },
      },
    });
    this.#programs = new HostPrograms({
      machine: this,
      plan,
      options,
      processor: this.#processor,
      onEvent: (event) => this.#event(event),
    });
  }

  /** The kernel's thread for hints. */
  get hintThread(): HintThread {
    return this.#programs.hintThread;
  }

  step(now: Time, input: Input, out: Outputs): void {
    this.now = now;
    this.#out = out;
    this.#processor.interruptSpins(now, this.#isMoreDue(input) ? "more" : "programs");
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
        this.#linkChanged(input.up);
        break;
      case "message":
        this.#receive(input.message);
        break;
      case "wake":
        // Memory is updated before programs run at the same instant.
        this.iio.run(now);
        this.regions?.run(now);
        this.ats?.run(now);
        this.#processor.run(now);
        break;
      case "writeback":
        // The write-back is at the end of its instant: after pieces of a DMA write that leave at
        // that instant.
        this.iio.catchUp(now + 1);
        this.#keep(input);
        break;
      default:
        unreachable(input);
    }
    this.#out = undefined;
  }

  #isMoreDue({ kind }: Input): boolean {
    const { iio, regions, ats, now } = this;
    return kind !== "wake" ||
      Math.min(iio.nextAt, regions?.nextAt ?? NEVER, ats?.nextAt ?? NEVER) <= now;
  }

  /** `WritebackPlan`: bytes that cores see, or of a pending DMA write, become durable. */
  #keep({ from, to, buffered, data }: Extract<Input, { readonly kind: "writeback" }>): void {
    if (data !== undefined) return this.memory.durable.add(from, Uint8Array.fromHex(data));
    const address = SCM_BASE + from;
    const bytes = this.memory.peek(address, to - from);
    if (buffered) this.iio.overlay(address, bytes);
    this.memory.durable.add(from, bytes);
  }

  wakeAt(): Time {
    const next = Math.min(this.iio.nextAt, this.#processor.nextAt, this.ats?.nextAt ?? NEVER);
    return this.regions === undefined ? next : Math.min(next, this.regions.nextAt);
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
      registerWrites: this.bus.registerWrites,
      commands: this.bus.commands,
      strayReplies: this.#strayReplies,
    });
  }

  unfinished(): UnfinishedProgram[] {
    return this.#programs.unfinished();
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

  signal(name: string): void {
    this.#processor.signal(name, this.now);
  }

  spawn(
    thread: { readonly name: string; readonly plan: ProgramPlan },
    run: (context: ThreadContext) => Steps<void>,
  ): void {
    this.#programs.spawn(thread, run);
  }

  /** The outputs of the current step. */
  get out(): Outputs {
    if (this.#out === undefined) fail(`${this.name} acts outside a step`);
    return this.#out;
  }

  #linkChanged(up: boolean): void {
    if (!this.bus.setUp(up)) return;
    this.regions?.linkChanged(up);
    if (!up) {
      this.paging.reset();
      this.hintThread.reset();
      this.ats?.reset();
      this.iio.dropReads();
      this.agent?.reset();
      this.#snoops.clear();
      this.guard.disconnected();
      this.#processor.replyToAll(NO_DEVICE, this.now);
      this.signal(SIGNALS.busDown);
      this.#event({ type: "DEVICE_FATAL" });
      return;
    }
    this.signal(SIGNALS.busUp);
    this.#programs.reopen();
  }

  #receive(message: Message): void {
    switch (message.kind) {
      case "memory-write":
        this.guard.checkDevice(message.address, message.data);
        this.iio.write(message, this.now);
        return;
      case "memory-read":
        traceRead(this.out, message, this.iio.bufferedBytes);
        return this.iio.follow(message, this.now);
      case "interrupt":
      case "completion":
        return this.iio.follow(message, this.now);
      case "access-error":
        return this.#refused(message);
      case "ats":
        // A host whose card asks its driver for pages has none to take it.
        return this.ats?.take(message, this.now);
      case "reply":
        this.guard.answered(message.id, message.reply);
        if (!this.#processor.reply(message, this.now)) this.#strayReplies++;
        return;
      case "event":
        // Completions before the event of a queue are seen before it.
        return isOfQueue(message.event)
          ? this.iio.follow(message, this.now)
          : this.#event(message.event);
      case "coherent":
        if (this.agent === undefined) fail(`${this.name} got a ${message.op} on PCIe`);
        return this.agent.receive(message, this.now);
      case "frame":
      case "snoop-invalidate":
      case "register-write":
      case "register-read":
      case "command":
        return fail(`${this.name} got a ${message.kind} on its bus`);
      case "line":
      case "far-access":
      case "far-answer":
      case "far-invalidate":
        if (this.regions !== undefined) return this.regions.take(message);
        return fail(`${this.name} got a ${message.kind}, and shares no region`);
      default:
        unreachable(message);
    }
  }

  /** The card has refused a program's store. */
  #refused(message: AccessError): void {
    const refusal = this.cardMemory?.refusal(message);
    if (refusal === undefined) fail(`${this.name} got an access error without memory at the card`);
    const { program, error } = refusal;
    this.#programs.fail(program, error);
  }

  #event(event: RnicEvent): void {
    // The kernel's own, which no program reads.
    if (event.type === "PAGE_FAULT") return this.paging.fault(event);
    if (event.type === "HINT_WORK") return this.hintThread.take(event);
    if (this.regions?.event(event)) return;
    this.out.report("rnic-event", event);
    const { device } = this.#programs;
    if (device !== undefined) this.options.onEvent?.(device, event);
    this.signal(SIGNALS.rnicEvent);
  }
}
