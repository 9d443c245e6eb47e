/** What a checker found, in words and with its place. */
import type { Time } from "../../fabric/base/time.ts";

/** Something that a checker found to be wrong. */
export interface Finding {
  /** What is wrong, with who, when and where. */
  readonly text: string;
  readonly time?: Time;
  /** Bytes of a host's SCM that it is about. */
  readonly scm?: { readonly host: string; readonly from: number; readonly to: number };
}

/** So many of something, for people. */
export function countOf(what: number, one: string, many = `${one}s`): string {
  return `${what} ${what === 1 ? one : many}`;
}

/** Whoever breaks a promise a thousand times is told of the first few. */
export const FINDINGS_MAX = 20;
