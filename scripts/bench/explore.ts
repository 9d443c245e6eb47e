/** The crash explorer's speed: power failures at every instant of one write between two hosts. */
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS, type ExploredRack, type Verdict } from "../../console/explore/types.ts";
import type { Figure, Measured } from "./figure.ts";
import { planOf } from "./bench_rack.ts";

/** Both flows: with DDIO on, cache lines are dirty at every instant. */
const FLOWS = ["off", "on"] as const;

function oneWrite(seed: number, ddio: typeof FLOWS[number]): ExploredRack {
  const plan = planOf(`
name: one-write
seed: ${seed}
hosts: { a: {}, b: { ddio: ${ddio}, scm: { size: 1MiB } } }
programs:
  - { on: a, run: put, to: b, bytes: 200, size: 200, depth: 1, method: persist-opcode }
`);
  return { plan, inputs: {}, own: {} };
}

/** (i) Crash points per second, on one core, including the recording and re-runs of the rack. */
export async function measureExplorer({ seed, quick }: Measured): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const ddio of FLOWS) {
    const rack = oneWrite(seed, ddio);
    const verdicts: Verdict[] = [];
    // The first three are left out, as V8 compiles in them.
    for (let i = -3; i < (quick ? 5 : 15); i++) {
      const verdict = await explore(rack, EXPLORE_DEFAULTS);
      if (verdict.verdict !== "safe") throw new Error(`${verdict.why ?? verdict.verdict}`);
      if (i >= 0) verdicts.push(verdict);
    }
    const what = `crash explorer, one write of 200 B, DDIO ${ddio}`;
    figures.push(
      {
        group: "i",
        what: `${what}: crash points`,
        unit: "/s",
        values: verdicts.map(({ crashPoints, wallMs }) => 1_000 * crashPoints / wallMs),
        target: { is: "at least", value: 2_000 },
      },
      {
        group: "i",
        what: `${what}: all of them`,
        unit: "ms",
        values: verdicts.map(({ wallMs }) => wallMs),
      },
    );
  }
  return figures;
}
