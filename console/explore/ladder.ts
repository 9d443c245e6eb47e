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
import { foldRepeats, ladderText } from "../../fabric/trace/trace_text.ts";
import type { LadderDocument } from "../api/operations.ts";
import { ladderDocumentOf } from "../operation/ladder_document.ts";
import type { Range } from "./history.ts";
import type { UnorderedPair } from "./robust/robustness.ts";
import type { StrictWrite } from "./robust/strict_history.ts";

type HostRange = { readonly host: string } & Range;

const LOOK_BACK = 256;

/** "" and null where no operation was traced. */
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
    readonly scm: HostRange | undefined;
    readonly pair?: UnorderedPair | undefined;
  },
): CutLadder {
  const { plan, hosts, at, notes, scm, pair } = crash;
  const trace = readTrace(lines, plan);
  const begun = operationsOf(trace).filter(({ startPs }) => startPs < at);
  const concerns = (each: Operation, some: readonly string[]) =>
    ladderOf(trace, each).columns.some((node) => some.includes(node));
  const operation = (pair && operationOf(lines, begun, pair)) ??
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
  const marks = pair === undefined ? [] : marksOf(pair);
  const shown = marks.filter(({ time, node }) => time < at && ladder.columns.includes(node));
  const before = [...ladder.rows.filter(({ time }) => time < at), ...shown]
    .sort((x, y) => x.time - y.time);
  const after = ladder.rows.filter(({ time }) => time >= at);
  const whole = { ...ladder, rows: [...before, ...cut, ...after] };
  const observed = { plan, label: "", lines, frames: [], notes };
  // A sender retransmits to a host without power until its retry_cnt is used up.
  const text = ladderText({ ...whole, rows: [...before, ...cut, ...foldRepeats(after)] });
  return { text, document: ladderDocumentOf(observed, whole) };
}

/**
 * The work request of the missing write, or where a core has stored that, of the one that is found.
 */
function operationOf(
  lines: readonly TraceLine[],
  operations: readonly Operation[],
  { missing, found }: UnorderedPair,
): Operation | undefined {
  for (const { request, initiator, beganAt } of [missing, found]) {
    if (request === undefined) continue;
    const { qpn, wqe } = request;
    const own = lines.findIndex((line) =>
      line.time === beganAt && line.node === initiator && line.qpn === qpn && line.wqe === wqe
    );
    // An operation that a program numbers begins earlier than its work request.
    const operation = operations.find(({ from }) => from === own) ??
      operations.findLast(({ node, from, until }) =>
        node === initiator && from <= own && own < until
      );
    if (operation !== undefined) return operation;
  }
  return undefined;
}

function marksOf({ missing, found }: UnorderedPair): LadderRow[] {
  const rows = (name: string, write: StrictWrite, left: string): LadderRow[] => {
    const { initiator, beganAt, host, from, to, visibleAt, by } = write;
    const bytes = `${to - from} B at 0x${from.toString(16)} of ${host}`;
    const done = by === "core" ? "stores" : "posts";
    return [
      { time: beganAt, node: initiator, step: name, text: `─── ${done} ${name}, ${bytes} ───` },
      { time: visibleAt, node: host, step: name, text: `─── ${host} has ${name}: ${left} ───` },
    ];
  };
  if (missing === found) return rows("B", found, "the power failure tears it");
  return [
    ...rows("A", missing, "the power failure loses it"),
    ...rows("B", found, "found after the power failure"),
  ];
}

function isAbout(lines: readonly TraceLine[], operation: Operation, range: Range): boolean {
  const { from, until, number } = operation;
  for (let i = from; i < Math.min(until, lines.length); i++) {
    const { scm, operation: own } = lines[i]!;
    if (scm === undefined || (own !== undefined ? own !== number : i !== from)) continue;
    if (scm[0] < range.to && scm[1] > range.from) return true;
  }
  return false;
}
