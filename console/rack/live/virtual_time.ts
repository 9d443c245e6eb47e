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
  await control.demand("pause", {}, { repeats: true });
  return { status: await control.waitFor(isAtRest) };
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
  if (!isStill) status = (await pause(control)).status;
  while (left-- > 0 && status.next !== Infinity) {
    await control.demand("step", order);
    status = await control.waitFor((now) => isAtRest(now) && hasCome(now), { everyMs: 2 });
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
  const waiting = signal === undefined ? {} : { signal };
  const order = "time" in to ? { until: to.time } : { stopOn: to.step };
  try {
    await control.demand("resume", order);
    if ("time" in to) {
      return { status: await control.waitFor((now) => isAtRest(now) && hasCome(now), waiting) };
    }
    const status = await control.waitFor(
      (now) => isAtRest(now) && (now.paused || now.finished || now.next === Infinity),
      waiting,
    );
    if (status.paused) return { status };
    await control.demand("resume", {});
    return { status, missed: `No event is left, and ${to.step} has not happened` };
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

function isAtRest(status: ClockStatus): boolean {
  return status.why.every((row) => row.status !== "running");
}

/** Whether all events before the limit have happened. */
function hasCome(status: ClockStatus): boolean {
  return status.next >= status.limit || status.next === Infinity || status.finished;
}
