import { formatTime, type Time } from "../../fabric/base/time.ts";
import { countOf } from "../checks/finding.ts";

interface Tried {
  readonly runs: number;
  readonly orders: number;
  readonly preemptions: number;
  readonly stallPs?: Time | undefined;
  readonly untried: number;
}

/**
 * `180 crash points at 12 instants of server`; of no host where no power was cut.
 * @param counted how a number of things is written.
 */
export function pointsText(
  { crashPoints, instants, hosts }: {
    readonly crashPoints: number;
    readonly instants: number;
    readonly hosts: readonly string[];
  },
  counted: (count: number, one: string) => string = countOf,
): string {
  const points = `${counted(crashPoints, "crash point")} at ${counted(instants, "instant")}`;
  return hosts.length === 0 ? points : `${points} of ${hosts.join(", ")}`;
}

/** `12 interleavings in 20 runs with at most 2 preemptions of up to 50 us`. */
export function interleavingsText({ runs, orders, preemptions, stallPs }: Tried): string {
  const length = stallPs === undefined ? "" : ` of up to ${formatTime(stallPs)}`;
  const bound = `at most ${countOf(preemptions, "preemption")}${length}`;
  return `${countOf(orders, "interleaving")} in ${countOf(runs, "run")} with ${bound}`;
}

interface RunsTried {
  readonly tried: number;
  readonly places: number;
  readonly orders: number;
  readonly ps: Time;
  readonly crashPoints: number;
}

/** `64 of 310 places of cores and cards stalled for 50 us, 12 new orders with 480 crash points`. */
export function stallsText(tried: RunsTried): string {
  return `${placesText(tried)} of cores and cards stalled for ${ordersText(tried)}`;
}

/** `64 of 90 faults of one frame, late by 50 us, 12 new orders with 480 crash points`. */
export function framesText(tried: RunsTried): string {
  return `${placesText(tried, "faults")} of one frame, lost, overtaken or late by ${
    ordersText(tried)
  }`;
}

/** What one core, card or frame does otherwise in the run of a counterexample; none where nothing does. */
export function disturbedTexts({ stalls = [], linkFaults = [] }: {
  readonly stalls?: readonly Stall[] | undefined;
  readonly linkFaults?: readonly FrameFault[] | undefined;
}): string[] {
  return [...stalls.map(stallText), ...linkFaults.map(frameText)];
}

interface Stall {
  readonly by: string;
  readonly number: number;
  readonly at: Time;
  readonly ps: Time;
}

/** `the core of b/0/p#1, at its rest 7, stands still from 101 us on for 50 us`. */
function stallText({ by, number, at, ps }: Stall): string {
  const what = by.split("/").length > 2
    ? `the core of ${by}, at its rest ${number},`
    : `the DMA engine of ${by}, before its message ${number},`;
  return `${what} stands still from ${at} ps (${formatTime(at)}) on for ${formatTime(ps)}`;
}

interface FrameFault {
  readonly action: string;
  readonly at: Time;
  readonly nth?: number | undefined;
  readonly delayPs?: Time | undefined;
}

function frameText({ action, at, nth = 1, delayPs = 0 }: FrameFault): string {
  const what = action === "loss"
    ? "is lost"
    : action === "delay"
    ? `is late by ${formatTime(delayPs)}`
    : "is overtaken by the next";
  const which = nth === 1 ? "the frame" : `frame ${nth}`;
  return `${which} that is sent at ${at} ps (${formatTime(at)}) ${what}`;
}

function placesText({ tried, places }: RunsTried, what = "places"): string {
  return tried === places ? `all ${places} ${what}` : `${tried} of ${places} ${what}`;
}

function ordersText({ orders, ps, crashPoints }: RunsTried): string {
  const found = `${countOf(orders, "new order")} with ${countOf(crashPoints, "crash point")}`;
  return `${formatTime(ps)}, ${found}`;
}

/** `least time from memory to a promise 612.3 ns: write 3 of a/0/put#1 on b`. */
export function slackText(
  { ps, by, id, on }: {
    readonly ps: Time;
    readonly by: string;
    readonly id: number;
    readonly on: string;
  },
): string {
  return `least time from memory to a promise ${formatTime(ps)}: write ${id} of ${by} on ${on}`;
}

/**
 * A verdict in words that cannot be taken for more than was tried.
 * @param verdict.exhaustive in the plain run, at all instants, with all choices.
 * @param verdict.stalls absent: only the model's own timing was tried.
 */
export function verdictWords(
  { verdict, exhaustive, stalls }: {
    readonly verdict: "safe" | "unsafe" | "partial" | "failed" | "unchecked";
    readonly exhaustive: boolean;
    readonly stalls?: Pick<RunsTried, "tried" | "places"> | undefined;
  },
): string {
  switch (verdict) {
    case "safe": {
      if (stalls === undefined || stalls.tried === 0) return "safe at this timing";
      const isAll = exhaustive && stalls.tried === stalls.places;
      // With a stall, one instant of each kind is judged, in the span that the stall changes.
      return `safe for everything tried${isAll ? ", exhaustive but for the stalls" : ""}`;
    }
    case "partial":
      return "could not tell";
    case "unsafe":
    case "failed":
    case "unchecked":
      return verdict;
  }
}

export function leftText({ untried }: Pick<Tried, "untried">): string {
  if (untried === 0) return "all pairs of accesses tried both ways round";
  return `${countOf(untried, "pair")} of accesses not tried the other way round`;
}
