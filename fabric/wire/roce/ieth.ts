/** Invalidate extended transport header: the key to invalidate (`rocev2.md` §1.3). */
import type { HeaderOf } from "../../base/fields.ts";

export const IETH_FIELDS = [
  ["rkey", 32],
] as const;
export type Ieth = HeaderOf<typeof IETH_FIELDS>;

export function readIeth(view: DataView, at: number): Ieth {
  return { rkey: view.getUint32(at) };
}

export function writeIeth(view: DataView, at: number, header: Ieth): void {
  view.setUint32(at, header.rkey);
}
