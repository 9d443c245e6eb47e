/**
 * Runs the checker of replicated logs on a power failure of some of the replicas: it reads durable records
 * from any majority, and of the hosts that were cut what the failure leaves.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import { replicatedLog } from "../checks/replicated_log.ts";
import type { ImageView, RunRecord } from "../checks/run_record.ts";
import { type Cell, pickDurable, type Picker, pickLast, remembering, viewOf } from "./choices.ts";
import { overlaps, type Range } from "./history.ts";
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

  /** Whether any note is of a log. */
  static concerns(notes: readonly TimedRecord[]): boolean {
    return notes.some(({ note }) => note.kind === "log");
  }

  /** Whether some of these bytes of a host were looked at. */
  hasRead(host: string, ranges: readonly Range[]): boolean {
    const read = this.#read.get(host) ?? [];
    return ranges.some((range) => read.some((each) => overlaps(range, each)));
  }

  /** Looks at hosts that were cut as though nothing had been written back early, and as though all had. */
  judge(record: RunRecord, cut: readonly CrashState[]): LogVerdict {
    this.#read.clear();
    const least = this.#look(record, cut, pickDurable);
    const open = [...least.settled.keys()];
    if (least.finding !== undefined || open.length === 0) {
      return { ...least, paths: 0, isBounded: false };
    }
    const most = this.#look(record, cut, pickLast);
    const isBounded = open.length > 1 || open[0]!.alternatives.length > 2;
    return { ...most, paths: 1, isBounded };
  }

  #look(record: RunRecord, cut: readonly CrashState[], choose: Picker) {
    const settled = new Map<Cell, number>();
    const pick = remembering(choose, settled);
    const [finding] = replicatedLog.check({
      ...record,
      scm: (host) => {
        const state = cut.find((each) => each.host === host);
        return state === undefined ? record.scm(host) : this.#watched(host, viewOf(state, pick));
      },
    });
    return { finding, settled };
  }

  #watched(host: string, image: ImageView): ImageView {
    return {
      read: (from, to) => {
        const ranges = this.#read.get(host);
        if (ranges === undefined) this.#read.set(host, [{ from, to }]);
        else if (!ranges.some((each) => each.from <= from && each.to >= to)) {
          ranges.push({ from, to });
        }
        return image.read(from, to);
      },
    };
  }
}
