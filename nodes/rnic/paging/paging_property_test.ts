/**
 * A program ends with the same memory and the same completions in the same order whether its memory is
 * pinned or on demand, whatever pages are taken back when, and however few translations fit on the chip.
 */
import { describe, it } from "@std/testing/bdd";
import { ok } from "node:assert/strict";
import { PAGE_FAULT_RULES } from "../../../fabric/rack/plan/plan.ts";
import { rngFor } from "../../../fabric/base/rng.ts";
import { checkSame } from "../testing/program_check_testing.ts";
import { withFaults } from "../testing/program_flush_testing.ts";
import { play } from "../testing/program_play_testing.ts";
import { prepare, type Run } from "../testing/program_rig_testing.ts";
import { runFaultless } from "../testing/program_seed_testing.ts";
import { randomProgram } from "../testing/program_testing.ts";

/** More of them have been tried by hand, as have more pages that are taken back. */
const SEEDS = [2, 5, 9, 12, 17, 21];

function played(run: Run): Run {
  withFaults(run, () => "pass");
  play(run);
  return run;
}

function total(runs: readonly Run[], counter: string): number {
  return runs.flatMap(({ rig }) => [rig.a, rig.b])
    .reduce((sum, { rnic }) => sum + (rnic.statistics()[counter] ?? 0), 0);
}

describe("any program of verbs over memory on demand", () => {
  for (const rule of PAGE_FAULT_RULES) {
    it(`fault: ${rule}: ends as over pinned memory`, () => {
      const runs = SEEDS.map((seed) => {
        // A long retry counter: what a page takes to come is no loss of the network.
        const program = { ...randomProgram(seed), timeout: 9 };
        const rng = rngFor(seed, `paging/${rule}`);
        const demand = { rng, takeOneIn: 12, servicePs: 500_000 };
        const run = played(prepare(program, 0, { rule, entries: 16 + 8 * (seed % 8), demand }));
        checkSame(run, runFaultless(program));
        return run;
      });
      for (const name of ["pageFaults", "pagesInvalidated", "translationEvictions"]) {
        ok(total(runs, name) > 20, `${name} happen: ${total(runs, name)}`);
      }
    });
  }

  it("pinned memory of which few translations fit on the chip: ends as with all of them there", () => {
    const runs = SEEDS.map((seed) => {
      const program = randomProgram(seed);
      const run = played(prepare(program, 0, { rule: "drop", entries: 8 }));
      checkSame(run, runFaultless(program));
      return run;
    });
    ok(total(runs, "translationMisses") > 20);
  });
});
