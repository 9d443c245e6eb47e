/** What the timekeeper has done by others: the other side of `timekeeper.ts`. */
import type { Grant, Welcome } from "./clock.ts";
import type { RecordedFault, RecordedLinkFault, Summary } from "./record.ts";
import type { Time } from "../base/time.ts";

/** What the timekeeper wants done. Implemented over the bus, or by tests. */
export interface ClockOutputs {
  welcome(partition: string, welcome: Welcome): void;
  grant(partition: string, grant: Grant): void;
  /** Every partition is to answer with a report that tells all it knows. */
  ask(term: number): void;
  /** This process of this partition must die now: its power failed at virtual time `at`. */
  kill(partition: string, instance: string, at: Time): void;
  /** The process of this partition must be started: its power returns at `at`. */
  start(partition: string, at: Time): void;
  /** Something to be written down before it takes effect. */
  record(fault: RecordedFault): void;
  /** The same of a fault of a cable. */
  recordLink?(order: RecordedLinkFault): void;
  /** The run cannot be replayed any more; to be written down, as {@link TimekeeperOptions.inexact}. */
  inexact(why: string): void;
  finished(summary: Summary): void;
}
