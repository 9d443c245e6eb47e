/**
 * `deno run -A scripts/native/figures.ts [WORDS]`: perftest of Debian and `rack perftest`'s program on
 * the same two hosts, line by line.
 */
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import type { PerftestResult } from "../../nodes/host/programs/perftest/client.ts";
import { runNative, scenarioOf } from "./runs.ts";

/** A test, with the options of both programs. */
export interface Pair {
  readonly test: string;
  readonly native: string;
  /** Options of the generator, in a scenario's syntax. */
  readonly own: string;
}

const HOSTS = "hosts: { a: { services: none }, b: { services: none } }";

const NATIVE_LATENCIES = ["min", "max", "typical", "average", "stdev", "p99", "p999"] as const;

/** A line of either program: of a latency test in us, of a bandwidth test in MiB/s and Mpps. */
export interface Line {
  readonly bytes: number;
  readonly figures: Readonly<Record<string, number>>;
}

/** Lines of perftest's table. */
export function linesOf(output: readonly string[]): Line[] {
  return output.filter((line) => /^ \d+ +\d+ +[\d.]+/.test(line)).map((line) => {
    const [bytes, , ...rest] = line.trim().split(/\s+/).map(Number);
    const names = rest.length >= 7 ? NATIVE_LATENCIES : ["peak", "average", "rate"];
    return { bytes: bytes!, figures: Object.fromEntries(names.map((name, i) => [name, rest[i]!])) };
  });
}

/** The same lines of the rack's own program. */
export function ownLines(test: string, options: string): Line[] {
  const text = [
    "name: own",
    HOSTS,
    "programs:",
    "  - { on: b, run: perftest-server }",
    `  - { on: a, run: perftest, to: b, test: ${test}${options && `, ${options}`} }`,
  ].join("\n");
  const plan = makePlan(variants(parseScenario(text + "\n", "own.yaml"))[0]!);
  let result: PerftestResult | undefined;
  const simulator = new Simulator({
    plan,
    create: nodeFactory({ plan, image: () => undefined, inputs: () => ({}) }),
    onReport(_time, node, topic, value) {
      if (topic === "program-failed") throw new Error(`${node}: ${JSON.stringify(value)}`);
      if (topic === "result") result = value as PerftestResult;
    },
  });
  simulator.run();
  return result!.rows.map((row: any) => ({
    bytes: row.bytes ?? row.size,
    figures: row,
  }));
}

const PAIRS: readonly Pair[] = [
  { test: "ib_write_lat", native: "-n 200 -I 0", own: "iterations: 200, inlineBytes: 0" },
  {
    test: "ib_write_lat",
    native: "-n 200 -s 64 -I 64",
    own: "iterations: 200, size: 64, inlineBytes: 64",
  },
  {
    test: "ib_write_lat",
    native: "-n 200 -s 4096",
    own: "iterations: 200, size: 4096, inlineBytes: 0",
  },
  {
    test: "ib_write_lat",
    native: "-n 50 -s 65536",
    own: "iterations: 50, size: 65536, inlineBytes: 0",
  },
  {
    test: "ib_write_lat",
    native: "-n 200 -c UC -I 0",
    own: "iterations: 200, connection: UC, inlineBytes: 0",
  },
  { test: "ib_send_lat", native: "-n 200 -I 0", own: "iterations: 200, inlineBytes: 0" },
  {
    test: "ib_send_lat",
    native: "-n 200 -s 4096 -I 0",
    own: "iterations: 200, size: 4096, inlineBytes: 0",
  },
  {
    test: "ib_send_lat",
    native: "-n 200 -c UD -s 64 -I 0",
    own: "iterations: 200, connection: UD, size: 64, inlineBytes: 0",
  },
  {
    test: "ib_send_lat",
    native: "-n 200 -e -I 0",
    own: "iterations: 200, completion: interrupt, inlineBytes: 0",
  },
  { test: "ib_read_lat", native: "-n 200", own: "iterations: 200" },
  { test: "ib_read_lat", native: "-n 200 -s 4096", own: "iterations: 200, size: 4096" },
  { test: "ib_atomic_lat", native: "-n 200", own: "iterations: 200" },
  { test: "ib_write_bw", native: "-n 300", own: "iterations: 300, depth: 128" },
  { test: "ib_write_bw", native: "-n 600 -s 64", own: "iterations: 600, size: 64, depth: 128" },
  {
    test: "ib_write_bw",
    native: "-n 600 -s 64 -q 4",
    own: "iterations: 600, size: 64, depth: 128, qps: 4",
  },
  {
    test: "ib_write_bw",
    native: "-n 600 -s 64 -l 8",
    own: "iterations: 600, size: 64, depth: 128, postList: 8",
  },
  {
    test: "ib_write_bw",
    native: "-n 300 -b",
    own: "iterations: 300, depth: 128, bidirectional: true",
  },
  {
    test: "ib_write_bw",
    native: "-n 300 -e -s 4096",
    own: "iterations: 300, depth: 128, size: 4096, completion: interrupt",
  },
  { test: "ib_send_bw", native: "-n 300", own: "iterations: 300, depth: 128" },
  { test: "ib_send_bw", native: "-n 600 -s 64", own: "iterations: 600, size: 64, depth: 128" },
  {
    test: "ib_send_bw",
    native: "-n 300 -c UD -s 4096",
    own: "iterations: 300, depth: 128, connection: UD, size: 4096",
  },
  { test: "ib_read_bw", native: "-n 300", own: "iterations: 300, depth: 128" },
  { test: "ib_read_bw", native: "-n 600 -s 64", own: "iterations: 600, size: 64, depth: 128" },
  { test: "ib_atomic_bw", native: "-n 600", own: "iterations: 600, depth: 128" },
];

if (import.meta.main) {
  const only = Deno.args.join(" ");
  for (const { test, native, own } of PAIRS) {
    if (!`${test} ${native}`.includes(only)) continue;
    try {
      const theirs = await runNative(
        scenarioOf({
          binary: test,
          packaged: "perftest",
          options: native.split(" "),
          client: ["b"],
        }),
      );
      console.log(test, native, theirs.requestCount, Math.round(theirs.wallMs), "ms");
      for (const line of linesOf(theirs.lines["a"]!)) {
        console.log("  native", JSON.stringify(line.figures));
      }
      for (const line of ownLines(test, own)) console.log("  own   ", JSON.stringify(line.figures));
    } catch (error) {
      console.log(test, native, String(error));
    }
  }
}
