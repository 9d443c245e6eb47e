/** The operations of a run, and the ladder of one. */
import {
  ladderOf,
  type Operation,
  operationsOf,
  readTrace,
  type Trace,
} from "../../fabric/trace/trace.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { framedSteps } from "../../fabric/capture/framed_steps.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { ladderDocumentOf } from "../operation/ladder_document.ts";
import { seenIn } from "./operation_frames.ts";
import type { Recording } from "./recording.ts";
import type { LadderDocument, OperationRow, Operations, OperationsQuery } from "./types.ts";

const MOST = 1_000, USUAL = 200;
/** A ladder is looked for among so many steps before and after its first one. */
const STEPS_BEFORE = 50_000, STEPS_AFTER = 150_000;
/** Frames are looked for so long before and after it: a receive is posted before, an object published after. */
const AROUND_PS = 100 * PS_PER_US;

export class OperationIndex {
  readonly #recording: Recording;
  readonly #operations: readonly Operation[];
  readonly rows: readonly OperationRow[];

  constructor(recording: Recording) {
    this.#recording = recording;
    const trace = readTrace(recording.steps, recording.job.plan);
    this.#operations = operationsOf(trace);
    this.rows = rowsOf(trace, this.#operations);
  }

  /** Those that begin before `to` and end at `from` or later. */
  in({ from = 0, to = Infinity, on, most = USUAL }: OperationsQuery): Operations {
    const all = this.rows.filter(({ node, startPs, endPs }) =>
      startPs < to && endPs >= from && (on === undefined || on === node)
    );
    const operations = all.slice(0, Math.min(most, MOST));
    return { operations, more: all.length - operations.length };
  }

  /** @throws Refusal where there is none of that index. */
  ladder(index: number): LadderDocument {
    const { steps, job: { plan, variant, run } } = this.#recording;
    const operation = this.#operations[index];
    if (operation === undefined) {
      const found = `${index}: there are ${this.#operations.length} operations, from 0 on`;
      throw refusal("operation", { found });
    }
    const first = Math.max(0, operation.from - STEPS_BEFORE);
    const { endPs } = this.rows[index]!;
    const { events, lengthOf } = seenIn(
      this.#recording,
      Math.max(0, operation.startPs - AROUND_PS),
      endPs + AROUND_PS,
    );
    const framed = framedSteps(plan, events);
    const frames = new Map(framed.lines.map((line) => [orderOf(line), line.frame]));
    const lines = steps.slice(first, operation.from + STEPS_AFTER).map((line) => {
      const frame = frames.get(line.order);
      return frame === undefined ? line : { ...line, frame };
    });
    const { from, until } = operation;
    const moved = { ...operation, from: from - first, until: until - first };
    const observed = {
      ...{ plan, label: variant || run, lines, lengthOf },
      frames: framed.frames,
      notes: this.#recording.notes,
    };
    return ladderDocumentOf(observed, ladderOf(readTrace(lines, plan), moved));
  }
}

/** The place of a recorded step among all that was recorded: lines that are made of it keep it. */
function orderOf(line: object): number | undefined {
  return "order" in line && typeof line.order === "number" ? line.order : undefined;
}

/** With the last that each one's program said of it; of a work request, what its card did first. */
function rowsOf({ lines }: Trace, operations: readonly Operation[]): OperationRow[] {
  const last = new Map<string, number[]>();
  for (const [i, { operation, connection, node }] of lines.entries()) {
    if (operation === undefined || connection === undefined) continue;
    const key = `${node} ${connection} ${operation}`;
    const known = last.get(key);
    if (known === undefined) last.set(key, [i]);
    else known.push(i);
  }
  return operations.map(({ node, connection, number, startPs, from, until }, index) => {
    const own = last.get(`${node} ${connection} ${number}`) ?? [];
    const end = lines[own.findLast((i) => i >= from && i < until) ?? from]!;
    const { time: endPs, step, text } = end;
    return { index, node, connection, number, startPs, endPs, step, text };
  });
}
