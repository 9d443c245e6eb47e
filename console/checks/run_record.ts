/**
 * What a checker looks at: a run as it was seen from outside. Nothing of it is a model's word for its
 * own soundness: programs' reports and notes, frames on cables, and bytes in SCM when the power is gone.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { WireLedger } from "./wire_ledger.ts";
import type { Life } from "./lives.ts";
import type { Finding } from "./finding.ts";

/** What a program reported. */
export interface ReportSeen {
  readonly time: Time;
  readonly node: string;
  readonly topic: string;
  readonly value: unknown;
}

/** A host's SCM after a power failure at the end of the run. */
export interface ImageView {
  /** Bytes [from, to). */
  read(from: number, to: number): Uint8Array;
  /**
   * What else the eight bytes from `unit` on may be after it, where that is open: what a cache may
   * have evicted by then (see the crash explorer). Undefined: they are what {@link read} says.
   */
  possible?(unit: number): readonly Uint8Array[] | undefined;
}

export interface RunRecord {
  readonly plan: RackPlan;
  /** When the run stopped though something would still have happened; absent: it ran to its end. */
  readonly until?: Time;
  /** Lives of each node, oldest first. */
  readonly lives: ReadonlyMap<string, readonly Life[]>;
  readonly reports: readonly ReportSeen[];
  /** By time; those of one node in the order of their making. */
  readonly notes: readonly TimedRecord[];
  /** Undefined for a host whose SCM cannot be read. */
  readonly scm: (host: string) => ImageView | undefined;
  /** Judge by what methods claim, also where nothing promises it: to show that they claim wrongly. */
  readonly claims?: boolean;
  /** Frames on cables, where they were recorded. */
  readonly wire?: WireLedger;
  /** When bytes became persistent on which host, where that was recorded. */
  readonly durable?: Iterable<{ readonly time: Time; readonly node: string }>;
}

/** One promise of the rack, and how it is checked. Pure. */
export interface Checker {
  /** As `expect:` of a scenario and the report of a run have it. */
  readonly name: string;
  /** The promise, in a sentence. */
  readonly promise: string;
  /** How much there is to be looked at, for people: `64 writes, 60 promised`. */
  readonly looked: (run: RunRecord) => string;
  /** Of how many things the promise speaks in this run: of none, it is kept whatever the rack does. */
  readonly subjects: (run: RunRecord) => number;
  /** What is missing where there is none, for people: `no frame was seen`. */
  readonly without: string;
  /** @returns what breaks the promise, at most {@link FINDINGS_MAX}; nothing where it is kept. */
  readonly check: (run: RunRecord) => Finding[];
}
