import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { lineRate } from "../../console/checks/wire_checks.ts";
import { livesOf } from "../../console/checks/lives.ts";
import { fill, findingsOf, PLAN } from "../../console/checks/record_testing.ts";
import { WireLedger } from "../../console/checks/wire_ledger.ts";
import type { FaultPlan } from "../../fabric/rack/plan/plan.ts";

type Span = readonly [kind: "sent" | "received", node: string, startPs: number, endPs: number];

function find(spans: readonly Span[], power: readonly FaultPlan[] = []): string[] {
  const wire = new WireLedger(PLAN, livesOf(PLAN, power));
  spans.forEach(([kind, name, startPs, endPs], event) => {
    const node = PLAN.nodes.findIndex((each) => each.name === name);
    const frame = fill(event, 64).slice();
    wire.see({ kind, time: startPs, node, event, port: 1, startPs, endPs, frame, text: "" });
  });
  return findingsOf(lineRate, { wire });
}

describe("frames of a port", () => {
  it("follow each other as closely as they may", () => {
    assert.deepEqual(find([["sent", "a-rnic", 0, 10], ["sent", "a-rnic", 10, 20]]), []);
    assert.deepEqual(find([["sent", "a-rnic", 0, 10], ["sent", "b-rnic", 5, 15]]), []);
    assert.deepEqual(find([["sent", "a-rnic", 0, 10], ["received", "a-rnic", 5, 15]]), []);
  });

  it("do not lie on each other, nor on one before the last", () => {
    assert.deepEqual(find([["sent", "a-rnic", 0, 10], ["sent", "a-rnic", 9, 19]]), [
      "a-rnic:1 sends a frame from 9 ps on, where the one before it ends at 10 ps",
    ]);
    assert.deepEqual(find([["received", "a-rnic", 0, 10], ["received", "a-rnic", 9, 19]]), [
      "a-rnic:1 receives a frame from 9 ps on, where the one before it ends at 10 ps",
    ]);
    const within = [["sent", "a-rnic", 0, 30], ["sent", "a-rnic", 5, 10]] as const;
    assert.equal(find([...within, ["sent", "a-rnic", 20, 40]]).length, 2);
  });

  it("are not judged where a process received them that was killed by no plan: they are dated anew", () => {
    const power = [{ at: 9_000_000, action: "kill", node: "a-rnic" }] as const;
    assert.deepEqual(
      find([["received", "a-rnic", 0, 10], ["received", "a-rnic", 9, 19]], power),
      [],
    );
    assert.equal(find([["sent", "a-rnic", 0, 10], ["sent", "a-rnic", 9, 19]], power).length, 1);
  });
});
