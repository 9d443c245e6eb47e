/**
 * What a test gives to a rack and gets from it. These types stand for themselves: those of the reports
 * inside use packages that a user's project does not have. `answers.ts` holds them to each other.
 */
import type { RocePacket } from "../../fabric/wire/roce/packet.ts";

/** A failure or return of power, as a scenario's `faults:` has it. `at` is a virtual time: `12us`. */
export type PowerFault =
  | { readonly at: string; readonly kill: string }
  | { readonly at: string; readonly start: string; readonly card?: "off" }
  | { readonly at: string; readonly shutdown: string; readonly within?: string };

/** Any item of a scenario's `faults:`, those of cables and devices too; read by the scenario's schema. */
export type ScenarioFault = PowerFault | Readonly<Record<string, unknown>>;

/** What a test changes of a scenario. */
export interface RackTestOptions {
  /** In place of the scenario's. */
  readonly seed?: number;
  /** Faults besides the scenario's own. */
  readonly faults?: readonly ScenarioFault[];
  /** Words of the scenario, named as for `rack sweep --vary`: `{ "programs[0].records": 3, depth: 4 }`. */
  readonly set?: Readonly<Record<string, unknown>>;
  /** One of the variants that `method: all` and `ddio: both` stand for. */
  readonly method?: string;
  readonly ddio?: "on" | "off";
  /** Bytes of a message, such as 4096 or `4KiB`, and messages outstanding. */
  readonly size?: number | string;
  readonly depth?: number;
  /** The file that `put` writes: a path, or a `file:` URL. */
  readonly input?: string | URL;
  /** Judge what methods claim as though it were promised. */
  readonly claims?: boolean;
  /** False: the types of own programs are not checked first. */
  readonly check?: boolean;
}

export interface RunTestOptions {
  /** Names of the checks that are to fail; default: none. Every other check has to hold. */
  readonly fails?: readonly string[];
  /** Keep packets, for `packets()`, and a capture for Wireshark in the run's directory. */
  readonly capture?: boolean;
  /** Ends the run; it then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

export type Verdict = "safe" | "unsafe" | "partial" | "failed" | "unchecked";

/** As for `rack explore`; times are texts such as `40us`. Wall time has no limit: `limit` is as good everywhere. */
export interface ExploreTestOptions {
  /** That of every variant; default: `safe`. */
  readonly verdict?: Verdict;
  /** Whose power is cut: `each` host in turn, `all` at once, or one host by its name. */
  readonly cut?: string;
  readonly choices?: number;
  readonly tear?: number;
  readonly cuts?: 1 | 2;
  readonly from?: string;
  readonly until?: string;
  /** Crash points after which the verdict is `partial`. */
  readonly limit?: number;
  /** Judge what recoveries read by robustness also where a protocol has a check. */
  readonly robust?: boolean;
  /** Ends the exploration; it then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** One check at the end of a run. */
export interface Check {
  readonly name: string;
  /** What it checks, in words. */
  readonly promise: string;
  /** How much it examined, by variant. */
  readonly looked: readonly string[];
  readonly holds: boolean;
  /** The violation; "" where it holds. */
  readonly detail: string;
}

/** What one `put` of one variant measured; latencies in ps, from post to the last completion. */
export interface MethodFigures {
  readonly method: string;
  readonly ddio: "on" | "off" | "mixed";
  readonly from: string;
  readonly to: string;
  readonly messages: number;
  readonly confirmed: number;
  readonly promises: boolean;
  readonly latencyPs: { readonly median: number; readonly p99: number; readonly max: number };
  readonly throughputBps: number;
  readonly intact: boolean;
  readonly error: string | null;
}

/** The report on a run, over all its variants: a part of what `rack run --json` prints. */
export interface RackReport {
  /** The kept run's name, for `rack trace --run`. */
  readonly run: string;
  readonly scenario: string;
  readonly seed: number;
  readonly digest: string;
  readonly virtualPs: number;
  readonly events: number;
  readonly directory: string;
  /** Files of captures, where packets were kept. */
  readonly captures?: readonly string[];
  readonly methods: readonly MethodFigures[];
  readonly results: ReadonlyArray<
    { readonly node: string; readonly variant: string; readonly value: unknown }
  >;
  readonly warnings?: ReadonlyArray<
    { readonly node: string; readonly variant: string; readonly text: string }
  >;
  readonly checks: readonly Check[];
}

/** What a program or device reported (`cpu.report`), with bytes and bigints as they were. */
export interface ProgramReport<Value = unknown> {
  /** Virtual time in ps. */
  readonly time: number;
  readonly node: string;
  readonly topic: string;
  readonly value: Value;
}

/** A frame that a card has sent; lost ones too. */
export interface Packet {
  /** When its first and its last bit left the card, in ps. */
  readonly startPs: number;
  readonly endPs: number;
  /** The card that sent it. */
  readonly card: string;
  /** Hosts by their addresses; for a frame that is not RoCE, `from` is the card's and `to` is empty. */
  readonly from: string;
  readonly to: string;
  /** The opcode's name: `RC RDMA WRITE ONLY`; "" for a frame that is not RoCE. */
  readonly name: string;
  /** In one line: `a→b RC RDMA WRITE ONLY qp=0x22 psn=7 …`. */
  readonly text: string;
  /** Its headers (`bth.psn`, `reth?.va`, `aeth?.syndrome` …) and payload; null for one that is not RoCE. */
  readonly packet: RocePacket | null;
  /** What a faulty cable did to it: `lost`, …; null: nothing. */
  readonly effect: string | null;
  /** The whole Ethernet frame, without its FCS. */
  readonly frame: Uint8Array;
}

/** Which packets; what is absent is any. */
export interface PacketChoice {
  readonly from?: string;
  readonly to?: string;
  /** The opcode's name, or a pattern of it. */
  readonly name?: string | RegExp;
}

/** A power failure that breaks a promise. */
export interface Counterexample {
  /** Hosts that lost power, and when, in ps. */
  readonly hosts: readonly string[];
  readonly atPs: number;
  /** The checker, or `check` for the protocol's own, and what it found. */
  readonly checker: string;
  readonly found: string;
  /** What programs had noted of it, in words. */
  readonly promised: readonly string[];
  /** The operation, step by step. */
  readonly ladder: string;
}

/** What the explorer says of one variant. */
export interface Explored {
  readonly label: string;
  readonly verdict: Verdict;
  /** Why it is neither safe nor unsafe; "" where it is. */
  readonly why: string;
  readonly hosts: readonly string[];
  readonly instants: number;
  readonly crashPoints: number;
  /** Whether every instant of the run and every choice at it was tried. */
  readonly exhaustive: boolean;
  /** What judged: `promises` of the rack, a protocol's `check`, `robustness` of what its recovery reads. */
  readonly judgedBy: readonly string[];
  readonly writes: number;
  readonly promises: number;
  readonly counterexample: Counterexample | null;
  /** The command that shows the counterexample again; null without one. */
  readonly command: string | null;
}

/** What the process of a run is asked: one line of JSON. */
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

/** What the process answers. */
export type Answer = RunAnswer | ExploreAnswer | {
  readonly kind: "failed";
  readonly message: string;
  readonly code: number;
};
