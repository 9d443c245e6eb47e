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

export function leftText({ untried }: Pick<Tried, "untried">): string {
  if (untried === 0) return "all pairs of accesses tried both ways round";
  return `${countOf(untried, "pair")} of accesses not tried the other way round`;
}
