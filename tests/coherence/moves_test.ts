/**
 * C-04: copies that a program at home moves between home's card and the far ones, under traffic and while parts of the
 * rack fail: no access sees anything old, and after a move accesses cost what they cost where the copies are.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import type { Cpu, Region, Steps } from "../../nodes/host/cpu/program.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import {
  findingsOfShared,
  randomProgram,
  recordOfShared,
  type SharedOf,
  sharedRack,
  sharedScenario,
} from "./shared_rack.ts";

type Place = "local" | "remote";
const PLACES: readonly Place[] = ["remote", "local"];
/** Of racks whose parts fail; more: `RACKMESH_MOVES_SEEDS=200 deno test -A tests/coherence/moves_test.ts`. */
const SEEDS = Number(Deno.env.get("RACKMESH_MOVES_SEEDS") ?? 10);

/** Random accesses of all hosts; home's second thread moves the copies, again and again. */
function movingProgram(of: { readonly seed: number; readonly accesses: number }): Program {
  const accesses = randomProgram(of);
  return function* (context) {
    const { cpu } = context;
    if (cpu.host === "a") cpu.spawn("moves", (own) => movesOf(own.cpu, of.accesses));
    yield* accesses(context);
  };
}

function* movesOf(cpu: Cpu, count: number): Steps<void> {
  for (let i = 0; i < count / 4; i++) {
    try {
      const region = yield* cpu.region("s");
      yield* region.move(i % 2 === 0 ? "local" : "remote");
      cpu.report("moved", { i });
    } catch (error) {
      if (!(error instanceof Error) || error.name !== "RegionRefused") throw error;
    }
    yield* cpu.sleep(1 + Math.floor(cpu.random() * 8 * PS_PER_US));
  }
}

/** A rack in which copies move, judged. @returns how often they have moved. */
function judged(of: SharedOf & { readonly seed: number; readonly accesses: number }): number {
  const record = recordOfShared(sharedRack({ ...of, program: movingProgram(of) }));
  assert.deepEqual(findingsOfShared(record), []);
  const failed = record.reports.filter(({ topic }) => topic === "program-failed");
  assert.deepEqual(failed.map(({ value }) => value), []);
  return record.reports.filter(({ topic }) => topic === "moved").length;
}

/** Runs a program on the hosts a, home, and b. */
function runOnTwo(program: Program, placement: Place | "auto"): SimulatedRack {
  const text = sharedScenario({ hosts: ["a", "b"] })
    .replace("placement: remote", `placement: ${placement}`);
  const rack = new SimulatedRack(text, { programs: { "./shared.ts": program } });
  rack.run();
  assert.deepEqual(rack.reported("program-failed"), []);
  return rack;
}

describe("a program that moves the copies of a region", () => {
  for (const placement of PLACES) {
    it(`C-03, C-04: under traffic: loads see what stores have left: begun ${placement}`, () => {
      for (const seed of [1, 2]) {
        const moves = judged({ seed, placement, accesses: 80 });
        assert.ok(moves >= 20, `${moves} moves`);
      }
    });

    it(`C-03, C-04: each placement's costs are seen after it: begun ${placement}`, () => {
      const took: Time[] = [];
      const rack = runOnTwo(function* ({ cpu }) {
        const region = yield* cpu.region("s");
        for (let phase = 0; phase < 4; phase++) {
          yield* cpu.sleep(100 * PS_PER_US * (phase + 1) - cpu.now);
          if (region.isHome) yield* region.move(PLACES[phase % 2]!);
          else took.push(yield* loadAgain(cpu, region));
        }
      }, placement);
      assert.equal(rack.reported("program-ended").length, 2);
      const [remote, local, again, last] = took as [Time, Time, Time, Time];
      assert.ok(3 * remote < local, `remote ${remote} ps, local ${local} ps`);
      assert.deepEqual([again, last], [remote, local]);
    });

    it(`C-04, decision 19: a far core's wait ends after a move to home's card, too: begun ${placement}`, () => {
      const woken: Time[] = [];
      runOnTwo(function* ({ cpu }) {
        const region = yield* cpu.region("s");
        yield* cpu.sleep(100 * PS_PER_US - cpu.now);
        if (!region.isHome) {
          for (const value of [1, 2]) {
            yield* region.load(0, 8);
            assert.equal(yield* region.waitChange(0, 8, 900 * PS_PER_US), "changed");
            assert.equal((yield* region.load(0, 1))[0], value);
            woken.push(cpu.now);
          }
          return;
        }
        for (const [i, place] of (["local", "remote"] as const).entries()) {
          // In the middle of the wait; the store comes much later.
          yield* cpu.sleep(100 * PS_PER_US);
          yield* region.move(place);
          yield* cpu.sleep(200 * PS_PER_US);
          yield* region.store(0, new Uint8Array(8).fill(i + 1));
        }
      }, placement);
      const late = woken.map((at, i) => at - (400 + 300 * i) * PS_PER_US);
      assert.equal(late.length, 2);
      assert.ok(late.every((ps) => ps > 0 && ps < 20 * PS_PER_US), `${late} ps`);
    });
  }

  it("C-03: is refused on far hosts, where home's judge moves them, and for a place that is none", () => {
    const refusalOf = (host: string, placement: Place | "auto", place: unknown) => {
      let text = "";
      runOnTwo(function* ({ cpu }) {
        if (cpu.host !== host) return;
        const region = yield* cpu.region("s");
        try {
          yield* region.move(place as Place);
        } catch (error) {
          assert.ok(error instanceof Error);
          const name = place === "auto" ? "ProgramError" : "RegionRefused";
          assert.equal(error.name, name);
          text = error.message;
        }
      }, placement);
      return text;
    };
    assert.match(refusalOf("b", "local", "remote"), /b is a far host, expected a program on a,/);
    assert.match(refusalOf("a", "auto", "remote"), /judge .*auto.* expected placement: local or/);
    assert.match(
      refusalOf("a", "local", "auto"),
      /place is "auto": expected one of "local", "remote"$/,
    );
    assert.equal(refusalOf("a", "local", "remote"), "");
  });
});

/** How long a load takes of a line that this host has loaded just before. */
function* loadAgain(cpu: Cpu, region: Region): Steps<Time> {
  yield* cpu.sleep(50 * PS_PER_US);
  yield* region.load(0, 8);
  const begin = cpu.now;
  yield* region.load(0, 8);
  return cpu.now - begin;
}

/** Faults of a rack with the hosts a, home, b and c, drawn from a seed; all parts are there again at the end. */
function faultsOf(seed: number): string[] {
  const rng = rngFor(seed, "faults while copies move");
  return Array.from({ length: 4 }, (_, i) => {
    const at = 40 + 110 * i + rng.below(40), back = at + 5 + rng.below(60);
    const host = "abc"[rng.below(3)]!;
    const [fault, heal, of] = ([
      ["cut", "heal", host],
      ["kill", "start", `${host}-rnic`],
      ["kill", "start", host],
      ["cut", "heal", host],
    ] as const)[rng.below(4)]!;
    return [`{ at: ${at}us, ${fault}: ${of} }`, `{ at: ${back}us, ${heal}: ${of} }`];
  }).flat();
}

const SIZES = ["", ", remoteCache: 1, localCache: 1, slots: 1, entries: 1, writeBacks: 1"];

describe("copies that move while cables are cut, and cards and hosts die", () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    it(`C-04, C-10: nothing old is seen, and every access is answered: seed ${seed}`, () => {
      const moves = judged({
        seed,
        placement: PLACES[seed % 2]!,
        memory: seed % 3 === 0 ? "dram" : "scm",
        more: SIZES[seed % 5 === 0 ? 1 : 0]!,
        faults: faultsOf(seed),
        accesses: 160,
        restart: true,
      });
      assert.ok(moves >= 20, `${moves} moves`);
    });
  }
});
