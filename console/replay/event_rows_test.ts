import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { eventsAround, type Ticks } from "./event_rows.ts";
import type { Recording } from "./recording.ts";
import { StepLog } from "./step_log.ts";
import type { EventsQuery } from "../api/replay.ts";

/** A run with something each 10 ps: of it, steps of a and b by turns, and reports of a at the same instants. */
function recordingOf(detailFrom = 0): Recording {
  const steps = new StepLog(), reports: object[] = [];
  for (let i = 0; i < 10; i++) {
    const time = 10 * i, node = i % 2 === 0 ? "a" : "b";
    if (time >= detailFrom) {
      steps.push({ time, node, order: 2 * i + 1 }, { step: "s", text: `${i}` });
    }
    // Reports are kept of all of the run.
    reports.push({ time, node: "a", topic: "r", value: i, order: 2 * i });
  }
  return {
    steps,
    reports,
    notes: [],
    wire: { directions: [] },
    detailFrom,
  } as unknown as Recording;
}

const TICKS: Ticks = {
  faults: [{ at: 30, action: "kill", nodes: ["a"] }, { at: 80, action: "start", nodes: ["a"] }],
  orders: [],
};

/** The rows before the instant, and from it on: `s3` a step, `r3` a report. */
function rows(
  query: EventsQuery,
  { detailFrom = 0, ticks = { faults: [], orders: [] } as Ticks } = {},
) {
  const { rows, split } = eventsAround(recordingOf(detailFrom), ticks, query);
  const all = rows.map(({ name, text, kind }) => kind === "power" ? name : `${name}${text}`);
  return [all.slice(0, split).join(" "), all.slice(split).join(" ")];
}

describe("eventsAround", () => {
  it("has those next to the instant, which itself is behind it, in the order in which they were recorded", () => {
    same(rows({ at: 40, before: 3, after: 3 }), ["s2 r3 s3", "r4 s4 r5"]);
    same(rows({ at: 41, before: 1, after: 1 }), ["s4", "r5"]);
    same(rows({ at: 0, before: 5, after: 1 }), ["", "r0"]);
    same(rows({ at: 90, before: 1, after: 5 }), ["s8", "r9 s9"]);
    same(rows({ at: 40, before: 0, after: 0 }), ["", ""]);
  });

  it("has so many of the node and of the kinds that are asked for, however far they are", () => {
    same(rows({ at: 40, before: 2, after: 2, node: "b" }), ["s1 s3", "s5 s7"]);
    same(rows({ at: 40, before: 2, after: 2, kinds: ["step"] }), ["s2 s3", "s4 s5"]);
    same(rows({ at: 40, before: 2, after: 1, node: "a", kinds: ["step"] }), ["s0 s2", "s4"]);
  });

  it("searches names and texts, with all that fits of the last instant, and says where to go on", () => {
    const search = (query: EventsQuery) => {
      const recording = Object.assign(recordingOf(), { reached: 91 });
      const { toPs, fromPs } = eventsAround(recording, { faults: [], orders: [] }, query);
      return [...rows(query), fromPs, toPs];
    };
    same(search({ at: 0, before: 0, after: 9, text: "4" }), ["", "r4 s4", 0, 91]);
    same(search({ at: 45, before: 9, after: 9, text: "S" }), [
      ...["s0 s1 s2 s3 s4", "s5 s6 s7 s8 s9"],
      ...[0, 91],
    ]);
    // 1 was asked for: the other one of its instant would else never be found.
    same(search({ at: 40, before: 1, after: 1, text: "" }), ["r3 s3", "r4 s4", 30, 41]);
  });

  it("has nothing of before the stretch of which all is known", () => {
    const of = { detailFrom: 30, ticks: TICKS };
    same(rows({ at: 50, before: 20, after: 0 }, of), ["kill r3 s3 r4 s4", ""]);
    same(rows({ at: 50, before: 20, after: 0 }, { ...of, detailFrom: 31 }), ["r4 s4", ""]);
    same(rows({ at: 10, before: 20, after: 2 }, of), ["", "kill r3"]);
  });

  it("has power failures ahead of all else at their instants", () => {
    same(rows({ at: 30, before: 1, after: 2 }, { ticks: TICKS }), ["s2", "kill r3"]);
    same(rows({ at: 85, before: 3, after: 0 }, { ticks: TICKS }), ["start r8 s8", ""]);
  });
});
