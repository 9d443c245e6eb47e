/**
 * Cores and their programs. A resumed program runs to its next yield at one instant, and owes the
 * time that its work costs; the core is busy until that is paid. Programs that share a core switch
 * at their yields, first ready first. `cpu.ts` has the programs' interface.
 */
import { assert, InvariantError } from "../../../fabric/base/assert.ts";
import { formatTime, NEVER, type Time, TIME_END } from "../../../fabric/base/time.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { AddressMap } from "../memory/address_map.ts";
import { notAwaited } from "./forgotten_calls.ts";
import { logText } from "./log_text.ts";
import { type Source, type Steps, stepsOf, type Wait, type Wake } from "./program.ts";
import { areOnlySpinsDue, type OnBusy, PollStreak, type Spin, Spins } from "./spin.ts";
import { awaited, polledIn, siteOf } from "./wait_site.ts";

/** Bytes by their virtual address. */
export interface Range {
  readonly address: number;
  readonly length: number;
}

/** What a thread owes, and has under way on its core: `cpu.ts` adds to it, the core pays it. */
export interface Account {
  /** The index of its core. */
  readonly core: number;
  owed: Time;
  /** Work of this thread's core, including interrupts, without polling. */
  paidPs: Time;
  /** Lines with a pending `clwb` since the last fence. */
  writeBacks: Range[];
  /** Its polls that have found nothing. */
  readonly streak: PollStreak;
}

interface TaskPlan<T> {
  readonly name: string;
  readonly startAt: Time;
  /** The driver's own work: on the first core; the round-robin assignment does not advance. */
  readonly driver?: true;
  /** It serves others as long as the host has power. */
  readonly serves?: true;
  /** Number of the order that started it from outside. */
  readonly order?: number;
  /** Creates the program; called when it starts. Its costs are added to `account`. */
  readonly start: (account: Account) => Steps<T>;
  readonly onReturn?: (result: T) => void;
  readonly onFailure: (error: unknown) => void;
}

interface ProcessorPlan {
  readonly cores: number;
  readonly pollPs: Time;
  readonly interruptPs: Time;
  readonly map: AddressMap;
  /** Called with the program that makes a core busy from now on, or from another instant. */
  readonly onBusy?: OnBusy;
}

/** A program that has not ended: what it waits for, since when, at which line of its file. */
export interface Unfinished {
  readonly plan: Pick<TaskPlan<unknown>, "name" | "driver" | "serves" | "order">;
  readonly waitsFor: string;
  readonly sources: readonly Source[];
  /** The ring that it polls in a loop. */
  readonly polled?: Source;
  readonly since: Time;
  readonly at?: string;
}

interface Core {
  readonly index: number;
  busyUntil: Time;
  cpuPs: Time;
}

function createTask(plan: TaskPlan<unknown>, core: Core, order: number, spins: Spins) {
  const account: Account = {
    core: core.index,
    owed: 0,
    paidPs: 0,
    writeBacks: [],
    streak: new PollStreak(spins),
  };
  return {
    plan,
    core,
    order,
    account,
    steps: undefined as Steps<unknown> | undefined,
    /** Its last wait, and when that began. */
    wait: undefined as Wait | undefined,
    since: plan.startAt,
    /** When it resumes unless a source ends its wait earlier, and when it became ready. */
    resumeAt: plan.startAt,
    readyAt: plan.startAt,
    wake: DONE,
    /** The sources that can end its wait; empty once the wait has ended. */
    sources: NO_SOURCES,
    /** Physical ranges of memory sources: from, to, from, to… */
    ranges: new Array<number>(),
    /** Id of the command whose reply it waits for; −1 without one. */
    replyId: -1,
    /** Bytes of a load from the device that it waits for; then the core waits, too. */
    loads: 0,
    /** Id of the access to a shared region that it waits for, as does its core; −1 without one. */
    lineId: -1,
    /** What is thrown where it resumes next. */
    error: undefined as Error | undefined,
    /** When the time owed at the wait's beginning is paid. */
    paidAt: plan.startAt,
    polling: false,
    /** Its polls that are being passed over. */
    spin: undefined as Spin | undefined,
    /** The number of resumes without time passing, and their time. */
    resumesAtOnce: 0,
    lastResume: -1,
  };
}

type Task = ReturnType<typeof createTask>;

/** Limit on yields without time passing: beyond it, the program would never end. */
const RESUMES_AT_ONCE_MAX = 100_000;
const DONE: Wake = { kind: "done" };
const TIMEOUT: Wake = { kind: "timeout" };
const NO_SOURCES: readonly Source[] = [];

export class Processor {
  /** Time spent spinning on memory; not counted as the cores' work. */
  pollPs: Time = 0;
  interrupts = 0;
  readonly #spins: Spins;
  /** The account of the thread that is being executed. */
  payer: Account | undefined;
  readonly #plan: ProcessorPlan;
  readonly #cores: Core[];
  readonly #latched = new Set<number>();
  /** Those that have begun, or are due to: in the order of their adding. */
  #tasks: Task[] = [];
  /** Those that begin later, by their begin: there may be thousands. */
  readonly #planned: Task[] = [];
  #started = 0;
  #turns = 0;
  /** Number of tasks that wait for memory: at 0 the search is skipped. */
  #watching = 0;

  constructor(plan: ProcessorPlan) {
    assert(plan.cores >= 1, "A host has at least one core");
    this.#plan = plan;
    this.#spins = new Spins(plan.onBusy);
    this.#cores = Array.from(
      { length: plan.cores },
      (_, index) => ({ index, busyUntil: 0, cpuPs: 0 }),
    );
  }

  /** When the next program resumes. */
  get nextAt(): Time {
    let next = this.#planned[0]?.resumeAt ?? NEVER;
    for (const { resumeAt } of this.#tasks) if (resumeAt < next) next = resumeAt;
    return next;
  }

  /** The programs that have not ended; ends none of them. */
  unfinished(): Unfinished[] {
    const all = [...this.#tasks, ...this.#planned].sort((x, y) => x.order - y.order);
    return all.map(({ plan, steps, wait, readyAt, since }) => {
      if (steps === undefined) {
        return { plan, waitsFor: `its start at ${formatTime(readyAt)}`, since, sources: [] };
      }
      // A service's place is of no interest, and an explorer ends many thousand runs.
      const isAsked = plan.serves !== true && wait?.answers === true;
      const site = isAsked ? siteOf(steps) : {};
      const sources = wait?.kind === "any" ? wait.sources : [];
      const waitsFor = wait === undefined ? "nothing" : awaited(wait, site);
      const polled = polledIn(wait), { line: at } = site;
      return { plan, waitsFor, since, sources, ...(polled && { polled }), ...(at && { at }) };
    });
  }

  /** Whether a program has not ended, by its name. */
  isRunning(matches: (name: string) => boolean): boolean {
    const isMeant = ({ plan }: Task) => matches(plan.name);
    return this.#tasks.some(isMeant) || this.#planned.some(isMeant);
  }

  /** Number of programs that have not ended. */
  get running(): number {
    return this.#tasks.length + this.#planned.length;
  }

  /** Work of each core in ps, without polling. */
  get cpuPs(): readonly Time[] {
    return this.#cores.map(({ cpuPs }) => cpuPs);
  }

  /** Puts a program on the next core, round robin. */
  add<T>(plan: TaskPlan<T>): void {
    const turn = plan.driver === true ? 0 : this.#turns++;
    const core = this.#cores[turn % this.#cores.length]!;
    const task = createTask(plan as TaskPlan<unknown>, core, this.#started++, this.#spins);
    insert(this.#planned, task, (other) => other.resumeAt <= task.resumeAt);
  }

  /** Runs every program that is due at `now`. */
  run(now: Time): void {
    for (;;) {
      this.#begin(now);
      const task = this.#firstDue(now);
      if (task === undefined) return;
      // It keeps its place in the core's queue.
      if (task.core.busyUntil > now) task.resumeAt = task.core.busyUntil;
      else this.#resume(task, now);
    }
  }

  /** Something is about to happen on the host at `now`. @param what whether only programs can be due. */
  interruptSpins(now: Time, what: "programs" | "more"): void {
    const isPlanned = this.#planned.length > 0 && this.#planned[0]!.resumeAt <= now;
    if (what === "more" || isPlanned || !areOnlySpinsDue(this.#tasks, now)) {
      this.#spins.interrupt(this.#tasks, now);
    }
  }

  /** Whether a program waits for a change in a physical range. */
  isWatched(from: number, length: number): boolean {
    if (this.#watching === 0) return false;
    for (const { ranges } of this.#tasks) if (overlaps(ranges, from, length)) return true;
    return false;
  }

  /** A DMA write has become visible in a physical range. */
  memoryChanged(range: { from: number; length: number }, now: Time): void {
    if (this.#watching === 0) return;
    for (const task of this.#tasks) {
      if (overlaps(task.ranges, range.from, range.length)) this.#end(task, now, this.#plan.pollPs);
    }
  }

  /** MSI-X: wakes the programs that wait for the vector; without one it is latched. */
  raise(vector: number, now: Time): void {
    this.interrupts++;
    let taken = false;
    for (const task of this.#tasks) {
      if (!task.sources.some((source) => source.kind === "interrupt" && source.vector === vector)) {
        continue;
      }
      taken = true;
      task.core.cpuPs += this.#plan.interruptPs;
      const busyUntil = now + this.#plan.interruptPs;
      this.#plan.onBusy?.({ index: task.core.index, busyUntil }, "interrupt");
      task.account.paidPs += this.#plan.interruptPs;
      this.#end(task, now, this.#plan.interruptPs);
    }
    if (!taken) this.#latched.add(vector);
  }

  signal(name: string, now: Time): void {
    for (const task of this.#tasks) {
      if (task.sources.some((source) => source.kind === "signal" && source.name === name)) {
        this.#end(task, now, 0);
      }
    }
  }

  /** What a core has loaded from the device, for which it has waited. @returns false where no program waits. */
  loaded(id: number, data: Uint8Array<ArrayBuffer> | undefined, now: Time): boolean {
    const task = this.#tasks.find(({ replyId, loads }) => loads > 0 && replyId === id);
    if (task !== undefined) this.#endLoad(task, data, now);
    return task !== undefined;
  }

  /** Without `data` all bits are ones, as of a device that is not there. */
  #endLoad(task: Task, data: Uint8Array<ArrayBuffer> | undefined, now: Time): void {
    const { loads } = task;
    task.loads = 0;
    task.replyId = -1;
    this.#release(task, { kind: "done", data: data ?? new Uint8Array(loads).fill(0xff) }, now);
  }

  /** An access to a shared region has ended, for which a core has waited. */
  lineDone(id: number, now: Time): void {
    const task = this.#tasks.find(({ lineId }) => lineId === id);
    if (task === undefined) return;
    task.lineId = -1;
    this.#release(task, DONE, now);
  }

  /** A core that has waited for an answer goes on; the wait was work. */
  #release(task: Task, wake: Wake, now: Time): void {
    const { core, account, paidAt } = task;
    const until = Math.max(now, paidAt);
    core.cpuPs += until - paidAt;
    account.paidPs += until - paidAt;
    core.busyUntil = until;
    this.#setResume(task, until, wake);
    // Those that became ready meanwhile.
    for (const other of this.#tasks) {
      if (other.core === core && other.resumeAt === NEVER && other.readyAt !== NEVER) {
        other.resumeAt = Math.max(now, other.readyAt);
      }
    }
  }

  /**
   * Throws an error into a program: where it waits, at once, unless that is for an answer of the device; else
   * where it resumes next. @returns false where the program has ended.
   */
  throwInto(program: string, error: Error, now: Time): boolean {
    const task = this.#tasks.find(({ plan }) => plan.name === program);
    if (task === undefined) return false;
    this.#throw(task, error, now);
    return true;
  }

  #throw(task: Task, error: Error, now: Time): void {
    task.error ??= error;
    if (task.replyId < 0 && task.lineId < 0) this.#end(task, now, 0);
  }

  /** Whether a program, not the driver's own work, has not ended. */
  get hasPrograms(): boolean {
    return this.#tasks.some(({ plan }) => plan.driver !== true);
  }

  /** Throws an error into all programs; those that have not begun never do. @returns their number. */
  stopPrograms(error: Error, now: Time): number {
    const begun = this.#tasks.filter(({ plan }) => plan.driver !== true);
    for (const task of begun) this.#throw(task, error, now);
    const later = this.#planned.filter(({ plan }) => plan.driver !== true);
    for (const task of later) this.#planned.splice(this.#planned.indexOf(task), 1);
    return begun.length + later.length;
  }

  /** @returns false where no program waits for this reply. */
  reply(answer: { readonly id: number; readonly reply: RnicReply }, now: Time): boolean {
    const task = this.#tasks.find(({ replyId, loads }) => loads === 0 && replyId === answer.id);
    if (task === undefined) return false;
    this.#answer(task, answer.reply, now);
    return true;
  }

  /** Answers every outstanding command: the device is gone. */
  replyToAll(reply: RnicReply, now: Time): void {
    for (const task of this.#tasks) {
      if (task.loads > 0) this.#endLoad(task, undefined, now);
      else if (task.replyId >= 0) this.#answer(task, reply, now);
    }
  }

  #answer(task: Task, reply: RnicReply, now: Time): void {
    task.replyId = -1;
    this.#setResume(task, Math.max(now, task.paidAt), { kind: "done", reply });
  }

  #end(task: Task, now: Time, delay: Time): void {
    this.#spins.interrupt([task], now);
    this.#forgetSources(task);
    this.#setResume(task, Math.max(now, task.paidAt) + delay, DONE);
  }

  #forgetSources(task: Task): void {
    task.sources = NO_SOURCES;
    if (task.ranges.length > 0) {
      task.ranges = [];
      this.#watching--;
    }
  }

  /** A wait beyond the end of virtual time does not end. */
  #setResume(task: Task, at: Time, wake: Wake): void {
    task.resumeAt = task.readyAt = at > TIME_END ? NEVER : at;
    task.wake = wake;
  }

  /** Takes up the programs that begin at `now` or before. */
  #begin(now: Time): void {
    while (this.#planned.length > 0 && this.#planned[0]!.resumeAt <= now) {
      const task = this.#planned.shift()!;
      insert(this.#tasks, task, ({ order }) => order < task.order);
    }
  }

  #firstDue(now: Time): Task | undefined {
    let first: Task | undefined;
    for (const task of this.#tasks) {
      if (task.resumeAt > now) continue;
      if (
        first === undefined || task.readyAt < first.readyAt ||
        (task.readyAt === first.readyAt && task.order < first.order)
      ) first = task;
    }
    return first;
  }

  #resume(task: Task, now: Time): void {
    if (task.polling) {
      this.pollPs += now - task.paidAt;
      task.polling = false;
    }
    this.#spins.end(task);
    this.#forgetSources(task);
    const { readyAt } = task;
    task.resumesAtOnce = task.lastResume === now ? task.resumesAtOnce + 1 : 0;
    task.lastResume = now;
    let result: IteratorResult<Wait, unknown>;
    this.payer = task.account;
    try {
      task.steps ??= stepsOf(task.plan.start(task.account), "A program");
      const error = task.resumesAtOnce < RESUMES_AT_ONCE_MAX
        ? task.error
        : new Error(`The program yields without end at ${now} ps`);
      task.error = undefined;
      result = error === undefined ? task.steps.next(task.wake) : task.steps.throw(error);
      if (!result.done) this.#wait(task, result.value, now);
    } catch (error) {
      this.payer = undefined;
      this.#leave(task, now);
      this.#spins.interruptOthers(this.#tasks, task, { readyAt, now });
      if (error instanceof InvariantError) throw error;
      task.plan.onFailure(error);
      return;
    }
    this.payer = undefined;
    if (!task.spin) this.#spins.interruptOthers(this.#tasks, task, { readyAt, now });
    if (!result.done) return;
    this.#leave(task, now);
    task.plan.onReturn?.(result.value);
  }

  #leave(task: Task, now: Time): void {
    this.#pay(task, now);
    this.#tasks = this.#tasks.filter((other) => other !== task);
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
   * Begins a wait. Sources are watched from this instant, while the owed time is being paid: the
   * program has checked its condition at this instant, so every later event must end the wait.
   */
  #wait(task: Task, wait: Wait, now: Time): void {
    this.#pay(task, now);
    task.wait = wait;
    task.since = now;
    // What a program without types yields may be anything.
    switch (wait?.kind) {
      case "time":
        return this.#setResume(task, Math.max(wait.at, task.paidAt), DONE);
      case "reply":
        task.replyId = wait.id;
        return this.#setResume(task, NEVER, DONE);
      case "load":
        task.replyId = wait.id;
        task.loads = wait.length;
        // An uncached load holds its core until the data is there.
        task.core.busyUntil = NEVER;
        return this.#setResume(task, NEVER, DONE);
      case "line":
        task.lineId = wait.id;
        task.core.busyUntil = NEVER;
        return this.#setResume(task, NEVER, DONE);
      case "spin":
        task.since = task.account.streak.since;
        task.spin = { firstAt: task.paidAt, roundPs: wait.roundPs };
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
      }
    }
    if (ranges.length > 0) {
      task.ranges = ranges;
      this.#watching++;
    }
    // The handler ran when the interrupt was raised: the wait ends without further cost.
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

/** Inserts a task behind the last one that stays before it; new ones mostly come last. */
/** `yield cpu.sleep(5)`, without the star, or `yield 5`. Its stack would be ours alone. */
function noWait(found: unknown): TypeError {
  const what = notAwaited(found) ?? `a yield of ${logText([found])}: expected yield* and a call`;
  const error = new TypeError(`EINVAL: ${what}`);
  error.stack = "";
  return error;
}

function insert(tasks: Task[], task: Task, staysBefore: (other: Task) => boolean): void {
  let at = tasks.length;
  while (at > 0 && !staysBefore(tasks[at - 1]!)) at--;
  tasks.splice(at, 0, task);
}

/** Whether one of the ranges (from, to, from, to…) has a byte of these. */
function overlaps(ranges: readonly number[], from: number, length: number): boolean {
  for (let i = 0; i < ranges.length; i += 2) {
    if (ranges[i]! < from + length && ranges[i + 1]! > from) return true;
  }
  return false;
}
