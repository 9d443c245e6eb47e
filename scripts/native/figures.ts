/**
 * `deno run -A scripts/native/figures.ts [WORDS]`: Debian's perftest and the rack's own program on the same two
 * hosts, line by line. A difference that the programs do not explain ends it with code 1.
 *
 * What differs: perftest reads its clock for each message (10 ns), its loops and stores take no time, where
 * the rack's program pays for the load that finds a message and for the store of its mark (20 and 5 ns);
 * and its polls come every 30 ns, so that they find a completion up to that much later.
 */
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import { PS_PER_NS, PS_PER_S, PS_PER_US } from "../../fabric/base/time.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import type { PerftestResult, PerftestRow } from "../../nodes/host/programs/perftest/client.ts";
import { runNative, scenarioOf } from "./runs.ts";

/** A test, with the options of both programs. */
export interface Pair {
  readonly test: string;
  readonly native: string;
  /** The same in a scenario's syntax. */
  readonly own: string;
  /** By how much perftest's figure may be above ours, in ns for each message: {@link LOOP} … */
  readonly explained: readonly [least: number, most: number];
}

/** perftest prints two digits behind the point: half of the last. */
const ROUNDING = 5;
/**
 * A loop on memory: no load (20 ns) and no store (5 ns), but the clock (10 ns). Half of the time between two
 * posts in a trace of both: 1705.234 and 1720.234 ns with 2 B.
 */
const LOOP = [-15 - ROUNDING, -15 + ROUNDING] as const;
/**
 * Inline: the library's copy is a store of the host's, as the mark is one of the rack's program. 926.241 and
 * 936.241 ns with 64 B, 900.805 and 910.805 ns with 2 B over UC.
 */
const INLINE_LOOP = [-10 - ROUNDING, -10 + ROUNDING] as const;
/**
 * perftest clears the buffer of ib_write_lat, which the host cannot tell from memory that was never stored: where
 * the mark is not in the first line, the card's read of that one comes from DRAM, 66 ns later. 2811.282 and
 * 2760.282 ns with 4 KiB, 7824.882 and 7773.882 ns with 64 KiB.
 */
const COLD_LOOP = [51 - ROUNDING, 51 + ROUNDING] as const;
/** A completion: the clock, and a poll that comes up to 30 ns after it. */
const POLL = [-ROUNDING, 10 + 30 + ROUNDING] as const;
/** A message of many in flight, where the requester's core is the bound: the clock. */
const CLOCK = [9, 11] as const;
/** The wire or the card is the bound: the same within a thousandth of a message. */
const NONE = [-2, 2] as const;

export const PAIRS: readonly Pair[] = [
  pair("ib_write_lat", "-n 100 -I 0", "iterations: 100, inlineBytes: 0", LOOP),
  pair("ib_write_lat", "-n 100 -s 64", "iterations: 100, size: 64", INLINE_LOOP),
  pair("ib_write_lat", "-n 100 -s 4096", "iterations: 100, size: 4096", COLD_LOOP),
  pair("ib_write_lat", "-n 30 -s 65536", "iterations: 30, size: 65536", COLD_LOOP),
  pair("ib_write_lat", "-n 100 -c UC", "iterations: 100, connection: UC", INLINE_LOOP),
  pair("ib_send_lat", "-n 100 -I 0", "iterations: 100, inlineBytes: 0", POLL),
  pair("ib_send_lat", "-n 100 -s 4096", "iterations: 100, size: 4096", POLL),
  pair("ib_send_lat", "-n 100 -c UC", "iterations: 100, connection: UC", POLL),
  pair("ib_send_lat", "-n 100 -c UD -s 64", "iterations: 100, connection: UD, size: 64", POLL),
  pair("ib_read_lat", "-n 100", "iterations: 100", POLL),
  pair("ib_read_lat", "-n 100 -s 4096", "iterations: 100, size: 4096", POLL),
  pair("ib_atomic_lat", "-n 100", "iterations: 100", POLL),
  pair("ib_write_bw", "-n 100", "iterations: 100, depth: 128", NONE),
  pair("ib_write_bw", "-n 600 -s 64", "iterations: 600, size: 64, depth: 128", CLOCK),
  pair("ib_write_bw", "-n 600 -s 64 -q 4", "iterations: 600, size: 64, depth: 128, qps: 4", CLOCK),
  pair(
    "ib_write_bw",
    "-n 600 -s 64 -l 8",
    "iterations: 600, size: 64, depth: 128, postList: 8",
    NONE,
  ),
  pair("ib_write_bw", "-n 60 -b", "iterations: 60, depth: 128, bidirectional: true", NONE),
  pair("ib_send_bw", "-n 100", "iterations: 100, depth: 128", NONE),
  pair("ib_send_bw", "-n 600 -s 64", "iterations: 600, size: 64, depth: 128", NONE),
  pair(
    "ib_send_bw",
    "-n 300 -c UD -s 4096",
    "iterations: 300, depth: 128, connection: UD, size: 4096",
    NONE,
  ),
  pair("ib_read_bw", "-n 100", "iterations: 100, depth: 128", NONE),
  pair("ib_read_bw", "-n 600 -s 64", "iterations: 600, size: 64, depth: 128", NONE),
  pair("ib_atomic_bw", "-n 600", "iterations: 600, depth: 128", NONE),
];

function pair(test: string, native: string, own: string, explained: Pair["explained"]): Pair {
  return { test, native, own, explained };
}

/** A line of a test, as ns for a message: the typical latency, or the time of one of many. */
interface Line {
  readonly bytes: number;
  readonly ns: number;
}

const NS_PER_US = PS_PER_US / PS_PER_NS, NS_PER_S = PS_PER_S / PS_PER_NS;

/** Lines of perftest's table: size, iterations, then t_min, t_max, t_typical … or peak, average, rate in Mpps. */
export function linesOf(output: readonly string[]): Line[] {
  return output.filter((line) => /^ \d+ +\d+ +[\d.]+/.test(line)).map((line) => {
    const [bytes, , ...figures] = line.trim().split(/\s+/).map(Number);
    const isLatency = figures.length >= 7;
    const ns = isLatency ? figures[2]! * NS_PER_US : NS_PER_US / figures[2]!;
    return { bytes: bytes!, ns };
  });
}

function lineOf(row: PerftestRow): Line {
  if (row.measures === "latency") return { bytes: row.bytes, ns: row.typicalPs / PS_PER_NS };
  if (row.measures !== "bandwidth") throw new Error(`A test by time has no line: ${row.measures}`);
  return { bytes: row.bytes, ns: NS_PER_S / row.messagesPerSecond };
}

/** The same lines of the rack's own program. */
export function ownLines({ test, own }: Pair): Line[] {
  const text = [
    "name: own",
    "hosts: { a: { services: none }, b: { services: none } }",
    "programs:",
    "  - { on: b, run: perftest-server }",
    `  - { on: a, run: perftest, to: b, test: ${test}, ${own} }`,
  ].join("\n") + "\n";
  const plan = makePlan(variants(parseScenario(text, "own.yaml"))[0]!);
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
  return result!.rows.map(lineOf);
}

export async function nativeLines({ test, native }: Pair): Promise<Line[]> {
  const options = native.split(" ");
  const text = scenarioOf({ binary: test, packaged: "perftest", options, client: ["b"] });
  const { codes, lines } = await runNative(text);
  if (codes.some((code) => code !== 0)) throw new Error(`${test} ${native} ended with ${codes}`);
  return linesOf(lines["a"]!);
}

/** Whether a difference of two lines is explained. @param ns perftest's less ours. */
export function isExplained({ explained: [least, most] }: Pair, ns: number): boolean {
  return ns >= least && ns <= most;
}

if (import.meta.main) {
  const only = Deno.args.join(" ");
  let isWrong = false;
  for (const each of PAIRS) {
    const { test, native, explained } = each;
    if (!`${test} ${native}`.includes(only)) continue;
    const theirs = await nativeLines(each), ours = ownLines(each);
    for (const [i, { bytes, ns }] of theirs.entries()) {
      const more = ns - ours[i]!.ns, isRight = isExplained(each, more);
      isWrong ||= !isRight;
      const cells = [isRight ? "ok  " : "FAIL", `${test} ${native}`.padEnd(34), `${bytes} B`];
      const figures = [ns, ours[i]!.ns, more].map((value) => value.toFixed(1)).join(", ");
      console.log(
        ...cells,
        `perftest, ours, more: ${figures} ns; explained: ${explained.join(" to ")}`,
      );
    }
  }
  if (isWrong) Deno.exit(1);
}
