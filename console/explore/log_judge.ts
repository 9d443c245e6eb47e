/**
 * Runs the checker of replicated logs where the power of some replicas fails: any majority has to have the
 * durable records.
 */
import { replicatedLog } from "../checks/replicated_log.ts";
import type { RunRecord } from "../checks/run_record.ts";
import { type Cell, pickDurable, type Picker, pickLast, remembering, viewOf } from "./choices.ts";
import type { CrashState, Settled } from "./judge.ts";
import type { Finding } from "../checks/finding.ts";

export interface LogVerdict {
  readonly finding: Finding | undefined;
  readonly settled: Settled;
  /** Besides the first. */
  readonly paths: number;
  readonly isBounded: boolean;
}

/** Tries two ways for the failed hosts: no line was written back early, and all were. */
export function judgeLogs(record: RunRecord, cut: readonly CrashState[]): LogVerdict {
  const least = findingWith(record, cut, pickDurable);
  const open = [...least.settled.keys()];
  if (least.finding !== undefined || open.length === 0) {
    return { ...least, paths: 0, isBounded: false };
  }
  const isBounded = open.length > 1 || open[0]!.alternatives.length > 2;
  return { ...findingWith(record, cut, pickLast), paths: 1, isBounded };
}

function findingWith(record: RunRecord, cut: readonly CrashState[], choose: Picker) {
  const settled = new Map<Cell, number>();
  const pick = remembering(choose, settled);
  const [finding] = replicatedLog.check({
    ...record,
    scm: (host) => {
      const state = cut.find((each) => each.host === host);
      return state === undefined ? record.scm(host) : viewOf(state, pick);
    },
  });
  return { finding, settled };
}
