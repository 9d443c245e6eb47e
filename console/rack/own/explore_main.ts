/**
 * A process that explores a rack with own programs. It may read and write nothing: its job, from
 * `explore_scenario.ts`, has all that it needs.
 */
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { loadOwnPrograms } from "../../../nodes/files.ts";
import { answerConfined, type Asker } from "./answer.ts";
import { watchLoops } from "./loop_watch.ts";
import { explore } from "../../explore/explore.ts";
import type {
  ExploredRack,
  ExploreOptions,
  ExploreProgress,
  Verdict,
} from "../../explore/types.ts";

export interface ExploreJob {
  readonly plan: RackPlan;
  readonly inputs: ExploredRack["inputs"];
  readonly orders: NonNullable<ExploredRack["orders"]>;
  /** The texts of own programs. */
  readonly programs: Readonly<Record<string, string>>;
  readonly options: ExploreOptions;
}

async function work(
  { plan, inputs, orders, programs, options }: ExploreJob,
  { tell, stopped }: Asker<ExploreProgress>,
): Promise<Verdict> {
  const loops = await watchLoops();
  const own = await loadOwnPrograms({ programs });
  const { around } = loops;
  const replace: ExploredRack["replace"] = (create) => loops.steps(create, plan, own);
  const rack = { plan, inputs, orders, own, around, replace };
  return await explore(rack, { ...options, stopped }, tell);
}

if (import.meta.main) await answerConfined(work);
