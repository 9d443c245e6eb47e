import { formatTime, type Time } from "../base/time.ts";
import type { Ladder, LadderRow } from "./trace.ts";
import type { ModuleCost } from "./access_modules.ts";
import { accessText } from "./access_steps.ts";
import { documentText } from "./trace_figures.ts";

const GAP = 3;

export function ladderText(ladder: Ladder): string {
  const { columns, rows, operation, conclusion, costs } = ladder;
  const width = Math.max(...columns.map((name) => name.length)) + GAP;
  const places = columns.map((_, i) => i * width + Math.floor(width / 2));
  const times = rows.map(({ time }) => formatFixed(time));
  const since = rows.map(({ time }) => sinceText(time - operation.startPs));
  const timeWidth = Math.max(...times.map(({ length }) => length));
  const sinceWidth = Math.max(...since.map(({ length }) => length));
  const stepWidth = Math.max(...rows.map(({ step }) => step.length));
  const indent = " ".repeat(timeWidth + sinceWidth + stepWidth + 6);
  const lines = rows.map((row, i) =>
    [
      times[i]!.padStart(timeWidth),
      since[i]!.padStart(sinceWidth),
      row.step.padEnd(stepWidth),
      drawn(row, { columns, places, length: width * columns.length }),
      textOf(row),
    ].join("  ").trimEnd()
  );
  const after = formatTime(conclusion.time - operation.startPs);
  return [
    indent + heading(columns, { places, length: width * columns.length }),
    ...lines,
    `${conclusion.node}, after ${after}: ${conclusion.text.replace(/^takes the CQE: /, "")}`,
    ...(costs === undefined ? [] : [`by module: ${costsText(costs)}`]),
  ].join("\n");
}

/** `memory 81 ns + core 5 ns = 86 ns`. */
function costsText(costs: readonly ModuleCost[]): string {
  const parts = costs.map(({ module, ps }) => `${module} ${formatTime(ps)}`);
  return `${parts.join(" + ")} = ${formatTime(costs.reduce((sum, { ps }) => sum + ps, 0))}`;
}

export function stepsText(
  columns: readonly string[],
  rows: readonly Pick<LadderRow, "node" | "to" | "text">[],
): string {
  const width = Math.max(...columns.map((name) => name.length)) + GAP;
  const places = columns.map((_, i) => i * width + Math.floor(width / 2));
  const on = { places, length: width * columns.length };
  const digits = `${rows.length}`.length;
  return [
    " ".repeat(digits + 2) + heading(columns, on),
    ...rows.map((row, i) =>
      `${`${i + 1}`.padStart(digits)}  ${drawn(row, { columns, ...on })}  ${row.text}`.trimEnd()
    ),
  ].join("\n");
}

/**
 * Consecutive equal steps are retransmissions of one packet. The row's text has their number and
 * the last one's time.
 */
export function foldRepeats(rows: readonly LadderRow[]): LadderRow[] {
  const folded: LadderRow[] = [];
  for (let i = 0, end; i < rows.length; i = end) {
    const row = rows[i]!;
    for (end = i + 1; end < rows.length && isRepeat(rows[end]!, row); end++);
    const more = end - i - 1, last = formatFixed(rows[end - 1]!.time);
    folded.push(more === 0 ? row : { ...row, text: `${row.text} … ${more} more, to ${last}` });
  }
  return folded;
}

function isRepeat(row: LadderRow, first: LadderRow): boolean {
  return row.node === first.node && row.to === first.to && row.step === first.step &&
    row.text === first.text;
}

/** Microseconds with six decimals (ps), so that times align. */
function formatFixed(time: Time): string {
  return `${(time / 1_000_000).toFixed(6)} us`;
}

function sinceText(ps: Time): string {
  return `${ps < 0 ? "" : "+"}${(ps / 1_000_000).toFixed(6)} us`;
}

function textOf({ step, text }: LadderRow): string {
  const words = documentText(step) ?? accessText(step);
  return words === undefined ? text : `${words}: ${text}`;
}

interface Canvas {
  readonly places: readonly number[];
  readonly length: number;
}

function heading(columns: readonly string[], { places, length }: Canvas): string {
  const cells = new Array<string>(length).fill(" ");
  for (const [i, name] of columns.entries()) {
    const from = Math.max(0, places[i]! - Math.floor(name.length / 2));
    for (let at = 0; at < name.length; at++) cells[from + at] = name[at]!;
  }
  return cells.join("").trimEnd();
}

function drawn(
  row: Pick<LadderRow, "node" | "to">,
  on: Canvas & { readonly columns: readonly string[] },
): string {
  const { columns, places, length } = on;
  const cells = new Array<string>(length).fill(" ");
  for (const place of places) cells[place] = "│";
  const from = places[columns.indexOf(row.node)];
  if (from === undefined) return cells.join("");
  const to = row.to === undefined ? undefined : places[columns.indexOf(row.to)];
  if (to !== undefined) {
    const step = Math.sign(to - from);
    for (let at = from + step; at !== to; at += step) cells[at] = "─";
    cells[to - step] = step > 0 ? "▶" : "◀";
  }
  cells[from] = "●";
  return cells.join("");
}
