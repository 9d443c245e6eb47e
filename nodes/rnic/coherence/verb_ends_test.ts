import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FarState } from "../../../fabric/coherence/far_card_table.ts";
import type { HomeEnd } from "./state/coherence_state.ts";
import type { Device } from "../state/device.ts";
import { endWriteBacks } from "./verb_ends.ts";

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
