/** Runs with impossible completions of work requests, or confirmations of writes. */
import type { CompletedRecord, TimedRecord } from "../../../fabric/audit.ts";
import type { SeenRun } from "../../support/seen_run.ts";
import type { PutResult } from "../../../console/checks/survival.ts";
import { type Mutation, type Mutations, withNote } from "./runs.ts";

interface Completed extends TimedRecord {
  readonly note: CompletedRecord;
  readonly place: number;
}

/** The queue that a completion is of. */
function queueOf({ by, note }: Completed): string {
  return `${by.split("/").slice(0, 2).join("/")} ${note.queue} ${note.srqn ?? note.qpn}`;
}

function completionsOf({ notes }: SeenRun): Completed[] {
  return notes.flatMap((timed, place) =>
    timed.note.kind === "completed" ? [{ ...timed, note: timed.note, place }] : []
  );
}

/** Each completion with the next of its queue. What no other follows could still have come. */
function* inPairs(run: SeenRun): Generator<readonly [Completed, Completed]> {
  for (const all of Map.groupBy(completionsOf(run), queueOf).values()) {
    for (const [i, next] of all.entries()) if (i > 0) yield [all[i - 1]!, next];
  }
}

/** Every completion, changed. */
function eachCompletion(change: (run: SeenRun, completed: Completed) => SeenRun): Mutation {
  return {
    of: "calm",
    least: 60,
    *mutants(run) {
      for (const each of completionsOf(run)) yield [JSON.stringify(each.note), change(run, each)];
    },
  };
}

export const COMPLETIONS: Mutations = {
  "one is missing": {
    of: "calm",
    least: 40,
    *mutants(run) {
      for (const [{ place, note }] of inPairs(run)) {
        yield [JSON.stringify(note), { ...run, notes: run.notes.toSpliced(place, 1) }];
      }
    },
  },
  "two change places": {
    of: "calm",
    least: 40,
    *mutants(run) {
      for (const [one, next] of inPairs(run)) {
        const swapped = withNote(withNote(run, one.place, next.note), next.place, one.note);
        yield [JSON.stringify(one.note), swapped];
      }
    },
  },
  "an error before a success": {
    of: "calm",
    least: 40,
    *mutants(run) {
      for (const [{ place, note }] of inPairs(run)) {
        yield [JSON.stringify(note), withNote(run, place, { ...note, status: "RETRY_EXC_ERR" })];
      }
    },
  },
  "one comes twice": eachCompletion((run, { place }) => ({
    ...run,
    notes: run.notes.toSpliced(place, 0, run.notes[place]!),
  })),
  "one has another's number": eachCompletion((run, { place, note }) =>
    withNote(run, place, { ...note, wrId: Number(note.wrId) + 1 })
  ),
  "one is of what was not posted": eachCompletion((run, { place, note }) =>
    withNote(run, place, { ...note, wqe: note.wqe + 1_000 })
  ),
  "one is of another queue": eachCompletion((run, { place, note }) =>
    withNote(run, place, { ...note, qpn: note.qpn + 1_000 })
  ),
  "one is taken by another host": eachCompletion((run, { place, node }) => ({
    ...run,
    notes: run.notes.with(place, { ...run.notes[place]!, node: node === "a" ? "b" : "a" }),
  })),
  "one was to be silent": {
    of: "calm",
    least: 20,
    *mutants(run) {
      const isDone = new Set(completionsOf(run).map(({ node, note }) => `${node} ${note.wrId}`));
      for (const [place, { node, note }] of run.notes.entries()) {
        if (note.kind !== "posted" || note.queue !== "send" || !note.signaled) continue;
        if (!isDone.has(`${node} ${note.wrId}`)) continue;
        yield [JSON.stringify(note), withNote(run, place, { ...note, signaled: false })];
      }
    },
  },
  "what completes was not posted": {
    of: "calm",
    least: 30,
    *mutants(run) {
      for (const [place, { node, note }] of run.notes.entries()) {
        if (note.kind !== "posted") continue;
        // What becomes of it, or of what is posted into its place after it.
        const next = run.notes.slice(place + 1).find((each) =>
          each.node === node && (each.note.kind === "posted" || each.note.kind === "completed") &&
          each.note.queue === note.queue && each.note.qpn === note.qpn && each.note.wqe === note.wqe
        );
        if (next?.note.kind !== "completed") continue;
        yield [JSON.stringify(note), { ...run, notes: run.notes.toSpliced(place, 1) }];
      }
    },
  },
  "a write is confirmed persistent, or declared, twice": {
    of: "calm",
    least: 32,
    *mutants(run) {
      for (const [place, timed] of run.notes.entries()) {
        if (timed.note.kind !== "persistent" && timed.note.kind !== "writes") continue;
        yield [`${place}`, { ...run, notes: run.notes.toSpliced(place, 0, timed) }];
      }
    },
  },
  "a write is confirmed before it is declared": {
    of: "calm",
    least: 32,
    *mutants(run) {
      for (const [place, { note }] of run.notes.entries()) {
        if (note.kind !== "persistent" && note.kind !== "visible") continue;
        yield [`${place}`, withNote(run, place, { ...note, id: note.id + 1_000 })];
      }
    },
  },
  "put takes a completion of no outstanding message, or a second one": {
    of: "calm",
    least: 2,
    *mutants(run) {
      const place = run.reports.findIndex(({ topic, node }) => topic === "result" && node === "a");
      const put = run.reports[place]!.value as PutResult;
      for (const wrong of [{ unexpected: 1 }, { confirmed: [...put.confirmed, [0, 512]] }]) {
        const report = { ...run.reports[place]!, value: { ...put, ...wrong } };
        yield [JSON.stringify(wrong), { ...run, reports: run.reports.with(place, report) }];
      }
    },
  },
};
