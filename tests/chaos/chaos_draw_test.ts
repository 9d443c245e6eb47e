import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { isLinkFaultRequest } from "../../fabric/rack/plan/link_plan.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { BROKER, drawActions, TIMEKEEPER } from "../../console/chaos/chaos_actions.ts";
import {
  type DrawOptions,
  drawRound,
  fieldOf,
  prepareRound,
  type RoundDraft,
} from "../../console/chaos/draw.ts";
import type { Prepared } from "../../console/rack/prepare.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";
import { seeded } from "../../fabric/base/property_testing.ts";

const LEAF_SPINE = fromFileUrl(projectFile("scripts/scenarios/leaf_spine.yaml"));
const KILL = fromFileUrl(projectFile("scripts/scenarios/persist_pair_kill.yaml"));
const OWN = fromFileUrl(projectFile("scripts/scenarios/my_protocol.yaml"));
const BUSY = { from: 250_000_000, to: 260_000_000 };
const WHEN = { from: 200_000_000, length: 400_000_000, busy: BUSY };

async function optionsFor(file: string, seed: number): Promise<DrawOptions> {
  const scenario = await readScenario(file);
  const fixed = { input: fromFileUrl(projectFile("LICENSE")) };
  return { scenario, seed, fixed, field: await fieldOf(scenario, { fixed }) };
}

function actionsOf({ rng }: RoundDraft, { plan, partitions }: Prepared) {
  return drawActions(rng, { plan, partitions, ...WHEN });
}

async function drawn(number: number, options: DrawOptions) {
  const { rng: _, ...draft } = drawRound(number, options);
  const again = drawRound(number, options);
  return { draft, actions: actionsOf(again, await prepareRound(options.scenario, again)) };
}

describe("drawRound", () => {
  it("draws the same round from seed and number, whatever was drawn before", async () => {
    const options = await optionsFor(LEAF_SPINE, 7);
    const first = await drawn(5, options);
    await drawn(4, options);
    assert.deepEqual(await drawn(5, options), first);
    assert.notDeepEqual(await drawn(6, options), first);
    assert.notDeepEqual(await drawn(5, { ...options, seed: 8 }), first);
  });

  it("draws actions that a rack can take: of its own processes and cables, in time, in order", async () => {
    const options = await optionsFor(LEAF_SPINE, 7);
    const draft = drawRound(0, options);
    const prepared = await prepareRound(options.scenario, draft);
    const names = new Set([...prepared.partitions.map(({ name }) => name), TIMEKEEPER, BROKER]);
    const seeds = fc.integer({ min: 0, max: 2 ** 31 });
    fc.assert(
      fc.property(seeds, (seed) => {
        const one = { ...draft, rng: drawRound(seed, options).rng };
        const actions = actionsOf(one, prepared);
        assert.ok(actions.length > 0);
        for (const [i, action] of actions.entries()) {
          assert.ok(action.at >= WHEN.from / 2 && action.at <= WHEN.length);
          assert.ok(i === 0 || action.at >= actions[i - 1]!.at);
          if (action.kind !== "link") {
            assert.ok(names.has(action.process), action.process);
            continue;
          }
          assert.ok(isLinkFaultRequest(action.request), JSON.stringify(action.request));
          assert.equal(prepared.plan.cables[action.request.cable]?.kind, "network");
        }
      }),
      seeded(),
    );
  });

  it("acts while data is on its way as often as at any other time", async () => {
    const options = await optionsFor(LEAF_SPINE, 7);
    const draft = drawRound(0, options);
    const prepared = await prepareRound(options.scenario, draft);
    const times = Array.from({ length: 300 }, (_, seed) => {
      const one = { ...draft, rng: drawRound(seed, options).rng };
      return actionsOf(one, prepared).map(({ at }) => at);
    }).flat();
    const share = times.filter((at) => at >= BUSY.from && at <= BUSY.to).length / times.length;
    assert.ok(share > 0.4 && share < 0.65, String(share));
  });

  it("keeps a device a process where the scenario has power failures of its own", async () => {
    const options = await optionsFor(KILL, 7);
    assert.ok(options.field.hasFaults);
    const packings = Array.from({ length: 50 }, (_, i) => drawRound(i, options).packing);
    assert.deepEqual([...new Set(packings)], ["node"]);
  });

  it("draws nothing that no program of the scenario looks at", async () => {
    const own = await optionsFor(OWN, 7);
    const choices = Array.from({ length: 20 }, (_, i) => drawRound(i, own).choices);
    assert.ok(choices.every(({ size, depth }) => size === undefined && depth === undefined));
    await assert.rejects(
      fieldOf(await readScenario(OWN), { fixed: { method: "write-read" } }),
      /no program of .* has a method/,
    );
  });

  it("lets the command line have the last word", async () => {
    const fixed = { method: "write-read", ddio: "off", depth: 3, size: 64 } as const;
    const options = { ...await optionsFor(KILL, 7), fixed };
    for (let i = 0; i < 20; i++) assert.deepEqual(drawRound(i, options).choices, fixed);
  });
});
