/**
 * The objects that hold a log. The first has the log's name; where a longer file has made it grow, more
 * slots follow in others, so that nothing that is durable is ever moved. What is in a segment counts only
 * where all slots before it hold records.
 */
import { fetchObject } from "../persist/get.ts";
import { type ClientOptions, type Failure, isFailure } from "../persist/persist_client.ts";
import type { Steps } from "../../cpu/program.ts";
import { claimedEpoch, claimedRecordBytes, type LogScan, scanLog, slotBytes } from "./layout.ts";
import type { CmDevice } from "../../cm/gsi.ts";

/** A READ of what is found. */
const READ_BYTES = 4096;
const READS = 8;

/** What a replica has of a log, and in which objects. */
export interface FoundLog extends LogScan {
  /** Most bytes of a record; undefined where nothing says so. */
  readonly recordBytes: number | undefined;
  /** Slots of each object, as far as it was looked; none where there is no log. */
  readonly segments: readonly number[];
}

export const NO_LOG: FoundLog = { claimed: 0, records: [], recordBytes: undefined, segments: [] };

/** The object's name. */
export function segmentName(log: string, segment: number): string {
  return segment === 0 ? log : `${log}+${segment}`;
}

/** A segment: which one, its first slot and the one behind its last. */
export interface Segment {
  readonly index: number;
  readonly first: number;
  readonly end: number;
}

/** Where a slot lies; the last segment for one beyond them all. */
export function segmentOf(segments: readonly number[], slot: number): Segment {
  let first = 0, index = 0;
  while (index < segments.length - 1 && slot >= first + segments[index]!) {
    first += segments[index++]!;
  }
  return { index, first, end: first + segments[index]! };
}

/** What {@link fetchLog} is to do: whose log, and most bytes of a record where the log does not say. */
export interface LogFetch extends Omit<ClientOptions, "to" | "terms"> {
  readonly from: string;
  readonly name: string;
  readonly recordBytes: number;
}

/** Reads a replica's log, with a connection for each object. {@link NO_LOG} where it has none. */
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
    const said = segments.length === 0 ? claimedRecordBytes({ name }, part) : found.recordBytes;
    const recordBytes = said ?? otherwise, size = slotBytes({ recordBytes });
    // Of another size it holds no records, and a client replaces it: but the epoch is taken, as others
    // may have records of it.
    if (part.length === 0 || part.length % size !== 0) {
      return segments.length === 0 ? { ...found, claimed: claimedEpoch(part) } : found;
    }
    segments.push(part.length / size);
    bytes = joined(bytes, part);
    const slots = bytes.length / size;
    const scan = scanLog({ name, recordBytes, slots }, bytes);
    const isKnown = said !== undefined || scan.records.length > 0;
    found = { ...scan, recordBytes: isKnown ? recordBytes : undefined, segments: [...segments] };
    if (1 + scan.records.length < slots) return found;
  }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(first.length + second.length);
  bytes.set(first);
  bytes.set(second, first.length);
  return bytes;
}
