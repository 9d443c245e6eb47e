/** Options of an exploration, for the command, a job or a test. */
import type { ValuesOf } from "../../fabric/rack/plan/option_rows.ts";
import type { EXPLORE_OPTIONS } from "../api/options.ts";
import { EXPLORE_DEFAULTS, type ExploreOptions } from "./types.ts";

export function exploreOptions(
  { for: forMs, jobs: _, ...given }: ValuesOf<typeof EXPLORE_OPTIONS>,
): ExploreOptions {
  return { ...EXPLORE_DEFAULTS, ...given, ...(forMs !== undefined && { forMs }) };
}
