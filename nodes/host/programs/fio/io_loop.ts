/**
 * fio's loop over the I/O of a thread (`backend.c`: do_io, wait_for_completions; `ioengines.c`:
 * td_io_queue, td_io_commit, td_io_getevents), for any {@link Engine}.
 */
import { NEVER, type Time } from "../../../../fabric/base/time.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import type { Io, IoPlan } from "./io_plan.ts";
import type { FioJob } from "./job.ts";
import { StatsMeter, type ThreadStats } from "./stats.ts";

export interface IoUnit extends Io {
  readonly index: number;
  readonly start: Time;
  issue: Time;
  /** It is less than requested for a short RECV. */
  moved: number;
}

/** Throws `EngineError` or `ProgramError`. */
export interface Engine {
  readonly commit: (units: readonly IoUnit[]) => Steps<void>;
  /**
   * Returns when `least` I/O are completed, in order, with about `most` at most; with fewer where
   * the other end has disconnected regularly.
   */
  readonly getEvents: (least: number, most: number) => Steps<IoUnit[]>;
  /** Posts one I/O and waits (`sync`); absent: not supported. */
  readonly sync?: (unit: IoUnit) => Steps<void>;
}

export type LoopRules = Pick<
  FioJob,
  | "iodepth"
  | "iodepthLow"
  | "batch"
  | "batchCompleteMin"
  | "batchCompleteMax"
  | "sync"
  | "rampPs"
  | "runtimePs"
  | "bwWindowPs"
  | "iopsWindowPs"
>;

export class IoLoop {
  readonly #cpu: Cpu;
  readonly #rules: LoopRules;
  readonly #engine: Engine;
  readonly #free: number[];
  #queued: IoUnit[] = [];
  #depth = 0;
  #isRamping: boolean;
  #isOver = false;
  #meter: StatsMeter;
  #final: ThreadStats | undefined;

  /**
   * @param engine of an established connection: time counts from here on.
   */
  constructor(cpu: Cpu, rules: LoopRules, engine: Engine) {
    this.#cpu = cpu;
    this.#rules = rules;
    this.#engine = engine;
    this.#free = Array.from({ length: rules.iodepth }, (_, i) => rules.iodepth - 1 - i);
    this.#isRamping = rules.rampPs > 0;
    this.#meter = new StatsMeter(cpu.now, cpu.workPs, rules);
  }

  stats(): ThreadStats {
    return this.#final ?? this.#meter.result(this.#cpu.now, this.#cpu.workPs);
  }

  *run(plan: IoPlan, onProgress: (stats: IoLoop) => void): Steps<void> {
    while (!this.#timeIsOver() && !this.#isOver) {
      const io = plan.next();
      if (io === undefined) break;
      yield* this.#issue(io);
      onProgress(this);
    }
    yield* this.#commit();
    while (this.#depth > 0 && !this.#isOver) {
      yield* this.#reap(this.#depth, this.#depth);
      onProgress(this);
    }
    this.#final = this.stats();
  }

  /** @returns undefined without a run time. */
  get elapsed(): number | undefined {
    const { runtimePs, rampPs } = this.#rules;
    if (runtimePs === undefined || runtimePs === 0) return undefined;
    const passed = this.#cpu.now - this.#meter.begin;
    return this.#isRamping ? 0 : Math.min(1, passed / Math.max(runtimePs, rampPs));
  }

  /** `ramp_time_over`: earlier measurements do not count. */
  #timeIsOver(): boolean {
    const { rampPs, runtimePs = NEVER } = this.#rules;
    const passed = this.#cpu.now - this.#meter.begin;
    if (!this.#isRamping) return passed >= runtimePs;
    if (passed >= rampPs) {
      this.#isRamping = false;
      this.#meter = new StatsMeter(this.#cpu.now, this.#cpu.workPs, this.#rules);
    }
    return false;
  }

  *#issue(io: Io): Steps<void> {
    const start = this.#cpu.now;
    const unit: IoUnit = { ...io, index: this.#free.pop()!, start, issue: start, moved: io.bytes };
    this.#depth++;
    if (this.#rules.sync && this.#engine.sync !== undefined) {
      yield* this.#engine.sync(unit);
      // td_io_queue counts no submission of an engine that has a commit and completes at once.
      this.#meter.atDepth(1, 1);
      this.#account([unit]);
      return;
    }
    this.#queued.push(unit);
    if (this.#queued.length >= this.#rules.batch) yield* this.#commit();
    if (this.#free.length > 0 && !this.#isPolling()) return;
    yield* this.#waitForCompletions();
  }

  /** Without minimum and maximum all present completions are taken (`io_in_polling`). */
  #isPolling(): boolean {
    return this.#rules.batchCompleteMin === 0;
  }

  *#commit(): Steps<void> {
    if (this.#queued.length === 0) return;
    const units = this.#queued;
    this.#queued = [];
    yield* this.#engine.commit(units);
    const { now } = this.#cpu;
    for (const unit of units) unit.issue = now;
    this.#meter.submittedTogether(units.length, this.#depth);
  }

  *#waitForCompletions(): Steps<void> {
    const isFull = this.#free.length === 0;
    const { batchCompleteMin, batchCompleteMax, iodepthLow } = this.#rules;
    const least = Math.max(1, Math.min(batchCompleteMin, this.#depth));
    do {
      yield* this.#reap(Math.min(least, this.#depth), batchCompleteMax);
    } while (isFull && this.#depth > iodepthLow && !this.#isOver);
  }

  *#reap(least: number, most: number): Steps<void> {
    yield* this.#commit();
    const units = yield* this.#engine.getEvents(least, Math.max(least, most));
    if (units.length < least) this.#isOver = true;
    this.#meter.completedTogether(units.length);
    this.#account(units);
  }

  /** All I/O that a call has returned end together (`init_icd`). */
  #account(units: readonly IoUnit[]): void {
    const end = this.#cpu.now;
    for (const { direction, index, start, issue, bytes, moved } of units) {
      this.#free.push(index);
      this.#depth--;
      const isSync = this.#rules.sync && this.#engine.sync !== undefined;
      const isRamping = this.#isRamping;
      this.#meter.completed(direction, moved, { start, issue, end, isSync, isRamping });
      if (moved < bytes) this.#meter.short(direction);
    }
  }
}
