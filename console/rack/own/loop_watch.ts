/**
 * A thread that notices an own program which has run for seconds without a wait, and holds up this
 * thread. It also ends a process whose parent has ended.
 */
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { judgeRulesOf } from "../../../fabric/rack/plan/shared_region.ts";
import type { CreateNode } from "../../../fabric/partition/partition.ts";

export const WATCH_MODULE = "console/rack/own/loop_watch_main.ts";

export interface LoopWatchStart {
  /** The number of what runs, from 1; 0: none. Then a count of changes, modulo 2³². */
  readonly running: Int32Array<SharedArrayBuffer>;
  readonly watched: readonly Watched[];
}

export interface Watched {
  readonly name: string;
  readonly expected: string;
}

export interface LoopWatch {
  /** Does `work`, a hook of a protocol, watched. @param name for people. */
  readonly around: Around;
  /** Watches the steps of hosts with own programs among nodes made with `create`. */
  steps(create: CreateNode, plan: RackPlan, own: Readonly<Record<string, unknown>>): CreateNode;
}

export type Around = <T>(name: string, work: () => T) => T;

const WAITS = "a wait (yield*), without which no time passes";
const RETURNS = "it to return";

/** To be called before the process gives up its right to read. */
export async function watchLoops(): Promise<LoopWatch> {
  const running = new Int32Array(new SharedArrayBuffer(8));
  const watched: Watched[] = [];
  const thread = new Worker(new URL("./loop_watch_main.ts", import.meta.url), { type: "module" });
  const isReady = new Promise((resolve) => thread.addEventListener("message", resolve));
  const numbers = new Map<string, number>();
  const numberOf = (what: Watched) => {
    const known = numbers.get(what.name);
    if (known !== undefined) return known;
    const number = watched.push(what);
    numbers.set(what.name, number);
    thread.postMessage({ running, watched } satisfies LoopWatchStart);
    return number;
  };
  thread.postMessage({ running, watched } satisfies LoopWatchStart);
  await isReady;
  const run = <T>(number: number, work: () => T): T => {
    const outer = running[0]!;
    running[0] = number;
    running[1]!++;
    try {
      return work();
    } finally {
      running[0] = outer;
      running[1]!++;
    }
  };
  return {
    around: (name, work) => run(numberOf({ name, expected: RETURNS }), work),
    steps(create, plan, own) {
      const hosts = new Map<string, number>();
      for (const [host, programs] of ownProgramsOf(plan, own)) {
        const name = `${programs.join(" or ")} on ${host}`;
        hosts.set(host, numberOf({ name, expected: WAITS }));
      }
      return (name, life, unsaved) => {
        const node = create(name, life, unsaved);
        const number = hosts.get(name);
        if (number === undefined) return node;
        const step = node.step.bind(node);
        node.step = (now, input, out) => run(number, () => step(now, input, out));
        return node;
      };
    },
  };
}

/** By host, each once; only hosts that run own programs. */
export function ownProgramsOf(
  { nodes }: RackPlan,
  own: Readonly<Record<string, unknown>>,
): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const node of nodes) {
    const runs = node.kind === "host"
      ? [
        ...node.config.programs.map(({ run }) => run),
        ...judgeRulesOf(node.config.shared, node.name),
      ]
      : [];
    const programs = [...new Set(runs)].filter((run) => Object.hasOwn(own, run));
    if (programs.length > 0) found.set(node.name, programs);
  }
  return found;
}
