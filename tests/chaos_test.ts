/**
 * Processes, timekeeper and broker killed and started at random in the middle of a transfer. Whatever
 * comes of it: the run ends, what was reported persisted is there, and the record of power failures
 * replays the run in one process, unless the run itself says that it cannot.
 *
 * `RACKMESH_TEST_SEED=17 RACKMESH_TEST_RUNS=1 deno test -A tests/chaos_test.ts` repeats one. What is
 * done follows from the seed; when it hits, from the machine.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import type { Supervisor } from "../console/server/supervisor.ts";
import { sleep } from "../fabric/bus/wall_time.ts";
import { METHODS } from "../fabric/rack/vocabulary.ts";
import { type Rng, rngFor } from "../fabric/time/rng.ts";
import { firstLoss, firstTorn, isReportedOnce } from "./checkers/survival.ts";
import {
  RackBench,
  type Ran,
  recordedFaults,
  type RunOf,
  summaryOf,
  survivorOf,
} from "./support/process_rack.ts";

const FIRST_SEED = Number(Deno.env.get("RACKMESH_TEST_SEED") ?? 1);
const RUNS = Number(Deno.env.get("RACKMESH_TEST_RUNS") ?? 6);

/** For one run, which takes a second: a busy machine needs longer, a rack that waits for ever does not end. */
const DEADLINE_MS = 30_000;

const PARTITIONS = {
  node: ["a", "a-rnic", "b", "b-rnic", "tor"],
  machine: ["a", "b", "tor"],
} as const;

/** What is done to a rack, and how long to wait after it in ms. */
interface Blow {
  readonly what: "kill" | "start" | "restart broker";
  readonly process: string;
  readonly pauseMs: number;
}

function pick<T>(rng: Rng, from: readonly T[]): T {
  return from[rng.below(from.length)]!;
}

/** One to four blows, of which a start of what lives and a kill of what is dead do nothing. */
function blowsOf(rng: Rng, processes: readonly string[]): Blow[] {
  return Array.from({ length: 1 + rng.below(4) }, (): Blow => {
    const what = pick(rng, ["kill", "kill", "kill", "start", "restart broker"] as const);
    // The timekeeper comes back by itself.
    const process = pick(rng, what === "kill" ? [...processes, "timekeeper"] : processes);
    return { what, process, pauseMs: rng.below(60) };
  });
}

async function strike(blow: Blow, on: { rack: Supervisor; bench: RackBench }): Promise<void> {
  const { rack, bench } = on;
  if (blow.what === "kill") rack.kill(blow.process);
  else if (blow.what === "start") rack.startPartition(blow.process);
  else {
    await bench.killServer();
    await bench.server.restart();
  }
}

/** Strikes until the run is over: what is done after that hits nothing, or what is no part of it. */
async function strikeAll(
  blows: readonly Blow[],
  on: { rack: Supervisor; bench: RackBench },
): Promise<void> {
  let isOver = false;
  const end = () => isOver = true;
  on.rack.finished.then(end, end);
  for (const blow of blows) {
    if (isOver) return;
    await strike(blow, on);
    await sleep(blow.pauseMs);
  }
}

/** Runs a rack; one that does not come to its end is taken down and fails with whom it waits for. */
async function runInTime(bench: RackBench, run: RunOf): Promise<Ran> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let late: string | undefined;
  const onStart = (rack: Supervisor) => {
    timer = setTimeout(async () => {
      const status = await rack.status();
      late = `No end after ${DEADLINE_MS} ms: ${JSON.stringify(status ?? "no timekeeper answers")}`;
      await rack.down();
    }, DEADLINE_MS);
  };
  try {
    return await bench.run({ ...run, onStart });
  } catch (error) {
    throw late === undefined ? error : new Error(late, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

function runOf(seed: number): { run: RunOf; blows: readonly Blow[]; share: number } {
  const rng = rngFor(seed, "chaos");
  const packing = pick(rng, ["node", "node", "machine"] as const);
  const run: RunOf = {
    scenario: new URL("../scripts/scenarios/persist_pair.yaml", import.meta.url),
    method: pick(rng, METHODS),
    ddio: pick(rng, ["off", "on"] as const),
    packing,
    seed,
    inputBytes: 24 * 1024 - rng.below(1000),
    size: 1024,
    depth: 1 + rng.below(6),
    delayMsMax: 1 + rng.below(3),
  };
  return {
    run,
    blows: blowsOf(rng, PARTITIONS[packing]),
    share: 0.05 + 0.5 * rng.below(100) / 100,
  };
}

describe("Chaos", () => {
  let bench: RackBench;

  beforeAll(async () => {
    bench = await RackBench.open();
  });

  afterAll(() => bench.close());

  async function assertSurvival(ran: Ran): Promise<void> {
    for (const put of ran.puts) {
      const survived = await survivorOf(ran, put);
      assert.equal(firstLoss(put, ran.file, survived), undefined);
      assert.equal(firstTorn(put, ran.file, survived), undefined);
      assert.ok(isReportedOnce(put));
    }
  }

  for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed++) {
    const { run, blows, share } = runOf(seed);
    const { method, ddio, packing } = run;
    const told = blows.map(({ what, process }) =>
      what === "restart broker" ? what : `${what} ${process}`
    );
    it(`P-41: seed ${seed}: ${method}, DDIO ${ddio}, ${packing}: ${told.join(", ")}`, async () => {
      let struck: Promise<void> | undefined;
      const act = (rack: Supervisor) => {
        struck = strikeAll(blows, { rack, bench });
      };
      const ran = await runInTime(bench, { ...run, midway: { share, act } })
        .finally(() => struck);
      await assertSurvival(ran);
      if (!summaryOf(ran).exact) return;
      const faults = await recordedFaults(ran);
      const replayed = await bench.run({ ...run, faults, packing: "all" });
      assert.equal(replayed.outcome.digest, ran.outcome.digest, JSON.stringify(faults));
    });
  }
});
