/** What a checker found, in words and with its place. */

/** Something that a checker found to be wrong. */
export interface Finding {
  /** What is wrong, with who, when and where. */
  readonly text: string;
  /** Bytes of a host's SCM that it is about. */
  readonly scm?: { readonly host: string; readonly from: number; readonly to: number };
}

/** So many of something, for people. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** Of a promise that is broken a thousand times the first few findings are enough. */
export const FINDINGS_MAX = 20;
