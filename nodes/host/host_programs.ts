/**
 * What runs on a host's cores: the driver's threads (boot, reopening of the card, take-back, pages) and the programs,
 * which wait until the device is open. `cpu/processor.ts` has the cores.
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
import type { Cpu, Steps } from "./cpu/program.ts";
import { siteIn } from "./cpu/wait_site.ts";
import { HostShutdown } from "./cpu/region.ts";
import { HintThread } from "./paging/hint_thread.ts";
import { type PageMachine, PageThread } from "./paging/page_thread.ts";
import type { Program, ProgramCpu, ThreadContext } from "./program_context.ts";
import { servesClients, waitsUnarmed, waitsUnasked } from "./serving.ts";
import { shutDown } from "./shutdown.ts";
import { TakeBackThread } from "./take_back_thread.ts";
import { deviceOn, type OpenDevice } from "./verbs.ts";
import { addContext, newContext, ProgramError } from "./verbs/device.ts";
import type { Context } from "./verbs/objects.ts";

export interface ProgramOptions {
  /**
   * The number of this life, from 0: programs draw different random numbers in each, and at later
   * ones only services start.
   */
  readonly life: number;
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
}

export interface ProgramsParts {
  readonly machine: Machine<ThreadContext> & PageMachine;
  readonly plan: HostPlan;
  readonly options: ProgramOptions;
  readonly processor: Processor;
  /** An event that the driver has taken from the card's queue. */
  readonly onEvent: (event: RnicEvent) => void;
}

/** Much longer than a card takes from its power-on to its host's notice, which is a bus's latency away. */
const CARD_WAIT_PS = PS_PER_MS;

/**
 * Programs and threads of a host at a time. [choice] Each takes some 45 KiB of the process that emulates the host, so that
 * a program that starts them without end is refused before the process ends.
 */
const THREADS_MAX = 16_384;

function* nothing(): Steps<void> {}

/** A program, or a thread of one. */
interface Job {
  readonly name: string;
  /** Of the program, for its threads as well. */
  readonly plan: ProgramPlan;
  readonly startAt: Time;
  readonly onReturn: () => void;
}

/** A thread of the driver. */
interface DriverThread<T> {
  readonly startAt?: Time;
  readonly serves?: true;
  readonly onReturn?: (result: T) => void;
  readonly onFailure?: () => void;
}

export class HostPrograms {
  /** Programs that have been given a number. */
  scheduled = 0;
  readonly #parts: ProgramsParts;
  readonly #pageThread: PageThread;
  readonly hintThread: HintThread;
  readonly #takeBack: TakeBackThread | undefined;
  #device: OpenDevice | undefined;
  #bootedAt: Time = 0;
  #isReopening = false;
  /** No program starts any more. */
  #isShutDown = false;
  /** Programs that wait until the device is open, at boot or again. */
  #early: { program: ProgramPlan; startAt: Time }[] = [];
  readonly #watches = new Map<string, CallWatch>();
  /** The context that each program's threads share. */
  readonly #contexts = new WeakMap<ProgramPlan, Context>();

  constructor(parts: ProgramsParts) {
    this.#parts = parts;
    const { machine, processor, options: { takeBack } } = parts;
    const { plan: { hintWork: work } } = parts;
    const thread = {
      machine,
      processor,
      cpu: (name: string, account: Account) => this.#cpu(name, account),
      onFailure: (name: string, error: unknown) => this.#failed(name, error),
      work,
    };
    const respond = (pages: { key: number; first: number; count: number }) => {
      const none = { ahead: 0, write: false, frames: [] };
      machine.bus.send({ kind: "ats", step: "page-response", ...pages, ...none });
    };
    this.#pageThread = new PageThread({ ...thread, ...(work?.request === "iommu" && { respond }) });
    this.hintThread = new HintThread(thread);
    this.#takeBack = takeBack && new TakeBackThread({
      map: machine.map,
      owners: machine.owners,
      processor,
      takeBack,
      isReady: () => this.#device !== undefined && this.#isLinkUp && !this.#isReopening,
      run: (steps, onEnd) =>
        this.#drive("take-back", (cpu) => steps(deviceOn(this.#device!, cpu)), {
          serves: true,
          onReturn: onEnd,
          onFailure: onEnd,
        }),
    });
  }

  /** Opened at the end of the boot. */
  get device(): OpenDevice | undefined {
    return this.#device;
  }

  /** The host has power. */
  boot(): void {
    const { machine, plan, options } = this.#parts;
    this.#bootedAt = machine.now + machine.timing.bootPs;
    this.#drive("boot", options.boot, {
      startAt: this.#bootedAt,
      onReturn: (device) => this.#opened(device),
    });
    for (const { at } of plan.shutdowns ?? []) if (at >= machine.now) this.#shutDown(at);
    for (const program of plan.programs) {
      if (!program.service && options.life > 0) continue;
      this.#early.push({ program, startAt: this.#bootedAt + program.at });
    }
  }

  /**
   * An orderly shutdown begins at `startAt`; see `shutdown.ts`.
   * @param order its number, where an order begins it.
   */
  #shutDown(startAt: Time, order?: number): void {
    const { machine, processor } = this.#parts;
    this.#drive("shutdown", (cpu) => {
      this.#isShutDown = true;
      this.#early = [];
      return shutDown({ machine, processor, cpu, order });
    }, { startAt, serves: true });
  }

  #opened(device: OpenDevice): void {
    this.#device = device;
    const { plan: { pressure }, options, machine, onEvent } = this.#parts;
    const { watch, serveEvents, services = [] } = options;
    if (watch !== undefined) this.#beside("doorbell-watch", watch);
    if (serveEvents !== undefined) {
      this.#beside("events", (own) => serveEvents(own, onEvent));
    }
    if (pressure !== undefined) this.#pageThread.press(pressure, this.#bootedAt);
    this.servePages();
    for (const run of services) {
      this.#schedule({ run, at: 0, service: true, serves: true, options: {} }, machine.now);
    }
    this.#exposeRegions();
    const judge = machine.regions?.judge;
    if (judge !== undefined) this.#drive("judge", (cpu) => judge.run(cpu), { serves: true });
    this.#scheduleEarly();
    this.reopen();
  }

  /** A thread of the driver that serves programs. */
  drive(name: string, steps: (cpu: Cpu) => Steps<void>): void {
    this.#drive(name, steps, { serves: true });
  }

  /** C-03: far hosts may register this home's regions from now on. */
  #exposeRegions(): void {
    const { regions } = this.#parts.machine;
    if (regions?.hasHomes) this.#drive("regions", (cpu) => regions.expose(cpu), { serves: true });
  }

  /** Runs a thread of the driver, from now on unless `startAt` says later. */
  #drive<T>(name: string, run: (cpu: ProgramCpu) => Steps<T>, thread: DriverThread<T>): void {
    const { startAt = this.#parts.machine.now, serves, onReturn, onFailure } = thread;
    this.#parts.processor.add({
      name,
      driver: true,
      ...(serves && { serves }),
      startAt,
      start: (account) => run(this.#cpu(name, account)),
      ...(onReturn && { onReturn }),
      onFailure: (error) => {
        onFailure?.();
        this.#failed(name, error);
      },
    });
  }

  /** Runs a thread of the driver beside the programs. */
  #beside(name: string, run: (device: OpenDevice) => Steps<void>): void {
    this.#drive(name, (cpu) => run(deviceOn(this.#device!, cpu)), { serves: true });
  }

  /** Starts the thread for pages, where there is work for it. */
  servePages(): void {
    if (this.#device !== undefined) this.#pageThread.serve();
  }

  /** Opens the card that is there, unless it is open; once again where it was another meanwhile. */
  reopen(): void {
    const device = this.#device, { options: { reopen }, machine } = this.#parts;
    if (device === undefined || reopen === undefined || this.#isReopening) return;
    if (!this.#isLinkUp || device.state.card === machine.bus.card) return;
    this.#isReopening = true;
    this.#drive("reopen", (cpu) => reopen(deviceOn(device, cpu)), {
      onReturn: () => {
        this.#isReopening = false;
        this.reopen();
        this.#exposeRegions();
        this.#scheduleEarly();
        this.#takeBack?.start();
      },
      onFailure: () => {
        this.#isReopening = false;
        this.#scheduleEarly();
      },
    });
  }

  get #isLinkUp(): boolean {
    return this.#parts.machine.bus.card !== undefined;
  }

  /** Starts the programs that had to wait for the device. */
  #scheduleEarly(): void {
    const early = this.#early;
    this.#early = [];
    for (const { program, startAt } of early) this.#schedule(program, startAt);
  }

  /**
   * Starts a program by an order from outside, or the host's shutdown. Where the card has no power, it may be coming up: the program waits for
   * it, {@link CARD_WAIT_PS} at most.
   */
  order(program: ProgramPlan, startAt: Time): void {
    if (program.run === SHUTDOWN) return this.#shutDown(startAt, program.order);
    if (this.#isLinkUp || this.#device === undefined) return this.#schedule(program, startAt);
    this.#early.push({ program, startAt });
    this.#drive("card-wait", nothing, {
      startAt: this.#parts.machine.now + CARD_WAIT_PS,
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
    // What a program made on the card while it is being opened again would be lost at once.
    if (this.#device === undefined || this.#isReopening) {
      this.#early.push({ program, startAt });
      return;
    }
    const { machine, options: { programs, own = {} } } = this.#parts;
    const name = `${program.run}#${this.scheduled++}`;
    const onReturn = () => machine.out.report("program-ended", { program: name });
    const at = Math.max(startAt, machine.now);
    this.#contexts.set(program, newContext());
    this.#add({ name, plan: program, startAt: at, onReturn }, (context) => {
      const run = programNamed(Object.hasOwn(own, program.run) ? own : programs, program.run);
      return run({ ...context, options: program.options });
    });
  }

  /**
   * Starts a thread of a program. Threads of one name would draw the same random numbers.
   * @param plan of the program. @throws ProgramError for the name of one that runs; EAGAIN beyond {@link THREADS_MAX}.
   */
  spawn(
    { name, plan }: { readonly name: string; readonly plan: ProgramPlan },
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
    this.#add({ name, plan, startAt: machine.now, onReturn: () => {} }, run);
  }

  #add({ name, plan, startAt, onReturn }: Job, run: (context: ThreadContext) => Steps<void>): void {
    const { serves, order } = plan;
    const watch = this.#isShipped(plan.run) ? undefined : new CallWatch();
    this.#parts.processor.add({
      name,
      ...(serves && { serves }),
      ...(order !== undefined && { order }),
      startAt,
      start: (account) => {
        const cpu = this.#cpu(name, account, plan);
        const { weight, privileged } = plan;
        const opened = deviceOn(this.#device!, cpu);
        // One context for all threads of a program.
        const context = this.#contexts.get(plan) ?? opened.context;
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
        // Shipped programs end their connections themselves, and each of the plan's runs once in a life: what they hold
        // stays. Of those that an order starts there may be any number, and of those that fail.
        if (order !== undefined || watch !== undefined) this.#takeBack?.leave(name);
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

  #isShipped(run: string): boolean {
    return Object.hasOwn(PROGRAMS, run) || (this.#parts.options.services ?? []).includes(run);
  }

  #cpu(name: string, account: Account, plan?: ProgramPlan): ProgramCpu {
    const { machine, options } = this.#parts;
    const stream = `${machine.name}/${options.life}/${name}`;
    return new ProgramCore(machine, { stream, account, plan });
  }

  /** Throws an error into a program; one that has ended meanwhile has failed all the same. */
  fail(program: string, error: Error): void {
    const { processor, machine } = this.#parts;
    if (!processor.throwInto(program, error, machine.now)) this.#failed(program, error);
  }

  /** A program's exception is a result of the run; the node continues. */
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

  /** See {@link Node.unfinished}. */
  unfinished(): UnfinishedProgram[] {
    const pending = this.#early.map(({ program, startAt }): UnfinishedProgram => ({
      program: program.run,
      serves: program.serves === true,
      waitsFor: "the driver to open the device",
      since: startAt,
      ...(program.order !== undefined && { order: program.order }),
    }));
    // A driver without a card waits for the card's power, as the scenario wants.
    const running = this.#parts.processor.unfinished().filter(({ plan }) =>
      plan.driver !== true || this.#isLinkUp
    );
    return [...running.map((each) => this.#unfinished(each)), ...pending];
  }

  #unfinished({ plan, waitsFor, sources, polled, since, at }: Unfinished): UnfinishedProgram {
    const { name, serves = false, order } = plan;
    const device = this.#device;
    return {
      program: name,
      serves: serves ||
        device !== undefined && servesClients(device, { program: name, sources }),
      waitsFor: [
        waitsFor,
        device && (waitsUnarmed(device, sources) ??
          waitsUnasked(device, polled === undefined ? sources : [polled])),
        this.#watches.get(name)?.forgotten(),
      ].filter((text) => text).join("; "),
      since,
      ...(at !== undefined && { at }),
      ...(order !== undefined && { order }),
    };
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

/** Any value can be thrown: an error of a verb, by `throw answer`. */
function failureOf(error: unknown): { readonly message: string; readonly stack: string } {
  if (!(error instanceof Error)) return { message: readableText(() => error), stack: "" };
  return {
    message: readableText(() => error.message),
    stack: readableText(() => error.stack ?? ""),
  };
}
