import { CHAOS } from "./explore/chaos_view.tsx";
import { EXPLORE } from "./explore/explore_view.tsx";
import { INSPECT } from "./inspect/inspect_view.tsx";
import { MEMORY } from "./memory/memory_view.tsx";
import { OPERATION } from "./operation/operation_view.tsx";
import { RACK } from "./rack/rack_view.tsx";
import { RUNS } from "./runs/runs_view.tsx";
import { SCENARIO } from "./scenario/scenario_view.tsx";
import { VIEW_NAMES, type ViewName } from "./state.ts";
import type { View } from "./view.ts";

const BY_NAME: Readonly<Record<ViewName, View>> = {
  rack: RACK,
  operation: OPERATION,
  memory: MEMORY,
  inspect: INSPECT,
  explore: EXPLORE,
  chaos: CHAOS,
  runs: RUNS,
  scenario: SCENARIO,
};

export const VIEWS = VIEW_NAMES.map((name) => ({ name, ...BY_NAME[name] }));

export function viewOf(name: ViewName): View {
  return BY_NAME[name];
}
