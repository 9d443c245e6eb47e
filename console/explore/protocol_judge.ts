/**
 * Runs a user's protocol after a power failure: its `recover` on a recovery machine for each failed host,
 * then its `check`. Their reads of open memory choose what is found: see `paths.ts`.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { VIRTUAL_SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import { hasHooks } from "../../nodes/host/own_programs.ts";
import { RecoveryBoot, type RecoveryImage } from "../../nodes/host/recovery/recovery_machine.ts";
import type { Check, CrashedHost, Reported } from "../../nodes/host/recovery/protocol.ts";
import { checksIn, optionsOf, recoveredIn, textsOf } from "../reports/protocol_checks.ts";
import { Cells, type Picker, viewOf } from "./choices.ts";
import { CrashCursor, HistoryLog, Overlay, type Readable } from "./history.ts";
import { interruptions } from "./interrupted.ts";
import type { CrashState } from "./judge.ts";
import { forEachPath, type Trail } from "./paths.ts";
import { victimOf } from "./post_crash_run.ts";
import type { ExploredRack, ExploreOptions } from "./types.ts";

/** A rack right after a power failure. */
export interface CrashedRack {
  readonly at: Time;
  /** Hosts that lost power. */
  readonly cut: readonly CrashState[];
  /** All other hosts. */
  readonly others: ReadonlyMap<string, OtherHost>;
  readonly reports: readonly Reported[];
  readonly notes: readonly TimedRecord[];
}

/** A host that is not cut: it goes on, or the scenario has cut it. */
export interface OtherHost {
  /** SCM as its cores see it in the end; where it has no power then, as the failure has left it. */
  readonly memory: Readable;
  /** When the scenario took its power, the last time; undefined where it kept it. */
  readonly diedAt: Time | undefined;
}

export interface ProtocolVerdict {
  readonly paths: number;
  readonly isBounded: boolean;
  readonly breach: Breach | undefined;
}

export interface Breach {
  readonly found: string;
  readonly trail: Trail;
  /** Number of operations of the recovery before a second power failure. */
  readonly again?: number;
}

interface Choosing {
  readonly most: number;
  readonly seed: number;
}

/** A recovery that has run, for another power failure during it. */
interface Recovering {
  readonly host: string;
  readonly found: { pick: Picker } & Readable;
  readonly log: HistoryLog;
}

export class ProtocolJudge {
  readonly #rack: ExploredRack;
  readonly #options: Pick<ExploreOptions, "cuts" | "tear">;
  /** Whether there is a protocol that recovers or checks. */
  readonly hasQuestions: boolean;

  constructor(rack: ExploredRack, options: Pick<ExploreOptions, "cuts" | "tear">) {
    this.#rack = rack;
    this.#options = options;
    this.hasQuestions = Object.values(rack.own).some(hasHooks);
  }

  /** Tries all ways to find memory, up to a breach. */
  judge(crash: CrashedRack, choosing: Choosing): ProtocolVerdict {
    let breach: Omit<Breach, "trail"> | undefined;
    let inner: Trail = new Map();
    let more = 0, isBounded = false;
    const done = forEachPath(choosing, (pick, decided) => {
      const recovering: Recovering[] | undefined = this.#options.cuts === 2 ? [] : undefined;
      const found = this.#wrong(crash, pick, recovering);
      if (found !== undefined) {
        breach = { found };
        return true;
      }
      for (const each of recovering ?? []) {
        const again = this.#cutAgain(crash, each, { decided, choosing });
        more += again.paths;
        isBounded ||= again.isBounded;
        if (again.breach === undefined) continue;
        breach = again.breach;
        inner = again.breach.trail;
        return true;
      }
      return false;
    });
    return {
      paths: done.paths + more,
      isBounded: isBounded || done.isBounded,
      breach: breach && { ...breach, trail: new Map([...done.ended ?? [], ...inner]) },
    };
  }

  /**
   * What is wrong where reads find the choices of `pick`.
   * @param recovering takes the recoveries that were run, where they are to be cut again.
   */
  #wrong(crash: CrashedRack, pick: Picker, recovering?: Recovering[]): string | undefined {
    const hosts = new Map<string, EndedHost>();
    for (const [host, { memory, diedAt }] of crash.others) {
      const survived = diedAt === undefined;
      hosts.set(host, {
        survived,
        // At its own boot, in the run.
        recovered: (program) =>
          survived ? undefined : recoveredIn(crash.reports, { host, program }),
        scm: (offset, length) => memory.read(offset, offset + length),
      });
    }
    for (const state of crash.cut) {
      const { host } = state;
      const found = {
        pick,
        read(from: number, to: number) {
          return viewOf(state, this.pick).read(from, to);
        },
      };
      const log = new HistoryLog();
      const ended = this.#recover(host, found, recovering && log);
      if (typeof ended === "string") return ended;
      hosts.set(host, ended);
      recovering?.push({ host, found, log });
    }
    return this.#check(crash, hosts);
  }

  #check(
    { at, others, reports, notes }: CrashedRack,
    hosts: ReadonlyMap<string, EndedHost>,
  ): string | undefined {
    const names = this.#rack.plan.nodes.map(({ name }) => name);
    const cut = names.filter((name) => hosts.get(name)?.survived === false);
    const failures = [...others.values()].flatMap(({ diedAt }) => diedAt ?? []);
    const rack = { cut, at: Math.max(at, ...failures), reports, notes };
    for (const [program, check] of checksIn(this.#rack.own)) {
      let answer: ReturnType<Check>;
      try {
        answer = check({ ...rack, hosts: seenBy(program, { plan: this.#rack.plan, hosts }) });
      } catch (error) {
        return `check failed: ${messageOf(error)}`;
      }
      const texts = textsOf(answer);
      if (texts.length > 0) return texts.join("; ");
    }
    return undefined;
  }

  /** @returns the host after its recovery, or why that failed. */
  #recover(
    host: string,
    memory: Readable,
    log: HistoryLog | undefined,
  ): EndedHost | string {
    const { domain, scmBytes, programs } = victimOf(this.#rack.plan, host).config;
    const written = new Overlay(memory);
    const image: RecoveryImage = {
      read: (offset, length) => written.read(offset, offset + length),
      write: (offset, bytes) => written.write(offset, bytes),
    };
    const scm = { address: VIRTUAL_SCM_BASE, length: scmBytes, pageBytes: scmBytes, pages: [0] };
    const boot = new RecoveryBoot({ host, domain, scm, image, ...(log && { log }) });
    const answers = new Map<string, unknown>();
    for (const { run, options } of programs) {
      // Each once and of a new instance, as at the host's boot.
      if (answers.has(run)) continue;
      const recover = this.#rack.own[run]?.().recover;
      if (recover === undefined) continue;
      try {
        answers.set(run, boot.recover(recover, options));
      } catch (error) {
        return `recover failed on ${host}: ${messageOf(error)}`;
      }
    }
    return { survived: false, recovered: (program) => answers.get(program), scm: boot.read };
  }

  /** Another power failure at each instant of a recovery, and another recovery. */
  #cutAgain(
    crash: CrashedRack,
    { host, found, log }: Recovering,
    { decided, choosing }: {
      readonly decided: Trail;
      readonly choosing: Choosing;
    },
  ): ProtocolVerdict {
    const others = crash.cut.filter((state) => state.host !== host);
    const cursor = new CrashCursor(log.entries, new Overlay(found));
    const cells = new Cells(cursor);
    const again: CrashState = { host, image: cursor.image, cells };
    let paths = 0, isBounded = false;
    const judgeAt = (at: Time): ProtocolVerdict | undefined => {
      let wrong: string | undefined;
      const done = forEachPath(choosing, (pick) => {
        // Cells that the first recovery has read are decided.
        const both: Picker = (cell) => decided.get(cell) ?? pick(cell);
        found.pick = both;
        wrong = this.#wrong({ ...crash, cut: [...others, again] }, both);
        return wrong !== undefined;
      });
      paths += done.paths;
      isBounded ||= done.isBounded;
      if (wrong === undefined) return undefined;
      return { paths, isBounded, breach: { found: wrong, trail: done.ended!, again: at } };
    };
    for (const until of new Set(log.entries.map((entry) => entry.at + 1))) {
      for (const { at } of interruptions(cursor, cells, { until, tear: this.#options.tear })) {
        const breach = judgeAt(at);
        if (breach !== undefined) return breach;
      }
      const breach = judgeAt(until);
      if (breach !== undefined) return breach;
    }
    return { paths, isBounded, breach: undefined };
  }
}

interface EndedHost extends Pick<CrashedHost, "survived" | "scm"> {
  /** What a program's recovery has answered. */
  readonly recovered: (program: string) => unknown;
}

/** The hosts as the check of a program sees them. */
function seenBy(
  program: string,
  { plan, hosts }: {
    readonly plan: RackPlan;
    readonly hosts: ReadonlyMap<string, EndedHost>;
  },
): Record<string, CrashedHost> {
  const seen: Record<string, CrashedHost> = {};
  for (const [host, ended] of hosts) {
    const { survived, scm } = ended;
    const options = optionsOf(plan, { host, program });
    seen[host] = { survived, options, scm, recovered: ended.recovered(program) };
  }
  return seen;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
