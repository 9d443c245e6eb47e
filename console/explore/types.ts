/**
 * Types that the parts of the crash explorer share: its options and its verdict.
 * `nodes/host/recovery/protocol.ts` has the types of a protocol file.
 */
import type { CreateNode } from "../../fabric/partition/partition.ts";
import type { SimulatedOrder } from "../../fabric/partition/simulator.ts";
import type {
  FaultPlan,
  HoldPlan,
  RackPlan,
  StallPlan,
  WritebackPlan,
} from "../../fabric/rack/plan/plan.ts";
import type { LinkFaultPlan } from "../../fabric/rack/plan/link_plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { FactoryOptions } from "../../nodes/make_host.ts";
import type { MakeProgram } from "../../nodes/host/own_programs.ts";
import type { ValueOf, ValuesOf } from "../../fabric/rack/plan/option_rows.ts";
import { EXPLORE_OPTIONS, type VERDICTS } from "../api/options.ts";
import type { LadderDocument } from "../api/operations.ts";
import type { Around } from "../rack/own/loop_watch.ts";
import type { Covered } from "./covering/coverage.ts";

/** Can be run repeatedly, each time from the beginning. */
export interface ExploredRack {
  readonly plan: RackPlan;
  /** By host and by their name in the scenario. */
  readonly inputs: Readonly<Record<string, Readonly<Record<string, Uint8Array>>>>;
  /** By their path in the scenario. */
  readonly own: Readonly<Record<string, MakeProgram>>;
  /** Starts native programs: such a rack is run once, see `native/`. */
  readonly native?: FactoryOptions["native"];
  readonly orders?: readonly SimulatedOrder[];
  /** For tests: a defective card. */
  readonly replace?: (create: CreateNode) => CreateNode;
  /** Wraps each call of `recover` or `check`: a call that never ends can be detected. */
  readonly around?: Around;
}

/** A host, each in turn, all at once, or none, which leaves interleavings. */
export type Cut = ValueOf<typeof EXPLORE_OPTIONS.cut>;

/**
 * Default of `cut`: each host in turn to whose SCM programs note writes, or whose protocol recovers
 * or checks; if a protocol checks, each host whose SCM is written to. Default of `preemptions` and
 * `stalls`, `frames`: none.
 */
export interface ExploreOptions extends Omit<ValuesOf<typeof EXPLORE_OPTIONS>, "for" | "jobs"> {
  readonly choices: number;
  readonly tear: number;
  /** In time order instead of one of each kind first: for comparison. */
  readonly inOrder?: boolean;
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
  readonly share: number;
  readonly crashPoints: number;
  /** They come before crash points; absent if none are wanted. */
  readonly runs?: number;
}

export interface Again {
  readonly recoveries: number;
  readonly cut: number;
  /** Found by the recoveries after these. */
  readonly ways: number;
}

export interface Interleavings {
  readonly runs: number;
  readonly orders: number;
  readonly preemptions: number;
  /** Longest; absent: unlimited. */
  readonly stallPs?: Time;
  /**
   * Pairs of accesses that were never reversed: by the two limits above, as a card makes the first
   * access for a verb, or as the second did not come before the first went on.
   */
  readonly untried: number;
}

/** Runs in each of which one thing goes otherwise than in the plain one. */
export interface RunsTried {
  readonly tried: number;
  /** All of the run at which it may. */
  readonly places: number;
  /** Orders that none before had, whose power failures were judged. */
  readonly orders: number;
  /** How long a core or card stands still, or a frame is late. */
  readonly ps: Time;
  readonly instants: number;
  readonly crashPoints: number;
}

/** By how little promises hold. */
export interface Slack {
  readonly ps: Time;
  /** The write, and the host that has it. */
  readonly by: string;
  readonly id: number;
  readonly on: string;
  readonly durablePs: Time;
  readonly promisedPs: Time;
}

export const UNCHECKED = "nothing was promised or checked";

export type Oracle = "promises" | "check" | "operations" | "robustness" | "recovery";

/** Of native programs: what one run has shown, and what it could not see. */
export interface NativeSeen {
  /** Distinct contents of hosts' SCM: a recovery ran on each. */
  readonly images: number;
  /** Times that a program has stored into several cache lines between two calls. */
  readonly steps: number;
  /** Instructions that flush unseen, in the programs' code. */
  readonly flushes: number;
}

export interface Verdict {
  /**
   * `failed`: the run without a further power failure is itself wrong. `unchecked`: nothing that a
   * power failure could break was promised or is checked.
   */
  readonly verdict: typeof VERDICTS[number];
  readonly why?: string;
  readonly hosts: readonly string[];
  /** Spans of time without a change; each was cut once. */
  readonly instants: number;
  /**
   * Instants × contents that caches may have written back and that writes in progress may have been
   * torn into.
   */
  readonly crashPoints: number;
  /** Runs of the rack for the survivors' later reports. */
  readonly continuations: number;
  readonly paths: number;
  /** Instants with more choices than were tried; `covered`: at those of protocols. */
  readonly bounded: number;
  readonly covered: readonly Covered[];
  readonly again: Again;
  /**
   * The rack is safe, every instant of the run and every choice at it was tried, and every recovery
   * that writes was cut again.
   */
  readonly exhaustive: boolean;
  /**
   * Of the rack `promises` (P-41), of protocols their `check`, noted `operations`, and
   * `robustness`.
   */
  readonly judgedBy: readonly Oracle[];
  readonly writes: number;
  readonly promises: number;
  /** Absent where no program is a native one. */
  readonly native?: NativeSeen;
  /** Absent where no two programs share bytes of a region, or none was wanted. */
  readonly interleavings?: Interleavings;
  /** Absent where no core or card was stalled: the verdict leans on the model's timing. */
  readonly stalls?: RunsTried;
  /** Absent where no frame was lost, late or overtaken but by the scenario. */
  readonly frames?: RunsTried;
  /** Absent where nothing is promised of a host whose memory alone survives. */
  readonly slack?: Slack;
  readonly wallMs: number;
  readonly perSecond: number;
  readonly counterexample: Counterexample | null;
}

/** Breaks a promise by a power failure or an interleaving; has all that shows and repeats it. */
export interface Counterexample {
  readonly hosts: readonly string[];
  /** Of an interleaving: when the last program went on. */
  readonly atPs: Time;
  /** Written back by then, though the model's caches and buffers still held them. */
  readonly writebacks: readonly WritebackPlan[];
  /** Of an interleaving, without a power failure; `hosts` is empty then. */
  readonly holds?: readonly HoldPlan[];
  /** The core or card that stands still in the run; `hosts` is empty where it fails without a power failure. */
  readonly stalls?: readonly StallPlan[];
  /** What happens to a frame in the run, beside the scenario's faults. */
  readonly linkFaults?: readonly LinkFaultPlan[];
  readonly faults: readonly FaultPlan[];
  /** A run with these faults shows it; false if it takes a power failure of a recovery. */
  readonly isReplayable: boolean;
  readonly places: readonly PlacedBytes[];
  readonly promised: readonly string[];
  /**
   * A checker, `check` (the protocol's own), or `robustness`; its finding, and the host whose SCM
   * it concerns.
   */
  readonly checker: string;
  readonly found: string;
  /** Changes that recovery made to memory before a second power failure. */
  readonly again?: number;
  /** What a native recovery printed. */
  readonly printed?: readonly string[];
  readonly ladder: string;
  /** Without frames; null where no operation was traced. */
  readonly operation: LadderDocument | null;
}

/** As `persistence_domain.ts` names them; `local cache`: of home's card, `remote cache`: of another host's. */
const BYTE_PLACES = [
  "not there yet",
  "remote cache",
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
  readonly place: BytePlace;
  /** Found after it: a part of what was not in memory may have arrived early. */
  readonly survived: boolean;
  readonly node: string;
  readonly by: string;
  readonly id: number;
}
