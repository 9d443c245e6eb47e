import { deepStrictEqual as same, equal, ok, rejects } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import type { Counterexample, ExploreOptions } from "../types.ts";
import { EXPLORE_DEFAULTS } from "../types.ts";
import type { Planned, Turned } from "./interleavings.ts";
import type { Race, RunRaces, StepPlace } from "./order.ts";
import { interleave } from "./search.ts";

function stepOf(by: string, number: number): StepPlace {
  return { node: by, by, kind: "access", number, begin: number * 100, end: number * 100 + 50 };
}

function raceOf(number: number, kind: StepPlace["kind"] = "access"): Race {
  return { first: { ...stepOf("a", number), kind }, second: stepOf("b", number + 1) };
}

const BEGUN: RunRaces = { key: "begin", races: Array.from({ length: 12 }, (_, i) => raceOf(i)) };
const COUNTEREXAMPLE = { found: "wrong" } as unknown as Counterexample;

type Outcome = Partial<Turned> & { readonly error?: string };

/** What a made-up rack shows where these are held: two more races while there are few holds. */
function turned({ holds, race }: Planned, outcome: (names: string) => Outcome): Turned {
  const { by, number, begin: from } = race.first, { end: until } = race.second;
  const all = [...holds, { node: by, by, step: "access" as const, number, until, from }];
  const names = all.map((hold) => hold.number).join(" ");
  const races = [raceOf(number + 20), raceOf(number + 30)];
  const { error, ...own } = outcome(names);
  if (error !== undefined) throw new Error(error);
  const found = { key: names, races };
  return { runs: 1, holds: all, isTurned: true, found, counterexample: null, ...own };
}

function readyLanes(lanes: number): Promise<void>[] {
  return Array.from({ length: lanes }, () => Promise.resolve());
}

/** A search by so many lanes, each run of which takes another time. */
async function searched(
  { lanes, ready = readyLanes(lanes), outcome = () => ({}), options = {}, begun = BEGUN }: {
    readonly lanes: number;
    readonly ready?: readonly Promise<unknown>[];
    readonly outcome?: (names: string) => Outcome;
    readonly options?: Partial<ExploreOptions>;
    readonly begun?: RunRaces;
  },
) {
  const rng = rngFor(lanes, "search");
  const busy = new Set<number>();
  let most = 0;
  const shares: number[] = [];
  const found = await interleave(begun, { ...EXPLORE_DEFAULTS, ...options }, {
    turning: {
      ready,
      async turn(planned, lane) {
        ok(!busy.has(lane), "a lane makes one run at a time");
        busy.add(lane);
        most = Math.max(most, busy.size);
        await sleep(rng.below(3));
        busy.delete(lane);
        return turned(planned, outcome);
      },
    },
    onProgress: ({ share }) => void shares.push(share),
  });
  return { found, most, shares };
}

describe("interleave", () => {
  it("finds the same with any number of lanes, and has all of them work", async () => {
    const cases: readonly (readonly [string, (names: string) => Outcome])[] = [
      ["all hold", () => ({})],
      ["one breaks", (names) => names === "7" ? { counterexample: COUNTEREXAMPLE } : {}],
      ["a later one breaks", (names) => names === "3 23" ? { counterexample: COUNTEREXAMPLE } : {}],
      ["some have no end", (names) => names.startsWith("4") ? { found: null } : {}],
      ["some are not turned", (names) => ({ isTurned: !names.endsWith("31"), runs: 4 })],
      ["some are alike", (names) => ({ found: { key: names.slice(0, 1), races: [raceOf(70)] } })],
    ];
    for (const [name, outcome] of cases) {
      for (const interleavings of [2000, 30, 5]) {
        const options = { interleavings };
        const alone = await searched({ lanes: 1, outcome, options });
        for (const lanes of [2, 5]) {
          const { found, most } = await searched({ lanes, outcome, options });
          same(found, alone.found, `${name}, ${lanes} lanes`);
          equal(most, lanes);
        }
      }
    }
  });

  it("counts runs, orders, and what was not tried", async () => {
    const { found, shares } = await searched({ lanes: 3 });
    // 12 races, each with two of its own, and of each of these two more that would be a third preemption.
    same(found, {
      counts: {
        runs: 12 + 24,
        orders: 1 + 12 + 24,
        preemptions: 2,
        stallPs: EXPLORE_DEFAULTS.stall,
        untried: 48,
      },
      counterexample: null,
    });
    same(shares, shares.toSorted((x, y) => x - y));
    equal(shares.at(-1), 1);
    const short = await searched({ lanes: 2, options: { stall: 1 } });
    equal(short.found!.counts.runs, 0);
    equal(short.found!.counts.untried, 12);
    const begun = { key: "", races: [raceOf(1, "dma"), raceOf(2)] };
    equal((await searched({ lanes: 2, begun })).found!.counts.untried, 1 + 4);
    equal((await searched({ lanes: 2, begun: { key: "", races: [] } })).found, undefined);
  });

  it("throws what the first run in the plan's order throws, and nothing of runs behind a counterexample", async () => {
    const thrown = (names: string): Outcome => names === "9" ? { error: "nine" } : {};
    await rejects(searched({ lanes: 3, outcome: thrown }), /nine/);
    const broken = (names: string): Outcome =>
      names === "8" ? { counterexample: COUNTEREXAMPLE } : thrown(names);
    for (const lanes of [1, 4]) {
      equal((await searched({ lanes, outcome: broken })).found!.counterexample, COUNTEREXAMPLE);
    }
  });

  it("begins no run once it has made as many as are wanted", async () => {
    let begun = 0;
    const outcome = (): Outcome => ++begun > 5 ? { error: "a sixth one" } : {};
    const { found } = await searched({ lanes: 1, outcome, options: { interleavings: 5 } });
    same([found!.counts.runs, found!.counts.untried], [5, 12 - 5 + 2 * 5]);
  });

  it("has all runs made by lanes that are ready, and none by one that is when it is over", async () => {
    const late = Promise.withResolvers<void>(),
      ready = [
        late.promise,
        Promise.resolve(),
        Promise.reject(new Error("no memory")),
      ];
    const { found, most } = await searched({ lanes: 3, ready });
    same(found, (await searched({ lanes: 1 })).found);
    equal(most, 1);
    const turns: number[] = [];
    const broken = { counterexample: COUNTEREXAMPLE };
    await interleave(BEGUN, EXPLORE_DEFAULTS, {
      turning: {
        ready,
        turn(planned, lane) {
          turns.push(lane);
          return Promise.resolve(turned(planned, () => broken));
        },
      },
      onProgress: () => {},
    });
    late.resolve();
    await sleep(1);
    ok(turns.every((lane) => lane === 1), `${turns}`);
  });

  it("does not wait for a run that is under way when it is stopped, and counts it as not tried", async () => {
    let isStopped = false;
    const under = Promise.withResolvers<never>();
    const search = interleave(BEGUN, { ...EXPLORE_DEFAULTS, stopped: () => isStopped }, {
      turning: { ready: readyLanes(2), turn: () => under.promise },
      onProgress: () => {},
    });
    isStopped = true;
    const { why, counts } = (await search)!;
    equal(why, "it was interrupted after 0 interleavings");
    equal(counts.untried, 12);
    // As of a process that is ended: the search does not take it.
    under.reject(new Error("ended"));
  });
});
