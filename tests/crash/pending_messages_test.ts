import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Cell } from "../../console/explore/choices.ts";
import { pendingMessagesOf } from "../../console/explore/pending_messages.ts";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS } from "../../console/explore/types.ts";
import { putRack } from "./explored_rack.ts";
import { runRack } from "../../console/explore/rerun.ts";
import { crashedHostOf } from "../../console/explore/crashed_host.ts";
import { victimOf } from "../../console/explore/post_crash_run.ts";

/** What a SEND into receive buffers in SCM will have stored, at each instant of a run. */
function pendingAt(ddio: "on" | "off", bytes = 200) {
  const rack = putRack({ method: "send-read", ddio, bytes, size: bytes, hostB: ", receive: scm" });
  const recording = runRack(rack, { histories: true });
  const crashed = crashedHostOf(recording, victimOf(rack.plan, "b"));
  const all: { at: number; pending: ReturnType<typeof pendingMessagesOf> }[] = [];
  const from = recording.notes.find(({ note }) => note.kind === "writes")!;
  for (const { at } of recording.histories.get("b")!.entries) {
    if (at < from.time) continue;
    crashed.cursor.moveTo(at + 1);
    const pending = pendingMessagesOf(rack.plan, crashed.state);
    all.push({ at, pending });
  }
  return { rack, all, note: from.note as Extract<typeof from.note, { kind: "writes" }> };
}

describe("pendingMessagesOf", () => {
  it("P-05: a SEND in receive buffers in SCM is stored as soon as all of it is durable there", () => {
    const { all, note } = pendingAt("off");
    const full = all.filter(({ pending }) => pending.ways.some(({ writes }) => writes.length > 0));
    assert.ok(full.length > 0 && full.length < all.length);
    for (const { pending } of full) {
      assert.equal(pending.isBounded, false);
      for (const { writes } of pending.ways) {
        assert.deepEqual(writes.map(({ at, data }) => [at, ...data]), [[note.at, ...note.bytes]]);
      }
    }
    assert.equal(all.at(-1)?.pending.ways[0]?.writes.length, 0, "until it was stored");
  });

  it("P-04: while lines of it are in the cache it may be there or not, by what was written back", () => {
    const { all } = pendingAt("on");
    const open = all.filter(({ pending }) => pending.ways.length > 1);
    assert.ok(open.length > 0);
    for (const { pending } of open) {
      const counts = pending.ways.map(({ writes }) => writes.length).sort();
      assert.deepEqual(counts, [0, 1]);
      const whole = pending.ways.find(({ writes }) => writes.length === 1)!;
      const picked = [...whole.settled].filter(([cell, i]: readonly [Cell, number]) =>
        i === cell.alternatives.length - 1
      );
      assert.ok(picked.length > 1, "all of its lines are written back");
    }
  });

  it("is bounded where too many lines are in the cache, which an exploration says of that instant", async () => {
    const { rack, all } = pendingAt("on", 800);
    const open = all.filter(({ pending }) => pending.isBounded);
    assert.ok(open.length > 0);
    const { at } = open.at(-1)!;
    const one = { ...EXPLORE_DEFAULTS, cut: { host: "b" }, from: at + 1, until: at + 2 } as const;
    const { bounded, verdict, why } = await explore(rack, one);
    assert.equal(bounded, 1);
    assert.equal(verdict, "partial");
    assert.match(why!, /not every choice was tried/);
  });
});
