/**
 * By how little a run's promises hold: the least time from the instant at which a write's bytes are durable, in every
 * way to find memory, to the promise. A small one may be luck: `disturbed/` asks what enforces it.
 */
import type { Time } from "../../fabric/base/time.ts";
import type { TimedRecord } from "../../fabric/audit.ts";
import { survives } from "../../fabric/rack/plan/persistence_domain.ts";
import { lowerBound } from "./post_crash_run.ts";
import type { DurableEntry, Entry } from "./history.ts";
import type { RackRun } from "./rerun.ts";
import type { Slack } from "./types.ts";

/**
 * Undefined where nothing is promised of a host whose memory alone survives (`adr`), or nothing is in memory by then.
 * @param run with the histories of memories.
 */
export function slackOf(
  { plan, notes, histories }: Pick<RackRun, "plan" | "notes" | "histories">,
): Slack | undefined {
  const writes = new Map<string, TimedRecord>();
  const domains = new Map(
    plan.nodes.flatMap((node) =>
      node.kind === "host" ? [[node.name, node.config.domain] as const] : []
    ),
  );
  let least: Slack | undefined;
  for (const record of notes) {
    const { time, by, note } = record;
    if (note.kind === "writes") writes.set(`${by} ${note.id}`, record);
    if (note.kind !== "persistent" || !note.promised) continue;
    const write = writes.get(`${by} ${note.id}`);
    if (write?.note.kind !== "writes") continue;
    const { on, at, bytes } = write.note;
    if (survives("llc", domains.get(on)!)) continue;
    const entries = histories.get(on)?.entries ?? [];
    const durablePs = durableSince(entries, { at, bytes, from: write.time, to: time });
    if (durablePs === undefined) continue;
    const ps = time - durablePs;
    if (ps < (least?.ps ?? Infinity)) {
      least = { ps, by, id: note.id, on, durablePs, promisedPs: time };
    }
  }
  return least;
}

/** When the last of the bytes was in memory, to stay until `to`. */
function durableSince(
  entries: readonly Entry[],
  { at, bytes, from, to }: {
    readonly at: number;
    readonly bytes: Uint8Array;
    readonly from: Time;
    readonly to: Time;
  },
): Time | undefined {
  const since = new Float64Array(bytes.length).fill(-1);
  const [first, end] = [from, to].map((time) => lowerBound(entries, (entry) => entry.at >= time));
  for (const entry of entries.slice(first, end)) {
    if (entry.kind === "durable") note(since, entry, { at, bytes });
  }
  const last = since.reduce((most, time) => time < 0 ? Infinity : Math.max(most, time), 0);
  return last === Infinity ? undefined : last;
}

function note(
  since: Float64Array,
  entry: DurableEntry,
  { at, bytes }: { readonly at: number; readonly bytes: Uint8Array },
): void {
  const from = Math.max(0, entry.offset - at);
  const to = Math.min(bytes.length, entry.offset + entry.bytes.length - at);
  for (let i = from; i < to; i++) {
    const isThere = entry.bytes[at + i - entry.offset] === bytes[i];
    if (!isThere) since[i] = -1;
    else if (since[i]! < 0) since[i] = entry.at;
  }
}
