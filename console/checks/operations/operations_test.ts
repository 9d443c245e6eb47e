import { deepStrictEqual as same, match, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { OperationRecord, TimedRecord } from "../../../fabric/audit.ts";
import { objectsIn, wrongCalls, wrongWith } from "./operations.ts";

type Noted = readonly [
  begin: number,
  end: number | null,
  call: Partial<OperationRecord>,
  result?: unknown,
];

/** Notes of one object, `x` on b. */
function notesOf(type: OperationRecord["type"], operations: readonly Noted[]): TimedRecord[] {
  return operations.flatMap(([begin, end, call, result], id): TimedRecord[] => {
    const of = { node: "a", by: "a/0/p#0" };
    const note = { kind: "operation", id, on: "b", object: "x", type, call: "", ...call } as const;
    const began: TimedRecord = { time: begin, ...of, note };
    if (end === null) return [began];
    return [began, { time: end, ...of, note: { kind: "operation-end", id, result } }];
  }).sort((x, y) => x.time - y.time);
}

function isAllowed(notes: TimedRecord[], state: unknown, at?: number): boolean {
  const [noted] = objectsIn(notes, at);
  return wrongWith(noted!, state) === undefined;
}

describe("durable linearizability", () => {
  it("has what had ended, and what was under way or not", () => {
    const notes = notesOf("register", [
      [1, 2, { call: "write", value: 5 }],
      [3, null, { call: "write", value: 6 }],
    ]);
    equal(isAllowed(notes, 5), true);
    equal(isAllowed(notes, 6), true);
    equal(isAllowed(notes, null), false);
    equal(isAllowed(notes, 7), false);
    equal(isAllowed(notes, 6, 2), false, "it began later than the power failure");
  });

  it("takes one that had ended before another began as the earlier one, and others in any order", () => {
    const writes = (second: number) =>
      notesOf("register", [
        [1, 4, { call: "write", value: 5 }],
        [second, 8, { call: "write", value: 6 }],
      ]);
    equal(isAllowed(writes(3), 5), true);
    equal(isAllowed(writes(5), 5), false);
  });

  it("takes what one program notes at one instant in the order of its notes", () => {
    const notes = (second: string) => {
      const all = notesOf("register", [
        [1, 4, { call: "write", value: 5 }],
        [4, 4, { call: "read" }, null],
      ]);
      return all.map((each) =>
        "id" in each.note && each.note.id === 1 ? { ...each, by: second } : each
      );
    };
    equal(isAllowed(notes("a/0/p#0"), 5), false, "the write had ended before the read began");
    equal(isAllowed(notes("a/0/q#0"), 5), true, "another program may have read before");
  });

  it("holds results against the order", () => {
    const read = (result: number) =>
      notesOf("counter", [
        [1, 9, { call: "add", value: 2 }],
        [2, 8, { call: "add", value: 3 }],
        [3, 7, { call: "read" }, result],
      ]);
    for (const seen of [0, 2, 3, 5]) equal(isAllowed(read(seen), 5), true, `${seen}`);
    equal(isAllowed(read(4), 5), false);
    equal(isAllowed(read(5), 2), false);
  });

  it("knows maps and queues", () => {
    const map = notesOf("map", [
      [1, 2, { call: "put", key: "p", value: 1 }],
      [3, null, { call: "put", key: "q", value: 2 }],
      [3, null, { call: "remove", key: "p" }],
    ]);
    for (const state of [{ p: 1 }, { q: 2, p: 1 }, {}, { q: 2 }]) {
      equal(isAllowed(map, state), true);
    }
    equal(isAllowed(map, { p: 2 }), false);
    const queue = notesOf("queue", [
      [1, 2, { call: "enqueue", value: 1 }],
      [1, 2, { call: "enqueue", value: 2 }],
      [3, 4, { call: "dequeue" }, 2],
    ]);
    equal(isAllowed(queue, [1]), true);
    equal(isAllowed(queue, [2]), false);
  });

  it("says what was found, and refuses calls that a type has not", () => {
    const [log] = objectsIn(notesOf("log", [[1, 2, { call: "append", value: "r" }]]));
    match(
      wrongWith(log!, [])!,
      /^b recovers x as \[\]: no order of its 1 ended operations leaves that$/,
    );
    const calls = ["push", "append", "push"];
    const [odd] = objectsIn(
      notesOf("log", calls.map((call, i) => [i, i + 1, { call, value: "r" }])),
    );
    same(wrongCalls(odd!), [
      'operations of x on b: found call "push" of a log, expected append, read',
    ]);
    same(wrongCalls(log!), []);
    const [text] = objectsIn(notesOf("register", [[1, 2, { call: "write", value: 5 }]]));
    match(wrongWith(text!, 5n)!, /^b recovers x as "5n": no order/);
  });
});
