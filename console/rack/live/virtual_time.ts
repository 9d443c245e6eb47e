/** Controls the virtual time of a running rack: pause, step, resume. */
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { formatTime, type Time } from "../../../fabric/base/time.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import type { ControlClient } from "./control.ts";

export interface Driven {
  readonly status: ClockStatus;
  /** Why the order did not reach its goal; absent where it did. */
  readonly missed?: string;
}

/** Pauses time; partitions finish the instant that they have begun. */
export async function pause(control: ControlClient): Promise<Driven> {
  return await drive(control, { verb: "pause", body: {}, repeats: true, isDone: isAtRest });
}

/** Lets time run at full speed. */
export async function resume(control: ControlClient): Promise<Driven> {
  await control.demand("resume", {}, { repeats: true });
  return { status: await control.status() };
}

/** Lets a span of time pass from the next event on, or a number of instants with events. */
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
 * Runs to a time, or to a step of an operation (`S907`, `b-rnic:S907`).
 * @param signal pauses the rack before this function rejects.
 * @throws Refusal where the time is past.
 */
export async function until(
  control: ControlClient,
  to: { readonly time: Time } | { readonly step: string },
  signal?: AbortSignal,
): Promise<Driven> {
  const { now } = await control.status();
  if ("time" in to && to.time <= now) {
    throw refusal("", {
      found: `${formatTime(to.time)} is past`,
      expected: `a time after ${formatTime(now)}`,
    });
  }
  const body = "time" in to ? { until: to.time } : { stopOn: to.step };
  // A pause at a step is the clock's own, and looks like one that another command has ordered.
  const isDone = (now: ClockStatus, isOvertaken: boolean) =>
    isAtRest(now) &&
    ("time" in to
      ? hasCome(now)
      : !isOvertaken && (now.paused || now.finished || now.next === Infinity));
  try {
    const driven = await drive(control, {
      verb: "resume",
      body,
      isDone,
      ...(signal !== undefined && { signal }),
    });
    if ("time" in to || driven.missed !== undefined || driven.status.paused) return driven;
    await control.demand("resume", {});
    return { ...driven, missed: `No event is left, and ${to.step} has not happened` };
  } catch (error) {
    if (signal?.aborted) await control.attempt("pause", {}, 1_000);
    throw error;
  }
}

/** @param psPerSecond virtual time per wall second; 0: full speed. */
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

/** Gives an order for time, and waits for its end, or for another command's order behind it. */
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

/** Whether all events before the limit have happened. */
function hasCome(status: ClockStatus): boolean {
  return status.next >= status.limit || status.next === Infinity || status.finished;
}
