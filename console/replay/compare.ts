import type { Replay } from "./client.ts";
import { configurationDifferences } from "./configuration.ts";
import type { Comparison, EventRow, FigureDifference, FirstDifference } from "../api/replay.ts";
import type { Time } from "../../fabric/base/time.ts";

/** Of each device that differs, on each side. */
const ROWS_BEFORE = 2, ROWS_AFTER = 12;
const NODES_MOST = 8;
const CONFIGURATION_MOST = 200;

type Sample = readonly [at: Time, events: number, digest: string];

/** @param here may be of the same run as `there`. */
export async function compareRuns(here: Replay, there: Replay): Promise<Comparison> {
  const [x, y] = await Promise.all([here.ask("end"), there.ask("end")]);
  const brief = ({ digest, endPs, events }: typeof x) => ({ digest, endPs, events });
  const isSame = x.digest === y.digest && x.endPs === y.endPs;
  const differ = configurationDifferences(x.configuration, y.configuration);
  return {
    isSame,
    configuration: differ.slice(0, CONFIGURATION_MOST),
    moreConfiguration: Math.max(0, differ.length - CONFIGURATION_MOST),
    first: isSame ? null : await firstDifference(here, there),
    figures: figuresOf(x.counters, y.counters),
    here: brief(x),
    there: brief(y),
  };
}

async function firstDifference(here: Replay, there: Replay): Promise<FirstDifference | null> {
  const [from, to] = partingOf(await here.ask("digests"), await there.ask("digests"));
  const [ours, theirs] = await Promise.all([
    here.ask("digestsIn", from, to),
    there.ask("digestsIn", from, to),
  ]);
  for (let i = 0; i < Math.max(ours.length, theirs.length); i++) {
    const x = ours[i], y = theirs[i];
    if (x !== undefined && y !== undefined && x[0] === y[0] && isEqual(x[1], y[1])) continue;
    const at = Math.min(x?.[0] ?? Infinity, y?.[0] ?? Infinity);
    // A device without an event at that instant keeps its earlier digest.
    const before = i === 0 ? undefined : ours[i - 1]![1];
    const left = x?.[0] === at ? x[1] : before, right = y?.[0] === at ? y[1] : before;
    const nodes = differing(left, right);
    const [ownRows, otherRows] = await Promise.all(
      [here, there].map((replay) => rowsAround(replay, { at, nodes })),
    ) as [EventRow[], EventRow[]];
    return { at, nodes, here: ownRows, there: otherRows };
  }
  return null;
}

function partingOf(ours: readonly Sample[], theirs: readonly Sample[]): [from: Time, to: Time] {
  const known = new Map(theirs.map(([at, , digest]) => [at, digest]));
  let from = 0;
  for (const [at, , digest] of ours) {
    const other = known.get(at);
    if (other === undefined) continue;
    if (other !== digest) return [from, at];
    from = at;
  }
  return [from, Number.MAX_SAFE_INTEGER];
}

type Digests = readonly (readonly [node: string, digest: string])[];

function isEqual(x: Digests, y: Digests): boolean {
  return differing(x, y).length === 0;
}

function differing(x: Digests | undefined, y: Digests | undefined): string[] {
  const [ours, theirs] = [new Map(x), new Map(y)];
  const names = new Set([...ours.keys(), ...theirs.keys()]);
  return [...names].filter((name) => ours.get(name) !== theirs.get(name));
}

/** Of a device without an event there, its next ones: where it parts from the other run is between. */
async function rowsAround(
  replay: Replay,
  { at, nodes }: { readonly at: Time; readonly nodes: readonly string[] },
): Promise<EventRow[]> {
  const found = await Promise.all(
    nodes.slice(0, NODES_MOST).map(async (node) => {
      const query = { at, node, before: ROWS_BEFORE, after: ROWS_AFTER };
      // The other run may have ended before.
      return (await replay.events(query).catch(() => undefined))?.rows ?? [];
    }),
  );
  return found.flat().sort((x, y) => x.time - y.time);
}

type Counters = Readonly<Record<string, Readonly<Record<string, number>>>>;

function figuresOf(ours: Counters, theirs: Counters): FigureDifference[] {
  const figures: FigureDifference[] = [];
  for (const node of new Set([...Object.keys(ours), ...Object.keys(theirs)])) {
    const x = ours[node] ?? {}, y = theirs[node] ?? {};
    for (const name of new Set([...Object.keys(x), ...Object.keys(y)])) {
      const here = x[name] ?? null, there = y[name] ?? null;
      if (here !== there) figures.push({ node, name, here, there });
    }
  }
  return figures.sort((x, y) => weightOf(y) - weightOf(x));
}

function weightOf({ here, there }: FigureDifference): number {
  const x = here ?? 0, y = there ?? 0;
  return Math.abs(x - y) / Math.max(Math.abs(x), Math.abs(y));
}
