/** For tests only: one of every message of the coherent bus. */
import { LINE_BYTES } from "../../base/cache_line.ts";
import { type CoherentMessage, RUN_BYTES } from "./coherent.ts";

const kind = "coherent";
const bytes = (length: number) => Uint8Array.from({ length }, (_, i) => i);

export const COHERENT_MESSAGES: readonly CoherentMessage[] = [
  { kind, op: "RdCur", tag: 1, address: 0x1000, lines: 8 },
  { kind, op: "RdCur", tag: 1, address: 0x1000, lines: 1, medium: true },
  { kind, op: "RdCode", tag: 2, address: 0x1040, lines: 1 },
  { kind, op: "InvItoE", tag: 3, address: 0x1040, lines: 7 },
  { kind, op: "DataC", tag: 1, address: 0x1000, state: "I", data: bytes(RUN_BYTES) },
  { kind, op: "DataC", tag: 2, address: 0x1040, state: "S", data: bytes(LINE_BYTES) },
  { kind, op: "WbMtoI", tag: 3, address: 0x1040, data: bytes(448), toMemory: true },
  { kind, op: "WbMtoE", tag: 4, address: 0x1049, data: bytes(8), toMemory: false },
  { kind, op: "GntE", tag: 3, address: 0x1040, lines: 7 },
  { kind, op: "Cmp", tag: 3, address: 0x1040, lines: 7 },
  { kind, op: "FailedCmp", tag: 3, address: 0x1040, lines: 1 },
  { kind, op: "RspI", tag: 0, address: 0x1040, lines: 1 },
  { kind, op: "SnpInv", address: 0x1040 },
  { kind, op: "NcRd", tag: 5, offset: 48, length: 16 },
  { kind, op: "DataNc", tag: 5, data: bytes(16) },
  { kind, op: "NcWr", offset: 48, data: bytes(16) },
  { kind, op: "NcWr", offset: 48, data: bytes(64), stored: { pointer: 3, stamp: 7 } },
  { kind, op: "NcWr", offset: 48, data: bytes(8), by: 2 },
  { kind, op: "IntPhysical", vector: 3 },
];
