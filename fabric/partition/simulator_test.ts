/** The rack in one process: what the simulator adds to the partition that holds all of it. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NEVER, PS_PER_US, type Time } from "../base/time.ts";
import type { Observation } from "../capture/observation.ts";
import { type RigOptions, type Script, scriptedNodes, threeInARow } from "./partition_testing.ts";
import { Simulator } from "./simulator.ts";

/** a wakes at each of these instants. */
const wakes = (...times: Time[]): Script => ({ now, input }) =>
  times.find((at) => input.kind === "wake" ? at > now : at >= now) ?? NEVER;

function simulate(
  options: Pick<RigOptions, "plan" | "scripts" | "durable">,
): { simulator: Simulator; log: string[]; heard: string[] } {
  const log: string[] = [];
  const { heard, create } = scriptedNodes(options);
  const simulator = new Simulator({
    plan: threeInARow(options),
    create,
    onDurable: (host, writes) => log.push(`${host} ${writes.map(({ offset }) => offset)}`),
    observer: {
      scope: "notes",
      see: (_: Observation) => {},
      commit: (span) => log.push(`span ${span}`),
    },
  });
  return { simulator, log, heard };
}

describe("Simulator", () => {
  it("runs up to the plan's end or the instant named, whichever is sooner, exclusive", () => {
    const scripts = { a: wakes(1_000, 2_000, 3_000) };
    const { simulator, heard } = simulate({ scripts, plan: { until: 3_000 } });
    assert.equal(simulator.run(2_000), 4, "three powers and a deadline");
    assert.equal(simulator.run(), 1);
    assert.deepEqual(heard.slice(3), ["a/0 wake @1000", "a/0 wake @2000"]);
    assert.equal(simulator.next, 3_000);
    assert.equal(simulator.now, 2_000);
  });

  it("counts the events of all slices", () => {
    const scripts = { a: wakes(1_000, 250 * PS_PER_US, 600 * PS_PER_US) };
    const { simulator } = simulate({ scripts });
    assert.equal(simulator.run(), 6);
    assert.equal(simulator.events, 6);
  });

  it("hands over what has become persistent at the end of each slice, and numbers the slices", () => {
    const far = 250 * PS_PER_US;
    const { simulator, log } = simulate({ durable: { "b/0": [5_000, far], "c/0": [6_000] } });
    simulator.run();
    assert.deepEqual(log, ["b 5000", "c 6000", "span 0", `b ${far}`, "span 1"]);
  });

  it("does not hand over what becomes persistent at the end or later", () => {
    const { simulator, log } = simulate({
      durable: { "b/0": [5_000, 9_000] },
      plan: { until: 9_000 },
    });
    simulator.run();
    assert.deepEqual(log, ["b 5000", "span 0"]);
  });

  it("carries out the plan's power failures and returns", () => {
    const faults = [
      { at: 10_000, action: "kill", node: "b" },
      { at: 20_000, action: "start", node: "b" },
    ] as const;
    const { simulator, heard } = simulate({ plan: { faults } });
    simulator.run();
    assert.ok(heard.includes("b/1 power @20000"));
  });
});
