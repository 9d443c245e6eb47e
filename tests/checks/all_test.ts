import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { EXPECTATIONS } from "../../fabric/rack/plan/vocabulary.ts";
import { checkAll, checkAllInTurns, CHECKERS } from "../../console/checks/all.ts";
import { findingsText } from "../support/sound.ts";
import { appendedRecord } from "../../scripts/bench/checks.ts";
import { fill, imageOf, noted, recordOf } from "../../console/checks/record_testing.ts";

describe("P-41: the promises of every run", () => {
  it("are those that a scenario may expect", () => {
    assert.deepEqual(CHECKERS.map(({ name }) => name), [...EXPECTATIONS]);
  });

  it("are looked at all together, and each says how much it has looked at", () => {
    const notes = [
      noted(10, { kind: "writes", id: 0, on: "b", at: 0, bytes: fill(1) }),
      noted(20, { kind: "persistent", id: 0, promised: true }),
    ];
    const kept = checkAll(recordOf({ notes, b: imageOf({ 0: fill(1) }) }));
    assert.equal(kept[0]!.looked, "1 write, 1 promised");
    assert.equal(findingsText(kept), "");
    const broken = checkAll(recordOf({ notes }));
    assert.match(findingsText(broken), /^survives-what-was-reported: b: SCM at 0x0 is lost/);
  });

  it("are looked at in steps, each of them, so that an interrupt is heard in the middle of it", () => {
    const run = appendedRecord(1_000);
    // What frames and shutdowns are judged by is no long record.
    const short = ["frames-are-conserved", "answers-in-order", "ports-keep-their-rate"];
    short.push("shutdowns-end-in-time");
    for (const { name, steps } of CHECKERS.filter((each) => !short.includes(each.name))) {
      let count = 0;
      for (const _ of steps(run)) count++;
      assert.ok(count > 2, `${name}: ${count}`);
    }
  });

  it("are left in the middle of one where the command is interrupted", async () => {
    const writes = Array.from(
      { length: 500 },
      (_, id) => noted(id, { kind: "writes", id, on: "b", at: 8 * id, bytes: fill(1) }),
    );
    const interrupted = new AbortController();
    let reads = 0;
    const b = {
      read(from: number, to: number) {
        if (++reads === 10) interrupted.abort(new Error("Ctrl-C"));
        return fill(1, to - from);
      },
    };
    const whole = { read: (from: number, to: number) => fill(1, to - from) };
    const run = recordOf({ notes: writes, b });
    assert.equal(findingsText(await checkAllInTurns(recordOf({ notes: writes, b: whole }))), "");
    await assert.rejects(checkAllInTurns(run, interrupted.signal), /^Error: Ctrl-C$/);
    assert.ok(reads < 100, `${reads} reads`);
  });
});
