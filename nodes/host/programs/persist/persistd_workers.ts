/**
 * Worker threads of `persistd`, which flush and answer beside the thread that polls for completions
 * (`write-send-workers`). A thread runs while there is work for it: an idle host has none.
 */
import type { Cpu, Steps, Threads } from "../../cpu/program.ts";
import type { ProgramContext, ThreadContext } from "../../program_context.ts";

const WORKERS = 4;

export type Task = (cpu: Cpu) => Steps<void>;

export interface Workers {
  readonly spawn: Threads<ThreadContext>["spawn"];
  /** Of each thread: what it has to do, the task under way first. */
  readonly queues: readonly Task[][];
}

export function createWorkers(cpu: ProgramContext["cpu"]): Workers {
  return {
    spawn: (name, thread) => cpu.spawn(name, thread),
    queues: Array.from({ length: WORKERS }, () => []),
  };
}

/**
 * @param lane tasks of one lane are executed in their order, by one thread; without one the task
 * goes to the thread with the least work.
 */
export function dispatch({ spawn, queues }: Workers, task: Task, lane?: number): void {
  const least = Math.min(...queues.map(({ length }) => length));
  const worker = lane === undefined
    ? queues.findIndex(({ length }) => length === least)
    : lane % queues.length;
  const queue = queues[worker]!;
  queue.push(task);
  if (queue.length > 1) return;
  spawn(`worker-${worker}`, function* ({ cpu }) {
    while (queue.length > 0) {
      yield* queue[0]!(cpu);
      queue.shift();
    }
  });
}
