import type { OptionName } from "./options.ts";
import { kbBaseOf, type Options } from "./settings.ts";
import type { Percentiles } from "./values.ts";

export interface Shown {
  readonly groupReporting: boolean;
  readonly percentiles: Percentiles;
  /** Latencies that are not wanted (`disable_slat` and its like). */
  readonly noSlat: boolean;
  readonly noClat: boolean;
  readonly noLat: boolean;
  readonly slatPercentiles: boolean;
  readonly clatPercentiles: boolean;
  readonly latPercentiles: boolean;
  readonly kbBase: 1000 | 1024;
  readonly unitBase: 1 | 8;
  readonly figures: number;
  readonly description?: string;
}

/** fio's own list (`percentile_list`). */
const PERCENTILES: Percentiles = {
  list: [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99],
  decimals: 2,
};

export type Take = <T>(option: OptionName, otherwise: T) => T;

export function shownOf(options: Options, take: Take): Shown {
  const isReduced = take("gtod_reduce", false);
  const [noSlat, noClat, noLat] = (["disable_slat", "disable_clat", "disable_lat"] as const)
    .map((option) => isReduced || take(option, false)) as [boolean, boolean, boolean];
  const description = take<string | undefined>("description", undefined);
  return {
    groupReporting: take("group_reporting", false),
    percentiles: take("percentile_list", PERCENTILES),
    noSlat,
    noClat,
    noLat,
    slatPercentiles: take("slat_percentiles", false),
    clatPercentiles: take("clat_percentiles", true),
    latPercentiles: take("lat_percentiles", false),
    kbBase: kbBaseOf(options),
    unitBase: take<string>("unit_base", "0") === "1" ? 1 : 8,
    figures: take("significant_figures", 4),
    ...(description !== undefined && { description }),
  };
}
