/** Options of an exploration, for the command, a job or a test. */
import type { ValuesOf } from "../../fabric/rack/plan/option_rows.ts";
import { EXPLORE_OPTIONS } from "../api/options.ts";
import { EXPLORE_DEFAULTS, type ExploreOptions } from "./types.ts";

export function exploreOptions(
  { for: forMs, jobs: _, ...given }: ValuesOf<typeof EXPLORE_OPTIONS>,
): ExploreOptions {
  const stalls = EXPLORE_OPTIONS.stalls.normal;
  return { ...EXPLORE_DEFAULTS, stalls, ...given, ...(forMs !== undefined && { forMs }) };
}
