/**
 * Runs the checker of promises (P-41) on what a power failure leaves, at every instant. A promise
 * is about each eight bytes by themselves, so each open cell is judged alone, however many there
 * are; only cells of writes that others depend on are judged together.
 */
import { persistence } from "../checks/persistence.ts";
import type { ImageView, RunRecord } from "../checks/run_record.ts";
import { type Cell, type OpenMemory, viewOf, WORD_BYTES, wordsAround } from "./choices.ts";
import { overlaps, type Range } from "./history.ts";
import type { WriteGroup } from "./declared_writes.ts";
import type { Finding } from "../checks/finding.ts";

export interface CrashState extends OpenMemory {
  readonly host: string;
}

/** By cell: the alternative that is found. */
export type Settled = ReadonlyMap<Cell, number>;

export interface Judge {
  readonly run: Pick<RunRecord, "plan" | "lives" | "claims">;
  readonly host: string;
  readonly groups: readonly WriteGroup[];
  readonly most: number;
}

/**
 * The first finding about a group of writes, for any choice; `isBounded` where not all were tried.
 * @param settled choices that are made.
 */
export function judgeGroup(
  { run, host, most }: Judge,
  state: CrashState,
  { group, settled = NOTHING }: { readonly group: WriteGroup; readonly settled?: Settled },
): { readonly finding: Finding | undefined; readonly isBounded: boolean } {
  const { writes, notes, deciding } = group;
  const open = openIn(state, deciding, settled);
  const joint = jointly(open, most);
  const isBounded = joint.length < open.length;
  for (const choice of combinations(joint, settled)) {
    const isOpen = openIn(state, writes, choice).length > 0;
    const [finding] = persistence.check({
      ...run,
      reports: [],
      notes,
      scm: (name) => name === host ? imageOf(state, choice, isOpen) : undefined,
    });
    if (finding !== undefined) return { finding, isBounded };
  }
  return { finding: undefined, isBounded };
}

const NOTHING: Settled = new Map();

export function openIn(
  state: CrashState,
  ranges: readonly Range[],
  settled: Settled = NOTHING,
): Cell[] {
  const words = ranges.map(wordsAround);
  const cells = new Set(words.flatMap(({ from, to }) => state.cells.in(from, to)));
  return [...cells].filter((cell) => !settled.has(cell));
}

function jointly(cells: readonly Cell[], most: number): readonly Cell[] {
  let ways = 1;
  const end = cells.findIndex(({ alternatives }) => (ways *= alternatives.length) > most);
  return end < 0 ? cells : cells.slice(0, end);
}

/** All ways to settle these cells. */
export function* combinations(
  [cell, ...rest]: readonly Cell[],
  settled: Settled,
): Generator<Settled> {
  if (cell === undefined) return yield settled;
  for (const i of cell.alternatives.keys()) {
    yield* combinations(rest, new Map([...settled, [cell, i]]));
  }
}

/** SCM as checkers see it. @param isOpen some cell is not settled. */
export function imageOf(state: CrashState, settled: Settled, isOpen: boolean): ImageView {
  const found = (choice: Settled) => viewOf(state, (cell) => choice.get(cell) ?? 0);
  const { read } = found(settled);
  if (!isOpen) return { read };
  const possible = (unit: number) => {
    const words = { from: unit, to: unit + WORD_BYTES };
    const cells = openIn(state, [words], settled);
    if (cells.length === 0) return undefined;
    const choices = [...combinations(cells, settled)];
    return choices.map((choice) => found(choice).read(words.from, words.to));
  };
  return { read, possible };
}

/**
 * The fewest choices with which something is wrong: none, one, or two of them together.
 * @param options.suspected bytes that are wrong with some choices: their cells come first.
 * @returns undefined where none of them is enough.
 */
export function witnessOf(
  judge: Judge,
  state: CrashState,
  options: {
    readonly group: WriteGroup;
    readonly settled: Settled;
    readonly suspected: Range | undefined;
  },
): { readonly settled: Settled; readonly finding: Finding } | undefined {
  const { group, suspected } = options;
  const cells = openIn(state, group.writes, options.settled);
  const isSuspect = ({ from, length }: Cell) =>
    suspected !== undefined && overlaps({ from, to: from + length }, suspected);
  cells.sort((x, y) => Number(isSuspect(y)) - Number(isSuspect(x)));
  for (const few of fewChoices(cells)) {
    const settled = new Map([...options.settled, ...few]);
    const { finding } = judgeGroup(judge, state, { group, settled });
    if (finding !== undefined) return { settled, finding };
  }
  return undefined;
}

/** Ways to settle all cells in which at most two differ from the durable content. */
export function* fewChoices(cells: readonly Cell[]): Generator<Settled> {
  const none = new Map<Cell, number>(cells.map((cell) => [cell, 0]));
  const picks = cells.flatMap((cell) =>
    cell.alternatives.map((_, i) => [cell, i] as const).filter(([, i]) => i > 0)
  );
  yield none;
  for (const [cell, i] of picks) yield new Map(none).set(cell, i);
  for (const [at, [cell, i]] of picks.entries()) {
    for (const [other, j] of picks.slice(at + 1)) {
      if (other !== cell) yield new Map(none).set(cell, i).set(other, j);
    }
  }
}
