import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { TraceStep } from "../../fabric/node.ts";
import { StepLog } from "./step_log.ts";

describe("StepLog", () => {
  it("gives each step back as it was, ids of work requests of 64 bits among them", () => {
    const steps: TraceStep[] = [
      { step: "wqe", text: "WQE", wrId: 7, qpn: 17, wqe: 3 },
      ...["0", "5", `${2n ** 32n}`, `${2n ** 53n + 1n}`, `${2n ** 64n - 1n}`].map((wrId) => (
        { step: "wqe", text: "WQE", wrId, qpn: 18, operation: 2, recvs: [1, 2, 3] }
      )),
      { step: "S903", text: "sends", psn: 4, lastPsn: 9, scm: [0, 64], inbound: true },
    ];
    const log = new StepLog();
    for (const [i, step] of steps.entries()) log.push({ time: i, node: "a", order: i }, step);
    assert.deepEqual(
      steps.map((_, i) => log.at(i)),
      steps.map((step, i) => ({ ...step, time: i, node: "a", order: i })),
    );
  });
});
