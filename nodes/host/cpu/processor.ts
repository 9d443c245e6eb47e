/**
 * Cores and their programs. A resumed program runs to its next yield at one instant and owes the
 * cost of its work; the core is busy until it is paid. Programs that share a core switch at their
 * yields, first ready first.
 */
import { assert, InvariantError } from "../../../fabric/base/assert.ts";
import { RunEndingError } from "../../../fabric/base/run_ending_error.ts";
import { formatTime, NEVER, type Time, TIME_END } from "../../../fabric/base/time.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { AddressMap } from "../memory/address_map.ts";
import { Agenda, type Core, PlacedHeap, type Turn } from "./agenda.ts";
import { notAwaited } from "./forgotten_calls.ts";
import { logText } from "./log_text.ts";
import { type Source, type Steps, stepsOf, type Wait, type Wake } from "./program.ts";
import { areOnlySpinsDue, type OnBusy, PollStreak, type Spin, Spins } from "./spin.ts";
import { awaited, polledIn, siteOf, type WaitSite } from "./wait_site.ts";
import { WatchedRanges } from "./watched_ranges.ts";

export interface Range {
  readonly address: number;
  readonly length: number;
}

/** Lines of a `clwb` that no fence has waited for, and when the core began it. */
export interface WriteBack extends Range {
  readonly from: Time;
}

export interface Account {
  /** Undefined for the driver's threads. */
  readonly core: number | undefined;
  owed: Time;
  /** The core's work, with interrupts, without polling. */
  paidPs: Time;
  writeBacks: WriteBack[];
  /** When the last of the lines that were fenced had reached the iMC, had there been room. */
  writtenBackAt: Time;
  readonly streak: PollStreak;
}

interface TaskPlan<T> {
  readonly name: string;
  readonly startAt: Time;
  /** The thread uses the first core; the round-robin assignment does not advance. */
  readonly driver?: true;
  /** It serves others as long as the host has power. */
  readonly serves?: true;
  /** A native program, which says itself when it acts ({@link Processor.acted}). */
  readonly native?: true;
  readonly order?: number;
  readonly start: (account: Account) => Steps<T>;
  readonly onReturn?: (result: T) => void;
  readonly onFailure: (error: unknown) => void;
}

/**
 * Called as a thread comes to a rest, where it pays for its work and waits.
 * @param rest.site the line at which it rests, which takes a while.
 * @returns how long its core stands still there, in ps.
 */
export type Rests = (rest: {
  readonly thread: string;
  readonly now: Time;
  readonly site: () => WaitSite;
}) => Time;

interface ProcessorPlan {
  readonly cores: number;
  readonly pollPs: Time;
  readonly interruptPs: Time;
  readonly map: AddressMap;
  readonly onBusy?: OnBusy;
  readonly rests?: Rests;
}

export interface Unfinished {
  readonly plan: Pick<TaskPlan<unknown>, "name" | "driver" | "serves" | "order">;
  readonly waitsFor: string;
  readonly sources: readonly Source[];
  readonly polled?: Source;
  readonly since: Time;
  readonly at?: string;
}

const DONE: Wake = { kind: "done" };
const TIMEOUT: Wake = { kind: "timeout" };
const NO_SOURCES: readonly Source[] = [], NO_RANGES: readonly number[] = [];

/** A class, as accessors of object literals would be a new function each, and slow. */
class Task implements Turn {
  readonly plan: TaskPlan<unknown>;
  readonly core: Core;
  readonly order: number;
  readonly account: Account;
  at: Time;
  isQueued = false;
  place = -1;
  steps: Steps<unknown> | undefined = undefined;
  wait: Wait | undefined = undefined;
  since: Time;
  readyAt: Time;
  wake: Wake = DONE;
  sources: readonly Source[] = NO_SOURCES;
  /** Physical, in pairs: from, to. */
  ranges: readonly number[] = NO_RANGES;
  replyId = -1;
  loads = 0;
  /** The access to a shared region that thread and core wait for; −1 without one. */
  lineId = -1;
  /** Thrown where the thread resumes next. */
  error: Error | undefined = undefined;
  paidAt: Time;
  polling = false;
  spin: Spin | undefined = undefined;
  resumesAtOnce = 0;
  lastResume: Time = -1;
  readonly #agenda: Agenda<Task>;

  constructor(
    plan: TaskPlan<unknown>,
    { agenda, spins, core, order }: {
      readonly agenda: Agenda<Task>;
      readonly spins: Spins;
      readonly core: Core;
      readonly order: number;
    },
  ) {
    const { startAt } = plan;
    this.plan = plan;
    this.core = core;
    this.order = order;
    this.#agenda = agenda;
    this.at =
      this.since =
      this.readyAt =
      this.paidAt =
        startAt;
    this.account = {
      core: plan.driver === true ? undefined : core.index,
      owed: 0,
      paidPs: 0,
      writeBacks: [],
      writtenBackAt: 0,
      streak: new PollStreak(spins),
    };
  }

  get resumeAt(): Time {
    return this.#agenda.resumeAt(this);
  }

  set resumeAt(at: Time) {
    this.#agenda.move(this, at);
  }
}

/** Of a vector: interrupts whose events no program has taken are few. */
const RAISES_KEPT = 16;
const RESUMES_AT_ONCE_MAX = 100_000;
const NO_TASKS: readonly Task[] = [];

function inOrder(x: Task, y: Task): number {
  return x.order - y.order;
}

export class Processor {
  /** The thread is spinning on memory, which is not work. */
  pollPs: Time = 0;
  interrupts = 0;
  readonly #spins: Spins;
  payer: Account | undefined;
  /** Whether a thread has done more since it was set to false than look at clocks and empty queues. */
  acted = true;
  /** The thread whose turn it is. */
  #running: Task | undefined;
  readonly #plan: ProcessorPlan;
  readonly #latched = new Set<number>();
  /** By vector: when it was raised, the last times. */
  readonly #raised = new Map<number, Time[]>();
  readonly #agenda: Agenda<Task>;
  /** Threads that have begun or are due: there may be tens of thousands. */
  readonly #tasks = new Set<Task>();
  readonly #planned = new PlacedHeap<Task>((x, y) =>
    x.at < y.at || (x.at === y.at && x.order < y.order)
  );
  readonly #byName = new Map<string, Task>();
  readonly #spinning = new Set<Task>();
  readonly #watched = new WatchedRanges<Task>();
  readonly #byVector = new Map<number, Set<Task>>();
  readonly #bySignal = new Map<string, Set<Task>>();
  readonly #byReply = new Map<number, Task>();
  readonly #byLoad = new Map<number, Task>();
  readonly #byLine = new Map<number, Task>();
  #started = 0;
  #turns = 0;

  constructor(plan: ProcessorPlan) {
    assert(plan.cores >= 1, "A host has at least one core");
    this.#plan = plan;
    this.#spins = new Spins(plan.onBusy);
    this.#agenda = new Agenda(plan.cores);
  }

  get nextAt(): Time {
    return Math.min(this.#planned.first?.at ?? NEVER, this.#agenda.nextAt);
  }

  /** {@link nextAt} of all threads but the one whose turn it is. */
  get nextOfOthers(): Time {
    if (this.#running === undefined) return this.nextAt;
    return Math.min(this.#planned.first?.at ?? NEVER, this.#agenda.nextBut(this.#running));
  }

  /** Whether polls of a thread are being passed over. */
  get hasSpins(): boolean {
    return this.#spinning.size > 0;
  }

  /** Whether the thread whose turn it is has its core for itself. */
  get isAlone(): boolean {
    const running = this.#running;
    const isBeside = (task: Task) => task !== running && task.core === running?.core;
    return !this.#tasks.values().some(isBeside) && ![...this.#planned].some(isBeside);
  }

  unfinished(): Unfinished[] {
    const all = [...this.#tasks, ...this.#planned].sort(inOrder);
    return all.map(({ plan, steps, wait, readyAt, since }) => {
      if (steps === undefined) {
        return { plan, waitsFor: `its start at ${formatTime(readyAt)}`, since, sources: [] };
      }
      // A service's place is not reported, and an explorer ends many thousand runs.
      const isAsked = plan.serves !== true && wait?.answers === true;
      const site = isAsked ? siteOf(steps) : {};
      const sources = wait?.kind === "any" ? wait.sources : [];
      const waitsFor = wait === undefined ? "nothing" : awaited(wait, site);
      const polled = polledIn(wait), { line: at } = site;
      return { plan, waitsFor, since, sources, ...(polled && { polled }), ...(at && { at }) };
    });
  }

  isRunning(name: string): boolean {
    return this.#byName.has(name);
  }

  get names(): Iterable<string> {
    return this.#byName.keys();
  }

  get running(): number {
    return this.#tasks.size + this.#planned.size;
  }

  get cpuPs(): readonly Time[] {
    return this.#agenda.cores.map(({ cpuPs }) => cpuPs);
  }

  add<T>(plan: TaskPlan<T>): void {
    const turn = plan.driver === true ? 0 : this.#turns++;
    const { cores } = this.#agenda, core = cores[turn % cores.length]!;
    const own = { agenda: this.#agenda, spins: this.#spins, core, order: this.#started++ };
    const task = new Task(plan as TaskPlan<unknown>, own);
    this.#byName.set(plan.name, task);
    this.#planned.push(task);
  }

  run(now: Time): void {
    for (;;) {
      this.#begin(now);
      const task = this.#agenda.next(now);
      if (task === undefined) return;
      this.#resume(task, now);
    }
  }

  /** An event is about to happen. @param what `programs`: only programs can be due. */
  interruptSpins(now: Time, what: "programs" | "more"): void {
    const isPlanned = (this.#planned.first?.at ?? NEVER) <= now;
    if (what === "more" || isPlanned || !this.#areOnlySpinsDue(now)) {
      this.#spins.interrupt(this.#spinningInOrder(), now);
      this.#noneSpins();
    }
  }

  #areOnlySpinsDue(now: Time): boolean {
    if (this.#spinning.size === 0) return this.#agenda.nextAt > now;
    return areOnlySpinsDue(this.#agenda.due(now), this.#spinning);
  }

  isWatched(from: number, length: number): boolean {
    return this.#watched.has(from, length);
  }

  /** A DMA write has become visible in a physical range. */
  memoryChanged(range: { from: number; length: number }, now: Time): void {
    if (!this.#watched.has(range.from, range.length)) return;
    for (const task of this.#watched.in(range.from, range.length).sort(inOrder)) {
      this.#end(task, now, this.#plan.pollPs);
    }
  }

  /** MSI-X: wakes waiting programs; else the vector is latched. */
  raise(vector: number, now: Time): void {
    this.interrupts++;
    const raised = this.#raised.get(vector);
    if (raised === undefined) this.#raised.set(vector, [now]);
    else if (raised.push(now) > RAISES_KEPT) raised.shift();
    const waiting = [...this.#byVector.get(vector) ?? []].sort(inOrder);
    for (const task of waiting) {
      task.core.cpuPs += this.#plan.interruptPs;
      const busyUntil = now + this.#plan.interruptPs;
      this.#plan.onBusy?.({ index: task.core.index, busyUntil }, "interrupt");
      task.account.paidPs += this.#plan.interruptPs;
      this.#end(task, now, this.#plan.interruptPs);
    }
    if (waiting.length === 0) this.#latched.add(vector);
  }

  /** See {@link Cpu.handledAt}. */
  handledAt(vector: number, since: Time): Time {
    const at = this.#raised.get(vector)?.find((at) => at >= since);
    return at === undefined ? NEVER : at + this.#plan.interruptPs;
  }

  signal(name: string, now: Time): void {
    for (const task of [...this.#bySignal.get(name) ?? []].sort(inOrder)) this.#end(task, now, 0);
  }

  loaded(id: number, data: Uint8Array<ArrayBuffer> | undefined, now: Time): void {
    const task = this.#byLoad.get(id);
    if (task !== undefined) this.#endLoad(task, data, now);
  }

  #endLoad(task: Task, data: Uint8Array<ArrayBuffer> | undefined, now: Time): void {
    const { loads } = task;
    this.#byLoad.delete(task.replyId);
    task.loads = 0;
    task.replyId = -1;
    this.#release(task, { kind: "done", data: data ?? new Uint8Array(loads).fill(0xff) }, now);
  }

  lineDone(id: number, now: Time): void {
    const task = this.#byLine.get(id);
    if (task === undefined) return;
    this.#byLine.delete(id);
    task.lineId = -1;
    this.#release(task, DONE, now);
  }

  /** A core that waited for an answer has worked. */
  #release(task: Task, wake: Wake, now: Time): void {
    const { core, account, paidAt } = task;
    const until = Math.max(now, paidAt);
    core.cpuPs += until - paidAt;
    account.paidPs += until - paidAt;
    core.busyUntil = until;
    this.#setResume(task, until, wake);
    this.#agenda.wake(core, now);
  }

  /**
   * Throws at once where the program waits, unless for the device's answer; else where it resumes.
   * @returns false where the program has ended.
   */
  throwInto(program: string, error: Error, now: Time): boolean {
    const task = this.#byName.get(program);
    if (task === undefined || !this.#tasks.has(task)) return false;
    this.#throw(task, error, now);
    return true;
  }

  #throw(task: Task, error: Error, now: Time): void {
    task.error ??= error;
    if (task.replyId < 0 && task.lineId < 0) this.#end(task, now, 0);
  }

  get hasPrograms(): boolean {
    return this.#tasks.values().some(({ plan }) => plan.driver !== true);
  }

  /** Threads that have not begun never do. @returns the number of programs. */
  stopPrograms(error: Error, now: Time): number {
    const isProgram = ({ plan }: Task) => plan.driver !== true;
    const begun = [...this.#tasks].filter(isProgram).sort(inOrder);
    for (const task of begun) this.#throw(task, error, now);
    const later = [...this.#planned].filter(isProgram);
    for (const task of later) {
      this.#planned.remove(task);
      this.#forgetName(task);
    }
    return begun.length + later.length;
  }

  /** @returns false where no program waits. */
  reply(answer: { readonly id: number; readonly reply: RnicReply }, now: Time): boolean {
    const task = this.#byReply.get(answer.id);
    if (task === undefined) return false;
    this.#answer(task, answer.reply, now);
    return true;
  }

  /**
   * Answers commands and loads of a device that is gone. @param device.isOwn whether a number is
   * the device's.
   */
  replyToAll(
    device: { readonly isOwn: (id: number) => boolean },
    reply: RnicReply,
    now: Time,
  ): void {
    const waiting = [...this.#byLoad.values(), ...this.#byReply.values()].sort(inOrder);
    for (const task of waiting) {
      if (!device.isOwn(task.replyId)) continue;
      if (task.loads > 0) this.#endLoad(task, undefined, now);
      else this.#answer(task, reply, now);
    }
  }

  #answer(task: Task, reply: RnicReply, now: Time): void {
    this.#byReply.delete(task.replyId);
    task.replyId = -1;
    this.#setResume(task, Math.max(now, task.paidAt), { kind: "done", reply });
  }

  #end(task: Task, now: Time, delay: Time): void {
    this.#spins.interrupt([task], now);
    this.#spinning.delete(task);
    this.#forgetSources(task);
    this.#setResume(task, Math.max(now, task.paidAt) + delay, DONE);
  }

  #forgetSources(task: Task): void {
    for (const source of task.sources) {
      if (source.kind === "interrupt") remove(this.#byVector, source.vector, task);
      else if (source.kind === "signal") remove(this.#bySignal, source.name, task);
    }
    task.sources = NO_SOURCES;
    if (task.ranges.length > 0) {
      this.#watched.remove(task);
      task.ranges = NO_RANGES;
    }
  }

  /** Clearing an empty set would create a new one, for every message. */
  #noneSpins(): void {
    if (this.#spinning.size > 0) this.#spinning.clear();
  }

  #spinningInOrder(): readonly Task[] {
    return this.#spinning.size === 0 ? NO_TASKS : [...this.#spinning].sort(inOrder);
  }

  #forgetName(task: Task): void {
    if (this.#byName.get(task.plan.name) === task) this.#byName.delete(task.plan.name);
  }

  #setResume(task: Task, at: Time, wake: Wake): void {
    task.resumeAt = task.readyAt = at > TIME_END ? NEVER : at;
    task.wake = wake;
  }

  #begin(now: Time): void {
    for (
      let task = this.#planned.first;
      task !== undefined && task.at <= now;
      task = this.#planned.first
    ) {
      this.#planned.remove(task);
      this.#tasks.add(task);
      task.resumeAt = task.at;
    }
  }

  #resume(task: Task, now: Time): void {
    if (task.polling) {
      this.pollPs += now - task.paidAt;
      task.polling = false;
    }
    this.#spins.end(task);
    this.#spinning.delete(task);
    this.#forgetSources(task);
    const { readyAt } = task;
    task.resumesAtOnce = task.lastResume === now ? task.resumesAtOnce + 1 : 0;
    task.lastResume = now;
    let result: IteratorResult<Wait, unknown>;
    if (task.plan.native !== true) this.acted = true;
    this.payer = task.account;
    this.#running = task;
    try {
      task.steps ??= stepsOf(task.plan.start(task.account), "A program");
      const error = task.resumesAtOnce < RESUMES_AT_ONCE_MAX
        ? task.error
        : new Error(`The program yields without end at ${now} ps`);
      task.error = undefined;
      result = error === undefined ? task.steps.next(task.wake) : task.steps.throw(error);
      if (!result.done) this.#wait(task, result.value, now);
    } catch (error) {
      this.payer = this.#running = undefined;
      this.#leave(task, now);
      this.#interruptOthers(task, { readyAt, now });
      if (error instanceof InvariantError || error instanceof RunEndingError) throw error;
      task.plan.onFailure(error);
      return;
    }
    this.payer = this.#running = undefined;
    if (!task.spin) this.#interruptOthers(task, { readyAt, now });
    if (!result.done) return;
    this.#leave(task, now);
    task.plan.onReturn?.(result.value);
  }

  #interruptOthers(task: Task, at: { readonly readyAt: Time; readonly now: Time }): void {
    this.#spins.interruptOthers(this.#spinningInOrder(), task, at);
    this.#noneSpins();
  }

  #leave(task: Task, now: Time): void {
    this.#pay(task, now);
    this.#forgetSources(task);
    this.#agenda.leave(task);
    this.#tasks.delete(task);
    this.#forgetName(task);
  }

  #pay(task: Task, now: Time): void {
    const { account, core } = task;
    core.cpuPs += account.owed;
    account.paidPs += account.owed;
    core.busyUntil = now + account.owed;
    if (account.owed > 0) this.#plan.onBusy?.(core, task.plan.name);
    task.paidAt = core.busyUntil;
    account.owed = 0;
  }

  /**
   * Sources are watched from this instant, while owed time is being paid: the program has checked
   * its condition now, so every later event must end the wait.
   */
  #wait(task: Task, wait: Wait, now: Time): void {
    const { rests } = this.#plan;
    if (rests !== undefined) {
      const site = () => wait?.kind !== undefined && "answers" in wait ? siteOf(task.steps!) : {};
      task.account.owed += rests({ thread: task.plan.name, now, site });
    }
    this.#pay(task, now);
    task.wait = wait;
    task.since = now;
    // A program without types may yield any value.
    switch (wait?.kind) {
      case "time":
        return this.#setResume(task, Math.max(wait.at, task.paidAt), DONE);
      case "reply":
        task.replyId = wait.id;
        this.#byReply.set(wait.id, task);
        return this.#setResume(task, NEVER, DONE);
      case "load":
        task.replyId = wait.id;
        this.#byLoad.set(wait.id, task);
        task.loads = wait.length;
        // An uncached load holds its core until the data is there.
        task.core.busyUntil = NEVER;
        return this.#setResume(task, NEVER, DONE);
      case "line":
        task.lineId = wait.id;
        this.#byLine.set(wait.id, task);
        task.core.busyUntil = NEVER;
        return this.#setResume(task, NEVER, DONE);
      case "spin":
        task.since = task.account.streak.since;
        task.spin = { firstAt: task.paidAt, roundPs: wait.roundPs };
        this.#spinning.add(task);
        return this.#setResume(task, task.paidAt + wait.rounds * wait.roundPs, DONE);
      case "any":
        return this.#watch(task, wait.sources, wait.deadline);
      default:
        throw noWait(wait);
    }
  }

  #watch(task: Task, sources: readonly Source[], deadline: Time): void {
    if (!(deadline >= 0)) throw new RangeError(`Cannot wait until ${deadline}: it is no time`);
    this.#setResume(task, Math.max(deadline, task.paidAt), TIMEOUT);
    task.sources = sources;
    const ranges: number[] = [];
    let latched = false;
    for (const source of sources) {
      if (source.kind === "memory") {
        this.#addRanges(ranges, source);
        task.polling = true;
      } else if (source.kind === "interrupt") {
        latched = this.#latched.delete(source.vector) || latched;
        add(this.#byVector, source.vector, task);
      } else add(this.#bySignal, source.name, task);
    }
    if (ranges.length > 0) {
      task.ranges = ranges;
      this.#watched.add(task);
    }
    // The handler ran when the interrupt was raised: no further cost.
    if (latched) this.#end(task, task.paidAt, 0);
  }

  #addRanges(ranges: number[], range: { address: number; length: number }): void {
    const { map } = this.#plan;
    let done = 0;
    while (done < range.length) {
      const address = range.address + done;
      const length = Math.min(map.run(address), range.length - done);
      const from = map.physical(address);
      ranges.push(from, from + length);
      done += length;
    }
  }
}

/**
 * A `yield cpu.sleep(5)` without the star, or `yield 5`: the generator's own stack has only our
 * functions.
 */
function noWait(found: unknown): TypeError {
  const what = notAwaited(found) ?? `a yield of ${logText([found])}: expected yield* and a call`;
  const error = new TypeError(`EINVAL: ${what}`);
  error.stack = "";
  return error;
}

function add<Key>(waiting: Map<Key, Set<Task>>, key: Key, task: Task): void {
  const known = waiting.get(key);
  if (known === undefined) waiting.set(key, new Set([task]));
  else known.add(task);
}

function remove<Key>(waiting: Map<Key, Set<Task>>, key: Key, task: Task): void {
  const known = waiting.get(key);
  known?.delete(task);
  if (known?.size === 0) waiting.delete(key);
}
