/**
 * (u) What each constant of the default profile moves in the table of methods: doubled and halved,
 * one at a time. Virtual time, so exact.
 */
import { type Profile, PROFILES } from "../../fabric/rack/plan/profile.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { formatRate, formatSize } from "../../fabric/rack/plan/units.ts";
import { formatTime } from "../../fabric/base/time.ts";
import { timingName } from "../../fabric/rack/scenario/schema.ts";
import { say } from "../commands/output.ts";
import { measureMethods, type MethodFigure } from "./methods.ts";
import type { PutAsked, PutTable } from "./put_table.ts";

const PROFILE: Profile = PROFILES["clx-optane-cx5"];
export const SOURCE = new URL("../../fabric/rack/plan/profile.ts", import.meta.url);
const SWEPT = [64, 4096] as const;
const FACTORS = [0.5, 2] as const;
/** Smaller changes of a latency, and smaller distances of two methods, are not shown. */
const LEAST = 0.01;

/** Where a scenario sets a section's values. None: not on the path of a card on PCIe. */
const PLACES: Readonly<
  Record<keyof Profile, ((setting: string) => Pick<PutAsked, "hosts" | "fabric">) | undefined>
> = {
  host: (setting) => ({ hosts: `timing: { host: { ${setting} } }` }),
  rnic: (setting) => ({ hosts: `timing: { rnic: { ${setting} } }` }),
  bus: (setting) => ({ fabric: `bus: { ${setting} }` }),
  coherent: undefined,
  network: (setting) => ({ fabric: setting }),
  switch: (setting) => ({ fabric: `switch: { ${setting} }` }),
  mtu: (setting) => ({ fabric: setting }),
  cores: (setting) => ({ hosts: setting }),
  blueFlame: undefined,
  llc: (setting) => ({ hosts: `llc: { ${setting} }` }),
  translations: (setting) => ({ hosts: `translationCache: { ${setting} }` }),
};

/** Fields that a scenario calls otherwise than `timingName` says. */
const RENAMED: Readonly<Record<string, string>> = {
  bitsPerSecond: "rate",
  bytes: "size",
  queueBytes: "queue",
};

export interface Constant {
  /** As in the profile: `rnic.dataReadPs`. */
  readonly name: string;
  readonly section: keyof Profile;
  readonly field: string;
  readonly value: number;
}

/** Every number of the default profile that a scenario can set for a card on PCIe. */
export function constants(): Constant[] {
  return (Object.keys(PROFILE) as (keyof Profile)[])
    .filter((section) => PLACES[section] !== undefined)
    .flatMap((section): Constant[] => {
      const held = PROFILE[section];
      const fields = typeof held === "object" ? Object.entries(held) : [[section, held] as const];
      return fields.flatMap(([field, value]) =>
        typeof value === "number"
          ? [{ name: field === section ? field : `${section}.${field}`, section, field, value }]
          : []
      );
    });
}

/** What a test makes again, and `--quick` makes alone. */
export function sampleOf<Row>(rows: readonly Row[]): Row[] {
  return rows.filter((_, i) => i % 22 === 0);
}

/** What a latency became, over what it was; `at`: the method, DDIO and size. */
interface Change {
  readonly at: string;
  readonly ratio: number;
}

/** Two methods of one size and DDIO, of which the first became the slower one. */
interface Swap {
  readonly at: string;
  readonly first: string;
  readonly second: string;
  /** How far apart they are now: a share of the slower one's latency. */
  readonly apart: number;
}

type Outcome =
  | { readonly value: number; readonly most: Change; readonly swaps: readonly Swap[] }
  | { readonly value: number; readonly refused: string };

export interface ConstantFigure extends Constant {
  /** In the order of `FACTORS`. */
  readonly outcomes: readonly Outcome[];
}

/**
 * Each of `of`, halved (rounded down) and doubled, against the profile as it is.
 *
 * @throws Error where a put fails.
 */
export function measureConstants(
  seed: number,
  of: readonly Constant[] = constants(),
): ConstantFigure[] {
  const before = measureMethods(seed, { sizes: SWEPT });
  return of.map((constant, i) => {
    say(`${i + 1} of ${of.length} constants: ${constant.name}`);
    const outcomes = FACTORS.map((factor): Outcome => {
      const value = Math.floor(constant.value * factor);
      try {
        const after = measureMethods(seed, { sizes: SWEPT, ...settingOf(constant, value) });
        return { value, most: mostChanged(before, after), swaps: swapsOf(before, after) };
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        const { expected } = error.problems[0]!;
        return { value, refused: expected };
      }
    });
    return { ...constant, outcomes };
  });
}

/** A rack's setting, in a scenario's syntax. */
export function settingOf(
  { section, field }: Constant,
  value: number,
): Pick<PutAsked, "hosts" | "fabric"> {
  const unit = /Ps$/.test(field) ? "ps" : /bitsPerSecond$/i.test(field) ? "bps" : "";
  return PLACES[section]!(`${RENAMED[field] ?? timingName(field)}: ${value}${unit}`);
}

function placeOf({ method, ddio, size }: MethodFigure): string {
  return `${method}, ${columnOf({ ddio, size })}`;
}

function columnOf({ ddio, size }: Pick<MethodFigure, "ddio" | "size">): string {
  return `${ddio}, ${formatSize(size)}`;
}

function mostChanged(before: readonly MethodFigure[], after: readonly MethodFigure[]): Change {
  return after
    .map((figure, i) => ({
      at: placeOf(figure),
      ratio: figure.latencyPs / before[i]!.latencyPs,
    }))
    .reduce((most, each) => distance(each) > distance(most) ? each : most);
}

/** Of a change, whichever way it goes: twice as long is as far as half as long. */
function distance({ ratio }: Change): number {
  return Math.abs(Math.log(ratio));
}

/** Methods that were equally fast, or are now less than 1 % apart, have not swapped. The furthest apart comes first. */
function swapsOf(before: readonly MethodFigure[], after: readonly MethodFigure[]): Swap[] {
  return after.flatMap((slow, i) =>
    after.flatMap((fast, j): Swap[] => {
      const isOfOneColumn = slow.ddio === fast.ddio && slow.size === fast.size;
      const was = before[i]!.latencyPs - before[j]!.latencyPs;
      const apart = (slow.latencyPs - fast.latencyPs) / slow.latencyPs;
      if (!isOfOneColumn || was >= 0 || apart < LEAST) return [];
      return [{ at: columnOf(slow), first: slow.method, second: fast.method, apart }];
    })
  ).sort((x, y) => y.apart - x.apart);
}

/**
 * By name, how `profile.ts` marks where a constant is from: `table`, `derived` or `choice`, or several. Values in a
 * row share the comment before them.
 */
export function originsOf(source: string): ReadonlyMap<string, string> {
  const from = source.indexOf("const CLX_OPTANE_CX5: Profile = {");
  const lines = source.slice(from, source.indexOf("\n};", from)).split("\n").slice(1);
  const origins = new Map<string, string>();
  let section = "", comment = "", isComment = false;
  for (const line of lines) {
    const said = /^\s*\/\/ (.*)/.exec(line)?.[1];
    if (said !== undefined) {
      comment = isComment ? `${comment} ${said}` : said;
      isComment = true;
      continue;
    }
    isComment = false;
    const marks = [...new Set(comment.match(/(?<=\[)(?:table|derived|choice)(?=\])/g))];
    const [, indent, field, opens] = /^(\s*)(\w+):(?: (\{))?/.exec(line) ?? [];
    if (field === undefined) continue;
    const isTop = indent!.length === 2;
    const inside = opens === undefined
      ? [isTop ? field : `${section}.${field}`]
      : [...line.matchAll(/(?<=[{,] )\w+(?=:)/g)].map(([name]) => `${field}.${name}`);
    for (const name of inside) origins.set(name, marks.join(", "));
    if (isTop && opens !== undefined) section = field;
    if (isTop) comment = "";
  }
  return origins;
}

export function constantsTable(figures: readonly ConstantFigure[]): PutTable {
  const origins = originsOf(Deno.readTextFileSync(SOURCE));
  const shown = figures.filter(isShown)
    .toSorted((x, y) => farthest(y) - farthest(x));
  return {
    name: "constants",
    header: ["constant", "value", "from", "halved", "doubled", "who swaps"],
    rows: shown.map((figure) => rowOf(figure, origins.get(figure.name) ?? "")),
    below: restOf(figures.filter((figure) => !isShown(figure))),
  };
}

function isShown({ outcomes }: ConstantFigure): boolean {
  return outcomes.some((outcome) =>
    "most" in outcome &&
    (Math.abs(outcome.most.ratio - 1) >= LEAST || outcome.swaps.length > 0)
  );
}

function farthest({ outcomes }: ConstantFigure): number {
  return Math.max(...outcomes.map((each) => "most" in each ? distance(each.most) : 0));
}

/** A constant's line in the table. */
function rowOf(figure: ConstantFigure, origin: string): string[] {
  const { name, field, value, outcomes } = figure;
  const swaps = outcomes.flatMap((outcome, i) => {
    if (!("most" in outcome) || outcome.swaps.length === 0) return [];
    const [{ at, first, second, apart }, ...more] = outcome.swaps as [Swap, ...Swap[]];
    const others = more.length === 0 ? "" : `; ${more.length} more`;
    return [
      `${FACTOR_NAMES[i]}: ${first} behind ${second} by ${percent(apart)} (${at})${others}`,
    ];
  });
  return [
    `\`${name}\``,
    valueText(field, value),
    origin,
    ...outcomes.map(outcomeText),
    swaps.join(". ") || "none",
  ];
}

const FACTOR_NAMES = ["halved", "doubled"] as const;

function outcomeText(outcome: Outcome): string {
  if ("refused" in outcome) return `refused: ${outcome.refused}`;
  const { at, ratio } = outcome.most;
  if (ratio === 1) return "nothing";
  return `${ratio > 1 ? "+" : "−"}${percent(Math.abs(ratio - 1))} ${at}`;
}

function percent(share: number): string {
  return `${Number((100 * share).toPrecision(2))} %`;
}

function valueText(field: string, value: number): string {
  if (/Ps$/.test(field)) return formatTime(value);
  if (/bitsPerSecond$/i.test(field)) return formatRate(value);
  return /bytes$/i.test(field) ? formatSize(value) : String(value);
}

function restOf(figures: readonly ConstantFigure[]): string {
  const movesSome = figures.filter((figure) => farthest(figure) > 0);
  const movesNone = figures.filter((figure) => farthest(figure) === 0);
  const names = (of: readonly ConstantFigure[]) => of.map(({ name }) => `\`${name}\``).join(", ");
  const refused = figures.flatMap(({ name, outcomes }) =>
    outcomes.flatMap((outcome, i) =>
      "refused" in outcome ? [`\`${name}\` ${FACTOR_NAMES[i]} (${outcome.refused})`] : []
    )
  );
  return [
    `Less than ${percent(LEAST)}, and no two methods swap: ${names(movesSome) || "none"}.`,
    `Nothing at all: ${names(movesNone) || "none"}.`,
    ...(refused.length === 0 ? [] : [`Of these a scenario refuses ${refused.join("; ")}.`]),
  ].join(" ");
}
