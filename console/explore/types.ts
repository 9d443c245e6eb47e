/**
 * Types that the parts of the crash explorer share: its options and its verdict. Read `explore.ts`
 * for what is done with them; what a protocol file adds is in `nodes/host/recovery/protocol.ts`.
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

/** A rack that can be run again and again, each time from the beginning. */
export interface ExploredRack {
  readonly plan: RackPlan;
  /** Files that programs read: by host, by the name the scenario gives them. */
  readonly inputs: Readonly<Record<string, Readonly<Record<string, Uint8Array>>>>;
  /** The user's own programs, by their path in the scenario. */
  readonly own: Readonly<Record<string, MakeProgram>>;
  /** Programs that were ordered while the rack was up. */
  readonly orders?: readonly SimulatedOrder[];
  /** Puts something in the place of nodes: how a test makes a defective card. */
  readonly replace?: (create: CreateNode) => CreateNode;
  /** Called to run a protocol's `recover` or `check`: how one that never ends is noticed. */
  readonly around?: Around;
}

/** Whose power is cut: that of one host, of each in turn, of all at once, or none, which leaves interleavings. */
export type Cut = ValueOf<typeof EXPLORE_OPTIONS.cut>;

/**
 * What the table says, and more. Without `cut`: each host in turn to whose SCM programs note writes, or whose protocol
 * recovers or checks; where one checks, each whose SCM is written to at all. Without `preemptions`: none.
 */
export interface ExploreOptions extends Omit<ValuesOf<typeof EXPLORE_OPTIONS>, "for" | "jobs"> {
  readonly choices: number;
  readonly tear: number;
  /** All instants in their order, not one of each kind first: to compare with. */
  readonly inOrder?: boolean;
  /** Wall time in ms after which the verdict is partial. */
  readonly forMs?: number;
  /** Called between instants, and ways to find memory at one: true ends with a partial verdict. */
  readonly stopped?: () => boolean;
}

/** The options' defaults. */
export const EXPLORE_DEFAULTS = {
  choices: EXPLORE_OPTIONS.choices.normal,
  tear: EXPLORE_OPTIONS.tear.normal,
  preemptions: EXPLORE_OPTIONS.preemptions.normal,
  stall: EXPLORE_OPTIONS.stall.normal,
  interleavings: EXPLORE_OPTIONS.interleavings.normal,
} as const;

/** How far an exploration is. */
export interface ExploreProgress {
  /** In [0, 1]. */
  readonly share: number;
  readonly crashPoints: number;
  /** Runs that vary interleavings, which come before crash points; absent: none are wanted. */
  readonly runs?: number;
}

/** Recoveries that write, which another power failure may interrupt. */
export interface Again {
  /** Recoveries that wrote, each with one way to find memory; during how many the power failed again. */
  readonly recoveries: number;
  readonly cut: number;
  /** Ways in which the recoveries behind these have found memory. */
  readonly ways: number;
}

/** Interleavings of programs on shared regions that were tried, without power failures. */
export interface Interleavings {
  /** Runs of the rack, and how many orders of dependent accesses they had. */
  readonly runs: number;
  readonly orders: number;
  /** Preemptions in one run at most. */
  readonly preemptions: number;
  /** Of each of them at most; absent: any time. */
  readonly stallPs?: Time;
  /**
   * Pairs of accesses that could come the other way round in these runs, and did in none: by the two limits above, as the
   * first one is a card's for a verb, or as the second did not come before the first went on.
   */
  readonly untried: number;
}

/** Why nothing can be said of a rack that declares nothing. */
export const UNCHECKED = "nothing was promised or checked";

export type Oracle = "promises" | "check" | "operations" | "robustness";

export interface Verdict {
  /**
   * `failed`: the run without a further power failure is itself wrong. `unchecked`: nothing that a power
   * failure could break was promised or is checked.
   */
  readonly verdict: typeof VERDICTS[number];
  /** Why it is neither safe nor unsafe. */
  readonly why?: string;
  /** Hosts whose power was cut. */
  readonly hosts: readonly string[];
  /** Spans of time in which nothing changes: each was cut once, for all its instants. */
  readonly instants: number;
  /** Instants × what caches may have written back, and writes in progress may have been torn into. */
  readonly crashPoints: number;
  /** Runs of the rack that were made to see what the survivors still reported. */
  readonly continuations: number;
  /** Ways in which recoveries and checks of protocols have found memory: their reads decide how many there are. */
  readonly paths: number;
  /** Instants at which there were more choices than were tried; and what was covered at those of protocols. */
  readonly bounded: number;
  readonly covered: readonly Covered[];
  /** Recoveries that wrote, and during how many the power failed again: none with `cuts: 1`. */
  readonly again: Again;
  /**
   * It is safe, every instant of the run and every choice at it was tried, and every recovery that writes was
   * cut again.
   */
  readonly exhaustive: boolean;
  /** What judged: of the rack `promises` (P-41), of protocols their `check`, noted `operations`, and `robustness`. */
  readonly judgedBy: readonly Oracle[];
  /** Writes that programs declared in the run without a power failure, and promises that they had. */
  readonly writes: number;
  readonly promises: number;
  /** Absent where no two programs share bytes of a region, or none was wanted. */
  readonly interleavings?: Interleavings;
  readonly wallMs: number;
  readonly perSecond: number;
  readonly counterexample: Counterexample | null;
}

/** A power failure, or an interleaving, that breaks a promise, with all that is needed to see it and to have it again. */
export interface Counterexample {
  /** Hosts that lost power. */
  readonly hosts: readonly string[];
  /** When they did; of an interleaving, when the last program went on. */
  readonly atPs: Time;
  /** What had been written back by then, though the model's caches and buffers still had it. */
  readonly writebacks: readonly WritebackPlan[];
  /** Of an interleaving, which takes no power failure: programs that are stopped. `hosts` is empty then. */
  readonly holds?: readonly HoldPlan[];
  /** All power failures of the run that shows it. */
  readonly faults: readonly FaultPlan[];
  /** Whether a run with them shows it: not where it takes a power failure of a recovery. */
  readonly isReplayable: boolean;
  /** Where the bytes of unkept promises were when the power went. */
  readonly places: readonly PlacedBytes[];
  /** What programs had noted of these, in words. */
  readonly promised: readonly string[];
  /** The checker, or `check` for the protocol's own, or `robustness`; what it found, and of which host's SCM. */
  readonly checker: string;
  readonly found: string;
  /** Where it takes a second power failure: the number of what recovery did to memory before. */
  readonly again?: number;
  /** The operation that it is about, step by step, up to the failure, and what was sent after it. */
  readonly ladder: string;
  /** The same as data, without frames; null where nothing was traced that is an operation. */
  readonly operation: LadderDocument | null;
}

/** Where a power failure finds bytes of SCM, as far as `persistence_domain.ts` has them; `local cache`: of home's card. */
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
  /** Where they were, as they were written, when the power went. */
  readonly place: BytePlace;
  /** Whether they are found after it: part of what was not in memory may have got there early. */
  readonly survived: boolean;
  readonly node: string;
  readonly by: string;
  readonly id: number;
}
