import { computed } from "@preact/signals";
import type { TimeOrder } from "../../api/orders.ts";
import { PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import type { Goal } from "../../../fabric/trace/predicate.ts";
import { api } from "../data/api.ts";
import { connection } from "../data/connection.ts";
import { clock, ended, isUp } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { isAtLimit } from "../data/timeline.ts";
import { roughTime } from "../figures.ts";
import { lookAt, run } from "../state.ts";
import { order, refuse } from "./notice.tsx";

export const canDrive = computed(() =>
  isUp.value && isOperator.value && connection.value.state !== "interrupted" &&
  clock.value !== null && !clock.value.finished
);

/** Time stands only because of an order, or at the instant of an order. */
export const isHeld = computed(() => {
  const now = clock.value;
  return now !== null && (now.paused || isAtLimit(now));
});

/** Shows the present: the order changes nothing in the past. */
export async function drive(what: TimeOrder): Promise<void> {
  const id = run.value;
  if (id === undefined || ended.value !== undefined) return refuse("There is no rack that is up");
  lookAt(undefined);
  await order(api.time(id, what), ({ clock: now, missed }) => {
    clock.value = now;
    return missed ?? "";
  });
}

export function stepEvent(): Promise<void> {
  return drive({ order: "step", events: 1 });
}

export function stepSpan(spanPs: Time = PS_PER_US): Promise<void> {
  return drive({ order: "step", spanPs });
}

export function runOrPause(): Promise<void> {
  return drive({ order: isHeld.value ? "resume" : "pause" });
}

/** Stops at a time or a break, whichever comes first. */
export function until({ breaks, time: atPs }: Goal): Promise<void> {
  return drive({
    order: "until",
    ...(breaks.length > 0 && { breaks: [...breaks] }),
    ...(atPs !== undefined && { atPs }),
  });
}

export const PACES: readonly (readonly [name: string, psPerSecond: number])[] = [
  ["full speed", 0],
  ...[1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000].map((pace) =>
    [`${roughTime(pace)}/s`, pace] as const
  ),
];
