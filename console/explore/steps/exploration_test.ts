/** What an exploration seeks, by its options: each part is left out where it would answer nothing. */
import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../../fabric/rack/scenario/variants.ts";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { EXPLORE_DEFAULTS, type ExploredRack, type ExploreOptions } from "../types.ts";
import { openExploration } from "./exploration.ts";

const PUT = "name: put\nhosts: { a: {}, b: { domain: eadr, scm: { size: 1MiB } } }\n" +
  "programs: [{ on: a, run: put, to: b, bytes: 64, method: persist-opcode, size: 64 }]\n";
const SHARED = "name: shared\n" +
  "defaults: { attach: coherent, scm: { size: 1MiB }, dram: 4MiB, services: none }\n" +
  "hosts: { a: {}, b: {} }\n" +
  "shared: [{ name: r, home: a, far: [b], bytes: 128, memory: dram, placement: remote, lease: 20us }]\n" +
  "programs: [{ on: a, program: ./shared.ts }, { on: b, program: ./shared.ts }]\n";

function rackOf(text: string): ExploredRack {
  const [variant] = variants(parseScenario(text, "test.yaml"));
  const own: ExploredRack["own"] = {
    "./shared.ts": () => ({
      *program({ cpu }) {
        const region = yield* cpu.region("r");
        yield* region.fetchAdd(0, 1n);
        cpu.report("done", {});
      },
    }),
  };
  return { plan: makePlan(variant!), inputs: {}, own };
}

describe("openExploration", () => {
  /** What is sought with some options; all instants, unless they say otherwise. */
  function sought(rack: ExploredRack, options: Partial<ExploreOptions>): string {
    const { opening } = openExploration(rack, { ...EXPLORE_DEFAULTS, ...options });
    return (["races", "stalls", "frames"] as const).filter((each) => opening[each] !== null)
      .join(" ");
  }

  it("holds frames and stalls hosts in a run of which all instants are judged, and in no part of one", () => {
    const rack = rackOf(PUT), all = { stalls: 2, frames: 2, stall: 5 * PS_PER_US };
    same(sought(rack, all), "stalls frames");
    same(sought(rack, { ...all, stalls: 0 }), "frames");
    same(sought(rack, { ...all, frames: 0 }), "stalls");
    for (const part of [{ from: 1 }, { until: 500 * PS_PER_US }, { cut: "none" }]) {
      same(sought(rack, { ...all, ...part } as Partial<ExploreOptions>), "", JSON.stringify(part));
    }
    same(sought(rack, { preemptions: 2 }), "", "no region is shared");
  });

  it("turns accesses to shared regions round in a whole run", () => {
    const rack = rackOf(SHARED), cut = "none";
    same(sought(rack, { cut, preemptions: 2 }), "races");
    same(sought(rack, { cut, preemptions: 0 }), "");
    same(sought(rack, { cut, preemptions: 2, from: 1 }), "");
    same(sought(rack, { cut, preemptions: 2, until: 500 * PS_PER_US }), "");
  });
});
