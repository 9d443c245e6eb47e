/** Writes that programs declare to one host's SCM by notes, in groups that are judged one by one. */
import type { TimedRecord } from "../../fabric/audit.ts";
import { nameOf, notedWrites } from "../checks/noted_writes.ts";
import type { NotedWrite } from "../checks/values.ts";
import { wordsAround } from "./choices.ts";
import { overlaps, type Range } from "./history.ts";

/** Writes that are judged together: they share words, or one has to be there where another one is. */
export interface WriteGroup {
  readonly writes: readonly NotedWrite[];
  readonly notes: readonly TimedRecord[];
  /** Writes that decide, by being there, whether others have to be. */
  readonly deciding: readonly NotedWrite[];
}

/**
 * @param notes of a run, by time.
 * @param options.claims what a method claims counts as promised.
 */
export function writeGroups(
  notes: readonly TimedRecord[],
  { host, claims }: { readonly host: string; readonly claims: boolean },
): WriteGroup[] {
  const writes = notedWrites(notes, { claims }).filter(({ on }) => on === host);
  const groups = new Map<string, NotedWrite[]>();
  let group: NotedWrite[] = [], end = 0;
  for (const write of writes.toSorted((x, y) => x.from - y.from)) {
    const words = wordsAround(write);
    if (words.from >= end) group = [];
    group.push(write);
    groups.set(write.name, group);
    end = Math.max(end, words.to);
  }
  for (const write of writes) {
    for (const behind of missable(write)) {
      const [small, large] = [groups.get(write.name)!, groups.get(behind.name) ?? []]
        .sort((x, y) => x.length - y.length);
      if (small === large) continue;
      large!.push(...small!);
      for (const { name } of small!) groups.set(name, large!);
    }
  }
  const ofGroup = Map.groupBy(
    notes,
    ({ by, note }) => "id" in note ? groups.get(nameOf(by, note.id)) : undefined,
  );
  const freed = notes.filter(({ node, note }) => note.kind === "freed" && node === host);
  return [...new Set(groups.values())].map((writes) => ({
    writes,
    notes: [...ofGroup.get(writes) ?? [], ...freed].sort((x, y) => x.time - y.time),
    deciding: writes.filter((write) => write.promised === undefined && missable(write).length > 0),
  }));
}

/** What a write comes after, and no promise of its own demands. */
function missable({ on, after }: NotedWrite): NotedWrite[] {
  return after.filter((behind) => behind.on === on && behind.promised === undefined);
}

/** The groups that touch a word of these ranges. */
export function groupsAt(groups: readonly WriteGroup[], ranges: readonly Range[]): WriteGroup[] {
  const words = ranges.map(wordsAround);
  return groups.filter(({ writes }) =>
    writes.some((write) => words.some((range) => overlaps(range, write)))
  );
}
