/** How the latencies of runs are distributed: of every operation, from a replay of the run. */
import { seriesName } from "./choose.ts";
import type { Chart, ChartPoint, Series } from "../plot/chart.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { Replay } from "../replay/client.ts";
import { toldApart } from "./kept.ts";
import { findRun } from "../rack/live/racks.ts";
import { readReport, variantsOf } from "../reports/run_summary.ts";

const PAGE = 1_000;
const POINTS_MAX = 400;
const PANELS_MAX = 3, COLOURS = 8;

export interface DistributionOptions {
  readonly signal?: AbortSignal;
  readonly onProgress?: (title: string, share: number) => void;
}

export interface Latencies {
  readonly run: string;
  /** "": only one. */
  readonly variant: string;
  /** By the words in which the scenarios of the runs differ. */
  readonly values: Readonly<Record<string, string>>;
  /** From an operation's first step to the program's last one, ascending. */
  readonly latenciesPs: readonly number[];
}

/**
 * Latencies of all operations, by run and variant.
 * @throws Refusal for an unknown run, and for one that cannot be replayed exactly or has no
 * operation.
 */
export async function latenciesOf(
  ids: readonly string[],
  { signal, onProgress }: DistributionOptions = {},
): Promise<Latencies[]> {
  const rows = await Promise.all(ids.map((id) => findRun(id, "The run")));
  const { values } = toldApart(rows);
  const parts = rows.flatMap(({ id, path }, i) => {
    const variants = variantsOf(path), own = values[i]!;
    return (variants.length === 0 ? [""] : variants).map((variant) => ({ id, own, variant }));
  });
  const found: Latencies[] = [];
  for (const [i, { id, own, variant }] of parts.entries()) {
    const title = `replaying ${id}${variant === "" ? "" : `, ${variant}`}`;
    const target = { run: id, ...(variant !== "" && { variant }) };
    const show = (share: number) => onProgress?.(title, (i + share) / parts.length);
    show(0);
    const replay = await Replay.open(target, { ...(signal && { signal }) });
    try {
      const latenciesPs = await operationsOf(replay);
      found.push({ run: id, variant, values: own, latenciesPs });
    } finally {
      await replay.close();
    }
  }
  if (found.every(({ latenciesPs }) => latenciesPs.length === 0)) {
    throw refusal("", { found: "There is nothing to draw: the runs have no operations" });
  }
  return found;
}

async function operationsOf(replay: Replay): Promise<number[]> {
  const known = new Map<number, number>();
  for (let from = 0;;) {
    const { operations, more } = await replay.operations({ from, most: PAGE });
    const before = known.size;
    for (const { index, startPs, endPs } of operations) known.set(index, endPs - startPs);
    // The next page begins where this one ends: operations under way then are in both.
    from = operations.at(-1)?.startPs ?? 0;
    if (more === 0 || known.size === before) return [...known.values()].sort((x, y) => x - y);
  }
}

/** The share of operations that were no slower, against the latency. */
export function distributionChart(
  all: readonly Latencies[],
  { title, caption }: { readonly title: string; readonly caption: readonly string[] },
): Chart {
  const measured = all.filter(({ latenciesPs }) => latenciesPs.length > 0);
  const runs = [...new Set(measured.map(({ run }) => run))];
  const variants = [...new Set(measured.map(({ variant }) => variant))];
  // Each run has a panel for its many curves.
  const isApart = runs.length > 1 && variants.length > 1 && runs.length <= PANELS_MAX;
  const series = measured.map(({ run, variant, values, latenciesPs }): Series => {
    const ofRun = runs.length > 1 ? seriesName(values) : "";
    const ofVariant = variant === "" ? "" : wordsOf(variant);
    const one = runs.indexOf(run), other = variants.indexOf(variant);
    const [colour, dash] = variants.length > 1 ? [other, isApart ? 0 : one] : [one, 0];
    return {
      name: [isApart ? "" : ofRun, ofVariant].filter((text) => text !== "").join(", "),
      panel: isApart ? ofRun : "",
      colour: colour % COLOURS,
      dash: dash + Math.floor(colour / COLOURS),
      points: curveOf(latenciesPs),
    };
  });
  const count = measured.reduce((sum, { latenciesPs }) => sum + latenciesPs.length, 0);
  return {
    title: `Latency of ${count} operations: ${title}`,
    x: {
      label: "Latency",
      unit: "ps",
      numbers: [0, ...measured.flatMap(({ latenciesPs }) => latenciesPs.at(-1)!)],
    },
    y: { label: "Operations that are no slower (%)", unit: "" },
    panelLabel: "",
    series,
    isCurve: true,
    caption,
  };
}

function curveOf(latenciesPs: readonly number[]): ChartPoint[] {
  const count = latenciesPs.length, step = Math.max(1, (count - 1) / (POINTS_MAX - 1));
  const points: ChartPoint[] = [{ x: latenciesPs[0]!, y: 0 }];
  for (let at = 0; at < count; at += step) {
    const i = Math.round(at);
    points.push({ x: latenciesPs[i]!, y: 100 * (i + 1) / count });
  }
  return [...points, { x: latenciesPs.at(-1)!, y: 100 }];
}

/** `persist-opcode_ddio_on`, the name of a folder. */
function wordsOf(variant: string): string {
  return variant.replace(/_+ddio_+/, ", DDIO ").replaceAll("_", " ");
}

export async function aboutRuns(ids: readonly string[]) {
  const rows = await Promise.all(ids.map((id) => findRun(id, "The run")));
  const reports = rows.flatMap(({ path }) => readReport(path) ?? []);
  return {
    scenarios: [...new Set(reports.map(({ scenario }) => scenario))],
    seeds: [...new Set(reports.map(({ seed }) => String(seed)))],
  };
}
