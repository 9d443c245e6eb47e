/** The views, in the order of the rail. A view registers itself by a line here. */
import { CHAOS } from "./explore/chaos_view.tsx";
import { EXPLORE } from "./explore/explore_view.tsx";
import { MEMORY } from "./memory/memory_view.tsx";
import { OPERATION } from "./operation/operation_view.tsx";
import { RACK } from "./rack/rack_view.tsx";
import { RUNS } from "./runs/runs_view.tsx";
import { SCENARIO } from "./scenario/scenario_view.tsx";
import type { View } from "./view.ts";

export const VIEWS: readonly View[] = [
  RACK,
  OPERATION,
  MEMORY,
  EXPLORE,
  CHAOS,
  RUNS,
  SCENARIO,
];
