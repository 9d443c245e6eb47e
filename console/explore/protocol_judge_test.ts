import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { OwnProgram } from "../../nodes/host/own_programs.ts";
import type { RecoveryContext } from "../../nodes/host/recovery/protocol.ts";
import { toItsEnd } from "./covering/paths.ts";
import { Pages } from "./history.ts";
import { AGAIN_COST, AgainCount, type CrashedRack, ProtocolJudge } from "./protocol_judge.ts";
import type { ExploredRack, ExploreOptions } from "./types.ts";

/** A recovery that writes three words, one after the other. */
function* recover({ cpu }: RecoveryContext): Steps<void> {
  for (const word of [0, 8, 16]) {
    yield* cpu.ntStore(cpu.scm.address + word, new Uint8Array(8).fill(7));
  }
}

/** Second power failures of one crash point, behind what those before have cost. */
function again(before: number, options: Pick<ExploreOptions, "cuts"> = {}) {
  const text = "name: own\nhosts: { a: {}, b: { scm: { size: 1MiB } } }\n" +
    "programs: [{ on: b, run: ./own.ts }]\n";
  const [variant] = variants(parseScenario(text, "own.yaml"));
  const program = { recover, check: () => [] } as unknown as OwnProgram;
  const rack: ExploredRack = {
    plan: makePlan(variant!),
    inputs: {},
    own: { "./own.ts": () => program },
  };
  const judge = new ProtocolJudge(rack, { ...options, tear: 8 }, undefined);
  judge.again = new AgainCount(before);
  const crash: CrashedRack = {
    at: 100,
    cut: [{ host: "b", image: new Pages(), cells: { in: () => [] } }],
    others: new Map(),
    reports: [],
    notes: [],
  };
  const { breach } = toItsEnd(judge.judge(crash, { most: 64 }));
  same(breach, undefined);
  const { recoveries, cut, ways } = judge.again;
  return { recoveries, cut, isTried: ways > 0 };
}

describe("second power failures", () => {
  it("have cut a recovery again only where they came at all of its instants", () => {
    same(again(0), { recoveries: 1, cut: 1, isTried: true });
    // They have cost enough before, or behind the first of its instants.
    same(again(AGAIN_COST.most), { recoveries: 1, cut: 0, isTried: false });
    same(again(AGAIN_COST.most - 1), { recoveries: 1, cut: 0, isTried: true });
  });

  it("come at all instants, whatever they cost, with two cuts, and at none with one", () => {
    same(again(AGAIN_COST.most, { cuts: 2 }), { recoveries: 1, cut: 1, isTried: true });
    same(again(0, { cuts: 1 }), { recoveries: 1, cut: 0, isTried: false });
  });
});
