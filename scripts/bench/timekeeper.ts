/**
 * (j) All partitions have something to do, and send to one another as far as their cables let them.
 */
import { emptyDigest } from "../../fabric/partition/digest.ts";
import type { Grant, Report } from "../../fabric/clock/clock.ts";
import type { ClockOutputs } from "../../fabric/clock/membership.ts";
import { Timekeeper } from "../../fabric/clock/timekeeper.ts";
import { type Rng, rngFor } from "../../fabric/base/rng.ts";
import { NEVER, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { partitionsOf } from "../../fabric/rack/assembly/topology.ts";
import { type Crossing, crossings } from "../../fabric/rack/plan/lookahead.ts";
import { planOf, scenarioText } from "./bench_rack.ts";
import { type Figure, type Measured, repeat } from "./figure.ts";
import { cpuMs } from "./traffic_rack.ts";

const HOSTS = [32, 64, 200, 400];

export function measureTimekeeper({ seed, quick }: Measured): Figure[] {
  const [reports, times] = quick ? [5_000, 3] : [20_000, 9];
  const loads = HOSTS.map((hosts) => new RandomReports(hosts, seed));
  // In turns: other load of the machine affects all of them.
  const rounds = repeat(times, () => loads.map((load) => 1_000 * load.run(reports) / reports));
  const rows = HOSTS.map((hosts, i): Figure => ({
    group: "j",
    what: `timekeeper, ${2 * hosts + 1} partitions: a report`,
    unit: "µs",
    values: rounds.map((round) => round[i]!),
  }));
  const what = "the same, 801 partitions over 65";
  const values = rounds.map((round) => round.at(-1)! / round[0]!);
  return [...rows, { group: "j", what, unit: "×", values, target: { is: "at most", value: 2 } }];
}

class RandomReports {
  readonly #rng: Rng;
  readonly #keeper: Timekeeper;
  readonly #names: readonly string[];
  readonly #index: ReadonlyMap<string, number>;
  readonly #ways: readonly (readonly Crossing[])[];
  readonly #next: Float64Array;
  readonly #sent = new Map<string, number>();
  readonly #running: { readonly partition: string; readonly grant: Grant }[] = [];

  constructor(hosts: number, seed: number) {
    const plan = planOf(scenarioText({ hosts, seed, writers: 0 }));
    const partitions = partitionsOf(plan, "node");
    const between = crossings(plan, partitions);
    this.#rng = rngFor(seed, "reports");
    this.#names = partitions.map(({ name }) => name);
    this.#index = new Map(this.#names.map((name, i) => [name, i]));
    this.#ways = this.#names.map((_, i) => between.filter(({ from }) => from === i));
    this.#next = new Float64Array(this.#names.length);
    const none = () => {};
    const out: ClockOutputs = {
      ...{ welcome: none, ask: none, kill: none, start: none, record: none, inexact: none },
      grant: (partition, grant) => this.#running.push({ partition, grant }),
      finished: none,
    };
    this.#keeper = new Timekeeper({
      ...{ plan, partitions, crossings: between, term: 0, recorded: [], inexact: false },
      ...{ stayUp: true, wallMs: () => 0 },
    }, out);
    for (const partition of this.#names) this.#keeper.join({ partition, instance: partition });
  }

  /** @returns processor time in ms. */
  run(count: number): number {
    const began = cpuMs();
    for (let i = 0; i < count; i++) this.#report();
    return cpuMs() - began;
  }

  #report(): void {
    const at = this.#rng.below(this.#running.length);
    const { partition, grant } = this.#running[at]!;
    this.#running[at] = this.#running.at(-1)!;
    this.#running.pop();
    const index = this.#index.get(partition)!;
    const now = this.#next[index]!;
    const next = now + 1 + this.#rng.below(PS_PER_US);
    this.#next[index] = next;
    const { high, low } = emptyDigest();
    this.#keeper.report({
      ...{ term: 0, partition, incarnation: 0, grant: grant.id, reached: grant.horizon, next },
      ...{ now, ran: now, events: 1, sent: this.#send(index, now), hits: [], taken: null },
      digests: [[partition, high, low, 1]],
    });
  }

  #send(from: number, now: Time): Report["sent"] {
    const ways = this.#ways[from]!;
    const { to, delayPs } = ways[this.#rng.below(ways.length)]!;
    const earliest = now + delayPs + this.#rng.below(PS_PER_US);
    this.#next[to] = Math.min(this.#next[to] ?? NEVER, earliest);
    const key = `${from} ${to}`, count = (this.#sent.get(key) ?? 0) + 1;
    this.#sent.set(key, count);
    return [[this.#names[to]!, 0, count, earliest]];
  }
}
