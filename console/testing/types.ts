/**
 * Types of a test's questions to a rack and of its answers. They stand for themselves: the reports'
 * own types use packages that a user's project does not have. `answers.ts` holds them to each other.
 */
import type { OptionRow, OptionTable, ValueOf } from "../../fabric/rack/plan/option_rows.ts";
import type { CHOICES } from "../../fabric/rack/plan/vocabulary.ts";
import type { RocePacket } from "../../fabric/wire/roce/packet.ts";
import type { EXPLORE_OPTIONS, VERDICTS } from "../api/options.ts";

/** A failure or return of power, as a scenario's `faults:` has it. `at` is a virtual time: `12us`. */
export type PowerFault =
  | { readonly at: string; readonly kill: string }
  | { readonly at: string; readonly start: string; readonly card?: "off" }
  | { readonly at: string; readonly shutdown: string; readonly within?: string };

/** Any item of a scenario's `faults:`, those of cables and devices too; read by the scenario's schema. */
export type ScenarioFault = PowerFault | Readonly<Record<string, unknown>>;

/** An option as a test writes it: sizes such as 4096 or `4KiB`, times such as `40us`. */
type TestValue<Row extends OptionRow> = Row extends { readonly type: "size" } ? number | string
  : Row extends { readonly type: "time" | "host" } ? string
  : ValueOf<Row>;
type TestValues<Table extends OptionTable> = {
  readonly [Name in keyof Table]?: TestValue<Table[Name]>;
};

/** Changes to a scenario for one test; also the choices that `rack run --help` lists, such as `method` and `seed`. */
export interface RackTestOptions extends TestValues<typeof CHOICES> {
  /** Faults besides the scenario's own. */
  readonly faults?: readonly ScenarioFault[];
  /** Words of the scenario, named as for `rack sweep --vary`: `{ "programs[0].records": 3, depth: 4 }`. */
  readonly set?: Readonly<Record<string, unknown>>;
  /** The file that `put` writes: a path, or a `file:` URL. */
  readonly input?: string | URL;
  /** Folders below which the scenario may read files, besides its own: paths. */
  readonly allowRead?: readonly string[];
  /** Judge what methods claim as though it were promised. */
  readonly claims?: boolean;
  /** False: the types of own programs are not checked first. */
  readonly check?: boolean;
}

/** Options of `run()`. */
export interface RunTestOptions {
  /**
   * Names of the checks that are to fail; default: none. Every other check has to hold. `unchecked`: no program is to
   * do anything, so that the checks say nothing.
   */
  readonly fails?: readonly string[];
  /** Keep packets, for `packets()`, and a capture for Wireshark in the run's directory. */
  readonly capture?: boolean;
  /** Ends the run; it then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** The verdict of `rack explore` on a variant; only `safe` promises something. */
export type Verdict = typeof VERDICTS[number];

/**
 * Options of `rack explore`, as its help lists them. Without `jobs`: one process. Wall time has no limit: `limit` is as
 * good everywhere.
 */
export interface ExploreTestOptions extends Omit<TestValues<typeof EXPLORE_OPTIONS>, "for"> {
  /** That of every variant; default: `safe`. */
  readonly verdict?: Verdict;
  /** Ends the exploration; it then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** One check at the end of a run. */
export interface Check {
  /** Such as `protocol-holds`. */
  readonly name: string;
  /** The property that it checks, in words. */
  readonly promise: string;
  /** How much it examined, by variant. */
  readonly looked: readonly string[];
  /** False: the run broke it. */
  readonly holds: boolean;
  /** The violation; "" where it holds. */
  readonly detail: string;
}

/** Measurements of one `put` of one variant; latencies in ps, from post to the last completion. */
export interface MethodFigures {
  /** The method of persistence, as the scenario names it. */
  readonly method: string;
  /** Of the host written to; `mixed`: several hosts are. */
  readonly ddio: "on" | "off" | "mixed";
  /** The host that wrote. */
  readonly from: string;
  /** The host written to. */
  readonly to: string;
  /** Messages sent. */
  readonly messages: number;
  /** Messages whose last completion confirmed persistence. */
  readonly confirmed: number;
  /** Whether that completion promises persistence on such hosts. */
  readonly promises: boolean;
  /** Of a message, in ps; 0 where none completed. */
  readonly latencyPs: { readonly median: number; readonly p99: number; readonly max: number };
  /** Bits of the file written per second, from the first post to the last completion. */
  readonly throughputBps: number;
  /** Whether the file is whole in SCM after a power failure at the end. */
  readonly intact: boolean;
  /** Why it failed; null: it did not. */
  readonly error: string | null;
}

/** The report on a run, over all its variants: a part of what `rack run --json` prints. */
export interface RackReport {
  /** Variants that did nothing, so that their checks say nothing, and why; absent where all did something. */
  readonly unchecked?: ReadonlyArray<{ readonly variant: string; readonly why: string }>;
  /** The kept run's name, for `rack trace --run`. */
  readonly run: string;
  /** The name in the scenario. */
  readonly scenario: string;
  /** The seed of the run. */
  readonly seed: number;
  /** Over all events of all variants: equal runs have equal digests. */
  readonly digest: string;
  /** Sum of the virtual times of all variants, in ps. */
  readonly virtualPs: number;
  /** Events of all variants. */
  readonly events: number;
  /** Where the kept run lies. */
  readonly directory: string;
  /** Files of captures, where packets were kept. */
  readonly captures?: readonly string[];
  /** One row for each `put` of each variant. */
  readonly methods: readonly MethodFigures[];
  /** Results of programs other than `put`, and failures of programs. */
  readonly results: ReadonlyArray<
    { readonly node: string; readonly variant: string; readonly value: unknown }
  >;
  /** Warnings of programs and cards that went on; absent: none. */
  readonly warnings?: ReadonlyArray<
    { readonly node: string; readonly variant: string; readonly text: string }
  >;
  /** Each check, over all variants. */
  readonly checks: readonly Check[];
}

/** A report of a program or device (`cpu.report`), with bytes and bigints as they were. */
export interface ProgramReport<Value = unknown> {
  /** Virtual time in ps. */
  readonly time: number;
  /** The host, or its card (`a-rnic`). */
  readonly node: string;
  /** Such as `result`. */
  readonly topic: string;
  /** A copy of the reported value. */
  readonly value: Value;
}

/** A frame that a card has sent; lost ones too. */
export interface Packet {
  /** When its first bit left the card, in ps. */
  readonly startPs: number;
  /** When its last bit left the card, in ps. */
  readonly endPs: number;
  /** The card that sent it. */
  readonly card: string;
  /** The sending host, by its address; of a frame that is not RoCE, the card's. */
  readonly from: string;
  /** The receiving host, by its address; "" for a frame that is not RoCE. */
  readonly to: string;
  /** The opcode's name: `RC RDMA WRITE ONLY`; "" for a frame that is not RoCE. */
  readonly name: string;
  /** In one line: `a→b RC RDMA WRITE ONLY qp=0x22 psn=7 …`. */
  readonly text: string;
  /** Its headers (`bth.psn`, `reth?.va`, `aeth?.syndrome` …) and payload; null for one that is not RoCE. */
  readonly packet: RocePacket | null;
  /** The effect of a faulty cable on it: `lost`, …; null: none. */
  readonly effect: string | null;
  /** The whole Ethernet frame, without its FCS. */
  readonly frame: Uint8Array;
}

/** Which packets; what is absent is any. */
export interface PacketChoice {
  /** The sending host. */
  readonly from?: string;
  /** The receiving host. */
  readonly to?: string;
  /** The opcode's name, or a pattern of it. */
  readonly name?: string | RegExp;
}

/** A power failure that breaks a promise. */
export interface Counterexample {
  /** Hosts that lost power. */
  readonly hosts: readonly string[];
  /** When they lost it, in ps. */
  readonly atPs: number;
  /** Its finder: a checker, `check` (the protocol's own), `robustness`, or a native program's `recovery`. */
  readonly checker: string;
  /** The broken promise, in words. */
  readonly found: string;
  /** The notes of programs on it, in words. */
  readonly promised: readonly string[];
  /** The operation, step by step. */
  readonly ladder: string;
}

/** The explorer's answer for one variant. */
export interface Explored {
  /** The variant, as `RackVariant.label` has it. */
  readonly label: string;
  /** `safe`: no power failure breaks a promise. The others: see the page of `rack explore`. */
  readonly verdict: Verdict;
  /** Why it is neither safe nor unsafe; "" where it is. */
  readonly why: string;
  /** Hosts whose power was cut. */
  readonly hosts: readonly string[];
  /** Spans of time in which nothing changes: each was cut once, for all its instants. */
  readonly instants: number;
  /** Instants times what caches may have written back and writes may have been torn into. */
  readonly crashPoints: number;
  /** Whether every instant of the run and every choice at it was tried. */
  readonly exhaustive: boolean;
  /** Orders of programs' accesses to shared regions that were tried, and the runs that took; absent: none. */
  readonly interleavings?: { readonly orders: number; readonly runs: number };
  /** The judges: `promises` of the rack, a protocol's `check`, `robustness` of what its recovery reads, a native program's `recovery`. */
  readonly judgedBy: readonly string[];
  /** Writes to SCM that programs had declared. */
  readonly writes: number;
  /** Declared writes that were confirmed persistent. */
  readonly promises: number;
  /** The first one found; null: there is none. */
  readonly counterexample: Counterexample | null;
  /** The command that shows the counterexample again; null without one. */
  readonly command: string | null;
}

/** The question to the process of a run: one line of JSON. */
export interface Question {
  readonly kind: "run" | "explore";
  /** Options as their author gave them; they are checked there. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** A host's SCM after a run. */
export interface MemoryAnswer {
  /** Of its first byte, as programs have it in `cpu.scm.address`. */
  readonly address: number;
  readonly length: number;
  readonly regions: Readonly<Record<string, { readonly at: number; readonly bytes: number }>>;
  /** Pieces that are not all zeros: offset, bytes. */
  readonly pieces: readonly (readonly [number, Uint8Array])[];
}

export interface VariantAnswer {
  readonly label: string;
  readonly digest: string;
  readonly virtualPs: number;
  readonly reports: readonly ProgramReport[];
  readonly memory: Readonly<Record<string, MemoryAnswer>>;
  /** Absent: none were kept. */
  readonly packets?: readonly Packet[];
}

export interface RunAnswer {
  readonly kind: "run";
  readonly report: RackReport;
  readonly text: string;
  readonly variants: readonly VariantAnswer[];
}

export interface ExploreAnswer {
  readonly kind: "explore";
  readonly text: string;
  readonly explored: readonly Explored[];
}

export type Answer = RunAnswer | ExploreAnswer | {
  readonly kind: "failed";
  readonly message: string;
  readonly code: number;
};
