/** RDMA extended transport header (`rocev2.md` §1.3). */
import type { HeaderOf } from "../../base/fields.ts";

export const RETH_FIELDS = [
  ["va", 64],
  ["rkey", 32],
  /** Of the whole message, at most 2^31 bytes. */
  ["length", 32],
] as const;
export type Reth = HeaderOf<typeof RETH_FIELDS>;

export function readReth(view: DataView, at: number): Reth {
  return {
    va: view.getBigUint64(at),
    rkey: view.getUint32(at + 8),
    length: view.getUint32(at + 12),
  };
}

export function writeReth(view: DataView, at: number, header: Reth): void {
  view.setBigUint64(at, header.va);
  view.setUint32(at + 8, header.rkey);
  view.setUint32(at + 12, header.length);
}
