import { deepStrictEqual as same, ok, rejects } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { playInOrder } from "./play_in_order.ts";

const ROUNDS = 12;
const JOBS = [1, 2, 3, 5];

/** A campaign that says what it does: plays and replays take any time. */
function campaign(
  { jobs, seed, fails = () => {} }: {
    readonly jobs: number;
    readonly seed: number;
    /** Throws where the work on a round is to fail. */
    readonly fails?: (work: "play" | "replay" | "report", place: number) => void;
  },
) {
  const rng = rngFor(seed, "rounds");
  const reported: string[] = [], busy = new Set<number>();
  const most = { played: 0, unreported: 0, replayed: 0 };
  let played = 0, playing = 0;
  const ended = playInOrder({
    jobs,
    async play(place) {
      most.played = Math.max(most.played, ++playing);
      await sleep(rng.below(3));
      fails("play", place);
      playing--;
      played++;
      most.unreported = Math.max(most.unreported, played - reported.length);
      return place;
    },
    isOver: (rounds) => rounds === ROUNDS,
    async replay(place, lane) {
      ok(!busy.has(lane), "the lane is free");
      ok(lane < Math.max(1, jobs - 1));
      busy.add(lane);
      most.replayed = Math.max(most.replayed, busy.size);
      await sleep(rng.below(8));
      busy.delete(lane);
      fails("replay", place);
      return `replay ${place}`;
    },
    async report(result, round) {
      await sleep(rng.below(2));
      fails("report", round);
      reported.push(`${result} ${round}`);
    },
  });
  return { ended, reported, most };
}

const lines = (count: number) => Array.from({ length: count }, (_, i) => `replay ${i} ${i}`);

describe("playInOrder", () => {
  it("reports on the rounds in their order, for any number of jobs", async () => {
    for (const jobs of JOBS) {
      for (const seed of [1, 2, 3]) {
        const { ended, reported } = campaign({ jobs, seed });
        await ended;
        same(reported, lines(ROUNDS));
      }
    }
  });

  it("plays one at a time, and holds back while as many as there are jobs have no report", async () => {
    for (const jobs of JOBS) {
      const { ended, most } = campaign({ jobs, seed: 7 });
      await ended;
      same(most.played, 1);
      ok(most.unreported <= jobs, `${most.unreported} of ${jobs}`);
      ok(most.replayed <= Math.max(1, jobs - 1), `${most.replayed} of ${jobs}`);
    }
  });

  it("replays while it plays, with more than one job", async () => {
    const second = Promise.withResolvers<void>();
    await playInOrder({
      jobs: 2,
      play(place) {
        if (place === 1) second.resolve();
        return Promise.resolve(place);
      },
      isOver: (played) => played === 2,
      // The first replay ends only when the second round is under way.
      replay: () => second.promise,
      report: () => Promise.resolve(),
    });
  });

  it("fails when what was played by then has been reported on", async () => {
    for (const jobs of JOBS) {
      const fails = (work: string, place: number) => {
        if (work === "play" && place === 5) throw new Error("no rack");
      };
      const { ended, reported } = campaign({ jobs, seed: 3, fails });
      await rejects(ended, /no rack/);
      same(reported, lines(5));
    }
  });

  it("reports on nothing behind a replay or a report that fails", async () => {
    for (const jobs of JOBS) {
      for (const wrong of ["replay", "report"]) {
        const fails = (work: string, place: number) => {
          if (work === wrong && place === 4) throw new Error("the disk is full");
        };
        const { ended, reported } = campaign({ jobs, seed: 4, fails });
        await rejects(ended, /the disk is full/);
        same(reported, lines(4));
      }
    }
  });
});
