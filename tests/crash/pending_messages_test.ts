import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Cell } from "../../console/explore/choices.ts";
import { depositsOf } from "../../console/explore/pending_messages.ts";
import { putRack } from "./explored_rack.ts";
import { runRack } from "../../console/explore/rerun.ts";
import { cuttingOf } from "../../console/explore/crashed_host.ts";
import { victimOf } from "../../console/explore/post_crash_run.ts";

/** What a SEND into receive buffers in SCM will have stored, at each instant of a run. */
function depositsAt(ddio: "on" | "off") {
  const rack = putRack({ method: "send-read", ddio, bytes: 200, hostB: ", receive: scm" });
  const recording = runRack(rack, { histories: true });
  const cutting = cuttingOf(recording, victimOf(rack.plan, "b"));
  const all: { at: number; deposits: ReturnType<typeof depositsOf> }[] = [];
  const from = recording.notes.find(({ note }) => note.kind === "writes")!;
  for (const { at } of recording.histories.get("b")!.entries) {
    if (at < from.time) continue;
    cutting.cursor.moveTo(at + 1);
    const deposits = depositsOf(rack.plan, cutting.state);
    all.push({ at, deposits });
  }
  return { all, note: from.note as Extract<typeof from.note, { kind: "writes" }> };
}

describe("depositsOf", () => {
  it("P-05: a SEND in receive buffers in SCM is stored as soon as all of it is durable there", () => {
    const { all, note } = depositsAt("off");
    const full = all.filter(({ deposits }) =>
      deposits.ways.some(({ writes }) => writes.length > 0)
    );
    assert.ok(full.length > 0 && full.length < all.length);
    for (const { deposits } of full) {
      assert.equal(deposits.isBounded, false);
      for (const { writes } of deposits.ways) {
        assert.deepEqual(writes.map(({ at, data }) => [at, ...data]), [[note.at, ...note.bytes]]);
      }
    }
    assert.equal(all.at(-1)?.deposits.ways[0]?.writes.length, 0, "until it was stored");
  });

  it("P-04: while lines of it are in the cache it may be there or not, by what was written back", () => {
    const { all } = depositsAt("on");
    const open = all.filter(({ deposits }) => deposits.ways.length > 1);
    assert.ok(open.length > 0);
    for (const { deposits } of open) {
      const counts = deposits.ways.map(({ writes }) => writes.length).sort();
      assert.deepEqual(counts, [0, 1]);
      const whole = deposits.ways.find(({ writes }) => writes.length === 1)!;
      const picked = [...whole.settled].filter(([cell, i]: readonly [Cell, number]) =>
        i === cell.alternatives.length - 1
      );
      assert.ok(picked.length > 1, "all of its lines are written back");
    }
  });
});
