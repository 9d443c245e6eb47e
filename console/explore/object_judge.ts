/**
 * An object that a `put` replaces is the old one or the new one, whatever the caches have written
 * back when the power of its host fails.
 */
import { wholeObjects } from "../checks/whole_objects.ts";
import type { RunRecord } from "../checks/run_record.ts";
import type { Finding } from "../checks/finding.ts";
import { directoryIn, ENTRY_BYTES, entryIn } from "../checks/scm_objects.ts";
import { type Cell, pickDurable, viewOf } from "./choices.ts";
import type { Range } from "./history.ts";
import {
  combinations,
  type CrashState,
  fewChoices,
  imageOf,
  openIn,
  type Settled,
} from "./judge.ts";

export interface ObjectVerdict {
  readonly finding: Finding | undefined;
  readonly settled: Settled;
  readonly isBounded: boolean;
}

const WAYS_MAX = 4096, ENTRY_WAYS_MAX = 65_536;

export function judgeObjects(record: RunRecord, cut: readonly CrashState[]): ObjectVerdict {
  let isBounded = false;
  for (const state of cut) {
    const directory = waysToFind(record, state);
    isBounded ||= directory.isBounded;
    for (const settled of directory.ways) {
      const finding = findingWith(record, state, imageOf(state, settled, true));
      if (finding === undefined) continue;
      const witness = witnessIn(record, state, { settled, finding });
      if (witness !== undefined) return { ...witness, isBounded };
      isBounded = true;
    }
  }
  return { finding: undefined, settled: new Map(), isBounded };
}

/**
 * One of each kind: of the bytes of an entry only those count that are a valid entry; all others
 * are a free one, however they are torn.
 */
function waysToFind(
  { plan }: RunRecord,
  state: CrashState,
): { readonly ways: readonly Settled[]; readonly isBounded: boolean } {
  const node = plan.nodes.find(({ name }) => name === state.host);
  const scmBytes = node?.kind === "host" ? node.config.scmBytes : 0;
  const directory = directoryIn(viewOf(state, pickDurable), scmBytes);
  let ways: readonly Settled[] = [NOTHING], isBounded = false;
  if (directory === undefined) return { ways, isBounded };
  const known = new Set<Cell>();
  for (let at = directory.from; at < directory.to; at += ENTRY_BYTES) {
    const entry = { from: at, to: at + ENTRY_BYTES };
    const cells = openIn(state, [entry]).filter((cell) => !known.has(cell));
    if (cells.length === 0) continue;
    for (const cell of cells) known.add(cell);
    const kinds = kindsOf(state, entry, cells);
    if (kinds === undefined || ways.length * kinds.length > WAYS_MAX) isBounded = true;
    else ways = ways.flatMap((way) => kinds.map((kind) => new Map([...way, ...kind])));
  }
  return { ways, isBounded };
}

const NOTHING: Settled = new Map();

function kindsOf(state: CrashState, { from, to }: Range, cells: readonly Cell[]) {
  const count = cells.reduce((all, { alternatives }) => all * alternatives.length, 1);
  if (count > ENTRY_WAYS_MAX) return undefined;
  const kinds = new Map<string, Settled>();
  for (const choice of combinations(cells, NOTHING)) {
    const bytes = viewOf(state, (cell) => choice.get(cell) ?? 0).read(from, to);
    const entry = entryIn(bytes);
    const kind = typeof entry === "object" ? bytes.toHex() : entry ?? "free";
    if (!kinds.has(kind)) kinds.set(kind, choice);
  }
  return [...kinds.values()];
}

function findingWith(
  record: RunRecord,
  { host }: CrashState,
  image: ReturnType<typeof imageOf>,
): Finding | undefined {
  return wholeObjects.check({ ...record, scm: (name) => name === host ? image : undefined })[0];
}

function witnessIn(
  record: RunRecord,
  state: CrashState,
  { settled, finding }: { readonly settled: Settled; readonly finding: Finding },
): Pick<ObjectVerdict, "finding" | "settled"> & { readonly finding: Finding } | undefined {
  const cells = finding.scm === undefined ? [] : openIn(state, [finding.scm], settled);
  for (const few of fewChoices(cells)) {
    const choice = new Map([...settled, ...few]);
    const found = findingWith(record, state, imageOf(state, choice, false));
    if (found !== undefined) return { finding: found, settled: choice };
  }
  return undefined;
}
