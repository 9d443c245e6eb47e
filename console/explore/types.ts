/**
 * Types that the parts of the crash explorer share: its options and its verdict. `explore.ts` uses them;
 * `nodes/host/recovery/protocol.ts` has the types of a protocol file.
 */
import type { CreateNode } from "../../fabric/partition/partition.ts";
import type { SimulatedOrder } from "../../fabric/partition/simulator.ts";
import type { FaultPlan, HoldPlan, RackPlan, WritebackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { MakeProgram } from "../../nodes/host/own_programs.ts";
import type { ValueOf, ValuesOf } from "../../fabric/rack/plan/option_rows.ts";
import { EXPLORE_OPTIONS, type VERDICTS } from "../api/options.ts";
import type { LadderDocument } from "../api/operations.ts";
import type { Around } from "../rack/own/loop_watch.ts";
import type { Covered } from "./covering/coverage.ts";

/** A rack that can be run repeatedly, each time from the beginning. */
export interface ExploredRack {
  readonly plan: RackPlan;
  /** Files that programs read, by host and by their name in the scenario. */
  readonly inputs: Readonly<Record<string, Readonly<Record<string, Uint8Array>>>>;
  /** The user's own programs, by their path in the scenario. */
  readonly own: Readonly<Record<string, MakeProgram>>;
  /** Programs that were ordered while the rack was up. */
  readonly orders?: readonly SimulatedOrder[];
  /** Replaces nodes: tests make a defective card with it. */
  readonly replace?: (create: CreateNode) => CreateNode;
  /** Wraps each call of a protocol's `recover` or `check`, so that a call that never ends can be detected. */
  readonly around?: Around;
}

/** Hosts whose power is cut: one host, each in turn, all at once, or none, which leaves interleavings. */
export type Cut = ValueOf<typeof EXPLORE_OPTIONS.cut>;

/**
 * The options of the table, and more. Default of `cut`: each host in turn to whose SCM programs note writes, or whose
 * protocol recovers or checks; if a protocol checks, each host whose SCM is written to. Default of `preemptions`:
 * none.
 */
export interface ExploreOptions extends Omit<ValuesOf<typeof EXPLORE_OPTIONS>, "for" | "jobs"> {
  readonly choices: number;
  readonly tear: number;
  /** Judge all instants in time order instead of one of each kind first: for comparison. */
  readonly inOrder?: boolean;
  /** Wall time in ms after which the verdict is partial. */
  readonly forMs?: number;
  /** Called between instants and between ways to find memory: true ends with a partial verdict. */
  readonly stopped?: () => boolean;
}

export const EXPLORE_DEFAULTS = {
  choices: EXPLORE_OPTIONS.choices.normal,
  tear: EXPLORE_OPTIONS.tear.normal,
  preemptions: EXPLORE_OPTIONS.preemptions.normal,
  stall: EXPLORE_OPTIONS.stall.normal,
  interleavings: EXPLORE_OPTIONS.interleavings.normal,
} as const;

export interface ExploreProgress {
  /** In [0, 1]. */
  readonly share: number;
  readonly crashPoints: number;
  /** Runs that vary interleavings, which come before crash points; absent if none are wanted. */
  readonly runs?: number;
}

/** Recoveries that write, which another power failure may interrupt. */
export interface Again {
  /** Recoveries that wrote, each with one way to find memory; `cut` of them had another power failure. */
  readonly recoveries: number;
  readonly cut: number;
  /** Ways in which the recoveries after these have found memory. */
  readonly ways: number;
}

/** Interleavings of programs on shared regions that were tried, without power failures. */
export interface Interleavings {
  /** Runs of the rack, and the orders of dependent accesses that they had. */
  readonly runs: number;
  readonly orders: number;
  /** Most preemptions in one run. */
  readonly preemptions: number;
  /** Longest duration of each preemption; absent: unlimited. */
  readonly stallPs?: Time;
  /**
   * Pairs of accesses that could be reversed in these runs and never were: because of the two limits above, because a
   * card makes the first access for a verb, or because the second did not come before the first went on.
   */
  readonly untried: number;
}

/** Reason for no verdict on a rack that declares nothing. */
export const UNCHECKED = "nothing was promised or checked";

export type Oracle = "promises" | "check" | "operations" | "robustness";

export interface Verdict {
  /**
   * `failed`: the run without a further power failure is itself wrong. `unchecked`: nothing that a power failure
   * could break was promised or is checked.
   */
  readonly verdict: typeof VERDICTS[number];
  /** Why the verdict is neither safe nor unsafe. */
  readonly why?: string;
  /** Hosts whose power was cut. */
  readonly hosts: readonly string[];
  /** Spans of time without a change: each was cut once, for all its instants. */
  readonly instants: number;
  /** Instants × contents that caches may have written back and that writes in progress may have been torn into. */
  readonly crashPoints: number;
  /** Runs of the rack that were made to obtain the survivors' later reports. */
  readonly continuations: number;
  /** Ways in which recoveries and checks of protocols have found memory; their reads decide the number. */
  readonly paths: number;
  /** Instants with more choices than were tried, and the coverage at those of protocols. */
  readonly bounded: number;
  readonly covered: readonly Covered[];
  /** Recoveries that wrote, and those with another power failure: none with `cuts: 1`. */
  readonly again: Again;
  /**
   * The rack is safe, every instant of the run and every choice at it was tried, and every recovery that writes was
   * cut again.
   */
  readonly exhaustive: boolean;
  /** Judges: of the rack `promises` (P-41), of protocols their `check`, noted `operations`, and `robustness`. */
  readonly judgedBy: readonly Oracle[];
  /** Writes that programs declared in the run without a power failure, and promises on them. */
  readonly writes: number;
  readonly promises: number;
  /** Absent where no two programs share bytes of a region, or none was wanted. */
  readonly interleavings?: Interleavings;
  readonly wallMs: number;
  readonly perSecond: number;
  readonly counterexample: Counterexample | null;
}

/** A power failure or an interleaving that breaks a promise, with all that is needed to show and to repeat it. */
export interface Counterexample {
  /** Hosts that lost power. */
  readonly hosts: readonly string[];
  /** Time of the power failure; of an interleaving, the time at which the last program went on. */
  readonly atPs: Time;
  /** Lines that had been written back by then, though the model's caches and buffers still held them. */
  readonly writebacks: readonly WritebackPlan[];
  /** Programs that are stopped in an interleaving, which takes no power failure; `hosts` is empty then. */
  readonly holds?: readonly HoldPlan[];
  /** All power failures of the run that shows it. */
  readonly faults: readonly FaultPlan[];
  /** A run with these faults shows it; false if it takes a power failure of a recovery. */
  readonly isReplayable: boolean;
  /** Places of the bytes of unkept promises at the power failure. */
  readonly places: readonly PlacedBytes[];
  /** The notes of programs about these bytes, in words. */
  readonly promised: readonly string[];
  /**
   * The checker, or `check` for the protocol's own, or `robustness`; its finding, and the host whose SCM it concerns.
   */
  readonly checker: string;
  readonly found: string;
  /** Where it takes a second power failure: the number of changes that recovery made to memory before. */
  readonly again?: number;
  /** The operation concerned, step by step up to the failure, and the messages sent after it. */
  readonly ladder: string;
  /** The same as data, without frames; null where no operation was traced. */
  readonly operation: LadderDocument | null;
}

/** Places of SCM bytes at a power failure, as `persistence_domain.ts` names them; `local cache`: of home's card. */
const BYTE_PLACES = [
  "not there yet",
  "local cache",
  "bus",
  "iio",
  "llc",
  "memory",
] as const;
export type BytePlace = typeof BYTE_PLACES[number];

/** Bytes [from, to) of a host's SCM, of write `id` of program `by` on `node`. */
export interface PlacedBytes {
  readonly host: string;
  readonly from: number;
  readonly to: number;
  /** Their place, as they were written, at the power failure. */
  readonly place: BytePlace;
  /** They are found after it: a part of what was not in memory may have arrived early. */
  readonly survived: boolean;
  readonly node: string;
  readonly by: string;
  readonly id: number;
}
