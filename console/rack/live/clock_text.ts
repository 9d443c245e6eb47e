import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { formatTime } from "../../../fabric/base/time.ts";
import { finite } from "../../reports/json.ts";

/** Longer computation holds even a rack that moves at a pace. */
const SLOW_MS = 1_000;

/** Null: never. */
export function clockDocument(clock: ClockStatus) {
  const { now, next, limit, paused, finished, standsAt, hits, pace, events, digest } = clock;
  return {
    virtualPs: now,
    nextPs: finite(next),
    limitPs: finite(limit),
    paused,
    finished,
    /** Null as well while time moves. */
    standsAtPs: standsAt,
    hits: [...hits],
    psPerSecond: pace,
    events,
    digest,
  };
}

/** `1.2 ms, paused, next event at 1.3 ms` */
export function clockText(clock: ClockStatus): string {
  const pace = isPaced(clock) ? [paceText(clock)] : [];
  return [formatTime(clock.now), ...heldBy(clock), ...pace, nextText(clock)].join(", ");
}

function nextText({ now, next }: ClockStatus): string {
  if (next === Infinity) return "nothing is to happen";
  // Some partitions are ahead; the rack's time is that of the furthest.
  return next < now ? "under way" : `next event at ${formatTime(next)}`;
}

function heldBy(clock: Omit<ClockStatus, "driven">): string[] {
  if (clock.finished) return ["finished"];
  if (clock.paused) return ["paused"];
  if (isTimeHeld(clock)) return [`held at ${formatTime(clock.limit)}`];
  return [];
}

/** The next event happens only after an order. A pace moves its limit itself. */
export function isTimeHeld(
  { paused, next, limit, pace }: Pick<ClockStatus, "paused" | "next" | "limit" | "pace">,
): boolean {
  return next !== Infinity && (paused || (next >= limit && pace === 0));
}

function isPaced({ paused, finished, pace }: Omit<ClockStatus, "driven">): boolean {
  return pace > 0 && !paused && !finished;
}

function paceText({ pace }: Omit<ClockStatus, "driven">): string {
  return `at a pace of ${formatTime(pace)} a second`;
}

function wallText(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** In one sentence: time moves, or the process or order that holds it. */
export function whyText(status: Omit<ClockStatus, "driven">): string {
  const time = `Virtual time is ${formatTime(status.now)}`;
  const held = heldBy(status);
  if (held.length > 0) return `${time}: ${held[0]}.`;
  const absent = status.why.filter((row) => row.status === "absent" || row.status === "unknown");
  if (absent.length > 0) {
    return `${time}: it waits for the process of ${absent.map((row) => row.partition).join(", ")}.`;
  }
  if (status.next === Infinity) return `${time}: no event is scheduled, every process is idle.`;
  const slow = status.why.filter((row) => row.status === "running")
    .toSorted((x, y) => y.sinceMs - x.sinceMs)[0];
  if (isPaced(status) && (slow?.sinceMs ?? 0) < SLOW_MS) {
    return `${time}: it moves ${paceText(status)}.`;
  }
  return slow === undefined
    ? `${time}: it moves, next event at ${formatTime(status.next)}.`
    : `${time}: it waits for ${slow.partition}, which has been running for ${
      wallText(slow.sinceMs)
    }.`;
}
