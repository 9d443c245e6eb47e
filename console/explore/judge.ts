/**
 * Runs the checker of promises (P-41) on what a power failure leaves of all declared writes, at every
 * instant anew: most of the time goes into runs of the rack, not into this. A promise is about each eight
 * bytes by themselves, so each choice is judged alone, however many there are.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import { persistence } from "../checks/persistence.ts";
import type { ImageView, RunRecord } from "../checks/run_record.ts";
import { type Cell, type OpenMemory, viewOf, WORD_BYTES } from "./choices.ts";
import type { Range } from "./history.ts";
import { DeclaredWrites, type WriteGroup } from "./declared_writes.ts";
import type { Finding } from "../checks/finding.ts";

/** What a power failure leaves of one host's SCM: what is durable, and what is open. */
export interface CrashState extends OpenMemory {
  readonly host: string;
}

/** Which alternative of a cell is found, of those that are settled. */
export type Settled = ReadonlyMap<Cell, number>;

type Run = Pick<RunRecord, "plan" | "lives" | "claims">;

/** Judges promises of one host's SCM. */
export class Judge {
  readonly #run: Run;
  readonly #host: string;
  readonly #writes: DeclaredWrites;
  readonly #most: number;
  #isBounded = false;

  /**
   * @param options.notes of a run, by time.
   * @param options.most ways to settle together what writes that come after others are in.
   */
  constructor(
    run: Run,
    { host, notes, most }: {
      readonly host: string;
      readonly notes: readonly TimedRecord[];
      readonly most: number;
    },
  ) {
    this.#most = most;
    this.#run = run;
    this.#host = host;
    this.#writes = new DeclaredWrites(notes, { host, claims: run.claims === true });
  }

  /** The bytes from the first to the last declared write; undefined where there is none. */
  get whole(): Range | undefined {
    return this.#writes.whole;
  }

  /** Whether there were more ways than that since the last call. */
  takeBounded(): boolean {
    const was = this.#isBounded;
    this.#isBounded = false;
    return was;
  }

  get checker(): string {
    return persistence.name;
  }

  /** Whether there are writes there that come after others, or others after them. */
  hasLinks(ranges: readonly Range[]): boolean {
    return this.#writes.hasLinks(ranges);
  }

  /** All declared writes, those together that are judged together. */
  get groups(): readonly WriteGroup[] {
    return this.#writes.groups;
  }

  /** The writes that some bytes are about, as one group; none where no write was declared there. */
  groupsAt(ranges: readonly Range[]): readonly WriteGroup[] {
    const group = this.#writes.about(ranges);
    return group === undefined ? [] : [group];
  }

  /**
   * What is wrong with what is found of some writes, for any of its choices.
   * @param settled choices that are made.
   */
  judge(state: CrashState, group: WriteGroup, settled: Settled = NOTHING): Finding[] {
    const { parts, notes, deciding } = group;
    // Whether one write is found decides whether those that it comes after have to be.
    const open = openIn(state, deciding, settled);
    const joint = jointly(open, this.#most);
    if (joint.length < open.length) this.#isBounded = true;
    for (const choice of combinations(joint, settled)) {
      const isOpen = openIn(state, parts, choice).length > 0;
      const findings = persistence.check({
        ...this.#run,
        reports: [],
        notes,
        scm: (host) => host === this.#host ? imageOf(state, choice, isOpen) : undefined,
      });
      if (findings.length > 0) return findings;
    }
    return [];
  }
}

const NOTHING: Settled = new Map();

/** The cells of these ranges that are not settled. */
export function openIn(
  state: CrashState,
  ranges: readonly Range[],
  settled: Settled = NOTHING,
): Cell[] {
  const cells = new Set(ranges.flatMap(({ from, to }) => state.cells.in(from, to)));
  return [...cells].filter((cell) => !settled.has(cell));
}

/** The first of them, as many as have no more than `most` ways to be settled together. */
function jointly(cells: readonly Cell[], most: number): readonly Cell[] {
  let ways = 1;
  const end = cells.findIndex(({ alternatives }) => (ways *= alternatives.length) > most);
  return end < 0 ? cells : cells.slice(0, end);
}

/** Ways to settle these cells, on top of what is settled. */
function* combinations(cells: readonly Cell[], settled: Settled): Generator<Settled> {
  const counts = cells.map(({ alternatives }) => alternatives.length);
  const picks = counts.map(() => 0);
  for (;;) {
    yield new Map([...settled, ...cells.map((cell, i) => [cell, picks[i]!] as const)]);
    let i = 0;
    while (i < picks.length && picks[i]! + 1 === counts[i]) picks[i++] = 0;
    if (i === picks.length) return;
    picks[i]!++;
  }
}

/** What a checker sees of it. @param isOpen whether there is anything that is not settled. */
function imageOf(state: CrashState, settled: Settled, isOpen: boolean): ImageView {
  const { read } = viewOf(state, (cell) => settled.get(cell) ?? 0);
  if (!isOpen) return { read };
  const possible = (unit: number) => {
    const end = unit + WORD_BYTES;
    let found: Uint8Array[] = [read(unit, end)];
    for (const cell of state.cells.in(unit, end)) {
      if (!settled.has(cell)) found = found.flatMap((bytes) => withEach(cell, unit, bytes));
    }
    return found.length === 1 ? undefined : found;
  };
  return { read, possible };
}

function withEach(cell: Cell, unit: number, bytes: Uint8Array): Uint8Array[] {
  return cell.alternatives.map((alternative) => {
    const from = Math.max(cell.from, unit);
    const to = Math.min(cell.from + cell.length, unit + WORD_BYTES);
    const found = bytes.slice();
    found.set(alternative.subarray(from - cell.from, to - cell.from), from - unit);
    return found;
  });
}

/**
 * The fewest choices with which something is wrong: none, one, or two of them together.
 * @param options.suspected bytes that were found to be wrong with some choices: what is open there comes first.
 * @returns undefined where none of them is enough.
 */
export function witnessOf(
  judge: Judge,
  state: CrashState,
  options: {
    readonly group: WriteGroup;
    /** Choices that are made. */
    readonly settled: Settled;
    readonly suspected: Range | undefined;
  },
): { readonly settled: Settled; readonly finding: Finding } | undefined {
  const { group, suspected } = options;
  const cells = openIn(state, group.parts, options.settled);
  const isSuspect = (cell: Cell) =>
    suspected !== undefined && cell.from < suspected.to && cell.from + cell.length > suspected.from;
  cells.sort((x, y) => Number(isSuspect(y)) - Number(isSuspect(x)));
  for (const few of fewChoices(cells)) {
    const settled = new Map([...options.settled, ...few]);
    const [finding] = judge.judge(state, group, settled);
    if (finding !== undefined) return { settled, finding };
  }
  return undefined;
}

/** Ways to settle all cells in which no more than two are not as they are durable. */
function* fewChoices(cells: readonly Cell[]): Generator<Settled> {
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
