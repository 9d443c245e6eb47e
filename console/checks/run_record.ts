/**
 * The input of checkers, seen from outside of the models: reports and notes of programs, frames on cables,
 * and bytes in SCM after a power failure.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { WireLedger } from "./wire_ledger.ts";
import type { Life } from "./lives.ts";
import type { Finding } from "./finding.ts";

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
  /** False: these bytes are as in empty memory, and need not be read. */
  touches?(from: number, to: number): boolean;
  /**
   * All values that the eight bytes from `unit` on may have, where caches may have evicted lines (see the
   * crash explorer). Undefined: the value of {@link read} only.
   */
  possible?(unit: number): readonly Uint8Array[] | undefined;
}

export interface RunRecord {
  readonly plan: RackPlan;
  /** When the run was stopped; absent: it ran to its end. */
  readonly until?: Time;
  /** Lives of each node, oldest first. */
  readonly lives: ReadonlyMap<string, readonly Life[]>;
  readonly reports: readonly ReportSeen[];
  /** By time; those of one node in the order in which it made them. */
  readonly notes: readonly TimedRecord[];
  /** Undefined for a host whose SCM cannot be read. */
  readonly scm: (host: string) => ImageView | undefined;
  /** Claims of methods count as promises. */
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
  /** Amount of data as text: `64 writes, 60 promised`. */
  readonly looked: (run: RunRecord) => string;
  /** Number of subjects of the promise in this run; with none it is always kept. */
  readonly subjects: (run: RunRecord) => number;
  /** False for a run that the promise is not about, and whose report leaves it out; absent: it is about all. */
  readonly concerns?: (run: RunRecord) => boolean;
  /** Text for a run without subjects: `no frame was seen`. */
  readonly without: string;
  /**
   * The violations of the promise, at most {@link FINDINGS_MAX}; none where it is kept. In steps of some ms at most,
   * between which an interrupt is handled: see {@link inSteps}.
   */
  readonly steps: (run: RunRecord) => CheckSteps;
  /** The same, all steps at once. */
  readonly check: (run: RunRecord) => Finding[];
}

export function checkerOf(of: Omit<Checker, "check">): Checker {
  return { ...of, check: (run) => drained(of.steps(run)) };
}

/** Work that may be left between its steps. */
export type Steps<Result> = Generator<void, Result>;

export type CheckSteps = Steps<Finding[]>;

/** All steps at once. */
export function drained<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** Items of a run in one step; each costs some µs. */
const STEP_ITEMS = 512;

/** Looks at each item in turn, and lets go between so many. @param see answers `stop` where no later one matters. */
export function* inSteps<Item>(
  items: Iterable<Item>,
  see: (item: Item, place: number) => "stop" | undefined | void,
): Steps<void> {
  let place = 0;
  for (const item of items) {
    if (place % STEP_ITEMS === STEP_ITEMS - 1) yield;
    if (see(item, place++) === "stop") return;
  }
}

/** By time, at one instant by node: an order that the packing of the rack does not change. */
export function inOrder<Timed extends { readonly time: Time; readonly node: string }>(
  { nodes }: RackPlan,
  all: readonly Timed[],
): Timed[] {
  const index = new Map(nodes.map(({ name }, i) => [name, i]));
  return all.toSorted((x, y) => x.time - y.time || index.get(x.node)! - index.get(y.node)!);
}
