/** What a timekeeper grants over a run, against the formula as it is written. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../base/property_testing.ts";
import { type Rng, rngFor } from "../base/rng.ts";
import { NEVER, type Time } from "../base/time.ts";
import { toyRack } from "../runner/clock_testing.ts";
import { allDistances, type Graph, graphs } from "../rack/plan/distances_testing.ts";
import type { Grant, Report } from "./clock.ts";
import { plainHorizon, reportOf, Rig } from "./timekeeper_testing.ts";

const NAMES = Array.from({ length: 12 }, (_, i) => `p${String(i).padStart(2, "0")}`);

/** A rack whose partitions do at random what they may, and what each can do next as a reader would count it. */
class RandomRun {
  readonly #graph: Graph;
  readonly #rng: Rng;
  readonly #rig: Rig;
  readonly #distance: Time[][];
  /** The earliest event of each partition, and the earliest that was sent to it since its grant. */
  readonly #next: Time[];
  readonly #inbound: Time[];
  readonly #running = new Map<number, Grant>();
  readonly #sent = new Map<string, number>();
  /** Power failures and returns that are to come on record, and those that are known to have. */
  #due = 0;
  #recorded = 0;

  constructor(graph: Graph, seed: number) {
    this.#graph = graph;
    this.#rng = rngFor(seed, "reports");
    this.#distance = allDistances(graph);
    const names = NAMES.slice(0, graph.count);
    this.#rig = new Rig({
      plan: toyRack(seed, { names, cables: [] }),
      partitions: names.map((name) => ({ name, nodes: [name] })),
      crossings: graph.crossings,
      stayUp: true,
    });
    this.#next = names.map(() => 0);
    this.#inbound = names.map(() => NEVER);
    this.#rig.join(...names);
    for (const [name, grant] of this.#rig.take()) this.#running.set(NAMES.indexOf(name), grant);
    assert.equal(this.#running.size, names.length, "each begins");
  }

  get isQuiet(): boolean {
    return this.#running.size === 0;
  }

  step(): void {
    const running = [...this.#running.keys()];
    const at = running[this.#rng.below(running.length)]!;
    if (this.#rng.below(20) === 0) this.#loseAndReturn(at);
    else this.#report(at);
    this.#compare();
  }

  #report(at: number): void {
    const { id, incarnation, horizon } = this.#running.get(at)!;
    const from = this.#effective(at);
    const ways = this.#graph.crossings.filter(({ from, to }) =>
      from === at && this.#rng.below(2) === 0 && to >= 0
    );
    const sent = ways.map(({ to, delayPs }): Report["sent"][number] => {
      const key = `${at} ${to}`, count = (this.#sent.get(key) ?? 0) + 1;
      this.#sent.set(key, count);
      return [NAMES[to]!, incarnation, count, from + delayPs + this.#rng.below(30)];
    });
    const next = this.#rng.below(4) === 0
      ? NEVER
      : Math.min(horizon, from + 40) + this.#rng.below(30);
    this.#running.delete(at);
    this.#next[at] = next;
    for (const [peer, , , earliest] of sent) {
      const to = NAMES.indexOf(peer);
      this.#inbound[to] = Math.min(this.#inbound[to]!, earliest);
    }
    const ran = from === NEVER ? 0 : from;
    this.#rig.report(NAMES[at]!, {
      ...reportOf(NAMES[at]!, {}),
      incarnation,
      grant: id,
      next,
      ran,
      sent,
    });
  }

  /** Its process dies and another one comes: each as soon as nothing runs, its power is off, and on again. */
  #loseAndReturn(at: number): void {
    const name = NAMES[at]!;
    this.#running.delete(at);
    this.#rig.keeper.died(name);
    this.#due++;
    this.#compare();
    this.#rig.keeper.join({ partition: name, instance: `${name}-${this.#due}` });
    this.#due++;
    for (const key of this.#sent.keys()) if (key.startsWith(`${at} `)) this.#sent.delete(key);
  }

  #effective(at: number): Time {
    return Math.min(this.#next[at]!, this.#inbound[at]!);
  }

  #compare(): void {
    const { records, keeper } = this.#rig;
    if (records.length > this.#recorded) {
      this.#recorded = records.length;
      // What a power failure changes is not the formula's: it is as the timekeeper says.
      for (const [i, { next }] of keeper.why().entries()) {
        this.#next[i] = next;
        this.#inbound[i] = NEVER;
      }
    }
    const next = this.#next.map((_, i) => this.#effective(i));
    const statuses = keeper.why().map(({ status }) => status);
    const expected = NAMES.slice(0, this.#graph.count).flatMap((name, p) => {
      const mayRun = this.#recorded === this.#due && !this.#running.has(p) &&
        statuses[p] !== "dead";
      const horizon = plainHorizon(p, { next, distance: this.#distance });
      return mayRun && next[p]! < horizon ? [[name, horizon] as const] : [];
    });
    const granted = this.#rig.take();
    assert.deepEqual(granted.map(([name, { horizon }]) => [name, horizon]), expected);
    for (const [name, grant] of granted) {
      const at = NAMES.indexOf(name);
      this.#running.set(at, grant);
      this.#next[at] = next[at]!;
      this.#inbound[at] = NEVER;
    }
  }
}

describe("Timekeeper", () => {
  it("grants by the formula as it is written, to all that may run and at once", () => {
    let reports = 0;
    fc.assert(
      fc.property(graphs(NAMES.length), fc.nat(), (graph, seed) => {
        const run = new RandomRun(graph, seed);
        for (let i = 0; i < 60 && !run.isQuiet; i++, reports++) run.step();
      }),
      seeded({ numRuns: 300 }),
    );
    assert.ok(reports > 5_000, `${reports} reports`);
  });
});
