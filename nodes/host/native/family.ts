/**
 * The processes of one native program: the first one and its children by fork(2), each of which the host
 * serves as it serves the first. They share sockets, memory that was mapped to be shared, and the output;
 * what they have of the cards is each one's own.
 */
import { NEVER, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import type { CmAgent } from "../cm/cm_state.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import type { OpenDevice } from "../open_device.ts";
import type { NativeProcess } from "./port.ts";
import { OBJECTS } from "./requests.ts";
import { SocketTable } from "./sockets.ts";
import { Futexes, type Threads } from "./threads.ts";

/** [choice] fork(2) of a small process, its end and its wait take some 100 µs (lmbench). */
export const FORK_PS: Time = 100 * PS_PER_US;
/** [choice] wait4(2) of a child that has ended, or that has not: a system call. */
const WAIT_PS: Time = PS_PER_US / 5;
/** The numbers that children see as their process's, in the order of their forks on a host. */
const FIRST_CHILD_PID = 20_001;

/** A process as its family has it. */
interface ServedProcess {
  readonly pid: number;
  readonly cpu: Cpu;
  readonly device: OpenDevice;
  readonly threads: Threads;
  readonly process: NativeProcess;
  /** Another program has taken its place: the end of its pipes is not that of its process. */
  readonly isReplaced: boolean;
  /** Another thread or process has run, and may have stored what this one waits for. */
  stirred(): void;
}

export interface Child {
  readonly pid: number;
  readonly parent: number;
  /** Its number at the machine. */
  readonly real: number;
  readonly process: NativeProcess;
  /** Absent until the host serves it. */
  objects?: ServedProcess;
  hasEnded: boolean;
}

const NUMBERS = new WeakMap<CmAgent, { nextPid: number }>();

export class Family {
  readonly sockets = new SocketTable();
  /** Of memory that processes share: by object and offset. */
  readonly futexes: Futexes<string>;
  /** Handles of objects of the cards are of one process, and no two have the same. */
  nextHandle = 1;
  readonly #processes = new Set<ServedProcess>();
  /** Those that their parents have not waited for: in the order of their ends, then of their forks. */
  #children: Child[] = [];
  readonly #signal: string;
  #forked = 0;

  /** @param program the first process's name. */
  constructor(program: string) {
    this.futexes = new Futexes(`shared/${program}`);
    this.#signal = `native-child:${program}`;
  }

  /** The number of the next child on its host. */
  newPid({ device }: ServedProcess): number {
    const { agent } = device.cm;
    const numbers = NUMBERS.get(agent) ?? { nextPid: FIRST_CHILD_PID };
    NUMBERS.set(agent, numbers);
    return numbers.nextPid++;
  }

  /** A child's name on its host: not a thread of its parent, whose objects it does not have. */
  newName(program: string): string {
    const [run, number] = /^(.*?)#(\d+)/.exec(program)!.slice(1);
    return `${run!.replace(/\+\d+$/, "")}+${++this.#forked}#${number}`;
  }

  enter(objects: ServedProcess): void {
    this.#processes.add(objects);
  }

  enterChild(child: Child): void {
    this.#children.push(child);
  }

  /** A process has ended: its parent, and those that read what it could write, are told. */
  leave(objects: ServedProcess): void {
    this.#processes.delete(objects);
    const child = this.#children.find((each) => each.objects === objects);
    if (child !== undefined) this.#ended(child);
    objects.cpu.signal(this.#signal);
    this.futexes.wake(objects.cpu, `${OBJECTS.descriptors}:0`, Infinity);
  }

  /** A thread of a process has run and asks: others that wait for memory look at it again. */
  stirred(): void {
    for (const objects of this.#processes) objects.stirred();
  }

  /** The first process has ended, and with it the program: its children end. */
  end(): void {
    for (const child of [...this.#children]) this.#kill(child);
  }

  /** Ends a child that a signal has ended. */
  kill(parent: number, pid: number): boolean {
    const child = this.#children.find((each) => each.parent === parent && each.pid === pid);
    if (child !== undefined) this.#kill(child);
    return child !== undefined;
  }

  #kill(child: Child): void {
    if (child.hasEnded) return;
    if (child.objects !== undefined) return child.objects.threads.end();
    child.process.kill();
    this.#ended(child);
  }

  #ended(child: Child): void {
    child.hasEnded = true;
    // Else one of them could find a pipe open whose last writer has ended, and wait for ever.
    if (!child.objects?.isReplaced) {
      for (const { process } of this.#processes) process.main.awaitEnd(child.real);
    }
    const others = this.#children.filter((each) => each !== child);
    const firstAlive = others.findIndex(({ hasEnded }) => !hasEnded);
    others.splice(firstAlive < 0 ? others.length : firstAlive, 0, child);
    this.#children = others;
  }

  /**
   * Waits for the end of a child.
   * @param of the parent's number; `pid` 0: any child. @returns its number.
   */
  *wait(
    cpu: Cpu,
    { of, pid, timeoutPs, keep }: {
      readonly of: number;
      readonly pid: number;
      readonly timeoutPs: Time;
      readonly keep: boolean;
    },
  ): Steps<number | "ECHILD" | "ETIMEDOUT"> {
    const deadline = timeoutPs === NEVER ? NEVER : cpu.now + timeoutPs;
    cpu.charge(WAIT_PS);
    yield* cpu.settle();
    for (;;) {
      const own = this.#children.filter((each) =>
        each.parent === of && (pid === 0 || each.pid === pid)
      );
      if (own.length === 0) return "ECHILD";
      const [first] = own;
      if (first!.hasEnded) {
        if (!keep) this.#children = this.#children.filter((each) => each !== first);
        return first!.pid;
      }
      if (cpu.now >= deadline) return "ETIMEDOUT";
      yield* cpu.waitSignal(this.#signal, deadline);
    }
  }
}
