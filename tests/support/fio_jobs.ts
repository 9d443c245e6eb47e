/** fio's jobs on a rack in this process, from the texts of job files. */
import { readJobFile } from "../../console/fio/job_file.ts";
import { planJobs } from "../../console/fio/jobs.ts";
import { type PlacedJob, placeJobs } from "../../console/fio/place.ts";
import type { FioResult, ThreadResult } from "../../nodes/host/programs/fio/fio.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { type RackOptions, SimulatedRack } from "./simulated_rack.ts";

/** A thread with what it came to. */
export interface EndedJob extends PlacedJob {
  readonly result: ThreadResult | undefined;
}

/** The threads of job files on hosts `a` (clients) and `b` (servers), as the command places them. */
export async function placedJobs(
  texts: readonly string[],
  { memory = "dram", ...options }: {
    readonly addresses: Readonly<Record<string, number>>;
    readonly to?: string;
    readonly memory?: "dram" | "scm";
  },
): Promise<PlacedJob[]> {
  const world = {
    read: (path: string) => Promise.resolve(texts[Number(path.slice(1))]!),
    variable: () => undefined,
  };
  const files = await Promise.all(texts.map((_, i) => readJobFile(`f${i}`, world)));
  const large = { dramBytes: 2 ** 28, scmBytes: 2 ** 28 };
  const memories = Object.fromEntries(Object.keys(options.addresses).map((host) => [host, large]));
  const { jobs, assumed } = placeJobs(planJobs(files, { world }).jobs, {
    ...options,
    memories,
    memory,
  });
  return [...jobs, ...assumed];
}

/** Runs job files to their end. @param hosts of the scenario, in YAML */
export async function runJobs(
  texts: readonly string[],
  { hosts = "{ a: {}, b: {} }", seed = 7, memory = "dram", ...options }: RackOptions & {
    readonly hosts?: string;
    readonly seed?: number;
    readonly memory?: "dram" | "scm";
  } = {},
): Promise<{ readonly rack: SimulatedRack; readonly jobs: readonly EndedJob[] }> {
  const scenario = `{ name: fio, seed: ${seed}, fabric: { mtu: 4096 }, hosts: ${hosts} }`;
  const { plan: { addresses } } = new SimulatedRack(scenario);
  const placed = await placedJobs(texts, { addresses, memory });
  const rack = new SimulatedRack(scenario, {
    ...options,
    change: (plan) => withJobs(options.change?.(plan) ?? plan, placed),
  }).run();
  const results = new Map<string, ThreadResult>();
  for (const { node, topic, value } of rack.reports) {
    if (topic !== "result") continue;
    for (const each of (value as unknown as FioResult).jobs) results.set(keyOf(node, each), each);
  }
  return {
    rack,
    jobs: placed.map((each) => ({ ...each, result: results.get(keyOf(each.host, each.job)) })),
  };
}

function keyOf(
  host: string,
  { index, isServer }: Pick<ThreadResult, "index" | "isServer">,
): string {
  return `${host} ${isServer} ${index}`;
}

function withJobs(plan: RackPlan, jobs: readonly PlacedJob[]): RackPlan {
  return {
    ...plan,
    nodes: plan.nodes.map((node) => {
      const own = jobs.filter(({ host }) => host === node.name).map(({ job }) => job);
      if (node.kind !== "host" || own.length === 0) return node;
      const program = { run: "fio", at: 0, service: false, options: { jobs: own } };
      return { ...node, config: { ...node.config, programs: [...node.config.programs, program] } };
    }),
  };
}
