/**
 * The threads of one native program, and what they wait for in each other. Each is served by a thread of
 * its host; one of them runs at a time, from a reply until its next request.
 */
import { NEVER, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import type { Cpu, Steps } from "../cpu/program.ts";

/**
 * Times of calls. [choice] A system call takes some 0.2 µs on processors with mitigations; a new
 * thread's stack and clone(2) take about 10 µs.
 */
export const FUTEX_PS: Time = PS_PER_US / 5, THREAD_PS: Time = 10 * PS_PER_US;

/** Ends the serving of a thread: its process is no more. */
export class ProcessEnded extends Error {
  override readonly name = "ProcessEnded";
}

/** Ends a wait of a thread: another one has cancelled it. */
export class Cancelled extends Error {
  override readonly name = "Cancelled";
}

/** Who waits for a wake of a key: in `futex_wait`, or with others in `poll`. */
export interface Waiter {
  readonly signal: string;
  isWoken: boolean;
}

/** Keys that threads wait for: those of a process, or those of memory that processes share. */
export class Futexes<Key> {
  readonly #name: string;
  readonly #waiters = new Map<Key, Waiter[]>();
  #nextSignal = 0;

  /** @param name no other's on the host. */
  constructor(name: string) {
    this.#name = name;
  }

  /** @returns whether a wake of the key has come in time. */
  *wait(cpu: Cpu, key: Key, timeoutPs: Time): Steps<boolean> {
    const deadline = timeoutPs === NEVER ? NEVER : cpu.now + timeoutPs;
    const waiter = this.enter(key);
    try {
      cpu.charge(FUTEX_PS);
      yield* cpu.settle();
      while (!waiter.isWoken && cpu.now < deadline) yield* cpu.waitSignal(waiter.signal, deadline);
    } finally {
      this.leave(key, waiter);
    }
    return waiter.isWoken;
  }

  /** A wake of the key is the new waiter's from now on, until it leaves. */
  enter(key: Key): Waiter {
    const signal = `futex:${this.#name}/${this.#nextSignal++}`;
    const waiter = { signal, isWoken: false };
    this.#waiters.set(key, [...this.#waiters.get(key) ?? [], waiter]);
    return waiter;
  }

  /** Wakes so many, the one that has waited longest first. */
  wake(cpu: Cpu, key: Key, count: number): void {
    for (const waiter of (this.#waiters.get(key) ?? []).slice(0, count)) {
      this.leave(key, waiter);
      waiter.isWoken = true;
      cpu.signal(waiter.signal);
    }
  }

  leave(key: Key, waiter: Waiter): void {
    const left = (this.#waiters.get(key) ?? []).filter((each) => each !== waiter);
    if (left.length > 0) this.#waiters.set(key, left);
    else this.#waiters.delete(key);
  }
}

export interface ServedThread {
  /** Of the host's thread that serves it. */
  readonly program: string;
  /** Its request is one that pthread_cancel(3) ends. */
  isCancellable: boolean;
  /** Its last request has waited for memory. */
  hasSpun: boolean;
}

export class Threads {
  /** Those that have not ended, by their numbers; 0 is the first one. */
  readonly served = new Map<number, ServedThread>();
  /** The process has ended. */
  isOver = false;
  /** By addresses of the process. */
  readonly futexes: Futexes<number>;
  readonly #cpu: Cpu;

  constructor(cpu: Cpu) {
    this.#cpu = cpu;
    this.futexes = new Futexes(cpu.program);
    this.add(0, cpu.program);
  }

  add(number: number, program: string): void {
    this.served.set(number, { program, isCancellable: false, hasSpun: false });
  }

  /** The process has ended, which the thread of this number has found out; without: another process. */
  end(number?: number): void {
    this.isOver = true;
    for (const [other, { program }] of this.served) {
      if (other !== number) this.#cpu.outside!.interrupt(program, new ProcessEnded());
    }
  }

  cancel(number: number): void {
    const thread = this.served.get(number);
    if (thread?.isCancellable !== true) return;
    thread.isCancellable = false;
    this.#cpu.outside!.interrupt(thread.program, new Cancelled());
  }
}
