import { OPERATION_SORTS, OPERATIONS } from "../api/replay_terms.ts";
import { type FoundOperation, ladderOf, readTrace } from "../../fabric/trace/trace.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { framedSteps } from "../../fabric/capture/framed_steps.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { ladderDocumentOf } from "../operation/ladder_document.ts";
import { seenIn } from "./operation_frames.ts";
import type { Recording } from "./recording.ts";
import type { LadderDocument } from "../api/operations.ts";
import type { OperationRow, Operations, OperationsQuery } from "../api/replay.ts";

const STEPS_BEFORE = 50_000, STEPS_AFTER = 150_000;
/** Around an operation, for its frames: a receive is posted before, an object published after. */
export const AROUND_PS = 100 * PS_PER_US;

/** Those that begin before `to` and end at `from` or later, and fit the rest of the query. */
export function operationsIn(recording: Recording, query: OperationsQuery): Operations {
  const { skip = 0, most = OPERATIONS.usual, sort = OPERATION_SORTS[0] } = query;
  const limit = Math.min(most, OPERATIONS.most), all = recording.operations();
  const nodes = new Set<string>(), kinds = new Set<string>(), fit: number[] = [];
  const isWanted = wanted(query);
  for (const [index, found] of all.entries()) {
    nodes.add(found.node);
    kinds.add(found.kind);
    if (isWanted(found)) fit.push(index);
  }
  const duration = (index: number) => endOf(all[index]!) - all[index]!.startPs;
  if (sort === "duration") fit.sort((x, y) => duration(y) - duration(x) || x - y);
  const listed = fit.slice(skip, skip + limit);
  return {
    operations: listed.map((index) => rowOf(index, all[index]!)),
    more: Math.max(0, fit.length - skip - listed.length),
    total: fit.length,
    all: all.length,
    nodes: [...nodes].sort(),
    kinds: [...kinds].sort(),
  };
}

function endOf({ last, completedAt }: FoundOperation): Time {
  return Math.max(last.time, completedAt);
}

function wanted(
  { from = 0, to = Infinity, on, kind, status, minPs = 0, maxPs = Infinity, text }: OperationsQuery,
): (found: FoundOperation) => boolean {
  const searched = text?.toLowerCase();
  return (found) => {
    const { node, startPs, connection, last } = found, endPs = endOf(found);
    const duration = endPs - startPs;
    return startPs < to && endPs >= from && (on === undefined || on === node) &&
      (kind === undefined || kind === found.kind) &&
      (status === undefined || status === found.status) &&
      duration >= minPs && duration <= maxPs &&
      (searched === undefined ||
        `${node} ${connection} ${last.step} ${last.text}`.toLowerCase().includes(searched));
  };
}

function rowOf(index: number, found: FoundOperation): OperationRow {
  const { node, connection, number, kind, status, startPs, last: { step, text } } = found;
  return {
    ...{ index, node, connection, number, kind, status, startPs },
    ...{ endPs: endOf(found), step, text },
  };
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
