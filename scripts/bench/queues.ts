/** (q) Doorbells and messages by number of queue pairs. */
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { ManyQueuesResult, ManyQueuesRow } from "../../nodes/host/programs/many_queues.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";
import type { Measured } from "./figure.ts";
import type { PutTable } from "./put_table.ts";

/** How a card identifies its queues. BlueFlame is off: the classic scheme has none. */
const SCHEMES = {
  "classic": "scheme: classic",
  "three spaces": "scheme: three-space",
  "a record each": "scheme: three-space, layout: record",
} as const;
export interface QueuesRow extends Pick<ManyQueuesRow, "qps"> {
  readonly of: readonly ManyQueuesRow[];
}

export function measureQueues(
  { seed, quick }: Pick<Measured, "seed" | "quick">,
): QueuesRow[] {
  const counts = quick ? [1, 4096] : [1, 16, 256, 1024, 4096, 16_384];
  const results = Object.values(SCHEMES).map((words) => run(words, { seed, counts }));
  return counts.map((qps, i) => ({ qps, of: results.map(({ rows }) => rows[i]!) }));
}

export function queuesTable(rows: readonly QueuesRow[]): PutTable {
  const names = Object.keys(SCHEMES);
  const headed = (title: string) => names.map((name, i) => i === 0 ? `${title}: ${name}` : name);
  return {
    name: "queues",
    header: [
      "queue pairs",
      ...headed("DMA reads for a doorbell"),
      ...headed("million messages/s"),
      ...headed("median latency, µs"),
      "stale pointers: classic",
    ],
    rows: rows.map(({ qps, of }) => [
      String(qps),
      ...of.map(({ dmaReadsPerDoorbell: reads }) => reads.toFixed(3)),
      ...of.map(({ messagesPerSecond: rate }) => (rate / 1e6).toFixed(2)),
      ...of.map(({ latencyPs: { median } }) => (median / PS_PER_US).toFixed(2)),
      `${of[0]!.counters.stalePointers} of ${of[0]!.messages}`,
    ]),
  };
}

function run(
  words: string,
  { seed, counts }: { readonly seed: number; readonly counts: readonly number[] },
): ManyQueuesResult {
  const queues = 4 * Math.max(256, ...counts);
  const plan = planOf(`
name: queues
seed: ${seed}
profile: clx-optane-cx5
defaults: { services: none, dram: 1GiB, blueFlame: off }
hosts:
  a: { queues: { count: ${queues}, ${words} } }
  b: { queues: ${queues} }
programs:
  - { on: b, run: many-queues-server }
  - { on: a, at: 200us, run: many-queues, to: b, qps: [${counts.join(", ")}] }
`);
  const results: ManyQueuesResult[] = [];
  simulatorOf(plan, (_time, _node, topic, value) => {
    if (topic === "result") results.push(value as ManyQueuesResult);
  }).run();
  const [result] = results;
  if (result?.status !== "done") throw new Error(`${words}: ${result?.error ?? "no result"}`);
  return result;
}
