/** The state of a rack's clock, as text and as a JSON document. */
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { formatTime } from "../../../fabric/base/time.ts";
import { finite } from "../../reports/json.ts";

/** The clock as a JSON document: null stands for "never". */
export function clockDocument(clock: ClockStatus) {
  const { now, next, limit, paused, finished, standsAt, hits, pace, events, digest } = clock;
  return {
    virtualPs: now,
    nextPs: finite(next),
    limitPs: finite(limit),
    paused,
    finished,
    /** See `ClockStatus`; null as well while it moves. */
    standsAtPs: standsAt,
    hits: [...hits],
    psPerSecond: pace,
    events,
    digest,
  };
}

/** `1.2 ms, paused, next event at 1.3 ms` */
export function clockText(clock: ClockStatus): string {
  return [formatTime(clock.now), ...heldBy(clock), nextText(clock)].join(", ");
}

function nextText({ now, next }: ClockStatus): string {
  if (next === Infinity) return "nothing is to happen";
  // Some partitions are ahead of others; the rack's time is that of the furthest.
  return next < now ? "under way" : `next event at ${formatTime(next)}`;
}

/** What holds time back although an event is scheduled; empty where nothing does. */
function heldBy(clock: Omit<ClockStatus, "driven">): string[] {
  if (clock.finished) return ["finished"];
  if (clock.paused) return ["paused"];
  if (clock.pace > 0) return [`at a pace of ${formatTime(clock.pace)} a second`];
  if (clock.next >= clock.limit && clock.limit !== Infinity) {
    return [`held at ${formatTime(clock.limit)}`];
  }
  return [];
}

/** One sentence: whether time moves, and if not, which process or order holds it. */
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
  return slow === undefined
    ? `${time}: it moves, next event at ${formatTime(status.next)}.`
    : `${time}: ${slow.partition} runs since ${Math.round(slow.sinceMs)} ms.`;
}
