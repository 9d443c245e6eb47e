/**
 * Asks the checker of replicated logs about a power failure of some of the replicas: what was told durable
 * is read from any majority, the hosts that were cut with what that leaves.
 */
import type { TimedNote } from "../../fabric/audit.ts";
import { replicatedLog } from "../checks/replicated_log.ts";
import type { ImageView, RunRecord } from "../checks/run_record.ts";
import { type Cell, type Picker, readCrashed } from "./choices.ts";
import type { Range } from "./history.ts";
import type { CrashState, Settled } from "./judge.ts";
import type { Finding } from "../checks/finding.ts";

/** What is wrong with logs, if anything is, and with which choices. */
export interface LogVerdict {
  readonly finding: Finding | undefined;
  readonly settled: Settled;
  /** Ways that were looked at besides the first, and whether there would have been others. */
  readonly paths: number;
  readonly isBounded: boolean;
}

export class LogJudge {
  /** By host: bytes that were read when it was last looked at. */
  readonly #read = new Map<string, Range[]>();

  get checker(): string {
    return replicatedLog.name;
  }

  /** Whether anything was told of a log. */
  static concerns(notes: readonly TimedNote[]): boolean {
    return notes.some(({ note }) => note.kind === "log");
  }

  /** Whether some of these bytes of a host were looked at. */
  hasRead(host: string, ranges: readonly Range[]): boolean {
    const read = this.#read.get(host) ?? [];
    return ranges.some((range) => read.some(({ from, to }) => range.from < to && range.to > from));
  }

  /** Looks at hosts that were cut as though nothing had been written back early, and as though all had. */
  judge(record: RunRecord, cut: readonly CrashState[]): LogVerdict {
    this.#read.clear();
    const least = this.#look(record, cut, () => 0);
    const open = [...least.settled.keys()];
    if (least.finding !== undefined || open.length === 0) {
      return { ...least, paths: 0, isBounded: false };
    }
    const most = this.#look(record, cut, ({ alternatives }) => alternatives.length - 1);
    const isBounded = open.length > 1 || open[0]!.alternatives.length > 2;
    return { ...most, paths: 1, isBounded };
  }

  #look(record: RunRecord, cut: readonly CrashState[], choose: Picker) {
    const settled = new Map<Cell, number>();
    const pick = (cell: Cell) => {
      const alternative = choose(cell);
      settled.set(cell, alternative);
      return alternative;
    };
    const viewOf = (state: CrashState): ImageView => ({
      read: (from, to) => {
        const ranges = this.#read.get(state.host);
        if (ranges === undefined) this.#read.set(state.host, [{ from, to }]);
        else if (!ranges.some((each) => each.from <= from && each.to >= to)) {
          ranges.push({ from, to });
        }
        const bytes = new Uint8Array(to - from);
        readCrashed({ ...state, pick }, from, bytes);
        return bytes;
      },
    });
    const [finding] = replicatedLog.check({
      ...record,
      scm(host) {
        const state = cut.find((each) => each.host === host);
        return state === undefined ? record.scm(host) : viewOf(state);
      },
    });
    return { finding, settled };
  }
}
