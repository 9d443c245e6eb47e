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
  const pace = clock.pace > 0 && !clock.finished ? [paceText(clock)] : [];
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

/** The next event happens only after an order. */
export function isTimeHeld(
  { paused, next, limit }: Pick<ClockStatus, "paused" | "next" | "limit">,
): boolean {
  return next !== Infinity && (paused || next >= limit);
}

function paceText({ pace }: Omit<ClockStatus, "driven">): string {
  return `at a pace of ${formatTime(pace)} a second`;
}

function wallText(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** Words, or the name of a process. */
export type SentencePart = string | { readonly process: string };

/** In one sentence: time moves, or the process or order that holds it. */
export function whyText(status: Omit<ClockStatus, "driven">): string {
  return whyParts(status).map((part) => typeof part === "string" ? part : part.process).join("");
}

/** {@link whyText}, with the names in it apart. */
export function whyParts(status: Omit<ClockStatus, "driven">): SentencePart[] {
  const time = `Virtual time is ${formatTime(status.now)}`;
  const held = heldBy(status);
  if (held.length > 0) return [`${time}: ${held[0]}.`];
  const absent = status.why.filter((row) => row.status === "absent" || row.status === "unknown");
  if (absent.length > 0) {
    const names = absent.flatMap(({ partition }, i) => [
      ...(i > 0 ? [", "] : []),
      { process: partition },
    ]);
    return [`${time}: it waits for the process of `, ...names, "."];
  }
  if (status.next === Infinity) return [`${time}: no event is scheduled, every process is idle.`];
  const slow = status.why.filter((row) => row.status === "running")
    .toSorted((x, y) => y.sinceMs - x.sinceMs)[0];
  if (status.pace > 0 && (slow?.sinceMs ?? 0) < SLOW_MS) {
    return [`${time}: it moves ${paceText(status)}.`];
  }
  if (slow === undefined) return [`${time}: it moves, next event at ${formatTime(status.next)}.`];
  const { partition: process, sinceMs } = slow;
  return [
    `${time}: it waits for `,
    { process },
    `, which has been running for ${wallText(sinceMs)}.`,
  ];
}
