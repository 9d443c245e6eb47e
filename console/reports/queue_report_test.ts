import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { isInQueueTable, queueRows, queueTable } from "./queue_report.ts";

const COUNTERS = {
  doorbells: 10,
  doorbellReads: 15,
  cacheHits: 20,
  cacheMisses: 5,
  cacheEvictions: 0,
  queuePairs: 3,
  stalePointers: 0,
};
const LATENCY = { count: 4, min: 1e6, median: 2e6, p99: 3e6, max: 4e6, mean: 2e6 };

function rowsOf(
  hosts: string,
  { counters = {}, results = [] }: {
    readonly counters?: Readonly<Record<string, number>>;
    readonly results?: readonly { readonly node: string; readonly value: unknown }[];
  } = {},
) {
  const plan = makePlan(variants(parseScenario(`name: x\nhosts: ${hosts}\n`, "x.yaml"))[0]!);
  const statistics = { "a-rnic": { ...COUNTERS, ...counters } };
  const reports = results.map((each) => ({ time: 0, topic: "result", ...each }));
  const outcome = { finals: [{ statistics, reports }] } as unknown as Parameters<
    typeof queueRows
  >[1];
  return queueRows({ label: "x", plan }, outcome);
}

describe("queueRows", () => {
  it("Q-11: are of cards whose queues the scenario speaks of, or whose cache was too small", () => {
    const counts = [
      rowsOf("{ a: {} }"),
      rowsOf("{ a: {} }", { counters: { cacheEvictions: 1 } }),
      rowsOf("{ a: {} }", { counters: { stalePointers: 1 } }),
      rowsOf("{ a: { queues: { layout: record } } }"),
      rowsOf("{ a: { queues: { cache: { evict: { random: 2 } } } } }"),
      rowsOf("{ a: { queues: { cache: none } } }"),
    ].map(({ length }) => length);
    assert.deepEqual(counts, [0, 1, 1, 1, 1, 1]);
  });

  it("Q-10: of the classic scheme a pointer takes two words, in the table where schemes differ", () => {
    const rows = rowsOf("{ a: { queues: { scheme: classic } } }");
    assert.deepEqual(rows.map(({ pointerBytes }) => pointerBytes), [12]);
    assert.ok(!queueTable(rows).includes("B/pointer"));
    assert.match(queueTable([...rows, { ...rows[0]!, pointerBytes: 4 }]), /B\/pointer/);
  });

  it("Q-11: have counters, bytes of queue information, latency and throughput", () => {
    const value = { program: "mine", latencyPs: LATENCY, throughputBps: 5e9 };
    const host = "{ a: { queues: { count: 100, placement: both-in-3, cache: { entries: 32 } } } }";
    const [row, ...more] = rowsOf(host, { results: [{ node: "a", value }] });
    assert.deepEqual(more, []);
    assert.deepEqual(row, {
      variant: "x",
      node: "a-rnic",
      scheme: "three-space",
      placement: "both-in-3",
      layout: "areas",
      store: "host",
      cache: "32, oldest",
      qps: 3,
      doorbells: 10,
      dmaReadsPerDoorbell: 1.5,
      cacheHits: 20,
      cacheMisses: 5,
      cacheEvictions: 0,
      stalePointers: 0,
      // 32 B of space 1, 16 B of space 2 and of space 3.
      queueBytes: 64,
      pointerBytes: 4,
      storeBytes: 6_400,
      latencyPs: LATENCY,
      messagesPerSecond: null,
      throughputBps: 5e9,
    });
  });

  it("Q-11: are those that many-queues has measured, where it ran, and stand in its result's place", () => {
    const counters = { doorbells: 4, doorbellReads: 8, cacheHits: 1, cacheMisses: 4 };
    const row = { messages: 4, messagesPerSecond: 1e6, latencyPs: LATENCY, dmaReadsPerDoorbell: 2 };
    const value = {
      program: "many-queues",
      status: "done",
      messageBytes: 64,
      rows: [{ ...row, qps: 1, counters }, { ...row, qps: 16, counters }],
    };
    const rows = rowsOf(
      "{ a: { queues: { layout: record } }, b: { queues: { layout: record } } }",
      {
        results: [{ node: "a", value }],
      },
    );
    assert.deepEqual(rows.map(({ node, qps }) => [node, qps]), [["a-rnic", 1], ["a-rnic", 16]]);
    assert.deepEqual([rows[0]!.messagesPerSecond, rows[0]!.throughputBps], [1e6, 512e6]);
    assert.equal(isInQueueTable({ value }), true);
    assert.equal(isInQueueTable({ value: { ...value, status: "failed" } }), false);
    const [head, , first] = queueTable(rows).split("\n");
    assert.deepEqual(head!.split(/ {2,}/), [
      "card",
      "scheme",
      "placement",
      "cache",
      "QPs",
      "doorbells",
      "reads each",
      "hits",
      "misses",
      "evictions",
      "B/queue",
      "M msg/s",
      "Gb/s",
      "median",
      "p99",
      "max",
    ]);
    assert.match(first!, /^a-rnic .* 1 +4 +2\.00 +1 +4 +0 +64 +1\.00 +0\.51 +2 us +3 us +4 us$/);
  });
});
