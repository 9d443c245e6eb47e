/**
 * (y) Native programs: what a request and a packet cost with Debian's perftest, beside the same work in
 * `rack perftest`'s program. Each figure is the difference of two lengths, in turns: start-up and the 219 ms
 * in which perftest measures its clock are in neither.
 */
import { executableInPath } from "../../console/base/executables.ts";
import { say } from "../commands/output.ts";
import { runNative, scenarioOf } from "../native/runs.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";
import type { Figure, Measured } from "./figure.ts";
import { cpuMs } from "./traffic_rack.ts";

interface Work {
  readonly test: string;
  /** Messages of the shorter and of the longer run. */
  readonly lengths: readonly [number, number];
  readonly native: string;
  /** The same in a scenario's syntax. */
  readonly own: string;
  /** Data packets of a message. */
  readonly packets: number;
}

const LATENCY: Work = {
  test: "ib_send_lat",
  lengths: [100, 1100],
  native: "-I 0",
  own: "inlineBytes: 0",
  packets: 2,
};
const BANDWIDTH: Work = {
  test: "ib_write_bw",
  lengths: [20, 220],
  native: "-s 65536",
  own: "size: 65536, depth: 128",
  packets: 16,
};

interface Cost {
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly requests: number;
}

async function nativeCost({ test, native }: Work, messages: number): Promise<Cost> {
  const options = [...native.split(" "), "-n", String(messages)];
  const text = scenarioOf({ binary: test, packaged: "perftest", options, client: ["b"] });
  const began = cpuMs();
  const { wallMs, requestCount: requests, codes } = await runNative(text);
  if (codes.some((code) => code !== 0)) throw new Error(`${test} ended with ${codes}`);
  return { wallMs, cpuMs: cpuMs() - began, requests };
}

function ownCost({ test, own }: Work, messages: number): Cost {
  const text = [
    "name: own",
    "hosts: { a: { services: none }, b: { services: none } }",
    "programs:",
    "  - { on: b, run: perftest-server }",
    `  - { on: a, run: perftest, to: b, test: ${test}, iterations: ${messages}, ${own} }`,
  ].join("\n") + "\n";
  const began = cpuMs(), start = performance.now();
  simulatorOf(planOf(text), () => {}).run();
  return { wallMs: performance.now() - start, cpuMs: cpuMs() - began, requests: 0 };
}

/** What the longer run takes beyond the shorter. */
function beyond([short, long]: readonly Cost[]): Cost {
  return {
    wallMs: long!.wallMs - short!.wallMs,
    cpuMs: long!.cpuMs - short!.cpuMs,
    requests: long!.requests - short!.requests,
  };
}

/** None where perftest is not installed. */
export async function measureNative({ quick }: Measured): Promise<Figure[]> {
  if (executableInPath("ib_send_lat") === undefined) {
    say("perftest is not installed: native programs are left out");
    return [];
  }
  const figures: Figure[] = [];
  for (const work of [LATENCY, BANDWIDTH]) figures.push(...await measure(work, quick));
  return figures;
}

async function measure(work: Work, quick: boolean): Promise<Figure[]> {
  const { test, lengths: [least, most], packets } = work;
  const messages = most - least;
  const perSecond: number[] = [], microseconds: number[] = [], ratios: number[] = [];
  const requests: number[] = [], packetRates: number[] = [];
  // The first turn is V8's.
  for (let turn = -1; turn < (quick ? 1 : 5); turn++) {
    say(`${test}, native and own, turn ${turn + 1}`);
    const native = beyond([await nativeCost(work, least), await nativeCost(work, most)]);
    const own = beyond([ownCost(work, least), ownCost(work, most)]);
    if (turn < 0) continue;
    perSecond.push(native.requests / (native.wallMs / 1_000));
    microseconds.push(1_000 * native.cpuMs / native.requests);
    ratios.push(native.cpuMs / own.cpuMs);
    requests.push(native.requests / messages);
    packetRates.push(messages * packets / (native.wallMs / 1_000));
  }
  const figure = (what: string, unit: string, values: readonly number[]): Figure => ({
    group: "y",
    what: `${test}, native: ${what}`,
    unit,
    values,
  });
  return [
    figure("requests", "requests/s", perSecond),
    figure("data packets", "packets/s", packetRates),
    figure("processor time of the host's process", "µs/request", microseconds),
    figure("requests of both ends", "requests/message", requests),
    figure(
      test === "ib_send_lat" ? "a message, over a generator's" : "a packet, over a generator's",
      "processor time",
      ratios,
    ),
  ];
}
