import { deepEqual, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { depthsFit, depthsIn, withDepths } from "./connection.ts";
import type { Qp } from "../verbs/objects.ts";

/** A queue pair that has room for so many sends and receives. */
function queuePair(maxSendWr: number, maxRecvWr: number): Qp {
  return { caps: { maxSendWr, maxRecvWr } } as unknown as Qp;
}

describe("withDepths", () => {
  it("Q-01 (in part): says how deep both queues are, in front of the program's own data", () => {
    const bytes = withDepths(queuePair(300, 17), Uint8Array.of(9, 8));
    deepEqual(depthsIn(bytes), { send: 300, recv: 17 });
    deepEqual([...bytes.slice(-2)], [9, 8]);
  });

  it("Q-01 (in part): says 65535 of a queue that is deeper", () => {
    deepEqual(depthsIn(withDepths(queuePair(70_000, 65_536), new Uint8Array(0))), {
      send: 65_535,
      recv: 65_535,
    });
  });
});

describe("depthsFit", () => {
  const own = queuePair(8, 16);
  for (
    const [send, recv, fits] of [
      [16, 8, true],
      [1, 100, true],
      [17, 8, false],
      [16, 7, false],
    ] as const
  ) {
    it(`Q-01 (in part): 8 sends and 16 receives here, ${send} and ${recv} there: ${fits ? "fit" : "do not"}`, () => {
      equal(depthsFit(own, { send, recv }), fits);
    });
  }
});
