/** Immediate data: four opaque bytes, here their big-endian value (`rocev2.md` §1.3). */
import type { HeaderOf } from "../../base/fields.ts";

export const IMMDT_FIELDS = [
  ["immediate", 32],
] as const;
export type ImmDt = HeaderOf<typeof IMMDT_FIELDS>;

export function readImmDt(view: DataView, at: number): ImmDt {
  return { immediate: view.getUint32(at) };
}

export function writeImmDt(view: DataView, at: number, header: ImmDt): void {
  view.setUint32(at, header.immediate);
}
