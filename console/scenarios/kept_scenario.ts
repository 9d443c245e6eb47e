/** The scenario of a run beside its run file, and with what was done to the run by hand. */
import { orderFromLine } from "../../fabric/clock/record.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { SHUTDOWN } from "../../fabric/rack/plan/vocabulary.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { linesIfThere, textIfThere, writeWhole } from "../base/files.ts";
import type { PartitionPlan } from "../../fabric/rack/assembly/topology.ts";
import { inexactIn, recordedIn } from "../rack/fault_lines.ts";
import { readClockEnd } from "../rack/run_directory.ts";
import type { PrepareOptions } from "../rack/prepare.ts";
import {
  type ByHand,
  chosenText,
  type ChosenVariant,
  type RunText,
  withByHand,
} from "./run_text.ts";
import type { ScenarioSource } from "./scenario_source.ts";

const FILE = "scenario.yaml";

/**
 * Leaves the scenario, as the run received it, in the directory of a run or variant.
 * @param variant the choice where the scenario leaves several.
 */
export function keepScenario(
  directory: string,
  { scenario, choices, variant }: {
    readonly scenario: ScenarioSource;
    readonly choices: PrepareOptions;
    readonly variant: ChosenVariant;
  },
): void {
  const { text, base, allowRead } = scenario;
  writeWhole(`${directory}/${FILE}`, chosenText(text, { ...choices, base, allowRead, variant }));
}

/** For a run that repeats another. */
export function copyScenario(from: string, to: string): void {
  const text = textIfThere(`${from}/${FILE}`);
  if (text !== undefined) writeWhole(`${to}/${FILE}`, text);
}

/**
 * The scenario of a run, with what was done to its rack by hand as `faults:`.
 * @throws Refusal where the run has left no scenario.
 */
export function scenarioOfRun(
  { run, directory, plan, partitions, ...rest }: {
    readonly run: string;
    readonly directory: string;
    readonly plan: RackPlan;
    readonly partitions: readonly PartitionPlan[];
    readonly folder?: string;
  },
): RunText {
  const chosen = textIfThere(`${directory}/${FILE}`);
  if (chosen === undefined) {
    const expected = "a run that was made of a scenario file";
    throw refusal("run", { found: `${run}, which has left no scenario`, expected });
  }
  const recorded = recordedIn(directory);
  // Devices that share a process carry out the plan by themselves.
  const nodes = partitions.filter(({ nodes }) => nodes.length === 1).flatMap(({ nodes }) => nodes);
  const last = Math.max(-1, ...recorded.faults.map(({ at }) => at));
  const before = Math.max(last, readClockEnd(directory)?.virtualPs ?? -1) + 1;
  return withByHand(chosen, {
    ...rest,
    run,
    plan,
    byHand: {
      ...recorded,
      onRecord: { nodes, before },
      writebacks: plan.writebacks ?? [],
      stalls: plan.stalls ?? [],
      ...ordersIn(directory),
      inexact: inexactIn(directory),
    },
  });
}

function ordersIn(directory: string): Pick<ByHand, "programs" | "shutdowns"> {
  const lines = linesIfThere<{ host: unknown; run: unknown }>(`${directory}/orders.jsonl`);
  const { shutdowns = [], programs = [] } = Object.groupBy(
    lines,
    ({ run }) => run === SHUTDOWN ? "shutdowns" : "programs",
  );
  return {
    programs: programs.map(({ host, run }) => ({ host: String(host), run: String(run) })),
    shutdowns: shutdowns.map((line) => {
      const { host, at, powerOffAt } = orderFromLine(line, () => undefined);
      return { host, at, offAt: powerOffAt! };
    }),
  };
}
