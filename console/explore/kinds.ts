/**
 * Instants of one kind have equal latest events, equal events before them, and equal messages of
 * programs so far (as in Pathfinder, 2025). A mistake shows at most instants of its kind, so one of
 * each finds it early; all others follow.
 */
import type { Time } from "../../fabric/base/time.ts";
import { framesOf } from "./cards.ts";
import { edgeOf, type Entry } from "./history.ts";
import type { Victim } from "./post_crash_run.ts";
import type { RackRun } from "./rerun.ts";

/** Which instants a sweep judges: the first of each kind, then the rest; or all of them at once. */
export type Turn = "first of each kind" | "rest" | "all";

/** True if the instant has its turn. @param first the first of each kind. */
export function isTurnOf(turn: Turn, first: ReadonlySet<Time>, at: Time): boolean {
  return turn === "all" || first.has(at) === (turn === "first of each kind");
}

/** The first instant of each kind. @param instants ascending. */
export function firstOfEachKind(
  instants: readonly Time[],
  { recording, victims }: { readonly recording: RackRun; readonly victims: readonly Victim[] },
): ReadonlySet<Time> {
  const happened = new Map<Time, Set<string>>();
  const add = (at: Time, what: string) => {
    const others = happened.get(at);
    if (others === undefined) happened.set(at, new Set([what]));
    else others.add(what);
  };
  for (const { host, config, noticePs } of victims) {
    const { frames, frameBytes } = framesOf(recording, config.rnics);
    for (const [i, at] of frames.entries()) {
      add(edgeOf(at, noticePs), `survivors see ${frameBytes[i]} B more`);
    }
    for (const entry of recording.histories.get(host)?.entries ?? []) {
      add(entry.at + 1, `${host} ${kindOf(entry)}`);
    }
  }
  const said = [
    ...recording.reports.map(({ time, node, topic }) => ({
      time,
      what: `${node} reports ${topic}`,
    })),
    ...recording.notes.map(({ time, node, note }) => ({
      time,
      what: `${node} notes ${note.kind}`,
    })),
  ].sort((x, y) => x.time - y.time);
  for (const { time, what } of said) add(time + 1, what);
  const known = new Set<string>(), first = new Set<Time>();
  const stage = new Set<string>();
  let before = "", next = 0;
  for (const at of instants) {
    for (; next < said.length && said[next]!.time < at; next++) stage.add(said[next]!.what);
    const now = [...happened.get(at) ?? []].sort().join(", ");
    const kind = `${stage.size}; ${before}; ${now}`;
    if (!known.has(kind)) first.add(at);
    known.add(kind);
    before = now;
  }
  return first;
}

function kindOf(entry: Entry): string {
  switch (entry.kind) {
    case "durable":
      return `durable ${entry.bytes.length} in ${entry.unit}`;
    case "dirty":
      return entry.words === 0 ? "DMA into the cache" : "store";
    default:
      return entry.kind;
  }
}
