/**
 * Runs a user's protocol after a power failure: its `recover` on a recovery machine for each failed host,
 * then its `check`. Their reads of open memory choose what is found: see `paths.ts`.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import type { Time } from "../../fabric/base/time.ts";
import { hasHooks } from "../../nodes/host/own_programs.ts";
import type { Reported } from "../../nodes/host/recovery/protocol.ts";
import { type EndedHost, judgeProtocols } from "../reports/protocol_checks.ts";
import { Cells, type Picker, viewOf } from "./choices.ts";
import { CrashCursor, HistoryLog, Overlay, type Readable } from "./history.ts";
import { interruptions } from "./interrupted.ts";
import type { CrashState } from "./judge.ts";
import { forEachPath, type Trail } from "./paths.ts";
import { ROBUSTNESS, type Robustness, type UnorderedPair } from "./robust/robustness.ts";
import type { ExploredRack, ExploreOptions } from "./types.ts";

/** A rack right after a power failure. */
export interface CrashedRack {
  readonly at: Time;
  /** Hosts that lost power. */
  readonly cut: readonly CrashState[];
  /** All other hosts: they go on, or the scenario has cut them. */
  readonly others: ReadonlyMap<string, EndedHost>;
  /** Both in order: see `inOrder` of `run_record.ts`. */
  readonly reports: readonly Reported[];
  readonly notes: readonly TimedRecord[];
}

export interface ProtocolVerdict {
  readonly paths: number;
  readonly isBounded: boolean;
  readonly breach: Breach | undefined;
}

/** Names of the oracles that are the protocol's own file, and the operations that it notes. */
export const OWN_CHECK = "check", OPERATIONS = "operations";

/** What an oracle says of a way to find memory. */
export interface Wrong {
  readonly checker: typeof OWN_CHECK | typeof OPERATIONS | typeof ROBUSTNESS;
  readonly found: string;
  /** Robustness: the two writes. */
  readonly pair?: UnorderedPair;
}

export interface Breach extends Wrong {
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
  readonly #own: ExploredRack["own"];
  readonly #robustness: Robustness | undefined;
  readonly #options: Pick<ExploreOptions, "cuts" | "tear">;
  /** Whether there is a protocol that recovers or checks. */
  readonly hasQuestions: boolean;

  /** @param robustness judges what recoveries read, where it is asked. */
  constructor(
    rack: ExploredRack,
    options: Pick<ExploreOptions, "cuts" | "tear">,
    robustness?: Robustness,
  ) {
    this.#rack = rack;
    this.#own = robustness?.watch(rack.own) ?? rack.own;
    this.#robustness = robustness;
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
      const wrong = this.#wrong(crash, pick, recovering) ?? this.#notRobust(crash.at);
      if (wrong !== undefined) {
        breach = wrong;
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
  #wrong(crash: CrashedRack, pick: Picker, recovering?: Recovering[]): Wrong | undefined {
    this.#robustness?.begin();
    const hosts = new Map(crash.others);
    for (const state of crash.cut) {
      const { host } = state;
      const found = {
        pick,
        read(from: number, to: number) {
          return viewOf(state, this.pick).read(from, to);
        },
      };
      const log = recovering && new HistoryLog();
      hosts.set(host, { since: undefined, memory: found, ...(log && { log }) });
      if (log !== undefined) recovering?.push({ host, found, log });
    }
    const { plan, around } = this.#rack;
    const own = this.#own;
    const { at, reports, notes } = crash;
    const verdicts = judgeProtocols({ plan, own, at, hosts, reports, notes }, around);
    const wrong = verdicts.find(({ findings }) => findings.length > 0);
    return wrong && { checker: wrong.by, found: wrong.findings.join("; ") };
  }

  /** What the recoveries that have just run may not have read. */
  #notRobust(at: Time): Wrong | undefined {
    const found = this.#robustness?.finding(at);
    return found && { checker: ROBUSTNESS, ...found };
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
      let wrong: Wrong | undefined;
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
      return { paths, isBounded, breach: { ...wrong, trail: done.ended!, again: at } };
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
