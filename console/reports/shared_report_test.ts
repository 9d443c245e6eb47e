import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { isInSharedTable, joinedReport, sharedReport, sharedTables } from "./shared_report.ts";

const latency = (mean: number, count = 100) => ({
  count,
  median: mean,
  p99: mean,
  max: mean,
  mean,
});

/** What one computer tells of a phase of accesses. */
function access(side: string, placement: string, farPercent: number, more: object = {}) {
  const messages = { busMessages: 50, networkMessages: 25 };
  const value = { program: "shared", workload: "access", card: "coherent", placement, side };
  return { node: side, value: { ...value, farPercent, ...messages, ...more } };
}

function reportOf(results: readonly { readonly node: string; readonly value: unknown }[]) {
  return sharedReport("x", { reports: results.map((each) => ({ topic: "result", ...each })) });
}

describe("sharedReport", () => {
  it("C-11: joins what both computers tell of accesses, and counts messages and hits of each access", () => {
    const report = reportOf([
      access("home", "local", 25, { loadPs: latency(20, 60), storePs: latency(10, 15), hits: 5 }),
      access("far", "local", 25, { loadPs: latency(2_000, 25), hits: 15, asked: 25 }),
    ])!;
    assert.deepEqual(report.accesses, [{
      variant: "x",
      card: "coherent",
      placement: "local",
      farPercent: 25,
      draw: 0,
      homeLoadPs: latency(20, 60),
      homeStorePs: latency(10, 15),
      farLoadPs: latency(2_000, 25),
      farStorePs: null,
      accesses: 100,
      meanPs: Math.round((60 * 20 + 15 * 10 + 25 * 2_000) / 100),
      busMessagesPerAccess: 1,
      networkMessagesPerAccess: 0.5,
      hitRate: 0.8,
    }]);
  });

  it("C-04, C-11: a crossover is the range of measured shares in which the cheaper placement changes", () => {
    const costs = (placement: string, means: readonly (number | readonly number[])[]) =>
      means.flatMap((draws, i) =>
        [draws].flat().map((mean, draw) =>
          access("far", placement, 25 * i, { draw, loadPs: latency(mean) })
        )
      );
    type Means = readonly (number | readonly number[])[];
    const crossovers = (local: Means, remote: Means) =>
      reportOf([...costs("local", local), ...costs("remote", remote)])!.crossovers;
    const found = { variant: "x", below: "local", above: "remote", draws: 1 };
    assert.deepEqual(crossovers([100, 300, 500], [200, 200, 200]), [
      { ...found, fromPercent: 0, toPercent: 25 },
    ]);
    // They cross three times: nothing is claimed from the first to the last of them.
    assert.deepEqual(crossovers([1, 3, 1, 3], [2, 2, 2, 2]), [
      { ...found, fromPercent: 0, toPercent: 75 },
    ]);
    assert.deepEqual(crossovers([3, 1, 3], [2, 2, 2]), [
      { ...found, below: "remote", fromPercent: 0, toPercent: 50 },
    ]);
    // Draws of one share that differ are in between.
    assert.deepEqual(crossovers([[1, 1], [1, 3], [3, 3]], [[2, 2], [2, 2], [2, 2]]), [
      { ...found, fromPercent: 0, toPercent: 50, draws: 2 },
    ]);
    assert.deepEqual(crossovers([[1, 3], [3, 3]], [[2, 2], [2, 2]]), [
      { ...found, fromPercent: null, toPercent: 25, draws: 2 },
    ]);
    assert.deepEqual(crossovers([100, 100, 100], [200, 200, 200]), [], "one costs less throughout");
    assert.deepEqual(crossovers([100, 200], [100, 100]), [], "they part from the same cost");
  });

  it("C-11: a queue has both computers' looks and messages, a lock a row for each that locks", () => {
    const common = { program: "shared", card: "pcie", placement: "none" };
    const messages = { busMessages: 60, networkMessages: 30 };
    const queue = { ...common, ...messages, workload: "queue", way: "far to home", load: "paced" };
    const lock = { ...common, ...messages, workload: "lock" };
    const { queues, locks } = reportOf([
      { node: "a", value: { ...queue, side: "far", messages: 40, looks: 4 } },
      {
        node: "b",
        value: {
          ...{ ...queue, side: "home", messages: 40, looks: 40 },
          ...{ latencyPs: latency(900), messagesPerSecond: 1e5 },
        },
      },
      { node: "c", value: { ...lock, side: "home", sections: 0, looks: 0 } },
      {
        node: "d",
        value: {
          ...{ ...lock, side: "far", sections: 10, looks: 25 },
          ...{ latencyPs: latency(4_000), sectionsPerSecond: 5e4 },
        },
      },
    ])!;
    const [{ looksPerMessage, busMessagesPerMessage, networkMessagesPerMessage }] = queues as [
      typeof queues[number],
    ];
    assert.deepEqual(
      [queues.length, looksPerMessage, busMessagesPerMessage, networkMessagesPerMessage],
      [1, 1.1, 3, 1.5],
    );
    assert.deepEqual(
      locks.map((row) => [row.node, row.looksPerSection, row.busMessagesPerSection]),
      [
        ["d", 2.5, 12],
      ],
    );
  });

  it("is absent of runs whose programs share no memory", () => {
    assert.equal(reportOf([{ node: "a", value: { program: "mine" } }]), undefined);
    assert.equal(joinedReport([]), undefined);
    assert.ok(!isInSharedTable({ value: { program: "shared", workload: "mine" } }));
  });
});

describe("sharedTables", () => {
  it("have a row for each share and a line for each crossover", () => {
    const report = reportOf([
      access("far", "local", 0, { loadPs: latency(1e6) }),
      access("far", "local", 100, { loadPs: latency(3e6) }),
      access("far", "remote", 0, { loadPs: latency(2e6), hits: 1, asked: 2 }),
      access("far", "remote", 100, { loadPs: latency(2e6) }),
    ])!;
    const [table, line, ...more] = sharedTables(report);
    assert.equal(table!.split("\n").length, 2 + 4);
    assert.match(table!, /coherent\s+remote\s+0 %\s+2 us\s+2 us\s+0\.50\s+0\.25\s+50\.0 %/);
    assert.equal(
      line,
      "x: up to 0 % of far accesses placement local costs less, from 100 % on remote; between them nothing is claimed",
    );
    assert.deepEqual(more, []);
  });
});
