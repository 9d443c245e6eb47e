/**
 * Racks with a shared region, of host a, whose hosts all do random accesses to a few of its lines: each run is judged
 * by the checkers of `console/checks`, which stand outside of the nodes.
 */
import { rngFor } from "../../fabric/base/rng.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { runRack } from "../../console/explore/rerun.ts";
import { answered } from "../../console/checks/shared/answered.ts";
import { loads } from "../../console/checks/shared/loads.ts";
import { servedInTurn } from "../../console/checks/shared/served_in_turn.ts";
import { singleWriter } from "../../console/checks/shared/single_writer.ts";
import { persistence } from "../../console/checks/persistence.ts";
import { completions } from "../../console/checks/completions.ts";
import { shutdowns } from "../../console/checks/shutdowns.ts";
import { silence } from "../../console/checks/silence.ts";
import { inOrder, type RunRecord } from "../../console/checks/run_record.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import type { Region, Steps } from "../../nodes/host/cpu/program.ts";
import type { ExploredRack } from "../../console/explore/types.ts";

export const CHECKS = [
  loads,
  singleWriter,
  answered,
  servedInTurn,
  persistence,
  completions,
  silence,
  shutdowns,
] as const;

export interface SharedOf {
  readonly seed?: number;
  /** Of the region. */
  readonly lines?: number;
  readonly placement?: "local" | "remote";
  readonly memory?: "scm" | "dram";
  /** More of the region: sizes of tables. */
  readonly more?: string;
  /** As a scenario has them. */
  readonly faults?: readonly string[];
  readonly hosts?: readonly string[];
  /** Accesses of each host. */
  readonly accesses?: number;
  /** Faults: programs go on after a fence, and after a loss. */
  readonly program?: Program;
  /** Programs run in each life of their host. */
  readonly restart?: boolean;
}

/** A rack whose hosts all run one program. */
export function sharedRack(of: SharedOf = {}): ExploredRack {
  const { seed = 1, accesses = 60 } = of;
  const [variant] = variants(parseScenario(sharedScenario(of), "shared.yaml"));
  const program = of.program ?? randomProgram({ seed, accesses });
  return {
    plan: makePlan(variant!),
    inputs: {},
    own: { "./shared.ts": () => ({ program }) },
  };
}

/** The text of the scenario: each host runs `./shared.ts`. */
export function sharedScenario(of: SharedOf = {}): string {
  const { seed = 1, lines = 2, placement = "remote", memory = "scm", faults = [] } = of;
  const { restart = false } = of;
  const { hosts = ["a", "b", "c"], more = "" } = of;
  const far = hosts.slice(1).join(", ");
  return `name: shared
seed: ${seed}
defaults: { attach: coherent, scm: { size: 1MiB }, dram: 4MiB, services: none }
hosts: { ${hosts.map((host) => `${host}: {}`).join(", ")} }
shared:
  - { name: s, home: a, far: [${far}], bytes: ${
    lines * 64
  }, memory: ${memory}, placement: ${placement}, lease: 20us${more} }
programs:
${
    hosts.map((host) =>
      `  - { on: ${host}, program: ./shared.ts${restart ? ", restart: true" : ""} }`
    ).join("\n")
  }
faults:${faults.length === 0 ? " []" : faults.map((fault) => `\n  - ${fault}`).join("")}
`;
}

/** Loads, stores, atomics and flushes of a few bytes, drawn from the seed and the host's name. */
export function randomProgram(of: { readonly seed: number; readonly accesses: number }): Program {
  return function* ({ cpu }) {
    // The begin tells the lives of one host apart.
    const rng = rngFor(of.seed, `accesses of ${cpu.host} from ${cpu.now}`);
    const number = cpu.host.charCodeAt(0);
    for (let left = of.accesses; left > 0; left--) {
      try {
        const region = yield* cpu.region("s");
        yield* accessOf(region, rng, (left << 8) + number);
      } catch (error) {
        const isTold = error instanceof Error && /^Region(Lost|Fenced|Refused)$/.test(error.name);
        if (!isTold) throw error;
        yield* cpu.sleep(5 * PS_PER_US);
      }
      yield* cpu.sleep(rng.below(2 * PS_PER_US));
    }
  };
}

function* accessOf(
  region: Region,
  rng: ReturnType<typeof rngFor>,
  value: number,
): Steps<void> {
  const line = rng.below(region.bytes / 64) * 64;
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setUint32(0, value, true);
  switch (rng.below(9)) {
    case 0:
    case 1:
      return yield* region.store(line + 8 * rng.below(3), bytes);
    case 2:
      return yield* region.store(line, new Uint8Array(64).fill(value & 0xff));
    case 3:
      yield* region.fetchAdd(line + 32, 1n);
      return;
    case 4:
      yield* region.compareSwap(line + 40, BigInt(rng.below(2)), 1n);
      return;
    case 5:
      return yield* region.flush(line, 64);
    default:
      yield* region.load(line + 8 * rng.below(6), 8);
  }
}

/** Runs the one variant of a scenario with these programs, by their paths in it. */
export function recordOfText(text: string, programs: Readonly<Record<string, Program>>): RunRecord {
  const [variant] = variants(parseScenario(text, "shared.yaml"));
  const own = Object.entries(programs).map(([path, program]) => [path, () => ({ program })]);
  return recordOfShared({ plan: makePlan(variant!), inputs: {}, own: Object.fromEntries(own) });
}

/** Runs the rack with these faults, to its end, and gives what checkers look at. */
export function recordOfShared(rack: ExploredRack, plan: RackPlan = rack.plan): RunRecord {
  const { plan: ran, lives, reports, notes, scm, isCutOff, endPs } = runRack({ ...rack, plan });
  return {
    plan: ran,
    lives,
    reports,
    notes: inOrder(ran, notes),
    scm: (host) => scm.get(host),
    ...(isCutOff && { until: endPs as Time }),
  };
}

/** All findings as text. */
export function findingsOfShared(record: RunRecord): string[] {
  return CHECKS.flatMap((check) => check.check(record).map(({ text }) => `${check.name}: ${text}`));
}
