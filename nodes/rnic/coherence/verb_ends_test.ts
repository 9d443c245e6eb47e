import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FarState } from "../../../fabric/coherence/far_card_table.ts";
import type { HomeEnd } from "./state/coherence_state.ts";
import type { Device } from "../state/device.ts";
import type { Answer } from "../../../fabric/coherence/access.ts";
import { LOST } from "../../../fabric/wire/roce/coherence_messages.ts";
import { REGION_AT, regionPlan } from "../testing/region_testing.ts";
import { endAccesses, endWriteBacks } from "./verb_ends.ts";

describe("endWriteBacks", () => {
  it("decision 12: a write is over when its line has left the local cache, not while its write-back, or a recall's, is under way", () => {
    const task = (line: number) => ({ address: 64 * line + 8 });
    const states: FarState[] = ["MI", "II", "I", "S", "E", "MI"];
    const tasks = states.map((_, line) => task(line));
    const port = { writingBack: [...tasks], ended: [] as unknown[] };
    const lines = new Map(
      states.flatMap((state, line) => state === "I" ? [] : [[line, { state, data: undefined }]]),
    );
    const home = { card: { local: { lines } } } as unknown as HomeEnd;
    const device = { port } as unknown as Device;
    endWriteBacks(device, home);
    assert.deepEqual(port.ended, [tasks[2], tasks[3], tasks[4]]);
    assert.deepEqual(port.writingBack, [tasks[0], tasks[1], tasks[5]], "in their order");
    lines.clear();
    endWriteBacks(device, home);
    assert.deepEqual(port.ended.slice(3), [tasks[0], tasks[1], tasks[5]]);
    assert.deepEqual(port.writingBack, []);
  });
});

describe("endAccesses", () => {
  /** What becomes of a task whose access ends so; and what is noted of it. */
  function ended(kind: "read" | "write", answer: Partial<Answer>, auditing = true) {
    const task = { kind, address: REGION_AT + 8, length: 8, bytes: new Uint8Array(8) };
    const tasks = new Map<number, unknown>([[5, task], [6, { kind }]]);
    const port = { tasks, ended: [] as unknown[], writingBack: [] as unknown[] };
    const notes: { kind: string; id: number; result: string }[] = [];
    const out = {
      auditing,
      audit: (_: string, note: typeof notes[number]) => void notes.push(note),
    };
    const coherence = { regions: [regionPlan()], home: { regions: [regionPlan()] } };
    const device = { name: "a-rnic", startedAt: 0, out, port, coherence } as unknown as Device;
    const none = { access: { ticket: 5 }, result: "done", data: new Uint8Array(64).fill(7) };
    endAccesses(device, [{ ...none, ...answer } as Answer]);
    const { answer: bytes, isGood } = task as { answer?: Uint8Array; isGood?: boolean };
    return {
      places: [port.ended.includes(task), port.writingBack.includes(task), tasks.size],
      ...{ byte: bytes?.[0], isGood, notes: notes.map(({ id, result }) => [id, result]) },
    };
  }

  it("C-09: a read is over, a write is to be written back; each is noted once, and no other task ends", () => {
    const done = { byte: 7, isGood: true, notes: [[5, "done"]] };
    assert.deepEqual(ended("read", {}), { ...done, places: [true, false, 1] });
    assert.deepEqual(ended("write", {}), { ...done, places: [false, true, 1] });
    assert.deepEqual(ended("read", {}, false), { ...done, notes: [], places: [true, false, 1] });
    const lost = { byte: undefined, isGood: false, notes: [[5, "lost"]], places: [true, false, 1] };
    assert.deepEqual(ended("read", { result: "lost", data: LOST }), lost);
    const other = ended("read", { access: { ticket: 9 } as Answer["access"] });
    assert.deepEqual([other.places, other.notes], [[false, false, 2], []]);
  });
});
