/**
 * Where the copies of shared regions were kept, and by whom (C-04). The judge of a region's home
 * counts its judgements; each move is reported as it is done.
 */
import { formatTime, type Time } from "../../fabric/base/time.ts";
import {
  JUDGE_PLAN,
  type JudgePlan,
  MOVED_TOPIC,
  type RegionMoved,
  type SharedRegion,
} from "../../fabric/rack/plan/shared_region.ts";
import { rnicName } from "../../fabric/rack/plan/names.ts";
import { countOf } from "../checks/finding.ts";
import { type Lives, livesOf } from "../checks/lives.ts";
import { countersOf, type Reported, reportsOf } from "../rack/run_variant.ts";
import type { Prepared } from "../rack/prepare.ts";
import { columnsOf, tableText } from "./table.ts";

export interface PlacementRow {
  readonly variant: string;
  readonly region: string;
  readonly home: string;
  readonly far: readonly string[];
  readonly placement: SharedRegion["placement"];
  /** For `auto`; null where the scenario says the place. */
  readonly judge: JudgePlan | null;
  /** The judge's, of home's last life; null without a judge. */
  readonly windows: number | null;
  readonly homeAccesses: number | null;
  readonly farAccesses: number | null;
  /** By time, of all lives; a refusal of home's card has its reason. */
  readonly moves: readonly PlacementMove[];
  readonly place: "local" | "remote";
}

export interface PlacementMove extends Omit<RegionMoved, "region"> {
  readonly at: Time;
}

/** In the scenario's order. */
export function placementRows(
  { label: variant, plan }: Pick<Prepared, "label" | "plan">,
  outcome: Reported,
): PlacementRow[] {
  const reports = reportsOf(outcome).filter(({ topic }) => topic === MOVED_TOPIC);
  const lives = outcome.record?.lives ?? livesOf(plan, plan.faults);
  return regionsIn(plan).map((region): PlacementRow => {
    const { name, home, far, placement, judge = JUDGE_PLAN } = region;
    const counters = countersOf(outcome.finals, home.host);
    const isJudged = placement === "auto";
    const count = (what: string) => isJudged ? counters?.[`region.${name}.${what}`] ?? null : null;
    const moves = reports.flatMap(({ time, node, value }): PlacementMove[] => {
      const { region: moved, ...move } = value as RegionMoved;
      return moved === name && node === home.host ? [{ at: time, ...move }] : [];
    });
    // A card that begins anew keeps all copies where its plan has them, and so does one whose host
    // had no power.
    const since = Math.max(
      ...[home.host, rnicName(home.host)].map((node) => lastBeginOf(node, lives)),
    );
    const last = doneOf(moves).findLast(({ at }) => at >= since)?.place;
    const start = placement === "local" ? "local" : "remote";
    return {
      variant,
      region: name,
      home: home.host,
      far: far.map(({ host }) => host),
      placement,
      judge: isJudged ? judge : null,
      windows: count("windows"),
      homeAccesses: count("homeAccesses"),
      farAccesses: count("farAccesses"),
      moves,
      place: last ?? start,
    };
  });
}

function lastBeginOf(node: string, lives: Lives["lives"]): Time {
  return lives.get(node)?.at(-1)?.from ?? 0;
}

function regionsIn({ nodes }: Prepared["plan"]): SharedRegion[] {
  return nodes.flatMap((node) =>
    node.kind !== "host"
      ? []
      : (node.config.shared ?? []).filter(({ home }) => home.host === node.name)
  ).toSorted((one, other) => one.id - other.id);
}

const SHOWN = 8;

/**
 * A table of the regions that were judged or moved, and a line for each move; nothing where the
 * scenario decided all.
 */
export function placementText(rows: readonly PlacementRow[]): string[] {
  const told = rows.filter(({ judge, moves }) => judge !== null || moves.length > 0);
  if (told.length === 0) return [];
  const hasVariants = new Set(told.map(({ variant }) => variant)).size > 1;
  const perWindow = (of: "homeAccesses" | "farAccesses") => (row: PlacementRow) =>
    row.windows ? (row[of] ?? 0) / row.windows : null;
  const rate = (value: number | null) => value === null ? "" : value.toFixed(1);
  const column = (title: string, of: "homeAccesses" | "farAccesses") => ({
    title,
    value: (row: PlacementRow) => perWindow(of)(row) ?? "",
    text: (row: PlacementRow) => rate(perWindow(of)(row)),
  });
  const table = tableText(
    columnsOf<PlacementRow>(
      hasVariants && { title: "run", value: ({ variant }) => variant },
      { title: "region", value: ({ region }) => region },
      { title: "judged by", value: judgeText },
      { title: "windows", value: ({ windows }) => windows ?? "" },
      column("home a window", "homeAccesses"),
      column("far a window", "farAccesses"),
      { title: "moves", value: ({ moves }) => doneOf(moves).length },
      { title: "copies at the end", value: ({ place }) => place },
    ),
    told,
  );
  return [table, ...told.flatMap((row) => moveLines(row, hasVariants))];
}

function judgeText({ judge }: PlacementRow): string {
  if (judge === null) return "programs";
  const { marginPercent, windows, windowPs, rule } = judge;
  const of = `of ${formatTime(windowPs)}`;
  if (rule !== undefined) return `${rule.replace(/^.*\//, "")}, windows ${of}`;
  return `margin ${marginPercent} %, ${countOf(windows, "window")} ${of}`;
}

function doneOf(moves: readonly PlacementMove[]): PlacementMove[] {
  return moves.filter(({ refused }) => refused === undefined);
}

function moveLines({ variant, region, moves }: PlacementRow, hasVariants: boolean): string[] {
  const whose = hasVariants ? `${variant}, ${region}` : region;
  const lines = moves.slice(0, SHOWN).map(({ at, place, home, far, windowPs, refused }) => {
    const why = windowPs === undefined
      ? "by a program"
      : `${home} accesses of home, ${far} of far in ${formatTime(windowPs)}`;
    const what = refused === undefined ? `copies move to ${place}` : `copies stay (${refused})`;
    return `${whose}: at ${formatTime(at)} ${what}: ${why}`;
  });
  const more = moves.length - lines.length;
  return more > 0 ? [...lines, `${whose}: ${more} more, in --json`] : lines;
}
