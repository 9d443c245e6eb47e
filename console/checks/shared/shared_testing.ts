/** For tests: audit records of accesses to a shared region `s` of 256 B in a's SCM, at 0x100. */
import type { AuditRecord, LineStateRecord, RegionOp, TimedRecord } from "../../../fabric/audit.ts";
import { noted } from "../record_testing.ts";

export const BOUND_PS = 1_000, WAIT_PS = 50;
export const REGION_AT = 0x100;

/** The records of a and b that they use the region. */
export function used(of: { readonly memory?: "dram" } = {}): TimedRecord[] {
  const record = {
    kind: "region",
    region: "s",
    home: "a",
    bytes: 256,
    answerWithinPs: BOUND_PS,
    homeWaitPs: WAIT_PS,
    ...(of.memory === undefined && { at: REGION_AT }),
  } as const;
  return [noted(0, record), noted(0, record, { node: "b" })];
}

/** An access of one host, as its begin and its end tell it. */
export interface Told {
  readonly on?: "a" | "b";
  readonly op?: RegionOp;
  readonly at?: number;
  readonly length?: number;
  /** When it begins and ends; without an end its program is never told. */
  readonly from: number;
  readonly to?: number;
  readonly result?: "done" | "lost" | "fenced" | "refused";
  readonly bytes?: Uint8Array;
  readonly compare?: Uint8Array;
  readonly found?: Uint8Array;
}

/** Records of accesses, by time; at one instant in the order of the list. */
export function told(accesses: readonly Told[]): TimedRecord[] {
  const all = accesses.flatMap((each, id) => recordsOf(each, id));
  return all.sort((x, y) => x.time - y.time);
}

function recordsOf(access: Told, id: number): TimedRecord[] {
  const { on = "a", op = access.bytes === undefined ? "load" : "store", at = 0, from, to } = access;
  const { bytes, compare, found, result = "done" } = access;
  const length = access.length ?? (bytes ?? found)?.length ?? 8;
  const begin: AuditRecord = {
    ...{ kind: "access", id, region: "s", offset: at, length, op },
    ...(bytes !== undefined && { bytes }),
    ...(compare !== undefined && { compare }),
  };
  if (to === undefined) return [noted(from, begin, { node: on })];
  const end: AuditRecord = {
    ...{ kind: "accessed", id, result },
    ...(found !== undefined && { bytes: found }),
  };
  return [noted(from, begin, { node: on }), noted(to, end, { node: on })];
}

/** Bytes of `s` are reported to be lost. */
export function lostAt(time: number, offset = 0, length = 64, node = "a"): TimedRecord {
  return noted(time, { kind: "region-lost", region: "s", ranges: [{ offset, length }] }, { node });
}

export function stateAt(
  time: number,
  node: string,
  of: Pick<LineStateRecord, "cache" | "state"> & { readonly line?: number },
): TimedRecord {
  const { line = 0, cache, state } = of;
  return noted(time, { kind: "line-state", region: "s", line, cache, state }, { node });
}

/** A word, little-endian. */
export function word(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true);
  return bytes;
}
