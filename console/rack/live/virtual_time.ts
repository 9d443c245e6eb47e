import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { formatTime, type Time } from "../../../fabric/base/time.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { type Goal, goalText } from "../../../fabric/trace/predicate.ts";
import type { ControlClient } from "./control.ts";

const AWAITED: ReadonlySet<string> = new Set(["absent", "unknown", "joining", "dying"]);

export interface Driven {
  readonly status: ClockStatus;
  readonly missed?: string;
}

/** Pauses time: the whole rack then stands at one instant, `status.standsAt`. */
export async function pause(control: ControlClient): Promise<Driven> {
  return await drive(control, { verb: "pause", body: {}, repeats: true, isDone: isLevel });
}

/** Lets time run, at the pace that was ordered last; at full speed where none was. */
export async function resume(control: ControlClient): Promise<Driven> {
  await control.demand("resume", {}, { repeats: true });
  return { status: await control.status() };
}

/** A span of time from the next event on, or a number of instants with events. */
export async function step(
  control: ControlClient,
  span: { readonly spanPs: Time } | { readonly events: number },
): Promise<Driven> {
  let left = "events" in span ? span.events : 1;
  const order = "spanPs" in span ? { ps: span.spanPs } : {};
  let status = await control.status();
  const isStill = isAtRest(status) && (status.paused || hasCome(status));
  if (!isStill) {
    const held = await pause(control);
    if (held.missed !== undefined) return held;
    status = held.status;
  }
  while (left-- > 0 && status.next !== Infinity) {
    const isDone = (now: ClockStatus) => isAtRest(now) && hasCome(now);
    const stepped = await drive(control, { verb: "step", body: order, isDone, everyMs: 2 });
    if (stepped.missed !== undefined) return stepped;
    status = stepped.status;
  }
  return { status };
}

/**
 * Runs to a time, or to a break: then `status.hits` has which, on which device and when, and
 * `status.standsAt` is the instant behind it, at which the whole rack stands.
 * @param signal pauses the rack before this function rejects.
 * @throws Refusal where the time is past, or there is no such device or step.
 */
export async function until(
  control: ControlClient,
  { breaks, time }: Goal,
  signal?: AbortSignal,
): Promise<Driven> {
  const { now } = await control.status();
  if (time !== undefined && time <= now) {
    throw refusal("", {
      found: `${formatTime(time)} is past`,
      expected: `a time after ${formatTime(now)}`,
    });
  }
  const body = { ...(time !== undefined && { until: time }), breaks };
  const isHit = ({ hits }: ClockStatus) => hits.length > 0;
  const hasEnded = (now: ClockStatus) => isAtRest(now) && hasCome(now);
  // A hit or its absence is that of this order.
  const isDone = (now: ClockStatus, isOvertaken: boolean) =>
    breaks.length === 0
      ? hasEnded(now)
      : !isOvertaken && (isHit(now) ? isLevel(now) : hasEnded(now));
  try {
    const driven = await drive(control, {
      verb: "resume",
      body,
      isDone,
      ...(signal !== undefined && { signal }),
    });
    const { status, missed } = driven;
    const isReached = isHit(status) || (time !== undefined && hasCome(status));
    if (missed !== undefined || isReached) return driven;
    await control.demand("resume", {});
    return { ...driven, missed: `No event is left, and ${goalText({ breaks })} has not happened` };
  } catch (error) {
    if (signal?.aborted) await control.attempt("pause", {}, { timeoutMs: 1_000 });
    throw error;
  }
}

/**
 * Of time whenever it runs, until another pace is ordered. Time that stands goes on standing.
 * @param psPerSecond virtual time per wall second; 0: full speed.
 */
export async function setPace(control: ControlClient, psPerSecond: number): Promise<Driven> {
  await control.demand("pace", { psPerSecond }, { repeats: true });
  return { status: await control.status() };
}

interface Drive {
  readonly verb: "pause" | "step" | "resume";
  readonly body: unknown;
  readonly isDone: (status: ClockStatus, isOvertaken: boolean) => boolean;
  readonly repeats?: boolean;
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
}

async function drive(
  control: ControlClient,
  { verb, body, isDone, repeats = false, ...waiting }: Drive,
): Promise<Driven> {
  const { driving } = await control.demand<{ driving?: number }>(verb, body, { repeats });
  const isOvertaken = ({ driven }: ClockStatus) =>
    driving !== undefined && driven.order !== driving;
  const status = await control.waitFor(
    (now) => isDone(now, isOvertaken(now)) || isOvertaken(now),
    waiting,
  );
  if (isDone(status, isOvertaken(status))) return { status };
  const found = status.driven.verb || "a new timekeeper";
  return {
    status,
    missed: `Found ${found} of another command behind this ${verb}, expected none before its end`,
  };
}

function isAtRest(status: ClockStatus): boolean {
  return status.why.every((row) => row.status !== "running");
}

/**
 * No partition is ahead of another. One without a process that is to have one holds the others
 * back.
 */
function isLevel(status: ClockStatus): boolean {
  const lacks = status.why.some((row) => AWAITED.has(row.status));
  return isAtRest(status) && (status.standsAt !== null || lacks);
}

function hasCome(status: ClockStatus): boolean {
  return status.next >= status.limit || status.next === Infinity || status.finished;
}
