/** Words and limits of a replay's answers, for its process, which has no zod, and its schemas. */
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { OperationStatus } from "../../fabric/trace/trace.ts";

/**
 * Where the newest copy of a byte is. `in-flight`: posted by a program or on its way between the cards;
 * `card`: in the responder's card; `bus`: on its way to the processor; `iio`: in the IIO; `llc`: a dirty
 * line of the cache, or a core's write-combining buffer; `write-queue`: accepted by the memory
 * controller; `medium`: in SCM.
 */
export const COPY_PLACES = [
  "in-flight",
  "card",
  "bus",
  "iio",
  "llc",
  "write-queue",
  "medium",
] as const;
export type CopyPlace = typeof COPY_PLACES[number];

/** The stretch before an instant over which a cable's rate is taken: some thirty full frames. */
export const RECENT_PS = 10 * PS_PER_US;

/** Of a cable's history. */
export const HISTORY_POINTS = 1_024;
/** Frames of one capture that the page asks for. */
export const CAPTURED_MAX = 20_000;

/** Of a query, with its default. */
export const BUCKETS = { most: 4_096, usual: 512 } as const;
export const PARTS = { most: 4_096, usual: 256 } as const;
export const OPERATIONS = { most: 1_000, usual: 200 } as const;
/** On each side of the instant. */
export const EVENTS = { most: 500, usual: 20 } as const;
/** Letters of a text that is searched for. */
export const SEARCHED_MAX = 200;
export const OPERATION_SORTS = ["begin", "duration"] as const;
export const EVENT_KINDS = [
  "step",
  "frame-sent",
  "note",
  "report",
  "power",
  "cable",
  "order",
] as const;
export const OPERATION_STATUSES = ["open", "completed", "failed"] as const satisfies readonly (
  OperationStatus
)[];
