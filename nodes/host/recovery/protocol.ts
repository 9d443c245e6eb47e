/**
 * Optional exports of a user's protocol besides its program: the recovery of a host from a power
 * failure, and a check of the result. Types only: a protocol's file imports them and nothing else.
 *
 *     export default function* protocol(context: ProgramContext): Steps<void> { … }
 *     export function* recover(context: RecoveryContext): Steps<unknown> { … }
 *     export function check(view: CrashView): string | undefined { … }
 *
 * `recover` runs on a host of the protocol after power-on, before any program: at each later boot
 * of a run; at its end on each host without power; and on every image of `rack explore`. It may
 * repair the data, and the next power failure may interrupt it. It has no state outside SCM.
 * Without a `check`, the reads of `recover` are judged by themselves (`console/explore`,
 * robustness). `check` receives the results of the recoveries and returns the violations in words;
 * nothing where there are none.
 */
import type { TimedRecord } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Cpu, Steps } from "../cpu/program.ts";

/** The core's functions for a recovery: SCM is available, the device and other hosts are not. */
export type RecoveryCpu = Pick<
  Cpu,
  "host" | "now" | "scm" | "load" | "store" | "flush" | "ntStore" | "charge" | "settle" | "sleep"
>;

/** The argument of a {@link Recover}. */
export interface RecoveryContext {
  /** The core: SCM, loads, stores and flushes. */
  readonly cpu: RecoveryCpu;
  /** Name of the host. */
  readonly host: string;
  /** Options of the host's first program of this file. */
  readonly options: Readonly<Record<string, unknown>>;
}

/**
 * A recovery: its return value becomes {@link CrashedHost.recovered}. Plain data.
 *
 * @example A mark that survives, and what says so
 * ```ts
 * import type { Check, ProgramContext, Recover, Steps } from "rackmesh";
 *
 * export default function* mark({ cpu }: ProgramContext): Steps<void> {
 *   yield* cpu.ntStore(cpu.scm.address, Uint8Array.of(1));
 *   cpu.report("marked", {});
 * }
 *
 * export const recover: Recover = function* ({ cpu }) {
 *   yield* cpu.settle();
 *   return cpu.load(cpu.scm.address, 1)[0] === 1;
 * };
 *
 * export const check: Check = ({ cut, hosts, reports }) => {
 *   const lost = cut.find((host) => {
 *     const said = reports.some(({ node, topic }) => node === host && topic === "marked");
 *     return said && hosts[host]!.recovered !== true;
 *   });
 *   return lost === undefined ? undefined : `the mark of ${lost} is gone`;
 * };
 * ```
 */
export type Recover = (context: RecoveryContext) => Steps<unknown>;

/** A host of the rack, for a check. */
export interface CrashedHost {
  /** True if it kept its power. A host that did not, and is not in `cut`, has it back. */
  readonly survived: boolean;
  /** The options of its first program of this file; empty without one. */
  readonly options: Readonly<Record<string, unknown>>;
  /**
   * The result of `recover` at its last boot. For a host in `cut`: as though it got its power now;
   * else in the run. Undefined without a recovery, and where the host kept its power.
   */
  readonly recovered: unknown;
  /**
   * Bytes of its SCM. For a host in `cut`: after the recovery. For one with power: as its cores see
   * them or, at the end of a run, as a power failure would leave them. @throws ProgramError for a
   * range outside of the SCM.
   */
  scm(offset: number, length: number): Uint8Array;
}

/** A report of a program, for a check. */
export interface Reported {
  /** In ps. */
  readonly time: Time;
  /** The host. */
  readonly node: string;
  /** Such as `result`. */
  readonly topic: string;
  /** A copy of what was reported. */
  readonly value: unknown;
}

/** The rack when the failed hosts have recovered from a power failure, or at the end of a run. */
export interface CrashView {
  /** Hosts without power; none where all have it. */
  readonly cut: readonly string[];
  /** Time of the failure in ps; the end of the run where all have power. */
  readonly at: Time;
  /** Each host of the rack, by its name. */
  readonly hosts: Readonly<Record<string, CrashedHost>>;
  /**
   * All reports by time, also those before a host's power failure and those of surviving hosts after
   * it. A boot reports its recovery's result under the topic `recovered`.
   */
  readonly reports: readonly Reported[];
  /** Audit records of programs (`cpu.note`). */
  readonly notes: readonly TimedRecord[];
}

/** The violations in words: none, one or several. */
export type Check = (view: CrashView) => string | readonly string[] | undefined;
