import type { TimedRecord } from "../../fabric/audit.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { WireLedger } from "./wire_ledger.ts";
import type { Life } from "./lives.ts";
import { type Finding, FINDINGS_MAX } from "./finding.ts";

export interface ReportSeen {
  readonly time: Time;
  readonly node: string;
  readonly topic: string;
  readonly value: unknown;
}

export interface ImageView {
  /** Bytes [from, to). */
  read(from: number, to: number): Uint8Array;
  /** False: these bytes are as in empty memory, and need not be read. */
  touches?(from: number, to: number): boolean;
  /**
   * Values that the eight bytes from `unit` on may have, where caches may have evicted lines (see
   * the crash explorer); undefined: the value of {@link read} only.
   */
  possible?(unit: number): readonly Uint8Array[] | undefined;
}

export interface RunRecord {
  readonly plan: RackPlan;
  /** When the run was stopped; absent: it ran to its end. */
  readonly until?: Time;
  /** By node, oldest first. */
  readonly lives: ReadonlyMap<string, readonly Life[]>;
  readonly reports: readonly ReportSeen[];
  /** By time; those of one node in the order in which it made them. */
  readonly notes: readonly TimedRecord[];
  /** Undefined where it cannot be read. */
  readonly scm: (host: string) => ImageView | undefined;
  readonly claims?: boolean;
  /** Findings that a checker looks for, at most; default: {@link FINDINGS_MAX}. */
  readonly findingsMost?: number;
  readonly wire?: WireLedger;
  readonly durable?: Iterable<{ readonly time: Time; readonly node: string }>;
}

/** Pure. */
export interface Checker {
  /** As in `expect:` and the report of a run. */
  readonly name: string;
  /** In a sentence. */
  readonly promise: string;
  /** `64 writes, 60 promised`. */
  readonly looked: (run: RunRecord) => string;
  /** Of the promise in this run; with none it is always kept. */
  readonly subjects: (run: RunRecord) => number;
  /** False: the promise is not about this run, and its report leaves it out; absent: about all. */
  readonly concerns?: (run: RunRecord) => boolean;
  /** For a run without subjects: `no frame was seen`. */
  readonly without: string;
  /**
   * At most {@link mostOf} violations. A step takes some ms at most; an interrupt is handled
   * between steps.
   */
  readonly steps: (run: RunRecord) => CheckSteps;
  readonly check: (run: RunRecord) => Finding[];
}

export function mostOf({ findingsMost = FINDINGS_MAX }: Pick<RunRecord, "findingsMost">): number {
  return findingsMost;
}

export function checkerOf(of: Omit<Checker, "check">): Checker {
  return { ...of, check: (run) => drained(of.steps(run)) };
}

/** Work that may be left between its steps. */
export type Steps<Result> = Generator<void, Result>;

export type CheckSteps = Steps<Finding[]>;

/** Runs all steps at once. */
export function drained<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

const STEP_ITEMS = 512;

/**
 * Looks at each item, and lets go between so many.
 * @param see answers `stop` where no later one matters.
 */
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
