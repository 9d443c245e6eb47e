import type { Time } from "../../fabric/base/time.ts";

export interface Finding {
  /** With node, time and place. */
  readonly text: string;
  /** Where one device does it at one instant. */
  readonly at?: { readonly node: string; readonly time: Time };
  readonly scm?: { readonly host: string; readonly from: number; readonly to: number };
}

export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** For each checker; more are left out. */
export const FINDINGS_MAX = 20;
/** Of the same for lost writes in the report of a run, which says where it has left some out. */
export const LOSSES_MAX = 10_000;
