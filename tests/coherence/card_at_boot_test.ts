/**
 * A card that loses its power while its host boots or opens it: the host's own threads are no programs, and do not fail
 * by it (C-03). Where the card comes back, its regions are exposed, and a far host can use them.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { sharedScenario } from "./shared_rack.ts";

/** From before the boot's end to behind the registration, in ns. */
const FROM = 50_000, TO = 60_000, STEP = 347, AWAY = 30_000;

/** Both hosts look at the region; where a card is gone an access is refused or fenced. */
const PROGRAM: Program = function* ({ cpu }) {
  yield* cpu.sleep(150 * PS_PER_US - cpu.now);
  try {
    const region = yield* cpu.region("s");
    yield* region.load(0, 8);
    cpu.report("loaded", {});
  } catch (error) {
    if (!(error instanceof Error) || !/^Region/.test(error.name)) throw error;
  }
};

describe("a card that is killed at its host's boot", () => {
  for (const card of ["a-rnic", "b-rnic"]) {
    for (const isBack of [false, true]) {
      it(`fails no program and no thread of the driver: ${card}${isBack ? ", which comes back" : ""}`, () => {
        for (let at = FROM; at < TO; at += STEP) {
          const faults = [`{ at: ${at}ns, kill: ${card} }`];
          if (isBack) faults.push(`{ at: ${at + AWAY}ns, start: ${card} }`);
          const rack = new SimulatedRack(sharedScenario({ hosts: ["a", "b"], faults }), {
            programs: { "./shared.ts": PROGRAM },
          });
          rack.run();
          assert.deepEqual(rack.reported("program-failed"), [], `${at} ns`);
          if (isBack) assert.equal(rack.reported("loaded").length, 2, `${at} ns`);
        }
      });
    }
  }
});
