/**
 * Vendor word after the RETH of a write-persistence packet (P-21); its version lets a receiver
 * detect a later one.
 */
import type { HeaderOf } from "../../base/fields.ts";

export const PERSIST_ETH_FIELDS = [
  /** Send 0; receivers ignore it. */
  ["flags", 16],
  ["reserved", 8],
  ["version", 8],
] as const;
export type PersistEth = HeaderOf<typeof PERSIST_ETH_FIELDS>;

const PERSIST_VERSION = 1;
export const PERSIST_ETH: PersistEth = { flags: 0, reserved: 0, version: PERSIST_VERSION };

export function readPersistEth(view: DataView, at: number): PersistEth {
  return {
    flags: view.getUint16(at),
    reserved: view.getUint8(at + 2),
    version: view.getUint8(at + 3),
  };
}

export function writePersistEth(view: DataView, at: number, header: PersistEth): void {
  view.setUint16(at, header.flags);
  view.setUint8(at + 2, header.reserved);
  view.setUint8(at + 3, header.version);
}
