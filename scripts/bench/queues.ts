/** (q) What doorbells and messages cost by number of queue pairs, in virtual time: exact figures. */
import type { ManyQueuesResult } from "../../nodes/host/programs/many_queues.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";
import type { Figure, Measured } from "./figure.ts";

/** How a card knows its queues. BlueFlame is off: the classic scheme has none. */
const SCHEMES = {
  "classic": "scheme: classic",
  "three spaces": "scheme: three-space",
  "three spaces, a record each": "scheme: three-space, layout: record",
} as const;
/** Where reads for a doorbell are shown: one, as many as the card has room for, and more. */
const READS_AT = [1, 4096, 16_384];

export function measureQueues({ seed, quick }: Measured): Figure[] {
  const counts = quick ? [1, 4096] : [1, 16, 256, 1024, 4096, 16_384];
  const results = Object.entries(SCHEMES).map(([scheme, words]) => {
    const { rows } = run(words, { seed, counts });
    return { scheme, rows };
  });
  const label = (qps: number) => `${qps} queue pair${qps === 1 ? "" : "s"}`;
  return [
    ...READS_AT.filter((qps) => counts.includes(qps)).flatMap((qps) =>
      results.map(({ scheme, rows }): Figure => ({
        group: "q",
        what: `${label(qps)}, ${scheme}: DMA reads of queue information for a doorbell`,
        unit: "",
        values: [rows.find((row) => row.qps === qps)!.dmaReadsPerDoorbell],
      }))
    ),
    ...counts.flatMap((qps, i) =>
      results.map(({ scheme, rows }): Figure => ({
        group: "q",
        what: `${label(qps)}, ${scheme}: messages of 64 B`,
        unit: "M/s",
        values: [rows[i]!.messagesPerSecond / 1e6],
      }))
    ),
  ];
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
