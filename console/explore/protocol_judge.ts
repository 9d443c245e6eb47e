/**
 * Runs a user's protocol after a power failure: its `recover` on a recovery machine for each failed host, then its
 * `check`. Their reads of open memory choose its content: see `paths.ts`.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import type { Time } from "../../fabric/base/time.ts";
import { hasHooks } from "../../nodes/host/own_programs.ts";
import type { Reported } from "../../nodes/host/recovery/protocol.ts";
import { type EndedHost, judgeProtocols } from "../reports/protocol_checks.ts";
import { Cells, type Picker, viewOf } from "./choices.ts";
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";
import { CrashCursor, HistoryLog, Overlay, type Readable } from "./history.ts";
import { interruptions } from "./interrupted.ts";
import type { CrashState } from "./judge.ts";
import { stepsThroughPaths, type Trail } from "./covering/paths.ts";
import type { Coverage } from "./covering/ways.ts";
import { ROBUSTNESS, type Robustness, type UnorderedPair } from "./robust/robustness.ts";
import type { Again, ExploredRack, ExploreOptions } from "./types.ts";

export interface CrashedRack {
  readonly at: Time;
  readonly cut: readonly CrashState[];
  /** They go on, or the scenario has cut them. */
  readonly others: ReadonlyMap<string, EndedHost>;
  /** Both in order: see `inOrder` of `run_record.ts`. */
  readonly reports: readonly Reported[];
  readonly notes: readonly TimedRecord[];
}

export interface ProtocolVerdict {
  readonly paths: number;
  /** Empty: all ways were tried. */
  readonly covered: readonly Coverage[];
  readonly breach: Breach | undefined;
}

/**
 * Limit of the cost of second power failures without `--cuts 2`: each way to find memory behind one
 * costs the writes of the recovery that it interrupts, the lines that recoveries and checks then
 * read, and a constant. Work, not time, so that verdicts are the same on each machine: a second or
 * two for short recoveries, half a minute for one of 100 stores.
 */
export const AGAIN_COST = { most: 500_000, begin: 16 } as const;

export class AgainCount implements Again {
  recoveries = 0;
  cut = 0;
  ways = 0;
  cost = 0;
  readonly before: number;

  constructor(before = 0) {
    this.before = before;
  }
}

/** Oracles that are the protocol's own: its file, and the operations that it notes. */
export const OWN_CHECK = "check", OPERATIONS = "operations";

export interface Wrong {
  readonly checker: typeof OWN_CHECK | typeof OPERATIONS | typeof ROBUSTNESS;
  readonly found: string;
  readonly pair?: UnorderedPair;
}

export interface Breach extends Wrong {
  readonly trail: Trail;
  /** The recovery's number of operations before a second power failure. */
  readonly again?: number;
}

interface Choosing {
  readonly most: number;
}

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
  again = new AgainCount();
  #linesRead = 0;
  unknown: string | undefined;
  readonly hasQuestions: boolean;

  constructor(
    rack: ExploredRack,
    options: Pick<ExploreOptions, "cuts" | "tear">,
    robustness: Robustness | undefined,
  ) {
    this.#rack = rack;
    this.#own = robustness?.watch(rack.own) ?? rack.own;
    this.#robustness = robustness;
    this.#options = options;
    this.hasQuestions = Object.values(rack.own).some(hasHooks);
  }

  *judge(crash: CrashedRack, choosing: Choosing): Generator<undefined, ProtocolVerdict> {
    let breach: Omit<Breach, "trail"> | undefined;
    let inner: Trail = new Map();
    let more = 0;
    const covered: Coverage[] = [];
    const judgePath = function* (
      this: ProtocolJudge,
      pick: Picker,
      decided: Trail,
    ): Generator<undefined, boolean> {
      const recovering: Recovering[] = [];
      const wrong = this.#wrong(crash, pick, recovering) ?? this.#notRobust(crash.at);
      if (wrong !== undefined) {
        breach = wrong;
        return true;
      }
      for (const each of recovering) {
        if (each.log.entries.length === 0) continue;
        this.again.recoveries++;
        if (this.#options.cuts === 1) continue;
        const again = yield* this.#cutAgain(crash, each, { decided, choosing });
        more += again.paths;
        for (const each of again.covered) covered.push(each);
        if (again.breach === undefined) continue;
        breach = again.breach;
        inner = again.breach.trail;
        return true;
      }
      return false;
    };
    const done = yield* stepsThroughPaths(choosing, judgePath.bind(this));
    return {
      paths: done.paths + more,
      covered: done.coverage === undefined ? covered : [done.coverage, ...covered],
      breach: breach && { ...breach, trail: new Map([...done.ended ?? [], ...inner]) },
    };
  }

  #wrong(crash: CrashedRack, pick: Picker, recovering?: Recovering[]): Wrong | undefined {
    this.#robustness?.begin();
    const hosts = new Map(crash.others);
    for (const state of crash.cut) {
      const { host } = state;
      const count = (bytes: number) => this.#linesRead += Math.ceil(bytes / LINE_BYTES);
      const found = {
        pick,
        read(from: number, to: number) {
          count(to - from);
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
    for (const { unknown } of verdicts) this.unknown ??= unknown[0];
    const wrong = verdicts.find(({ findings }) => findings.length > 0);
    return wrong && { checker: wrong.by, found: wrong.findings.join("; ") };
  }

  #notRobust(at: Time): Wrong | undefined {
    const found = this.#robustness?.finding(at);
    return found && { checker: ROBUSTNESS, ...found };
  }

  *#cutAgain(
    crash: CrashedRack,
    { host, found, log }: Recovering,
    { decided, choosing }: {
      readonly decided: Trail;
      readonly choosing: Choosing;
    },
  ): Generator<undefined, ProtocolVerdict> {
    const others = crash.cut.filter((state) => state.host !== host);
    const cursor = new CrashCursor(log.entries, new Overlay(found));
    const cells = new Cells(cursor);
    const again: CrashState = { host, image: cursor.image, cells };
    const covered: Coverage[] = [];
    let paths = 0;
    const judgeAt = function* (
      this: ProtocolJudge,
      at: Time,
    ): Generator<undefined, Breach | undefined> {
      let wrong: Wrong | undefined;
      const isWrong = (pick: Picker): boolean => {
        const both: Picker = (cell) => decided.get(cell) ?? pick(cell);
        found.pick = both;
        wrong = this.#wrong({ ...crash, cut: [...others, again] }, both);
        return wrong !== undefined;
      };
      const before = this.#linesRead;
      const done = yield* stepsThroughPaths(choosing, function* (pick) {
        return isWrong(pick);
      });
      paths += done.paths;
      this.again.ways += done.paths;
      this.again.cost += done.paths * (AGAIN_COST.begin + log.entries.length) +
        this.#linesRead - before;
      if (done.coverage !== undefined) covered.push(done.coverage);
      return wrong && { ...wrong, trail: done.ended!, again: at };
    };
    for (const at of instantsWithin(log, { cursor, cells, tear: this.#options.tear })) {
      if (this.#isTooMuch()) return { paths, covered, breach: undefined };
      const breach = yield* judgeAt.call(this, at);
      if (breach !== undefined) return { paths, covered, breach };
    }
    this.again.cut++;
    return { paths, covered, breach: undefined };
  }

  #isTooMuch(): boolean {
    const { before, cost } = this.again;
    return this.#options.cuts === undefined && before + cost >= AGAIN_COST.most;
  }
}

/** Moves the cursor to each instant of a recovery at which a second power failure leaves something else. */
export function* instantsWithin(
  log: HistoryLog,
  { cursor, cells, tear }: {
    readonly cursor: CrashCursor;
    readonly cells: Cells;
    readonly tear: number;
  },
): Generator<Time> {
  for (const until of new Set(log.entries.map((entry) => entry.at + 1))) {
    for (const { at } of interruptions(cursor, cells, { until, tear })) yield at;
    yield until;
  }
}
