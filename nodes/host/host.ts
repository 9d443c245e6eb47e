/**
 * The host as a node: cores and memory on one bus to its RNIC. It boots, opens the device, runs its
 * programs, and serves the device's DMA. `memory_system.ts`, `iio.ts` and `processor.ts` have the
 * parts; this file connects them and passes them the time.
 */
import { fail, unreachable } from "../../fabric/base/assert.ts";
import {
  type DurableWrite,
  type Input,
  type Message,
  type Node,
  type Outputs,
  PORTS,
  type UnfinishedProgram,
} from "../../fabric/node.ts";
import type { HostLoss, OperationFigures } from "../../fabric/inspection.ts";
import type { HostPlan, HostTiming, ProgramPlan } from "../../fabric/rack/plan/plan.ts";
import { hostProcessingPs } from "../../fabric/rack/plan/processing.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { NEVER, PS_PER_MS, type Time } from "../../fabric/base/time.ts";
import type { AccessError, RegisterWrite } from "../../fabric/wire/host_bus/pcie.ts";
import type { RnicCommand, RnicEvent, RnicReply } from "../../fabric/wire/host_bus/rnic_command.ts";
import { AddressMap, SCM_BASE } from "./memory/address_map.ts";
import { type Machine, ProgramCore } from "./cpu/cpu.ts";
import { type HostCounts, hostStatistics } from "./host_statistics.ts";
import { traceRead, traceWork, traceWritten } from "./host_trace.ts";
import { Iio } from "./memory/iio.ts";
import { lossOf } from "./memory/loss.ts";
import type { MemoryLog } from "./memory/memory_log.ts";
import { MemorySystem } from "./memory/memory_system.ts";
import { newestPointer } from "./memory/newest_pointer.ts";
import { QueueGuard } from "./memory/queue_guard.ts";
import { layOut } from "../../fabric/wire/host_bus/queue_placement.ts";
import { QUEUE_PLAN } from "../../fabric/rack/plan/queue_plan.ts";
import { CardMemory } from "./memory/card_memory.ts";
import { Iommu } from "./memory/iommu.ts";
import { SnoopFilter } from "./memory/snoop_filter.ts";
import { PageTable } from "./memory/page_table.ts";
import { Pager } from "./paging/pager.ts";
import { Ats } from "./paging/ats.ts";
import { HintThread } from "./paging/hint_thread.ts";
import { PageThread } from "./paging/page_thread.ts";
import { OperationCounts } from "./cpu/operation_counts.ts";
import { type Account, Processor, type Unfinished } from "./cpu/processor.ts";
import { type Cpu, SIGNALS, type Steps } from "./cpu/program.ts";
import type { ImageReader } from "./memory/sparse_bytes.ts";
import { deviceOn, type OpenDevice } from "./verbs.ts";
import type { Program, ProgramCpu, ThreadContext } from "./program_context.ts";
import { programOf, servesClients } from "./serving.ts";
import { CallWatch } from "./cpu/forgotten_calls.ts";
import { PROGRAMS } from "../../fabric/rack/plan/vocabulary.ts";

export interface HostOptions {
  readonly seed: number;
  /**
   * The number of this life, from 0: programs draw different random numbers in each, and at later
   * ones only services start.
   */
  readonly life: number;
  /** Persistent data of earlier lives; zeros without one. */
  readonly image?: ImageReader;
  /** Observes SCM, with times. Has no effect on the run. */
  readonly memoryLog?: MemoryLog;
  readonly addresses: Readonly<Record<string, number>>;
  /** Input files of programs, by their path in the scenario. */
  readonly inputs: Readonly<Record<string, Uint8Array>>;
  /** Programs by the name or path in `ProgramPlan.run`. */
  readonly programs: Readonly<Record<string, Program>>;
  /** The user's own, by their path in the scenario. */
  readonly own?: Readonly<Record<string, Program>>;
  /** Programs that start at every boot, before those of the plan. */
  readonly services?: readonly string[];
  /** Opens the device: runs at every boot before any program. */
  readonly boot: (cpu: Cpu) => Steps<OpenDevice>;
  /** Runs beside the programs from the opening of the device on. */
  readonly watch?: (device: OpenDevice) => Steps<void>;
  /** Takes the card's events from their queue, from the opening of the device on. */
  readonly serveEvents?: (
    device: OpenDevice,
    deliver: (event: RnicEvent) => void,
  ) => Steps<void>;
  /** Reopens the device when the RNIC is back after a card failure in a running host. */
  readonly reopen?: (device: OpenDevice) => Steps<void>;
  /** Takes back what a program that has ended has made. @returns whether nothing is left. */
  readonly takeBack?: (device: OpenDevice, program: string) => Steps<boolean>;
  /** Driver's handler of the firmware's asynchronous events. */
  readonly onEvent?: (device: OpenDevice, event: RnicEvent) => void;
}

/** Much longer than a card takes from its power-on to its host's notice, which is a bus's latency away. */
const CARD_WAIT_PS = PS_PER_MS;

function* nothing(): Steps<void> {}

const NO_DEVICE: RnicReply = {
  status: "error",
  errno: "EINVAL",
  reason: "Cannot reach the RNIC: the bus link is down",
};

/** A program, or a thread of one. */
interface Job {
  readonly name: string;
  /** Of the program, for its threads as well. */
  readonly plan: ProgramPlan;
  readonly startAt: Time;
  readonly onReturn: () => void;
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
  readonly #pageThread: PageThread;
  readonly hintThread: HintThread;
  /** Where the card asks the IOMMU for pages and translations. */
  readonly ats: Ats | undefined;
  readonly #snoops = new SnoopFilter((address) =>
    this.#send({ kind: "snoop-invalidate", address })
  );
  now: Time = 0;
  readonly #plan: HostPlan;
  readonly #processor: Processor;
  #out: Outputs | undefined;
  #powered = false;
  /** Counts the power-ons of the card that this life has noticed. */
  #cards = 0;
  #linkUp = true;
  #bootedAt: Time = 0;
  #device: OpenDevice | undefined;
  /** Loads from the card's memory so far: their tags. */
  #loads = 0;
  #isReopening = false;
  #isTakingBack = false;
  /** Programs whose objects and memory are taken back when their last thread has ended. */
  readonly #leaving = new Set<string>();
  readonly owners = new Map<number, string>();
  readonly measurements = new OperationCounts();
  /** Programs that wait until the device is open, at boot or again. */
  #early: { program: ProgramPlan; startAt: Time }[] = [];
  readonly #counts: HostCounts = { programs: 0, registerWrites: 0, commands: 0, strayReplies: 0 };
  readonly #watches = new Map<string, CallWatch>();

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
      onWork: () => this.#servePages(),
    });
    this.#processor = new Processor({
      cores: plan.cores,
      pollPs: timing.pollPs,
      interruptPs: timing.interruptPs,
      map: this.map,
      onBusy: ({ index, busyUntil }, program) => {
        const times = { fromPs: this.now, untilPs: busyUntil };
        traceWork(this.out, { core: index, program, ...times });
      },
    });
    const { hintWork: work } = plan;
    this.ats = work?.request === "iommu"
      ? new Ats({ work, pager: this.paging, send: (message) => this.#send(message) })
      : undefined;
    const thread = {
      machine: this,
      processor: this.#processor,
      cpu: (thread: string, account: Account) => this.#cpu(thread, account),
      onFailure: (thread: string, error: unknown) => this.#failed(thread, error),
      work,
    };
    const respond = (pages: { key: number; first: number; count: number }) => {
      const none = { ahead: 0, write: false, frames: [] };
      this.#send({ kind: "ats", step: "page-response", ...pages, ...none });
    };
    this.#pageThread = new PageThread({ ...thread, ...(this.ats && { respond }) });
    this.hintThread = new HintThread(thread);
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
        },
        complete: (completion) => this.#send(completion),
        tracked: (address) => this.#snoops.track(address),
        loaded: ({ tag, status, data }) => {
          this.#processor.loaded(tag, status === "success" ? data : undefined, this.now);
        },
        interrupt: (vector) => this.#processor.raise(vector, this.now),
      },
    });
  }

  step(now: Time, input: Input, out: Outputs): void {
    this.now = now;
    this.#out = out;
    this.iio.catchUp(now);
    this.memory.advance(now);
    if (this.#powered === (input.kind === "power")) {
      fail(`${this.name} got ${input.kind} out of turn`);
    }
    switch (input.kind) {
      case "power":
        this.#boot();
        break;
      case "run":
        this.#ordered(input.program, now + input.program.at);
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

  /** `WritebackPlan`: bytes that cores see, or of a pending DMA write, become durable. */
  #keep({ from, to, buffered, data }: Extract<Input, { readonly kind: "writeback" }>): void {
    if (data !== undefined) return this.memory.durable.add(from, Uint8Array.fromHex(data));
    const address = SCM_BASE + from;
    const bytes = this.memory.peek(address, to - from);
    if (buffered) this.iio.overlay(address, bytes);
    this.memory.durable.add(from, bytes);
  }

  wakeAt(): Time {
    return Math.min(this.iio.nextAt, this.#processor.nextAt, this.ats?.nextAt ?? NEVER);
  }

  nextDurableAt(): Time {
    return this.iio.nextDurableAt;
  }

  takeDurable(before: Time): DurableWrite[] {
    this.iio.catchUp(before);
    return this.memory.durable.take();
  }

  statistics(): Record<string, number> {
    return hostStatistics(this.#processor, this, this.#counts);
  }

  unfinished(): UnfinishedProgram[] {
    const pending = this.#early.map(({ program, startAt }): UnfinishedProgram => ({
      program: program.run,
      serves: program.serves === true,
      waitsFor: "the driver to open the device",
      since: startAt,
      ...(program.order !== undefined && { order: program.order }),
    }));
    // A driver without a card waits for the card's power, as the scenario wants.
    const running = this.#processor.unfinished().filter(({ plan }) =>
      plan.driver !== true || this.#linkUp
    );
    return [...running.map((each) => this.#unfinished(each)), ...pending];
  }

  loss(): HostLoss {
    return lossOf(this, this.#plan.domain);
  }

  operations(): OperationFigures[] {
    return this.measurements.rows();
  }

  #unfinished({ plan, waitsFor, sources, since, at }: Unfinished): UnfinishedProgram {
    const { name, serves = false, order } = plan;
    const device = this.#device;
    return {
      program: name,
      serves: serves ||
        device !== undefined && servesClients(device, { program: name, sources }),
      waitsFor: [waitsFor, this.#watches.get(name)?.forgotten()].filter((text) => text).join("; "),
      since,
      ...(at !== undefined && { at }),
      ...(order !== undefined && { order }),
    };
  }

  sendRegister(offset: number, data: Uint8Array<ArrayBuffer>): void {
    this.#counts.registerWrites++;
    const stored = newestPointer(this, offset, data);
    this.#send({ kind: "register-write", offset, data, ...(stored !== undefined && { stored }) });
  }

  sendStore(store: RegisterWrite): void {
    this.#send(store);
  }

  sendLoad(offset: number, length: number): number | undefined {
    if (!this.#linkUp) return undefined;
    const tag = this.#loads++;
    this.#send({ kind: "register-read", tag, offset, length });
    return tag;
  }

  sendCommand(command: RnicCommand): number | RnicReply {
    if (!this.#linkUp) return NO_DEVICE;
    const id = this.#counts.commands++;
    this.#send({ kind: "command", id, command });
    return id;
  }

  get card(): number | undefined {
    return this.#linkUp ? this.#cards : undefined;
  }

  signal(name: string): void {
    this.#processor.signal(name, this.now);
  }

  spawn(
    { name, plan }: { readonly name: string; readonly plan: ProgramPlan },
    run: (context: ThreadContext) => Steps<void>,
  ): void {
    this.#add({ name, plan, startAt: this.now, onReturn: () => {} }, run);
  }

  /** The outputs of the current step. */
  get out(): Outputs {
    if (this.#out === undefined) fail(`${this.name} acts outside a step`);
    return this.#out;
  }

  #send(message: Message): void {
    this.out.send(PORTS.hostBus, message, this.now + this.processingPs);
  }

  #boot(): void {
    this.#powered = true;
    this.#bootedAt = this.now + this.timing.bootPs;
    this.#processor.add({
      name: "boot",
      driver: true,
      startAt: this.#bootedAt,
      start: (account) => this.options.boot(this.#cpu("boot", account)),
      onReturn: (device) => this.#opened(device),
      onFailure: (error) => this.#failed("boot", error),
    });
    for (const program of this.#plan.programs) {
      if (!program.service && this.options.life > 0) continue;
      this.#early.push({ program, startAt: this.#bootedAt + program.at });
    }
  }

  #opened(device: OpenDevice): void {
    this.#device = device;
    const { watch, serveEvents } = this.options;
    if (watch !== undefined) this.#beside(device, "doorbell-watch", watch);
    if (serveEvents !== undefined) {
      this.#beside(device, "events", (own) => serveEvents(own, (event) => this.#event(event)));
    }
    const { pressure } = this.#plan;
    if (pressure !== undefined) this.#pageThread.press(pressure, this.#bootedAt);
    this.#servePages();
    for (const run of this.options.services ?? []) {
      this.#schedule({ run, at: 0, service: true, serves: true, options: {} }, this.now);
    }
    this.#scheduleEarly();
    this.#reopen();
  }

  /** Runs a thread of the driver beside the programs. */
  #beside(device: OpenDevice, name: string, run: (device: OpenDevice) => Steps<void>): void {
    this.#processor.add({
      name,
      driver: true,
      serves: true,
      startAt: this.now,
      start: (account) => run(deviceOn(device, this.#cpu(name, account))),
      onReturn: () => {},
      onFailure: (error) => this.#failed(name, error),
    });
  }

  /** Starts the programs that had to wait for the device. */
  #scheduleEarly(): void {
    const early = this.#early;
    this.#early = [];
    for (const { program, startAt } of early) this.#schedule(program, startAt);
  }

  /** Where the card has no power, it may be coming up: the program waits for it, {@link CARD_WAIT_PS} at most. */
  #ordered(program: ProgramPlan, startAt: Time): void {
    if (this.#linkUp || this.#device === undefined) return this.#schedule(program, startAt);
    this.#early.push({ program, startAt });
    this.#processor.add({
      name: "card-wait",
      driver: true,
      startAt: this.now + CARD_WAIT_PS,
      start: nothing,
      onReturn: () => this.#scheduleEarly(),
      onFailure: (error) => this.#failed("card-wait", error),
    });
  }

  #schedule(program: ProgramPlan, startAt: Time): void {
    // What a program made on the card while it is being opened again would be lost at once.
    if (this.#device === undefined || this.#isReopening) {
      this.#early.push({ program, startAt });
      return;
    }
    const name = `${program.run}#${this.#counts.programs++}`;
    const onReturn = () => this.out.report("program-ended", { program: name });
    const at = Math.max(startAt, this.now);
    this.#add({ name, plan: program, startAt: at, onReturn }, (context) => {
      const { programs, own = {} } = this.options;
      const run = programNamed(Object.hasOwn(own, program.run) ? own : programs, program.run);
      return run({ ...context, options: program.options });
    });
  }

  #add({ name, plan, startAt, onReturn }: Job, run: (context: ThreadContext) => Steps<void>): void {
    const { serves, order } = plan;
    const watch = this.#isShipped(plan.run) ? undefined : new CallWatch();
    this.#processor.add({
      name,
      ...(serves && { serves }),
      ...(order !== undefined && { order }),
      startAt,
      start: (account) => {
        const cpu = this.#cpu(name, account, plan);
        const { weight } = plan;
        const opened = deviceOn(this.#device!, cpu);
        const device = weight === undefined ? opened : { ...opened, weight };
        if (watch === undefined) return run({ cpu, device });
        this.#watches.set(name, watch);
        const verbs = watch.watched(device.verbs);
        return run({ cpu: watch.watched(cpu), device: { ...device, verbs } });
      },
      onReturn: () => {
        this.#watches.delete(name);
        const forgotten = watch?.forgotten();
        if (forgotten === undefined) onReturn();
        else this.#reportFailure(name, { message: forgotten, stack: "" }, order);
        if (order !== undefined) this.#leaving.add(programOf(name));
        this.#takeBack();
      },
      onFailure: (error) => {
        this.#watches.delete(name);
        this.#failed(name, error, order);
        this.#leaving.add(programOf(name));
        this.#takeBack();
      },
    });
  }

  /**
   * Takes back what programs have left that failed, or that an order started: there may be any number
   * of them. What the plan's programs hold when they have returned stays, as each runs once in a life.
   */
  #takeBack(): void {
    const device = this.#device, { takeBack } = this.options;
    if (device === undefined || takeBack === undefined || this.#isTakingBack) return;
    if (!this.#linkUp || this.#isReopening) return;
    const isOf = (program: string) => (name: string) => programOf(name) === program;
    const hasEnded = (program: string) => !this.#processor.isRunning(isOf(program));
    const ended = [...this.#leaving].filter(hasEnded);
    if (ended.length === 0) return;
    const owners = this.owners, map = this.map, leaving = this.#leaving;
    function* steps(bound: OpenDevice): Steps<void> {
      for (const program of ended) {
        if (!(yield* takeBack!(bound, program))) continue;
        leaving.delete(program);
        for (const [address, owner] of owners) {
          if (!isOf(program)(owner)) continue;
          map.free({ address });
          owners.delete(address);
        }
      }
    }
    const end = () => {
      this.#isTakingBack = false;
      // What could not be taken back is tried again with the next.
      const isMore = [...leaving].some((each) => !ended.includes(each) && hasEnded(each));
      if (isMore) this.#takeBack();
    };
    this.#isTakingBack = true;
    this.#processor.add({
      name: "take-back",
      driver: true,
      serves: true,
      startAt: this.now,
      start: (account) => steps(deviceOn(device, this.#cpu("take-back", account))),
      onReturn: end,
      onFailure: (error) => {
        end();
        this.#failed("take-back", error);
      },
    });
  }

  #servePages(): void {
    if (this.#device !== undefined) this.#pageThread.serve();
  }

  #isShipped(run: string): boolean {
    return Object.hasOwn(PROGRAMS, run) || (this.options.services ?? []).includes(run);
  }

  #cpu(name: string, account: Account, plan?: ProgramPlan): ProgramCpu {
    const stream = `${this.name}/${this.options.life}/${name}`;
    return new ProgramCore(this, { stream, account, plan });
  }

  /** A program's exception is a result of the run; the node continues. */
  #failed(program: string, error: unknown, order?: number): void {
    const { message, stack = "" } = error instanceof Error ? error : new Error(String(error));
    this.#reportFailure(program, { message, stack }, order);
  }

  #reportFailure(
    program: string,
    failure: { readonly message: string; readonly stack: string },
    order?: number,
  ): void {
    const report = { program, ...failure };
    this.out.report("program-failed", order === undefined ? report : { ...report, order });
  }

  #linkChanged(up: boolean): void {
    if (up === this.#linkUp) return;
    this.#linkUp = up;
    if (!up) {
      this.paging.reset();
      this.hintThread.reset();
      this.ats?.reset();
      this.iio.dropReads();
      this.#snoops.clear();
      this.#processor.replyToAll(NO_DEVICE, this.now);
      this.signal(SIGNALS.busDown);
      return;
    }
    this.#cards++;
    this.signal(SIGNALS.busUp);
    this.#reopen();
  }

  /** Opens the card that is there, unless it is open; once again where it was another meanwhile. */
  #reopen(): void {
    const device = this.#device, { reopen } = this.options;
    if (device === undefined || reopen === undefined || this.#isReopening) return;
    if (!this.#linkUp || device.state.card === this.#cards) return;
    this.#isReopening = true;
    this.#processor.add({
      name: "reopen",
      driver: true,
      startAt: this.now,
      start: (account) => reopen(deviceOn(device, this.#cpu("reopen", account))),
      onReturn: () => {
        this.#isReopening = false;
        this.#reopen();
        this.#scheduleEarly();
        this.#takeBack();
      },
      onFailure: (error) => {
        this.#isReopening = false;
        this.#failed("reopen", error);
        this.#scheduleEarly();
      },
    });
  }

  #receive(message: Message): void {
    switch (message.kind) {
      case "memory-write":
        this.guard.checkDevice(message.address, message.data);
        return this.iio.write(message, this.now);
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
        if (!this.#processor.reply(message, this.now)) this.#counts.strayReplies++;
        return;
      case "event":
        return this.#event(message.event);
      case "frame":
      case "snoop-invalidate":
      case "register-write":
      case "register-read":
      case "command":
        return fail(`${this.name} got a ${message.kind} on its bus`);
      default:
        unreachable(message);
    }
  }

  /** The card has refused a program's store. */
  #refused(message: AccessError): void {
    const refusal = this.cardMemory?.refusal(message);
    if (refusal === undefined) fail(`${this.name} got an access error without memory at the card`);
    const { program, error } = refusal;
    // A program that has ended meanwhile has failed all the same.
    if (!this.#processor.throwInto(program, error, this.now)) this.#failed(program, error);
  }

  #event(event: RnicEvent): void {
    // The kernel's own, which no program reads.
    if (event.type === "PAGE_FAULT") return this.paging.fault(event);
    if (event.type === "HINT_WORK") return this.hintThread.take(event);
    this.out.report("rnic-event", event);
    if (this.#device !== undefined) this.options.onEvent?.(this.#device, event);
    this.signal(SIGNALS.rnicEvent);
  }
}

function programNamed(programs: Readonly<Record<string, Program>>, name: string): Program {
  const program = Object.hasOwn(programs, name) ? programs[name] : undefined;
  if (program === undefined) {
    const known = Object.keys(programs).sort().join(", ");
    throw new Error(`Cannot run ${name}: the host has the programs ${known}`);
  }
  return program;
}
