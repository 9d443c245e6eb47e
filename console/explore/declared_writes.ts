/** Writes that programs declare to one host's SCM by notes, in groups that are judged one by one. */
import type { AuditRecord, TimedRecord } from "../../fabric/audit.ts";
import type { Lives } from "../checks/lives.ts";
import { accessName } from "../checks/shared/accesses.ts";
import { nameOf, notedWrites } from "../checks/noted_writes.ts";
import type { NotedWrite } from "../checks/values.ts";
import { wordsAround } from "./choices.ts";
import { overlaps, type Range } from "./history.ts";

/**
 * Writes that share words, or of which one has to be there where another one is: judged together.
 */
export interface WriteGroup {
  readonly writes: readonly NotedWrite[];
  readonly notes: readonly TimedRecord[];
  /** By being there, they decide whether others have to be. */
  readonly deciding: readonly NotedWrite[];
}

/**
 * @param notes of a run, by time.
 * @param options.claims count the claims of methods as promises.
 */
export function writeGroups(
  notes: readonly TimedRecord[],
  { host, claims, lives }: {
    readonly host: string;
    readonly claims: boolean;
    readonly lives: Lives["lives"];
  },
): WriteGroup[] {
  const writes = notedWrites(notes, { claims, lives }).filter(({ on }) => on === host);
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
  const stores = new Map<string, NotedWrite[] | undefined>();
  for (const { by, note } of notes) {
    if (note.kind === "access") stores.set(`${by} ${note.id}`, groups.get(accessName(by, note)));
  }
  const ofGroup = Map.groupBy(notes, ({ by, note }) => {
    if (!("id" in note)) return undefined;
    const isAccess = note.kind === "access" || note.kind === "accessed";
    return isAccess ? stores.get(`${by} ${note.id}`) : groups.get(nameOf(by, note.id));
  });
  const isOfAll = ({ node, by, note }: TimedRecord) =>
    note.kind === "freed" && node === host || note.kind === "region" ||
    // Flushes, and atomics whose effect is not known.
    isOfRegion(note) && "id" in note && stores.get(`${by} ${note.id}`) === undefined;
  const ofAll = notes.filter(isOfAll);
  const places = new Map(notes.map((note, place) => [note, place]));
  return [...new Set(groups.values())].map((writes) => ({
    writes,
    notes: [...ofGroup.get(writes) ?? [], ...ofAll]
      .sort((x, y) => x.time - y.time || places.get(x)! - places.get(y)!),
    deciding: writes.filter((write) => write.promised === undefined && missable(write).length > 0),
  }));
}

/** By these records stores to shared regions are judged as writes to SCM. */
export function isOfRegion({ kind }: AuditRecord): boolean {
  return kind === "region" || kind === "access" || kind === "accessed";
}

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
