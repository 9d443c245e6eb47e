/**
 * Runs the checker of objects that a `put` replaces where the power of their host fails: whatever the
 * caches have written back, the object is the old one or the new one.
 */
import { wholeObjects } from "../checks/whole_objects.ts";
import type { RunRecord } from "../checks/run_record.ts";
import type { Finding } from "../checks/finding.ts";
import { type Cell, pickDurable, remembering, viewOf } from "./choices.ts";
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
  /** Whether not all ways to find the directory were tried. */
  readonly isBounded: boolean;
}

/** More open cells of a directory are not gone through in all ways. */
const CELLS_MAX = 6;

export function judgeObjects(record: RunRecord, cut: readonly CrashState[]): ObjectVerdict {
  let isBounded = false;
  for (const state of cut) {
    const directory = directoryCells(record, state);
    isBounded ||= directory.length > CELLS_MAX;
    for (const settled of combinations(directory.slice(0, CELLS_MAX), new Map())) {
      const finding = findingWith(record, state, imageOf(state, settled, true));
      if (finding === undefined) continue;
      const witness = witnessIn(record, state, { settled, finding });
      if (witness !== undefined) return { ...witness, isBounded };
      isBounded = true;
    }
  }
  return { finding: undefined, settled: new Map(), isBounded };
}

/** Open cells that the checker reads as they are: those of the directory. */
function directoryCells(record: RunRecord, state: CrashState): Cell[] {
  const read = new Map<Cell, number>();
  const image = viewOf(state, remembering(pickDurable, read));
  findingWith(record, state, { ...image, possible: () => [] });
  return [...read.keys()];
}

function findingWith(
  record: RunRecord,
  { host }: CrashState,
  image: ReturnType<typeof imageOf>,
): Finding | undefined {
  return wholeObjects.check({ ...record, scm: (name) => name === host ? image : undefined })[0];
}

/** The fewest choices of the object's cells with which the finding shows. */
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
