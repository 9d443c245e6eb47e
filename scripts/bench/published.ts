/** (u) What was published of a whole path, beside what the model gives for it. Virtual time, so exact. */
import { PS_PER_S, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import type { PerftestResult } from "../../nodes/host/programs/perftest/client.ts";
import type { PerftestName } from "../../nodes/host/programs/perftest/terms.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";
import { type PutTable, runPut } from "./put_table.ts";
import { readDramPs } from "./reads.ts";

/**
 * How far the profile knows a figure: `fitted`, a constant was derived from this very sum, so that
 * agreement proves nothing; `partly`, from a neighbour of it; `not used`, agreement is evidence.
 */
type Use = "fitted" | "partly" | "not used";

interface Published {
  readonly what: string;
  /** Lowest and highest published value, in `unit`. */
  readonly published: readonly [number, number];
  readonly unit: "µs" | "Gb/s";
  readonly source: string;
  readonly use: Use;
  /** In `unit`. */
  readonly measure: (seed: number) => number;
}

export interface PublishedFigure extends Omit<Published, "measure"> {
  readonly modelled: number;
}

const RPMA = "RPMA report 2021, fig. 1 (ConnectX-5 100G)";
const FIGURES: readonly Published[] = [
  {
    what: "RDMA WRITE, 64 B, post → CQE, one switch",
    published: [1.3, 1.3],
    unit: "µs",
    source: "Kalia et al., SoCC'20 (ConnectX-5 100G)",
    use: "fitted",
    measure: (seed) => writePs(64, seed) / PS_PER_US,
  },
  {
    what: "RDMA WRITE, 8 B, mapped page",
    published: [1.4, 1.4],
    unit: "µs",
    source: "Yang et al., NSDI'20 (ConnectX-4)",
    use: "partly",
    measure: (seed) => writePs(8, seed) / PS_PER_US,
  },
  ...([
    [256, [1.86, 1.99], "fitted"],
    [1024, [1.98, 2.17], "fitted"],
    [4096, [2.79, 2.97], "fitted"],
    [65_536, [10.5, 10.5], "partly"],
  ] as const).map(([bytes, published, use]): Published => ({
    what: `READ of DRAM, ${bytes < 1024 ? `${bytes} B` : `${bytes / 1024} KiB`}, direct cable`,
    published,
    unit: "µs",
    source: RPMA,
    use,
    measure: (seed) => readDramPs(bytes, seed) / PS_PER_US,
  })),
  ...([
    [256, 65_536, 61],
    [65_536, 262_144, 97],
  ] as const).map(([from, to, gbps]): Published => ({
    what: `marginal rate of one READ, ${from === 256 ? "256 B" : "64 KiB"} → ${to / 1024} KiB`,
    published: [gbps, gbps],
    unit: "Gb/s",
    source: RPMA,
    use: "partly",
    measure: (seed) =>
      8 * (to - from) * PS_PER_S / (readDramPs(to, seed) - readDramPs(from, seed)) / 1e9,
  })),
  ...([
    [2, 1.07],
    [64, 1.16],
  ] as const).map(([bytes, us]): Published => ({
    what: `SEND, ${bytes} B, half of a ping-pong`,
    published: [us, us],
    unit: "µs",
    source: "perftest logs (ConnectX-3 40G)",
    use: "not used",
    measure: (seed) => latencyPs({ test: "ib_send_lat", bytes, seed }) / PS_PER_US,
  })),
  {
    what: "fetch-and-add, 8 B, full trip, one switch",
    published: [2.34, 2.65],
    unit: "µs",
    source: "perftest logs (ConnectX-3 … -5)",
    use: "not used",
    measure: (seed) => latencyPs({ test: "ib_atomic_lat", bytes: 8, seed }) / PS_PER_US,
  },
  {
    what: "WRITE of 221 B less that of 220 B, as which it is inline",
    published: [0.74, 0.91],
    unit: "µs",
    source: "perftest logs (ConnectX-3, -5)",
    use: "fitted",
    measure: (seed) => {
      const [inline, fetched] = [220, 221].map((bytes) =>
        latencyPs({ test: "ib_write_lat", bytes, seed })
      );
      return (fetched! - inline!) / PS_PER_US;
    },
  },
];

/** @throws Error where a run fails. */
export function measurePublished(seed: number): PublishedFigure[] {
  return FIGURES.map(({ measure, ...published }) => ({ ...published, modelled: measure(seed) }));
}

export function publishedTable(figures: readonly PublishedFigure[]): PutTable {
  return {
    name: "published",
    header: ["measurement", "published", "source", "modelled", "ratio", "the profile's use of it"],
    rows: figures.map(({ what, published: [low, high], unit, source, modelled, use }) => {
      const middle = (low + high) / 2;
      const range = low === high ? `${low}` : `${low}–${high}`;
      return [
        what,
        `${range} ${unit}`,
        source,
        `${Number(modelled.toPrecision(3))} ${unit}`,
        (modelled / middle).toFixed(2),
        use,
      ];
    }),
  };
}

/** From the post to where the completion has been taken. */
function writePs(bytes: number, seed: number): Time {
  return runPut({ ddio: "on", size: bytes, seed, put: "method: write-only" }).latencyPs;
}

interface Asked {
  readonly test: PerftestName;
  readonly bytes: number;
  readonly seed: number;
}

/** Over a switch, as perftest prints it: its typical latency. */
function latencyPs({ test, bytes, seed }: Asked): Time {
  const plan = planOf(`
name: published
seed: ${seed}
profile: clx-optane-cx5
hosts: { a: {}, b: {} }
programs:
  - { on: b, run: perftest-server }
  - { on: a, run: perftest, to: b, test: ${test}, size: ${bytes}, iterations: 20 }
`);
  const results: PerftestResult[] = [];
  simulatorOf(plan, (_time, node, topic, value) => {
    if (topic === "result" && node === "a") results.push(value as PerftestResult);
  }).run();
  const row = results[0]?.rows[0];
  if (row?.measures !== "latency") throw new Error(`${test}: ${results[0]?.error ?? "no result"}`);
  return row.typicalPs;
}
