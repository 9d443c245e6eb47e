/**
 * Notices, from a thread of its own, that an own program in this process has run for seconds without
 * a wait: such a program holds up this thread, Ctrl-C included.
 */
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import type { CreateNode } from "../../../fabric/partition/partition.ts";

/** The first message to the thread. */
export interface LoopWatchStart {
  /** The number of the host whose step runs, from 1; 0: none. Then a count of steps, modulo 2³². */
  readonly steps: Int32Array<SharedArrayBuffer>;
  /** Host number → its name and its own programs, for people. */
  readonly names: readonly string[];
}

export interface LoopWatch {
  /** Creates nodes as before; the steps of hosts with own programs are watched. */
  watched(create: CreateNode): CreateNode;
  close(): void;
}

/** @param programs the own programs by name; the hosts of the plan that run one are watched. */
export function watchLoops(
  plan: RackPlan,
  programs: Readonly<Record<string, unknown>>,
): LoopWatch | undefined {
  const names: string[] = [];
  const numbers = new Map<string, number>();
  for (const node of plan.nodes) {
    const runs = node.kind === "host" ? node.config.programs.map(({ run }) => run) : [];
    const own = [...new Set(runs)].filter((run) => Object.hasOwn(programs, run));
    if (own.length > 0) numbers.set(node.name, names.push(`${own.join(" or ")} on ${node.name}`));
  }
  if (names.length === 0) return undefined;
  const steps = new Int32Array(new SharedArrayBuffer(8));
  const thread = new Worker(new URL("./loop_watch_main.ts", import.meta.url), { type: "module" });
  thread.postMessage({ steps, names } satisfies LoopWatchStart);
  return {
    watched: (create) => (name, life, unsaved) => {
      const node = create(name, life, unsaved);
      const number = numbers.get(name);
      if (number === undefined) return node;
      const step = node.step.bind(node);
      node.step = (now, input, out) => {
        steps[0] = number;
        steps[1]!++;
        step(now, input, out);
        steps[0] = 0;
      };
      return node;
    },
    close: () => thread.terminate(),
  };
}
