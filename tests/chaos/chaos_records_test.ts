/**
 * Records of rounds of `rack chaos` that once failed, each with what was wrong. They are replayed in one
 * process, in one go and in slices, as a round's replay is: to one digest, with every promise kept.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import type { VariantChoices } from "../../fabric/rack/scenario/variants.ts";
import { readFaultLines } from "../../console/rack/fault_lines.ts";
import { prepare } from "../../console/rack/prepare.ts";
import { type Outcome, runSimulated } from "../../console/rack/run_variant.ts";
import { checkAll } from "../../console/checks/all.ts";
import { findingsText } from "../support/sound.ts";
import { TEST_PATIENCE_MS } from "../support/eventually.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

interface Round {
  /** File of `tests/seeds/chaos`, without its ending. */
  readonly record: string;
  /** What was wrong. */
  readonly story: string;
  readonly scenario: string;
  readonly seed: number;
  readonly choices: VariantChoices;
}

const ROUNDS: readonly Round[] = [
  {
    record: "leaf_spine_dead_leaf",
    story: "a slice in which only a wake-up passed that nobody needs was taken for the end",
    scenario: "leaf_spine",
    seed: 270052116,
    choices: { size: 2048, depth: 5 },
  },
];

describe("A round of chaos that once failed", () => {
  let directory: string;
  let runs = 0;

  beforeAll(async () => {
    directory = await Deno.makeTempDir({ prefix: "rackmesh-records-" });
  });

  afterAll(() => Deno.remove(directory, { recursive: true }));

  async function replay(round: Round, how: { readonly limitMs?: number }): Promise<Outcome> {
    const { record, scenario, seed, choices } = round;
    const file = fromFileUrl(projectFile(`scripts/scenarios/${scenario}.yaml`));
    const faults = await readFaultLines(
      fromFileUrl(projectFile(`tests/seeds/chaos/${record}.jsonl`)),
    );
    const [prepared] = await prepare(await readScenario(file), {
      ...choices,
      seed,
      ...faults,
      packing: "all",
    });
    const run = `replay-${runs++}`;
    const options = { run, directory: `${directory}/${run}`, trace: false, delayMsMax: 0 };
    return await runSimulated(prepared!, { ...options, check: "wire", ...how });
  }

  for (const round of ROUNDS) {
    it(`P-41: ${round.record}: ${round.story}`, async () => {
      const whole = await replay(round, {});
      const sliced = await replay(round, { limitMs: TEST_PATIENCE_MS });
      assert.equal(sliced.events, whole.events);
      assert.equal(sliced.digest, whole.digest);
      for (const { record } of [whole, sliced]) {
        assert.ok(record !== undefined);
        assert.equal(findingsText(checkAll(record)), "");
      }
    });
  }
});
