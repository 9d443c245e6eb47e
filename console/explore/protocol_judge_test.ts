import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { OwnProgram } from "../../nodes/host/own_programs.ts";
import type { RecoveryContext } from "../../nodes/host/recovery/protocol.ts";
import { toItsEnd } from "./covering/paths.ts";
import type { Cell } from "./choices.ts";
import { Pages } from "./history.ts";
import type { CrashState } from "./judge.ts";
import { AGAIN_COST, AgainCount, type CrashedRack, ProtocolJudge } from "./protocol_judge.ts";
import type { ExploredRack, ExploreOptions } from "./types.ts";

/** A recovery that writes three words, one after the other. */
function* recover({ cpu }: RecoveryContext): Steps<void> {
  for (const word of [0, 8, 16]) {
    yield* cpu.ntStore(cpu.scm.address + word, new Uint8Array(8).fill(7));
  }
}

/** A rack with a host whose SCM a program recovers. */
function rackOf(program: OwnProgram): ExploredRack {
  const text = "name: own\nhosts: { a: {}, b: { scm: { size: 1MiB } } }\n" +
    "programs: [{ on: b, run: ./own.ts }]\n";
  const [variant] = variants(parseScenario(text, "own.yaml"));
  return { plan: makePlan(variant!), inputs: {}, own: { "./own.ts": () => program } };
}

function crashedWith(cells: CrashState["cells"]): CrashedRack {
  const cut = [{ host: "b", image: new Pages(), cells }];
  return { at: 100, cut, others: new Map(), reports: [], notes: [] };
}

/** Second power failures of one crash point, behind what those before have cost. */
function again(before: number, options: Pick<ExploreOptions, "cuts"> = {}) {
  const rack = rackOf({ recover, check: () => [] } as unknown as OwnProgram);
  const judge = new ProtocolJudge(rack, { ...options, tear: 8 }, undefined);
  judge.again = new AgainCount(before);
  const crash = crashedWith({ in: () => [] });
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

  it("leave what the first recovery has read as it has found it, and the rest in each way", () => {
    const word = (value: number) => new Uint8Array(8).fill(value);
    const open = [64, 128].map((from): Cell => ({
      ...{ at: 1, from, length: 8, alternatives: [word(0), word(9)] },
      writebacks: () => [],
    }));
    /** What the first recovery has read, and what the second one has. */
    const seen = new Set<string>();
    let first = "", found = "";
    const program = {
      *recover({ cpu }: RecoveryContext): Steps<void> {
        const look = (at: number) => cpu.load(cpu.scm.address + at, 1)[0];
        // What the first one has written tells the second one to look at more.
        if (look(0) === 0) found = first = `${look(64)}`;
        else seen.add(`${first}: ${found = `${look(64)} ${look(128)}`}`);
        yield* cpu.ntStore(cpu.scm.address, word(1));
      },
      check: () => found === "9 9" ? ["both are there"] : [],
    } as unknown as OwnProgram;
    const judge = new ProtocolJudge(rackOf(program), { tear: 8 }, undefined);
    const crash = crashedWith({
      in: (from, to) => open.filter((each) => each.from < to && from < each.from + each.length),
    });
    const { breach } = toItsEnd(judge.judge(crash, { most: 64 }));
    same([...seen].sort(), ["0: 0 0", "0: 0 9", "9: 9 0", "9: 9 9"]);
    same(breach?.found, "both are there");
    same(open.map((cell) => breach?.trail.get(cell)), [1, 1]);
  });
});
