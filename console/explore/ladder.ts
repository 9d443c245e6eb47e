/** The operation that a counterexample is about, as a ladder with the power failure in it. */
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import {
  ladderOf,
  type LadderRow,
  type Operation,
  operationsOf,
  readTrace,
  type TraceLine,
} from "../../fabric/trace/trace.ts";
import type { TimedRecord } from "../../fabric/audit.ts";
import { ladderText } from "../../fabric/trace/trace_text.ts";
import type { LadderDocument } from "../api/operations.ts";
import { ladderDocumentOf } from "../operation/ladder_document.ts";
import type { Range } from "./history.ts";

type HostRange = { readonly host: string } & Range;

/** Operations before the failure among which one that involves a failed host is searched. */
const LOOK_BACK = 256;

/** A ladder as text and as data; "" and null where nothing was traced that is an operation. */
export interface CutLadder {
  readonly text: string;
  readonly document: LadderDocument | null;
}

export function ladderAt(
  lines: readonly TraceLine[],
  crash: {
    readonly plan: RackPlan;
    readonly hosts: readonly string[];
    readonly at: Time;
    readonly notes: readonly TimedRecord[];
    /** Bytes of SCM that it is about. */
    readonly scm: HostRange | undefined;
  },
): CutLadder {
  const { plan, hosts, at, notes, scm } = crash;
  const trace = readTrace(lines, plan);
  const begun = operationsOf(trace).filter(({ startPs }) => startPs < at);
  const concerns = (each: Operation, some: readonly string[]) =>
    ladderOf(trace, each).columns.some((node) => some.includes(node));
  const operation =
    begun.findLast((each) =>
      scm !== undefined && isAbout(lines, each, scm) && concerns(each, [scm.host])
    ) ?? begun.slice(-LOOK_BACK).findLast((each) => concerns(each, hosts)) ?? begun.at(-1);
  if (operation === undefined) return { text: "", document: null };
  const ladder = ladderOf(trace, operation);
  const cut = hosts.map((node): LadderRow => ({
    time: at,
    node,
    step: "power",
    text: `─── the power of ${node} fails ───`,
  }));
  const before = ladder.rows.filter(({ time }) => time < at);
  const after = ladder.rows.filter(({ time }) => time >= at);
  const whole = { ...ladder, rows: [...before, ...cut, ...after] };
  const observed = { plan, label: "", lines, frames: [], notes };
  return { text: ladderText(whole), document: ladderDocumentOf(observed, whole) };
}

/** Whether the operation's own trace has these bytes. */
function isAbout(lines: readonly TraceLine[], operation: Operation, range: Range): boolean {
  const { from, until, number } = operation;
  for (let i = from; i < Math.min(until, lines.length); i++) {
    const { scm, operation: own } = lines[i]!;
    if (scm === undefined || (own !== undefined ? own !== number : i !== from)) continue;
    if (scm[0] < range.to && scm[1] > range.from) return true;
  }
  return false;
}
