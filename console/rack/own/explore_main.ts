/**
 * A process that explores a rack, alone or with others: it judges the steps that it is dealt. It may read and write
 * nothing: its first job, from `explore_scenario.ts`, has all that it needs.
 */
import { RackError } from "../../base/rack_error.ts";
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { loadOwnPrograms } from "../../../nodes/files.ts";
import { answerConfined, type Asker } from "./answer.ts";
import { watchLoops } from "./loop_watch.ts";
import { openExploration, type Opening } from "../../explore/steps/exploration.ts";
import {
  judgeRange,
  type StepFound,
  StepJudge,
  type StepRange,
} from "../../explore/steps/judge_steps.ts";
import type { Interleaved } from "../../explore/interleavings/interleavings.ts";
import { exploreInterleavings } from "../../explore/interleavings/verdict.ts";
import type { ExploredRack, ExploreOptions } from "../../explore/types.ts";

export interface ExploreJob {
  readonly plan: RackPlan;
  readonly inputs: ExploredRack["inputs"];
  readonly orders: NonNullable<ExploredRack["orders"]>;
  /** The texts of own programs. */
  readonly programs: Readonly<Record<string, string>>;
  readonly options: Omit<ExploreOptions, "stopped">;
}

/**
 * A rack whose interleavings are to be explored; one to be explored, which is answered with an {@link Opening}; then
 * steps, with what is found at each.
 */
export type ExploreRequest =
  | { readonly interleave: ExploreJob }
  | { readonly open: ExploreJob }
  | { readonly judge: StepRange };

let judge: StepJudge | undefined;

async function work(
  request: ExploreRequest,
  { stopped }: Asker<never>,
): Promise<Opening | readonly StepFound[] | Interleaved | null> {
  if ("interleave" in request) {
    const { options, ...job } = request.interleave;
    return await exploreInterleavings(await rackOf(job), { ...options, stopped }) ?? null;
  }
  if ("judge" in request) {
    // One that has ended by itself has another in its place, which does not have the rack.
    if (judge === undefined) throw new RackError("Found that the process ended by itself");
    return await judgeRange(judge, request.judge, stopped);
  }
  const { options, ...job } = request.open;
  const { exploration, opening } = openExploration(await rackOf(job), options);
  judge = new StepJudge(exploration);
  return opening;
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
