/**
 * The threads on a host's cores: the driver's (boot, reopening, take-back, pages) and programs,
 * which wait until their device is open. `cpu/processor.ts` has the cores.
 */
import type { UnfinishedProgram } from "../../fabric/node.ts";
import type { HostPlan, ProgramPlan } from "../../fabric/rack/plan/plan.ts";
import { PROGRAMS, SHUTDOWN } from "../../fabric/rack/plan/vocabulary.ts";
import { PS_PER_MS, type Time } from "../../fabric/base/time.ts";
import type { RnicEvent } from "../../fabric/wire/host_bus/rnic_command.ts";
import { watchedContext } from "./calls/watched_context.ts";
import { type Machine, ProgramCore } from "./cpu/cpu.ts";
import { CallWatch } from "./cpu/forgotten_calls.ts";
import { readableText } from "./cpu/log_text.ts";
import type { Account, Processor, Unfinished } from "./cpu/processor.ts";
import { type Cpu, signalOf, type Steps } from "./cpu/program.ts";
import { siteIn } from "./cpu/wait_site.ts";
import { HostShutdown } from "./cpu/region.ts";
import type { HostCard } from "./host_card.ts";
import { type HintEvent, HintThread } from "./paging/hint_thread.ts";
import { type PageMachine, PageThread } from "./paging/page_thread.ts";
import type { Program, ThreadContext } from "./program_context.ts";
import { servesClients, waitsUnarmed, waitsUnasked } from "./serving.ts";
import { shutDown } from "./shutdown.ts";
import { TakeBackThread } from "./take_back_thread.ts";
import { deviceOn, type OpenDevice } from "./open_device.ts";
import { addContext, newContext, ProgramError } from "./verbs/device.ts";
import type { Context, HostDevices } from "./verbs/objects.ts";

export interface ProgramOptions {
  /**
   * Counts from 0: programs draw other random numbers in each life, and in later lives only
   * services start.
   */
  readonly life: number;
  readonly programs: Readonly<Record<string, Program>>;
  readonly own?: Readonly<Record<string, Program>>;
  /** Makes the program that runs a binary; absent: the host runs none. */
  readonly native?: (plan: ProgramPlan) => Program;
  /** Programs that start at every boot, before those of the plan. */
  readonly services?: readonly string[];
  /** Opens the device of the core's card, at every boot, before any program uses it. */
  readonly boot: (cpu: Cpu) => Steps<OpenDevice>;
  readonly watch?: (device: OpenDevice) => Steps<void>;
  readonly serveEvents?: (
    device: OpenDevice,
    deliver: (event: RnicEvent) => void,
  ) => Steps<void>;
  /** Opens the device anew when the RNIC is back after a card failure in a running host. */
  readonly reopen?: (device: OpenDevice) => Steps<void>;
  /** Takes back an ended program's objects. @returns whether none is left. */
  readonly takeBack?: (device: OpenDevice, program: string) => Steps<boolean>;
}

interface ProgramsMachine extends Machine<ThreadContext>, PageMachine {
  readonly paging: PageMachine["paging"];
  readonly cards: readonly HostCard[];
}

export interface ProgramsParts {
  readonly machine: ProgramsMachine;
  readonly plan: HostPlan;
  readonly options: ProgramOptions;
  readonly processor: Processor;
  readonly onEvent: (card: HostCard, event: RnicEvent) => void;
}

interface CardDriver {
  readonly card: HostCard;
  readonly hints: HintThread;
  device: OpenDevice | undefined;
  isReopening: boolean;
}

/** Much longer than a bus's latency, after which the host notices a card's power-on. */
const CARD_WAIT_PS = PS_PER_MS;

/**
 * [choice] Threads of a host at a time. Each takes some 45 KiB of the emulating process, which a
 * program that starts them without end would end.
 */
const THREADS_MAX = 16_384;

function* nothing(): Steps<void> {}

export interface Job {
  readonly name: string;
  readonly plan: ProgramPlan;
  readonly startAt: Time;
  readonly onReturn: () => void;
  /** A thread of the host's kernel that works for the program. */
  readonly isKernel?: true;
  /** A process of its own, with its own context of the cards. */
  readonly isProcess?: true;
}

interface EarlyProgram {
  readonly program: ProgramPlan;
  readonly startAt: Time;
  /** Waits until then for the card's power, as an order does; absent: starts without. */
  readonly powerBy?: Time;
}

interface DriverThread<T> {
  readonly startAt?: Time;
  readonly serves?: true;
  readonly card?: number;
  readonly onReturn?: (result: T) => void;
  readonly onFailure?: () => void;
}

export class HostPrograms {
  scheduled = 0;
  readonly #parts: ProgramsParts;
  readonly #pageThread: PageThread;
  readonly #takeBack: TakeBackThread | undefined;
  readonly #drivers: readonly CardDriver[];
  readonly #devices: HostDevices<OpenDevice>;
  #bootedAt: Time = 0;
  #isShutDown = false;
  #early: EarlyProgram[] = [];
  readonly #watches = new Map<string, CallWatch>();
  readonly #contexts = new WeakMap<ProgramPlan, Context>();

  constructor(parts: ProgramsParts) {
    this.#parts = parts;
    const { machine, processor, options: { takeBack } } = parts;
    const { plan: { hintWork: work, rnics } } = parts;
    const thread = {
      machine,
      processor,
      onFailure: (name: string, error: unknown) => this.#failed(name, error),
      work,
    };
    const respond = (pages: { key: number; first: number; count: number }, card: number) => {
      const none = { ahead: 0, write: false, frames: [] };
      machine.cards[card]!.bus.send({ kind: "ats", step: "page-response", ...pages, ...none });
    };
    this.#pageThread = new PageThread({
      ...thread,
      cpu: (name: string, account: Account, card = 0) => this.#cpu(name, account, card),
      ...(work?.request === "iommu" && { respond }),
    });
    this.#drivers = machine.cards.map((card): CardDriver => ({
      card,
      hints: new HintThread({
        ...thread,
        name: signalOf("hints", card.index),
        cpu: (name: string, account: Account) => this.#cpu(name, account, card.index),
      }),
      device: undefined,
      isReopening: false,
    }));
    this.#devices = { names: rnics, at: (index) => this.#drivers[index]?.device };
    this.#takeBack = takeBack && new TakeBackThread({
      map: machine.map,
      owners: machine.owners,
      processor,
      takeBack,
      isReady: () => this.#drivers.some((driver) => this.#isReady(driver)),
      run: (steps, onEnd) =>
        this.#drive("take-back", (cpu) => {
          const ready: OpenDevice[] = [], away: OpenDevice[] = [];
          for (const driver of this.#drivers) {
            const { device, card } = driver;
            if (device === undefined) continue;
            if (this.#isReady(driver)) ready.push(deviceOn(device, cpu.at(card.index)));
            else away.push(device);
          }
          return steps({ ready, away });
        }, {
          serves: true,
          onReturn: onEnd,
          onFailure: onEnd,
        }),
    });
  }

  deviceOf({ index }: HostCard): OpenDevice | undefined {
    return this.#drivers[index]!.device;
  }

  #isReady({ card, device, isReopening }: CardDriver): boolean {
    return device !== undefined && card.bus.card !== undefined && !isReopening;
  }

  hintWork({ index }: HostCard, event: HintEvent): void {
    this.#drivers[index]!.hints.take(event);
  }

  get hintJobs(): { readonly jobs: number; readonly workPs: Time } {
    let jobs = 0, workPs = 0;
    for (const { hints } of this.#drivers) {
      [jobs, workPs] = [jobs + hints.jobs, workPs + hints.workPs];
    }
    return { jobs, workPs };
  }

  /** Programs of other cards do not wait for it any more. */
  cardLost({ index }: HostCard): void {
    this.#drivers[index]!.hints.reset();
    if (this.#drivers.length > 1) this.#scheduleEarly();
  }

  boot(): void {
    const { machine, plan, options } = this.#parts;
    this.#bootedAt = machine.now + machine.timing.bootPs;
    for (const driver of this.#drivers) {
      this.#drive(this.#named("boot", driver), options.boot, {
        startAt: this.#bootedAt,
        card: driver.card.index,
        onReturn: (device) => this.#opened(driver, device),
      });
    }
    for (const { at } of plan.shutdowns ?? []) if (at >= machine.now) this.#shutDown(at);
    for (const program of plan.programs) {
      if (!program.service && options.life > 0) continue;
      this.#early.push({ program, startAt: this.#bootedAt + program.at });
    }
  }

  #shutDown(startAt: Time, order?: number): void {
    const { machine, processor } = this.#parts;
    this.#drive("shutdown", (cpu) => {
      this.#isShutDown = true;
      this.#early = [];
      return shutDown({ machine, processor, cpu, order });
    }, { startAt, serves: true });
  }

  #named(name: string, { card }: CardDriver): string {
    return signalOf(name, card.index);
  }

  #opened(driver: CardDriver, device: OpenDevice): void {
    const isFirst = this.#drivers.every((each) => each.device === undefined);
    driver.device = { ...device, devices: this.#devices };
    const { plan: { pressure }, options, machine, onEvent } = this.#parts;
    const { watch, serveEvents, services = [] } = options, { card } = driver;
    if (watch !== undefined) this.#beside("doorbell-watch", driver, watch);
    if (serveEvents !== undefined) {
      this.#beside("events", driver, (own) => serveEvents(own, (event) => onEvent(card, event)));
    }
    if (isFirst && pressure !== undefined) this.#pageThread.press(pressure, this.#bootedAt);
    this.servePages();
    for (const run of services) {
      const service = { run, at: 0, service: true, serves: true, options: {} } as const;
      const program = card.index === 0 ? service : { ...service, rnic: card.index };
      if (this.#isShutDown) this.#schedule(program, machine.now);
      else this.#start(program, machine.now);
    }
    if (isFirst) this.#exposeRegions();
    const judge = machine.regions?.judge;
    if (judge !== undefined) this.#drive("judge", (cpu) => judge.run(cpu), { serves: true });
    this.#scheduleEarly();
    this.reopen(card);
  }

  drive(name: string, steps: (cpu: Cpu) => Steps<void>): void {
    this.#drive(name, steps, { serves: true });
  }

  /** C-03: far hosts may register this home's regions. */
  #exposeRegions(): void {
    const { regions } = this.#parts.machine;
    if (regions?.hasHomes) this.#drive("regions", (cpu) => regions.expose(cpu), { serves: true });
  }

  #drive<T>(
    name: string,
    run: (cpu: ProgramCore<ThreadContext>) => Steps<T>,
    thread: DriverThread<T>,
  ): void {
    const { startAt = this.#parts.machine.now, serves, card = 0, onReturn, onFailure } = thread;
    this.#parts.processor.add({
      name,
      driver: true,
      ...(serves && { serves }),
      startAt,
      start: (account) => run(this.#cpu(name, account, card)),
      ...(onReturn && { onReturn }),
      onFailure: (error) => {
        onFailure?.();
        this.#failed(name, error);
      },
    });
  }

  #beside(name: string, driver: CardDriver, run: (device: OpenDevice) => Steps<void>): void {
    this.#drive(this.#named(name, driver), (cpu) => run(deviceOn(driver.device!, cpu)), {
      serves: true,
      card: driver.card.index,
    });
  }

  servePages(): void {
    for (const { device } of this.#drivers) {
      if (device !== undefined) return this.#pageThread.serve();
    }
  }

  /** Ignored for an open card; repeated where the card has begun another life meanwhile. */
  reopen(card: HostCard): void {
    const driver = this.#drivers[card.index]!, { device } = driver;
    const { options: { reopen } } = this.#parts;
    if (device === undefined || reopen === undefined || driver.isReopening) return;
    if (card.bus.card === undefined || device.state.card === card.bus.card) return;
    driver.isReopening = true;
    this.#drive(this.#named("reopen", driver), (cpu) => reopen(deviceOn(device, cpu)), {
      card: card.index,
      onReturn: () => {
        driver.isReopening = false;
        this.reopen(card);
        this.#exposeRegions();
        this.#scheduleEarly();
        this.#takeBack?.start();
      },
      onFailure: () => {
        driver.isReopening = false;
        this.#scheduleEarly();
      },
    });
  }

  #driverOf({ rnic = 0 }: ProgramPlan): CardDriver {
    return this.#drivers[rnic]!;
  }

  /**
   * The program may open its own device and those of all other cards with power; objects made on a
   * card that is being reopened would be lost at once.
   */
  #isOpen(program: ProgramPlan): boolean {
    const own = this.#driverOf(program);
    if (own.device === undefined || own.isReopening) return false;
    return this.#drivers.every(({ device, card }) =>
      device !== undefined || card.bus.card === undefined
    );
  }

  #scheduleEarly(): void {
    const early = this.#early;
    this.#early = [];
    const { now } = this.#parts.machine;
    for (const each of early) {
      const { program, startAt, powerBy = now } = each;
      const { card } = this.#driverOf(program);
      if (card.bus.card === undefined && now < powerBy) this.#early.push(each);
      else this.#schedule(program, startAt);
    }
  }

  /** A program waits for its card's power, {@link CARD_WAIT_PS} at most. */
  order(program: ProgramPlan, startAt: Time): void {
    if (program.run === SHUTDOWN) return this.#shutDown(startAt, program.order);
    const driver = this.#drivers[program.rnic ?? 0];
    if (driver === undefined) {
      const { name, cards } = this.#parts.machine;
      const found = `${name} has ${cards.length} RNICs, and none of number ${program.rnic! + 1}`;
      return this.#failed(program.run, new ProgramError(found), program.order);
    }
    const { card, device } = driver;
    if (card.bus.card !== undefined || device === undefined) {
      return this.#schedule(program, startAt);
    }
    const powerBy = this.#parts.machine.now + CARD_WAIT_PS;
    this.#early.push({ program, startAt, powerBy });
    this.#drive("card-wait", nothing, {
      startAt: powerBy,
      onReturn: () => this.#scheduleEarly(),
    });
  }

  #schedule(program: ProgramPlan, startAt: Time): void {
    if (this.#isShutDown) {
      const error = new HostShutdown(
        `${this.#parts.machine.name} shuts down: nothing starts on it`,
      );
      return this.#failed(program.run, error, program.order);
    }
    if (this.#isOpen(program)) this.#start(program, startAt);
    else this.#early.push({ program, startAt });
  }

  #start(program: ProgramPlan, startAt: Time): void {
    const { machine, options: { programs, own = {}, native } } = this.#parts;
    const name = `${program.run}#${this.scheduled++}`;
    const onReturn = () => machine.out.report("program-ended", { program: name });
    const at = Math.max(startAt, machine.now);
    this.#contexts.set(program, newContext());
    this.#add({ name, plan: program, startAt: at, onReturn }, (context) => {
      const run = program.native !== undefined && native !== undefined
        ? native(program)
        : programNamed(Object.hasOwn(own, program.run) ? own : programs, program.run);
      return run({ ...context, options: program.options });
    });
  }

  /**
   * Threads of one name would draw the same random numbers.
   * @param plan of the program. @throws ProgramError for the name of a running thread; EAGAIN
   * beyond {@link THREADS_MAX}.
   */
  spawn(
    { name, plan, isKernel, isProcess }: Pick<Job, "name" | "plan" | "isKernel" | "isProcess">,
    run: (context: ThreadContext) => Steps<void>,
  ): void {
    const { machine, processor } = this.#parts;
    const refuse = (errno: string, why: string): never => {
      const { line } = siteIn(new Error().stack ?? "");
      throw new ProgramError(`${errno}: spawn${line === undefined ? "" : ` at ${line}`}: ${why}`);
    };
    if (processor.running >= THREADS_MAX) {
      const found = `${machine.name} runs ${processor.running} programs and threads`;
      refuse("EAGAIN", `${found}: expected at most ${THREADS_MAX}`);
    }
    if (processor.isRunning(name)) {
      const found = `${JSON.stringify(name.split("/").at(-1))}, as that of a thread that runs`;
      refuse("EINVAL", `name is ${found}: expected one of its own`);
    }
    const kind = { ...(isKernel && { isKernel }), ...(isProcess && { isProcess }) };
    this.#add({ name, plan, startAt: machine.now, onReturn: () => {}, ...kind }, run);
  }

  #add(job: Job, run: (context: ThreadContext) => Steps<void>): void {
    const { name, plan, startAt, onReturn, isKernel, isProcess } = job, { order } = plan;
    const serves = isKernel ?? plan.serves;
    const watch = isKernel || this.#isShipped(plan) ? undefined : new CallWatch();
    this.#parts.processor.add({
      name,
      ...(serves && { serves }),
      ...(plan.native !== undefined && !isKernel && { native: true }),
      ...(order !== undefined && { order }),
      startAt,
      start: (account) => {
        const { weight, privileged, rnic = 0 } = plan;
        const cpu = this.#cpu(name, account, rnic, plan);
        const opened = deviceOn(this.#driverOf(plan).device!, cpu);
        const context = isProcess ? newContext() : this.#contexts.get(plan) ?? opened.context;
        addContext(opened.state, context, name);
        const device = {
          ...opened,
          context,
          ...(weight !== undefined && { weight }),
          ...(privileged && { privileged }),
        };
        if (watch === undefined) return run({ cpu, device });
        this.#watches.set(name, watch);
        return run(watchedContext(watch, { cpu, device }));
      },
      onReturn: () => {
        this.#watches.delete(name);
        const forgotten = watch?.forgotten();
        if (forgotten === undefined) onReturn();
        else this.#reportFailure(name, { message: forgotten, stack: "" }, order);
        // Shipped programs end their connections themselves, and each program of the plan runs once
        // in a life: their objects stay. Programs that an order starts, and programs that fail, may
        // be any number: their objects are taken back.
        const isEnded = order !== undefined || plan.native !== undefined;
        if (isEnded || watch !== undefined) this.#takeBack?.leave(name);
        this.#takeBack?.start();
      },
      onFailure: (error) => {
        this.#watches.delete(name);
        this.#failed(name, error, order);
        this.#takeBack?.leave(name);
        this.#takeBack?.start();
      },
    });
  }

  /** Its calls are made by code of this project. */
  #isShipped({ run, native }: ProgramPlan): boolean {
    return native !== undefined || Object.hasOwn(PROGRAMS, run) ||
      (this.#parts.options.services ?? []).includes(run);
  }

  #cpu(
    name: string,
    account: Account,
    card: number,
    plan?: ProgramPlan,
  ): ProgramCore<ThreadContext> {
    const { machine, options } = this.#parts;
    const stream = `${machine.name}/${options.life}/${name}`;
    return new ProgramCore(machine, { stream, account, plan, rng: undefined }, card);
  }

  /** A program that has ended meanwhile has failed all the same. */
  fail(program: string, error: Error): void {
    const { processor, machine } = this.#parts;
    if (!processor.throwInto(program, error, machine.now)) this.#failed(program, error);
  }

  #failed(program: string, error: unknown, order?: number): void {
    const { message, stack } = failureOf(error);
    if (error instanceof HostShutdown && order === undefined) {
      return this.#parts.machine.out.report("program-stopped", { program, message });
    }
    this.#reportFailure(program, { message, stack }, order);
  }

  #reportFailure(
    program: string,
    failure: { readonly message: string; readonly stack: string },
    order?: number,
  ): void {
    const report = { program, ...failure };
    const { out } = this.#parts.machine;
    out.report("program-failed", order === undefined ? report : { ...report, order });
  }

  unfinished(): UnfinishedProgram[] {
    const pending = this.#early.map(({ program, startAt }): UnfinishedProgram => ({
      program: program.run,
      serves: program.serves === true,
      waitsFor: "the driver to open the device",
      since: startAt,
      ...(program.order !== undefined && { order: program.order }),
    }));
    // A driver whose card has no power waits as the scenario demands.
    const isUp = this.#drivers.every(({ card }) => card.bus.card !== undefined);
    const running = this.#parts.processor.unfinished().filter(({ plan }) =>
      plan.driver !== true || isUp
    );
    return [...running.map((each) => this.#unfinished(each)), ...pending];
  }

  #unfinished({ plan, waitsFor, sources, polled, since, at }: Unfinished): UnfinishedProgram {
    const { name, serves = false, order } = plan;
    const devices = this.#drivers.flatMap(({ device }) => device ?? []);
    const polls = polled === undefined ? sources : [polled];
    return {
      program: name,
      serves: serves || devices.some((each) => servesClients(each, { program: name, sources })),
      waitsFor: [
        waitsFor,
        firstSaid(devices, (each) => waitsUnarmed(each, sources) ?? waitsUnasked(each, polls)),
        this.#watches.get(name)?.forgotten(),
      ].filter((text) => text).join("; "),
      since,
      ...(at !== undefined && { at }),
      ...(order !== undefined && { order }),
    };
  }
}

function firstSaid(
  devices: readonly OpenDevice[],
  say: (device: OpenDevice) => string | undefined,
): string | undefined {
  for (const device of devices) {
    const said = say(device);
    if (said !== undefined) return said;
  }
  return undefined;
}

function programNamed(programs: Readonly<Record<string, Program>>, name: string): Program {
  const program = Object.hasOwn(programs, name) ? programs[name] : undefined;
  if (program === undefined) {
    const known = Object.keys(programs).sort().join(", ");
    throw new Error(`Cannot run ${name}: the host has the programs ${known}`);
  }
  return program;
}

function failureOf(error: unknown): { readonly message: string; readonly stack: string } {
  if (!(error instanceof Error)) return { message: readableText(() => error), stack: "" };
  return {
    message: readableText(() => error.message),
    stack: readableText(() => error.stack ?? ""),
  };
}
