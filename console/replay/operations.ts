import { OPERATIONS } from "../api/replay_terms.ts";
import { type FoundOperation, ladderOf, readTrace } from "../../fabric/trace/trace.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { framedSteps } from "../../fabric/capture/framed_steps.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { ladderDocumentOf } from "../operation/ladder_document.ts";
import { seenIn } from "./operation_frames.ts";
import type { Recording } from "./recording.ts";
import type { LadderDocument } from "../api/operations.ts";
import type { OperationRow, Operations, OperationsQuery } from "../api/replay.ts";

const STEPS_BEFORE = 50_000, STEPS_AFTER = 150_000;
/** Around an operation, for its frames: a receive is posted before, an object published after. */
export const AROUND_PS = 100 * PS_PER_US;

/** Those that begin before `to` and end at `from` or later. */
export function operationsIn(
  recording: Recording,
  { from = 0, to = Infinity, on, most = OPERATIONS.usual }: OperationsQuery,
): Operations {
  const limit = Math.min(most, OPERATIONS.most), operations: OperationRow[] = [];
  let more = 0;
  for (const [index, found] of recording.operations().entries()) {
    const { node, connection, number, startPs, last: { time: endPs, step, text } } = found;
    if (startPs >= to) break;
    if (endPs < from || (on !== undefined && on !== node)) continue;
    if (operations.length === limit) more++;
    else operations.push({ index, node, connection, number, startPs, endPs, step, text });
  }
  return { operations, more };
}

/** @throws Refusal where there is none of that index. */
export function operationAt(recording: Recording, index: number): FoundOperation {
  const all = recording.operations(), operation = all[index];
  if (operation !== undefined) return operation;
  const found = `${index}: there are ${all.length} operations, from 0 on`;
  throw refusal("operation", { found });
}

/** @param recording has the operation's steps. */
export function ladderIn(recording: Recording, operation: FoundOperation): LadderDocument {
  const { steps, notes, job: { plan, variant, run } } = recording;
  const { from, until, startPs, last } = operation;
  const end = last.time + AROUND_PS,
    { events, lengthOf } = seenIn(
      recording,
      Math.max(0, startPs - AROUND_PS),
      end,
    );
  const framed = framedSteps(plan, events);
  const frames = new Map(framed.lines.map((line) => [orderOf(line), line.frame]));
  // Indexes of an operation are those of all steps of the run.
  const begin = from - steps.dropped, first = Math.max(0, begin - STEPS_BEFORE);
  const lines = steps.slice(first, begin + STEPS_AFTER).map((line) => {
    const frame = frames.get(line.order);
    return frame === undefined ? line : { ...line, frame };
  });
  const moved = { ...operation, from: begin - first, until: until - steps.dropped - first };
  const observed = {
    ...{ plan, label: variant || run, lines, lengthOf },
    frames: framed.frames,
    notes,
  };
  return ladderDocumentOf(observed, ladderOf(readTrace(lines, plan), moved));
}

function orderOf(line: object): number | undefined {
  return "order" in line && typeof line.order === "number" ? line.order : undefined;
}
