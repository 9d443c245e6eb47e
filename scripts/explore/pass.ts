/**
 * One way through a run: the power of the same hosts is cut at every instant of it, with everything that
 * caches may have written back by then, until a promise is found broken.
 */
import { assert } from "../../fabric/assert.ts";
import type { TimedNote } from "../../fabric/note.ts";
import type { Time } from "../../fabric/time/time.ts";
import { type Aftermath, Continuations, type Victim } from "./continuation.ts";
import { type Cutting, cuttingOf, hold } from "./cutting.ts";
import type { DurableEntry } from "./history.ts";
import { instantsOf } from "./instants.ts";
import { hull, Judge, type Range, type Settled, witnessOf } from "./judge.ts";
import { isLeftBehind, livingMemories, unsoundness } from "./living.ts";
import { ProtocolJudge } from "./protocol_judge.ts";
import type { RackRun } from "./rerun.ts";
import type { ExploredRack, ExploreOptions } from "./types.ts";

/** What has been looked at. */
export interface Counts {
  instants: number;
  crashPoints: number;
  continuations: number;
  bounded: number;
}

/** A power failure that seems to break a promise. */
export interface Suspicion {
  readonly hosts: readonly string[];
  readonly at: Time;
  /** By host: what was found of what was open. */
  readonly settled: ReadonlyMap<string, Settled>;
  readonly checker: string;
  readonly found: string;
  /** Bytes of a host's SCM that it is about. */
  readonly scm?: { readonly host: string } & Range;
  readonly again?: number;
}

export interface PassOptions {
  readonly rack: ExploredRack;
  readonly recording: RackRun;
  readonly victims: readonly Victim[];
  /** Whether nobody is left to say anything. */
  readonly isTotal: boolean;
  readonly options: ExploreOptions;
  readonly counts: Counts;
}

/** Name of the checker that a protocol's own file is. */
export const OWN_CHECK = "check";

export class Pass {
  readonly #of: PassOptions;
  readonly #protocol: ProtocolJudge;
  readonly #continuations: Continuations | undefined;
  readonly #cuttings: readonly Cutting[];
  readonly #instants: readonly Time[];
  /** What the victims themselves noted, or everybody where nobody lives on. */
  readonly #own: readonly TimedNote[];
  /** How many of them were made by now. */
  #heard = 0;
  #aftermath: Aftermath | undefined;

  constructor(of: PassOptions) {
    this.#of = of;
    const { rack, recording, victims, isTotal, options } = of;
    this.#protocol = new ProtocolJudge(rack, options);
    const [only] = victims;
    assert(only !== undefined, "Nobody's power is to be cut");
    const histories = this.#protocol.hasQuestions;
    this.#continuations = isTotal
      ? undefined
      : new Continuations(rack, { recording, victim: only }, { histories });
    this.#cuttings = victims.map((victim) => cuttingOf(recording, victim));
    const { from, until } = options;
    this.#instants = instantsOf(recording, {
      victims,
      ...(this.#continuations && { continuations: this.#continuations }),
      ...(from !== undefined && { from }),
      ...(until !== undefined && { until }),
    });
    const names = new Set(victims.map(({ host }) => host));
    this.#own = recording.notes.filter(({ node }) => isTotal || names.has(node));
  }

  /** Goes through all instants, and says before each how far it is, in [0, 1]. */
  *run(): Generator<number, Suspicion | undefined> {
    const { counts } = this.#of;
    for (const [i, at] of this.#instants.entries()) {
      yield i / this.#instants.length;
      const found = this.#interruptUntil(at, i > 0) ?? this.#cut(at);
      counts.instants++;
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Moves to `until`, cutting off each write on the way while it becomes durable. */
  #interruptUntil(until: Time, isAsked: boolean): Suspicion | undefined {
    const { tear } = this.#of.options;
    for (const cutting of this.#cuttings) {
      const { cursor } = cutting;
      for (let entry = cursor.next; entry !== undefined && entry.at < until; entry = cursor.next) {
        const isOpen = isAsked && entry.kind === "durable" && this.#matters(cutting, entry) &&
          cutting.cells.tear(entry, tear);
        if (isOpen) {
          const found = this.#ask(entry.at, { torn: cutting });
          cutting.cells.mend();
          if (found !== undefined) return found;
        }
        cursor.step();
      }
    }
    return undefined;
  }

  /**
   * Whether it makes a difference how much of a write is there: what each eight bytes of it are before and
   * after is asked at the instants around it.
   */
  #matters({ judge }: Cutting, { offset, bytes }: DurableEntry): boolean {
    return this.#protocol.hasQuestions ||
      judge?.hasLinks({ from: offset, to: offset + bytes.length }) === true;
  }

  #cut(at: Time): Suspicion | undefined {
    for (const cutting of this.#cuttings) hold(cutting, this.#of.recording, at);
    const isNew = this.#listen(at);
    const aftermath = this.#aftermath;
    if (isNew && aftermath !== undefined) {
      const wrong = this.#examine(aftermath);
      if (wrong !== undefined) return wrong;
    }
    return this.#ask(at, {});
  }

  /** Hears what is said of a power failure at `at`. @returns whether it is the first of its kind. */
  #listen(at: Time): boolean {
    const { counts, recording, options } = this.#of;
    const before = this.#aftermath, runs = this.#continuations?.runs ?? 0;
    this.#aftermath = this.#continuations?.at(at);
    counts.continuations += (this.#continuations?.runs ?? 0) - runs;
    const from = this.#heard;
    this.#heard = countBefore(this.#own, at, from);
    const isNew = this.#aftermath !== before;
    const isNews = isNew || this.#own.slice(from, this.#heard).some(isAboutWrites) ||
      this.#cuttings.some(({ judge }) => judge === undefined);
    if (!isNews) return false;
    const notes = this.#notesAt(at).filter(isAboutWrites);
    const { plan, lives } = this.#aftermath?.run ?? recording;
    const run = { plan, lives, claims: options.claims === true };
    for (const cutting of this.#cuttings) {
      cutting.judge = new Judge(run, { host: cutting.victim.host, notes, most: options.choices });
    }
    return isNew;
  }

  /** All notes of a rack that a power failure at `at` happens to, by time. */
  #notesAt(at: Time): TimedNote[] {
    const own = this.#own.slice(0, countBefore(this.#own, at, 0));
    return [...own, ...this.#aftermath?.notes ?? []].sort((x, y) => x.time - y.time);
  }

  /** The run that shows what the others say is itself to be sound, and to have left what is derived. */
  #examine(aftermath: Aftermath): Suspicion | undefined {
    const hosts = this.#cuttings.map(({ victim }) => victim.host);
    for (const { victim, cursor } of this.#cuttings) isLeftBehind(aftermath, victim, cursor);
    const claims = this.#of.options.claims === true;
    const [wrong] = unsoundness(aftermath.run, claims, { notOf: hosts });
    if (wrong === undefined) return undefined;
    return { hosts, at: aftermath.cutAt, settled: new Map(), ...wrong };
  }

  /** Asks whether all is well with a power failure at `at`. */
  #ask(at: Time, how: { readonly torn?: Cutting }): Suspicion | undefined {
    const { counts } = this.#of;
    const asked = how.torn === undefined ? this.#cuttings : [how.torn];
    if (how.torn === undefined) counts.crashPoints++;
    for (const cutting of asked) {
      const found = this.#askPromises(at, cutting, how.torn !== undefined);
      if (found !== undefined) return found;
    }
    return this.#protocol.hasQuestions ? this.#askProtocol(at) : undefined;
  }

  #askPromises(at: Time, cutting: Cutting, isTorn: boolean): Suspicion | undefined {
    const { judge, state, victim } = cutting;
    const whole = judge?.whole;
    if (judge === undefined || whole === undefined) return undefined;
    const cells = state.cells.in(whole.from, whole.to);
    this.#of.counts.crashPoints += cells.reduce(
      (sum, cell) => sum + cell.alternatives.length - 1,
      0,
    );
    const range = isTorn || cutting.judged !== judge ? whole : concernedOf(judge, cutting.changed);
    cutting.judged = judge;
    if (!isTorn) cutting.changed = [];
    const isFound = range !== undefined && judge.judge(state, range).length > 0;
    if (judge.takeBounded()) this.#of.counts.bounded++;
    if (!isFound) return undefined;
    const witness = witnessOf(judge, state, range);
    if (witness === undefined) return undefined;
    const { settled, finding } = witness;
    return {
      hosts: this.#cuttings.map((each) => each.victim.host),
      at,
      settled: new Map([[victim.host, settled]]),
      checker: judge.checker,
      found: finding.text,
      ...(finding.scm && { scm: finding.scm }),
    };
  }

  #askProtocol(at: Time): Suspicion | undefined {
    const { options, recording, counts, rack } = this.#of;
    const aftermath = this.#aftermath;
    const isOwn = ({ node }: { readonly node: string }) =>
      aftermath === undefined ||
      this.#cuttings.some(({ victim }) => victim.host === node || victim.config.rnic === node);
    const said = recording.reports.filter((report) => report.time < at && isOwn(report));
    const verdict = this.#protocol.judge({
      at,
      cut: this.#cuttings.map(({ state }) => state),
      living: aftermath === undefined ? new Map() : livingMemories(aftermath),
      reports: [...said, ...aftermath?.reports ?? []].sort((x, y) => x.time - y.time),
      notes: this.#notesAt(at),
    }, { most: options.choices, seed: rack.plan.seed });
    counts.crashPoints += verdict.paths;
    if (verdict.isBounded) counts.bounded++;
    if (verdict.breach === undefined) return undefined;
    const { found, trail, again } = verdict.breach;
    const settled = this.#cuttings.map(({ victim, cells }) => {
      const own = trail.filter(({ cell }) => cells.has(cell));
      return [
        victim.host,
        new Map(own.map(({ cell, alternative }) => [cell, alternative])),
      ] as const;
    });
    return {
      hosts: this.#cuttings.map(({ victim }) => victim.host),
      at,
      settled: new Map(settled),
      checker: OWN_CHECK,
      found,
      ...(again !== undefined && { again }),
    };
  }
}

function isAboutWrites({ note }: TimedNote): boolean {
  return note.kind === "writes" || note.kind === "visible" || note.kind === "persistent";
}

/** How many come before `at`, where it is known that `from` do. */
function countBefore(all: readonly { readonly time: Time }[], at: Time, from: number): number {
  let count = from;
  while (count < all.length && all[count]!.time < at) count++;
  return count;
}

/** The changed bytes that promises may be about. */
function concernedOf(judge: Judge, changed: readonly Range[]): Range | undefined {
  return hull(changed.flatMap((range) => judge.concerned(range) ?? []));
}
