import { Simulator } from "../../fabric/partition/simulator.ts";
import { NEVER, PS_PER_US } from "../../fabric/base/time.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import { SparseBytes } from "../../nodes/host/memory/sparse_bytes.ts";
import { type BenchRack, benchRack } from "./bench_rack.ts";
import { type Figure, type Measured, repeat } from "./figure.ts";

function simulate(rack: BenchRack) {
  const { plan } = benchRack(rack, "all");
  const stores = new Map<string, SparseBytes>();
  for (const node of plan.nodes) {
    if (node.kind === "host") stores.set(node.name, new SparseBytes(node.config.scmBytes));
  }
  const writing = new Set<string>();
  let writes = 0;
  const simulator = new Simulator({
    plan,
    create: nodeFactory({
      plan,
      image: (host) => (offset, length) => {
        const image = new Uint8Array(length);
        stores.get(host)!.read(offset, image);
        return image;
      },
      inputs: () => ({}),
    }),
    onDurable(host, made) {
      for (const { offset, data } of made) stores.get(host)!.write(offset, data);
    },
    onReport(_time, node, topic, value) {
      if (topic === "progress") writing.add(node);
      if (topic === "program-failed") throw new Error(`${node}: ${JSON.stringify(value)}`);
      if (topic === "result") writes += (value as { confirmedMessages: number }).confirmedMessages;
    },
  });
  const began = performance.now();
  while (writing.size < rack.writers && simulator.next !== NEVER) {
    simulator.run(simulator.next + PS_PER_US);
  }
  const setUpMs = performance.now() - began, setUpEvents = simulator.events;
  simulator.run();
  const wholeMs = performance.now() - began;
  return {
    // After all writers have started.
    events: simulator.events - setUpEvents,
    ms: wholeMs - setUpMs,
    // Including set-up.
    writes,
    wholeMs,
    wholeEvents: simulator.events,
  };
}

export function measureOneProcess({ seed, quick }: Measured): Figure[] {
  return [16, 1].flatMap((depth): Figure[] => {
    const load = { writes: quick ? 5_000 : 20_000, bytes: 64, depth };
    const runs = repeat(quick ? 3 : 7, () => simulate({ hosts: 2, writers: 1, seed, load }));
    return [
      {
        group: "a",
        what: `one process: events, depth ${depth}`,
        unit: "M/s",
        values: runs.map(({ wholeEvents, wholeMs }) => wholeEvents / wholeMs / 1_000),
        target: { is: "at least", value: 1 },
      },
      {
        group: "a",
        what: `one process: persistent writes of 64 B, depth ${depth}`,
        unit: "/s",
        values: runs.map(({ writes, wholeMs }) => 1_000 * writes / wholeMs),
        target: { is: "at least", value: 20_000 },
      },
    ];
  });
}

export function measureGrowth({ seed, quick }: Measured): Figure[] {
  const sizes = quick ? [2, 16] : [2, 4, 8, 16, 32, 64];
  const load = { writes: quick ? 500 : 1_000, bytes: 64, depth: 16 };
  const costs = new Map(sizes.map((hosts) => [hosts, [] as number[]]));
  const rounds = quick ? 2 : 3;
  for (let round = -1; round < rounds; round++) {
    for (const hosts of sizes) {
      // Small racks finish too soon for a measurement, so they run several times.
      const runs = Array.from(
        { length: Math.max(1, 8 / hosts) },
        () => simulate({ hosts, writers: hosts, seed, load }),
      );
      const events = runs.reduce((sum, run) => sum + run.events, 0);
      const ms = runs.reduce((sum, run) => sum + run.ms, 0);
      if (round >= 0) costs.get(hosts)!.push(1e6 * ms / events);
    }
  }
  const last = sizes.at(-1)!;
  const growth = costs.get(last)!.map((cost, round) => cost / costs.get(2)![round]!);
  return [
    ...sizes.map((hosts): Figure => ({
      group: "d",
      what: `one process: an event with ${hosts} hosts`,
      unit: "ns",
      values: costs.get(hosts)!,
    })),
    {
      group: "d",
      what: `the same, ${last} hosts over 2`,
      unit: "×",
      values: growth,
      target: { is: "at most", value: 1.2 },
    },
  ];
}
