/** Orders for virtual time, as the bar, the keyboard and the command line give them. */
import { computed } from "@preact/signals";
import type { TimeOrder } from "../../api/orders.ts";
import { parseTime, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import { api } from "../data/api.ts";
import { clock, ended, isUp } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { roughTime } from "../figures.ts";
import { lookAt, run } from "../state.ts";
import { order, refuse } from "./notice.tsx";

/** Whether time can be ordered about. */
export const canDrive = computed(() =>
  isUp.value && isOperator.value && clock.value !== null && !clock.value.finished
);

/** Whether time stands only because it was told to, or has reached what it was told. */
export const isHeld = computed(() => {
  const now = clock.value;
  // A pace moves its limit itself.
  return now !== null && (now.paused ||
    (now.psPerSecond === 0 && now.limitPs !== null && (now.nextPs ?? Infinity) >= now.limitPs));
});

/** Gives an order, and shows the present: it changes nothing in the past. */
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

/** As typed: empty where nothing is wanted. */
export interface UntilTerms {
  readonly node?: string;
  /** The how-many-th time that the step happens. */
  readonly count?: string;
  /** Where the step does not happen before. */
  readonly latest?: string;
}

function timeIn(text: string): Time | undefined {
  return parseTime(text.replaceAll("µ", "u").replaceAll(/[\s\u202f]/g, ""));
}

/** Until a time (`3ms`) or a step (`S907`, `b-rnic:S907`). @returns what is wrong with the text. */
export function until(text: string, { node, count, latest }: UntilTerms = {}): string | undefined {
  const time = timeIn(text);
  if (time !== undefined) {
    void drive({ order: "until", atPs: time });
    return undefined;
  }
  const step = /^(?:([\w-]+):)?([A-Za-z][\w-]*)$/.exec(text);
  if (step === null) {
    return `Found ${text || "nothing"}: expected a time as 3ms, or a step as S907 or b-rnic:S907`;
  }
  const atPs = latest ? timeIn(latest) : undefined, many = Number(count || 1);
  if (latest && atPs === undefined) return `Found ${latest}: expected a time as 3ms`;
  if (!Number.isSafeInteger(many) || many < 1) return `Found ${count}: expected a number from 1 on`;
  const on = step[1] ?? node;
  const what = { step: step[2]!, ...(on && { node: on }), ...(many > 1 && { count: many }) };
  void drive({ order: "until", breaks: [what], ...(atPs !== undefined && { atPs }) });
  return undefined;
}

export const PACES: readonly (readonly [name: string, psPerSecond: number])[] = [
  ["full speed", 0],
  ...[1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000].map((pace) =>
    [`${roughTime(pace)}/s`, pace] as const
  ),
];
