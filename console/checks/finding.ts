/** A broken promise. */
export interface Finding {
  /** With node, time and place. */
  readonly text: string;
  /** The wrong bytes. */
  readonly scm?: { readonly host: string; readonly from: number; readonly to: number };
}

export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** More findings of one checker are left out. */
export const FINDINGS_MAX = 20;
