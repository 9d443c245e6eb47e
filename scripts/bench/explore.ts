import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS, type ExploredRack, type Verdict } from "../../console/explore/types.ts";
import type { Figure, Measured } from "./figure.ts";
import { planOf } from "./bench_rack.ts";
import * as checksummed from "../scenarios/checksummed_record.ts";
import * as twoQueues from "../scenarios/two_queues.ts";

/** With DDIO on, cache lines are dirty at every instant. */
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

/** (i) On one core, including the recording and re-runs of the rack. */
export async function measureExplorer({ seed, quick }: Measured): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const ddio of FLOWS) {
    const rack = oneWrite(seed, ddio);
    const verdicts: Verdict[] = [];
    // V8 compiles in the first three.
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
  return [...figures, ...await measureFirst({ seed, quick })];
}

const SCENARIOS = new URL("../scenarios/", import.meta.url);

function wrongRacks(seed: number): readonly (readonly [what: string, rack: ExploredRack])[] {
  const claimed = (method: string, ddio: typeof FLOWS[number]): ExploredRack => {
    const plan = planOf(`
name: one-write
seed: ${seed}
hosts: { a: {}, b: { ddio: ${ddio}, scm: { size: 1MiB } } }
programs:
  - { on: a, run: put, to: b, bytes: 200, size: 200, depth: 1, method: ${method} }
`);
    return { plan, inputs: {}, own: {} };
  };
  const text = (name: string) => Deno.readTextFileSync(new URL(name, SCENARIOS));
  const xor = text("checksummed_record.yaml").replaceAll("bytes: 4096", "bytes: 264")
    .replaceAll("crc32", "xor");
  const protocol = (
    text: string,
    file: string,
    { default: program, recover, check }: typeof twoQueues | typeof checksummed,
  ): ExploredRack => {
    return { plan: planOf(text), inputs: {}, own: { [file]: () => ({ program, recover, check }) } };
  };
  return [
    ["write-only, DDIO off", claimed("write-only", "off")],
    ["write-only, DDIO on", claimed("write-only", "on")],
    ["write-read, DDIO on", claimed("write-read", "on")],
    ["two_queues.yaml", protocol(text("two_queues.yaml"), "./two_queues.ts", twoQueues)],
    ["an XOR of 264 B", protocol(xor, "./checksummed_record.ts", checksummed)],
  ];
}

/** To find a mistake: one instant of each kind first, over all instants in their order. */
async function measureFirst({ seed, quick }: Measured): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [what, rack] of wrongRacks(seed)) {
    const points: number[] = [], times: number[] = [];
    for (let i = -1; i < (quick ? 1 : 5); i++) {
      const of = async (inOrder: boolean) => {
        const verdict = await explore(rack, { ...EXPLORE_DEFAULTS, claims: true, inOrder });
        if (verdict.verdict !== "unsafe") throw new Error(`${what}: ${verdict.verdict}`);
        return verdict;
      };
      const all = await of(true), kinds = await of(false);
      // V8 compiles in the first one. Of points there is one number.
      if (i === 0) points.push(kinds.instants / all.instants);
      if (i >= 0) times.push(kinds.wallMs / all.wallMs);
    }
    const name = `first mistake of ${what}, kinds over order`;
    figures.push(
      { group: "i", what: `${name}: instants`, unit: "×", values: points },
      { group: "i", what: `${name}: time`, unit: "×", values: times },
    );
  }
  return figures;
}
