/**
 * Judges the steps of an exploration that it is dealt; its first job, from `explore_scenario.ts`,
 * has all that it needs.
 */
import { RackError } from "../../base/rack_error.ts";
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { loadOwnPrograms } from "../../../nodes/load_own_programs.ts";
import { answerConfined, type Asker } from "./answer.ts";
import { watchLoops } from "./loop_watch.ts";
import {
  type Exploration,
  openExploration,
  type Opening,
} from "../../explore/steps/exploration.ts";
import {
  judgeRange,
  type StepFound,
  StepJudge,
  type StepRange,
} from "../../explore/steps/judge_steps.ts";
import { type Planned, type Turned, turnRound } from "../../explore/interleavings/interleavings.ts";
import type { Disturbance } from "../../explore/disturbed/disturbances.ts";
import { type Disturbed, DisturbedJudge } from "../../explore/disturbed/disturbed.ts";
import type { ExploredRack, ExploreOptions } from "../../explore/types.ts";

export interface ExploreJob {
  readonly plan: RackPlan;
  readonly inputs: ExploredRack["inputs"];
  readonly orders: NonNullable<ExploredRack["orders"]>;
  readonly programs: Readonly<Record<string, string>>;
  readonly options: Omit<ExploreOptions, "stopped">;
}

/**
 * A rack to be explored, answered with an {@link Opening}; then runs with its accesses in another
 * order, steps, and disturbed runs, with the findings of each.
 */
export type ExploreRequest =
  | { readonly open: ExploreJob }
  | { readonly turn: Planned }
  | { readonly disturb: Disturbance }
  | { readonly judge: StepRange };

let opened: {
  readonly exploration: Exploration;
  readonly judge: StepJudge;
  readonly disturbed: DisturbedJudge;
} | undefined;

async function work(
  request: ExploreRequest,
  { stopped }: Asker<never>,
): Promise<Opening | readonly StepFound[] | Turned | Disturbed> {
  if ("open" in request) {
    const { options, ...job } = request.open;
    const { exploration, opening } = openExploration(await rackOf(job), options);
    const judge = new StepJudge(exploration), disturbed = new DisturbedJudge(exploration);
    opened = { exploration, judge, disturbed };
    return opening;
  }
  // Another process has replaced one that ended, and does not have the rack.
  if (opened === undefined) throw new RackError("Found that the process ended by itself");
  if ("turn" in request) return turnRound(request.turn, opened.exploration);
  if ("disturb" in request) return opened.disturbed.judge(request.disturb);
  return await judgeRange(opened.judge, request.judge, stopped);
}

async function rackOf(
  { plan, inputs, orders, programs }: Omit<ExploreJob, "options">,
): Promise<ExploredRack> {
  const rack = { plan, inputs, orders, own: {} };
  if (Object.keys(programs).length === 0) return rack;
  const loops = await watchLoops();
  const own = await loadOwnPrograms({ programs });
  const { around } = loops;
  const replace: ExploredRack["replace"] = (create) => loops.steps(create, plan, own);
  return { ...rack, own, around, replace };
}

if (import.meta.main) await answerConfined(work);
