/**
 * P-30 and P-41, last part: each work request completes once, in the order of its queue, and no
 * write is confirmed twice. Judged by audit records.
 */
import { rnicName } from "../../fabric/rack/plan/names.ts";
import type {
  AuditRecord,
  CompletedRecord,
  MovedRecord,
  PostedRecord,
  QueueRecord,
  TimedRecord,
} from "../../fabric/audit.ts";
import { nameOf } from "./noted_writes.ts";
import { checkerOf, type CheckSteps, inSteps, mostOf, type RunRecord } from "./run_record.ts";
import { isPutResult, isReportedOnce } from "./survival.ts";
import { lifeAt } from "./lives.ts";
import { countOf, type Finding } from "./finding.ts";

export const completions = checkerOf({
  name: "completes-once-in-order",
  promise: "Each completion is of a work request that was posted, comes once and in the order of " +
    "its queue; after an error only flushes follow; no write is confirmed persistent twice.",
  looked: (run) => countOf(completedIn(run), "completion"),
  subjects: completedIn,
  without: "no completion was taken",
  steps: checkCompletions,
});

function completedIn({ notes }: RunRecord): number {
  return notes.filter(({ note }) => note.kind === "completed").length;
}

function* checkCompletions(run: RunRecord): CheckSteps {
  const findings: Finding[] = [], most = mostOf(run);
  const queues = new Queues();
  const states = new Map<string, "written" | "persistent">();
  yield* inSteps(run.notes, (timed) => {
    const { note } = timed;
    const life = () => `${timed.node} in life ${lifeAt(run, timed.node, timed.time)}`;
    const wrong = isOfQueue(note) ? queues.take(life(), note) : wrongState(states, timed);
    if (wrong === undefined) return undefined;
    const { node, time } = timed;
    findings.push({ text: `${node}: ${wrong}`, at: { node, time } });
    return findings.length >= most ? "stop" : undefined;
  });
  if (findings.length >= most) return findings;
  for (const { node, time, value } of run.reports) {
    if (!isPutResult(value) || isReportedOnce(value)) continue;
    const text =
      `${node}: put to ${value.to} took a completion of no outstanding message, or a second one`;
    findings.push({ text, at: { node, time } });
  }
  return findings.slice(0, most);
}

function isOfQueue(note: AuditRecord): note is QueueRecord {
  return note.kind === "posted" || note.kind === "completed" || note.kind === "emptied" ||
    note.kind === "resumed" || note.kind === "moved";
}

function wrongState(
  known: Map<string, "written" | "persistent">,
  { by, note }: TimedRecord,
): string | undefined {
  if (note.kind !== "writes" && note.kind !== "visible" && note.kind !== "persistent") return;
  const name = nameOf(by, note.id);
  const state = known.get(name);
  if (note.kind === "writes") {
    known.set(name, "written");
    return state === undefined ? undefined : `${name} is declared twice`;
  }
  if (state === undefined) return `${name} is confirmed ${note.kind} before it was written`;
  if (note.kind === "visible") return undefined;
  known.set(name, "persistent");
  return state === "persistent" ? `${name} is confirmed persistent twice` : undefined;
}

interface Request {
  readonly wqe: number;
  readonly wrId: number | string;
  readonly signaled: boolean;
}

function rnicOf(host: string, { rnic = 0 }: QueueRecord): string {
  return rnic === 0 ? host : rnicName(host, rnic);
}

class Queues {
  readonly #outstanding = new Map<string, Request[]>();
  readonly #failed = new Set<string>();

  take(node: string, note: QueueRecord): string | undefined {
    const { qpn } = note, host = rnicOf(node, note);
    switch (note.kind) {
      case "emptied":
        for (const each of note.queue === "shared" ? ["shared"] : ["send", "recv"]) {
          this.#outstanding.delete(`${host} ${qpn} ${each}`);
          this.#failed.delete(`${host} ${qpn} ${each}`);
        }
        return undefined;
      case "resumed":
        this.#failed.delete(`${host} ${qpn} send`);
        return undefined;
      case "moved":
        return this.#move(`${host} ${qpn} ${note.queue}`, note);
      case "posted":
        return this.#post(`${host} ${qpn} ${note.queue}`, note);
      case "completed":
        return this.#retire(`${host} ${note.srqn ?? qpn} ${note.queue}`, note) ??
          this.#follow(host, note);
    }
  }

  /** The outstanding requests stay, in order, under other numbers. */
  #move(key: string, { wqes, queue, qpn }: MovedRecord): string | undefined {
    const outstanding = this.#outstanding.get(key) ?? [];
    if (wqes.length !== outstanding.length) {
      return `QP ${qpn}'s ${queue} queue has moved ${wqes.length} requests of ${outstanding.length}`;
    }
    this.#outstanding.set(key, outstanding.map((each, i) => ({ ...each, wqe: wqes[i]! })));
    return undefined;
  }

  #post(key: string, { wqe, wrId, signaled, queue, qpn }: PostedRecord): string | undefined {
    const outstanding = this.#outstanding.get(key) ?? [];
    this.#outstanding.set(key, outstanding);
    const old = outstanding.findIndex((each) => each.wqe === wqe);
    outstanding.push({ wqe, wrId, signaled });
    if (old < 0) return undefined;
    outstanding.splice(old, 1);
    // A queue pair that ends gives its slots of a shared queue back without a completion.
    if (queue === "shared") return undefined;
    return `WQE ${wqe} of QP ${qpn}'s ${queue} queue is posted while it is outstanding`;
  }

  #retire(key: string, note: CompletedRecord): string | undefined {
    const { wqe, wrId, queue, qpn } = note;
    const what = `completion of WQE ${wqe} of QP ${qpn}'s ${queue} queue`;
    const outstanding = this.#outstanding.get(key) ?? [];
    const place = outstanding.findIndex((each) => each.wqe === wqe);
    if (place < 0) return `${what}, which is not outstanding`;
    const posted = outstanding[place]!;
    const skipped = queue === "shared" ? [] : outstanding.slice(0, place);
    outstanding.splice(place - skipped.length, skipped.length + 1);
    if (posted.wrId !== wrId) return `${what} has wr_id ${wrId}, it was posted as ${posted.wrId}`;
    const passed = skipped.find(({ signaled }) => signaled);
    if (passed !== undefined) return `${what} overtakes WQE ${passed.wqe}, which was signalled`;
    if (!posted.signaled && note.status === "SUCCESS") return `${what}, which was unsignalled`;
    return undefined;
  }

  /** After an error only flushes follow, until the queue is reset. */
  #follow(host: string, { qpn, queue, status }: CompletedRecord): string | undefined {
    // A shared queue's completions are of each queue pair's own receives.
    const key = `${host} ${qpn} ${queue === "send" ? "send" : "recv"}`;
    if (this.#failed.has(key)) {
      if (status === "WR_FLUSH_ERR") return undefined;
      return `QP ${qpn}'s ${queue} queue completes with ${status} after an error`;
    }
    // A verification that failed is an answer, after which the queue goes on (V-01).
    if (status !== "SUCCESS" && status !== "VERIFY_ERR") this.#failed.add(key);
    return undefined;
  }
}
