/**
 * The first object of a log has its name; a log that outgrows it continues in further objects, so
 * that durable records are never moved. A segment's content is valid only where all slots before it
 * hold records.
 */
import { joined } from "../../../../fabric/base/slab.ts";
import { fetchObject } from "../persist/get.ts";
import { type ClientOptions, type Failure, isFailure } from "../persist/persist_client.ts";
import type { Steps } from "../../cpu/program.ts";
import { claimedEpoch, claimedRecordBytes, type LogScan, scanLog, slotBytes } from "./layout.ts";
import type { CmDevice } from "../../cm/gsi.ts";

const READ_BYTES = 4096;
const READS = 8;

export interface FoundLog extends LogScan {
  readonly recordBytes: number | undefined;
  readonly segments: readonly number[];
}

export const NO_LOG: FoundLog = { claimed: 0, records: [], recordBytes: undefined, segments: [] };

export function segmentName(log: string, segment: number): string {
  return segment === 0 ? log : `${log}+${segment}`;
}

export interface Segment {
  readonly index: number;
  readonly first: number;
  readonly end: number;
}

/** @returns the last segment for a slot beyond all. */
export function segmentOf(segments: readonly number[], slot: number): Segment {
  let first = 0, index = 0;
  while (index < segments.length - 1 && slot >= first + segments[index]!) {
    first += segments[index++]!;
  }
  return { index, first, end: first + segments[index]! };
}

/** The maximum record size is for a log that does not contain it. */
export interface LogFetch extends Omit<ClientOptions, "to" | "terms"> {
  readonly from: string;
  readonly name: string;
  readonly recordBytes: number;
}

/** @returns {@link NO_LOG} without a log. */
export function* fetchLog(
  device: CmDevice,
  { recordBytes: otherwise, name, ...rest }: LogFetch,
): Steps<FoundLog | Failure> {
  const segments: number[] = [];
  let found = NO_LOG;
  let bytes = new Uint8Array(0);
  for (;;) {
    const object = segmentName(name, segments.length);
    const options = { ...rest, name: object, messageBytes: READ_BYTES, depth: READS };
    const part = yield* fetchObject(device, options);
    if (isFailure(part) && part.error.endsWith("not-found")) return found;
    if (isFailure(part)) return part;
    const claimed = segments.length === 0 ? claimedRecordBytes({ name }, part) : found.recordBytes;
    const recordBytes = claimed ?? otherwise, size = slotBytes({ recordBytes });
    // A segment of another size has no valid records, and a client replaces it. Its epoch counts,
    // as other replicas may have records of it.
    if (part.length === 0 || part.length % size !== 0) {
      return segments.length === 0 ? { ...found, claimed: claimedEpoch(part) } : found;
    }
    segments.push(part.length / size);
    bytes = joined([bytes, part]);
    const slots = bytes.length / size;
    const scan = scanLog({ name, recordBytes, slots }, bytes);
    const isKnown = claimed !== undefined || scan.records.length > 0;
    found = { ...scan, recordBytes: isKnown ? recordBytes : undefined, segments: [...segments] };
    if (1 + scan.records.length < slots) return found;
  }
}
