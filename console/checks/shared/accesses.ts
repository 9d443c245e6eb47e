/** Accesses to shared regions, from the audit records of a run: see `fabric/audit.ts`. Read `line_order.ts` next. */
import type {
  AccessedRecord,
  AccessRecord,
  RegionLostRecord,
  RegionRecord,
  TimedRecord,
} from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Finding } from "../finding.ts";
import { lifeAt, type Lives } from "../lives.ts";
import { drained, inSteps, type Steps } from "../run_record.ts";
import type { Instant } from "../values.ts";

export interface Access {
  /** `load 7 of a/0/queue#0`. */
  readonly name: string;
  readonly node: string;
  readonly note: AccessRecord;
  readonly began: Instant;
  /** Undefined where its program was never told how it ended. */
  ended: { readonly at: Instant; readonly note: AccessedRecord } | undefined;
}

export interface Lost {
  readonly at: Instant;
  readonly note: RegionLostRecord;
}

export interface Region {
  readonly record: RegionRecord;
  readonly accesses: Access[];
  readonly losses: Lost[];
}

export interface SharedAccesses {
  readonly regions: ReadonlyMap<string, Region>;
  /**
   * Records that contradict each other: an answer to nothing, two answers, an access outside its
   * region.
   */
  readonly wrong: readonly Finding[];
}

/** The promises about shared regions apply to this run. */
export function usesRegions({ notes }: { readonly notes: readonly TimedRecord[] }): boolean {
  return notes.some(({ note }) => note.kind === "region" || note.kind === "line-state");
}

const KNOWN = new WeakMap<
  readonly TimedRecord[],
  { readonly count: number; readonly found: SharedAccesses }
>();

/** All accesses of a run, in the order of their begins. */
export function sharedAccesses(notes: readonly TimedRecord[]): SharedAccesses {
  return drained(sharedAccessSteps(notes));
}

export function* sharedAccessSteps(notes: readonly TimedRecord[]): Steps<SharedAccesses> {
  const known = KNOWN.get(notes);
  if (known?.count === notes.length) return known.found;
  const found = yield* accessesIn(notes);
  KNOWN.set(notes, { count: notes.length, found });
  return found;
}

function* accessesIn(notes: readonly TimedRecord[]): Steps<SharedAccesses> {
  const regions = new Map<string, Region>();
  const open = new Map<string, Access>();
  const wrong: Finding[] = [];
  // A card may access a region before a program does.
  yield* inSteps(notes, ({ note }) => {
    if (note.kind !== "region" || regions.has(note.region)) return;
    regions.set(note.region, { record: note, accesses: [], losses: [] });
  });
  yield* inSteps(notes, ({ time, node, by, note }, order) => {
    const at: Instant = { time, node, order };
    const tell = (text: string) => void wrong.push({ text, at: { node, time } });
    switch (note.kind) {
      case "region": {
        if (!isSameRegion(regions.get(note.region)!.record, note)) {
          tell(`${node}: region ${note.region} is not as other hosts have it`);
        }
        break;
      }
      case "access": {
        const name = accessName(by, note);
        const region = regions.get(note.region);
        const access: Access = { name, node, note, began: at, ended: undefined };
        if (region === undefined) {
          if (note.dma !== true) tell(`${name}: there is no region ${note.region}`);
        } else if (note.offset < 0 || note.offset + note.length > region.record.bytes) {
          const range = `[${note.offset}, ${note.offset + note.length})`;
          tell(`${name}: ${range} is not within the region's ${region.record.bytes} B`);
        } else region.accesses.push(access);
        const key = `${by} ${note.id}`;
        if (open.has(key)) tell(`${name} begins twice`);
        open.set(key, access);
        break;
      }
      case "accessed": {
        const access = open.get(`${by} ${note.id}`);
        if (access === undefined) tell(`${by}: an answer to no access, ${note.id}`);
        else if (access.ended !== undefined) tell(`${access.name} is answered twice`);
        else access.ended = { at, note };
        break;
      }
      case "region-lost": {
        const region = regions.get(note.region);
        if (region === undefined) {
          tell(`${node}: bytes of ${note.region}, which is no region, are lost`);
        } else region.losses.push({ at, note });
        break;
      }
    }
  });
  return { regions, wrong };
}

/** What a finding says of bytes of a region; nothing where they are in DRAM. */
export function scmOf(
  { record: { home, at } }: Region,
  { offset, length }: Pick<AccessRecord, "offset" | "length">,
): Pick<Finding, "scm"> {
  if (at === undefined) return {};
  return { scm: { host: home, from: at + offset, to: at + offset + length } };
}

export function accessName(by: string, { op, id }: AccessRecord): string {
  return `${op} ${id} of ${by}`;
}

function isSameRegion(x: RegionRecord, y: RegionRecord): boolean {
  return x.home === y.home && x.bytes === y.bytes && x.at === y.at &&
    x.answerWithinPs === y.answerWithinPs && x.homeWaitPs === y.homeWaitPs;
}

/** At all instants [from, to]. */
export function hadPower(run: Lives, { node, from, to }: {
  readonly node: string;
  readonly from: Time;
  readonly to: Time;
}): boolean {
  const life = lifeAt(run, node, from);
  return life >= 0 && lifeAt(run, node, to) === life;
}
