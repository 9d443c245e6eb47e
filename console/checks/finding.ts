import type { Time } from "../../fabric/base/time.ts";

export interface NodeTime {
  readonly node: string;
  readonly time: Time;
}

/** Of something that has more. */
export function nodeTime({ node, time }: NodeTime): NodeTime {
  return { node, time };
}

export interface Finding {
  /** With node, time and place. */
  readonly text: string;
  /** Which device does it, and when: else the instant that shows it. */
  readonly at: NodeTime;
  /** In a host's SCM. */
  readonly scm?: { readonly host: string; readonly from: number; readonly to: number };
}

export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** That a text names, and that a checker looks for unless it is told otherwise. */
export const FINDINGS_MAX = 20;
/** The same in the report of a run, which says where it has left some out. */
export const REPORTED_MAX = 10_000;
