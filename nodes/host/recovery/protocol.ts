/**
 * What a protocol of one's own may say besides its program: how a host finds its way back after a power
 * failure, and what must hold then. Types only: a protocol's file imports them and nothing else.
 *
 *     export default function* protocol(context: ProgramContext): Steps<void> { … }
 *     export function* recover(context: RecoveryContext): Steps<unknown> { … }
 *     export function check(view: CrashView): string | undefined { … }
 *
 * `recover` runs on a host of the protocol that has power again, before any program: at each later boot
 * of a run, and on every image that `rack explore` finds. It may repair what it finds, and may itself be
 * interrupted by the next power failure. It keeps nothing outside itself. `check` is given what the
 * recoveries answered and says what is wrong, in words; nothing, where all is well.
 */
import type { TimedNote } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Cpu, Steps } from "../cpu/program.ts";

/** What a recovery may do with a core: SCM is there, the device and the other hosts are not. */
export type RecoveryCpu = Pick<
  Cpu,
  "host" | "now" | "scm" | "load" | "store" | "flush" | "ntStore" | "charge" | "settle" | "sleep"
>;

export interface RecoveryContext {
  readonly cpu: RecoveryCpu;
  /** Name of the host. */
  readonly host: string;
  /** Options of the host's first program of this file. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** A recovery: what it returns is what {@link CrashedHost.recovered} says. Plain data. */
export type Recover = (context: RecoveryContext) => Steps<unknown>;

/** A host of the rack as a check sees it. */
export interface CrashedHost {
  /** Whether it kept its power. */
  readonly survived: boolean;
  /** What `recover` answered on it; undefined without one, and where it kept its power. */
  readonly recovered: unknown;
  /**
   * Bytes of its SCM: after the recovery; of a host that kept its power, as its cores see them; at the end
   * of a run, as a power failure then would leave them.
   */
  scm(offset: number, length: number): Uint8Array;
}

/** What a program had reported. */
export interface Reported {
  readonly time: Time;
  readonly node: string;
  readonly topic: string;
  readonly value: unknown;
}

/** The rack after a power failure, when the hosts that were cut have recovered. */
export interface CrashView {
  /** Hosts that lost power, and when, in ps; none, and the end, for a run that nothing happened to. */
  readonly cut: readonly string[];
  readonly at: Time;
  readonly hosts: Readonly<Record<string, CrashedHost>>;
  /** All that was reported, also after the cut, by those that go on. */
  readonly reports: readonly Reported[];
  /** What programs wrote and were told (`cpu.note`). */
  readonly notes: readonly TimedNote[];
}

/** What is wrong, in words: nothing, one thing or several. */
export type Check = (view: CrashView) => string | readonly string[] | undefined;
