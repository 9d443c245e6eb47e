import { deepEqual } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { depthsIn, shortReceives, withDepths } from "./connection.ts";
import type { Qp } from "../verbs/objects.ts";

/** A queue pair that has room for so many sends and receives. */
function queuePair(maxSendWr: number, maxRecvWr: number, oneSided = false): Qp {
  return { caps: { maxSendWr, maxRecvWr, oneSided } } as unknown as Qp;
}

describe("withDepths", () => {
  it("Q-01: says how deep both queues are, in front of the program's own data", () => {
    const bytes = withDepths(queuePair(300, 17), Uint8Array.of(9, 8));
    deepEqual(depthsIn(bytes), { send: 300, recv: 17 });
    deepEqual([...bytes.slice(-2)], [9, 8]);
  });

  it("Q-01: says 65535 of a queue that is deeper", () => {
    deepEqual(depthsIn(withDepths(queuePair(70_000, 65_536), new Uint8Array(0))), {
      send: 65_535,
      recv: 65_535,
    });
  });

  it("Q-01: says that no send of a one-sided queue pair takes a receive", () => {
    deepEqual(depthsIn(withDepths(queuePair(8, 4, true), new Uint8Array(0))), { send: 0, recv: 4 });
  });
});

describe("shortReceives", () => {
  const end = (name: string, send: number, recv: number, sharesReceives = false) =>
    ({ name, send, recv, sharesReceives }) as const;

  for (
    const [send, recv, short] of [
      [16, 8, []],
      [0, 8, []],
      [17, 8, ["a"]],
      [16, 7, ["b"]],
      [17, 7, ["a", "b"]],
    ] as const
  ) {
    it(`Q-01: 8 sends and 16 receives here, ${send} and ${recv} there: ${short.length} too few`, () => {
      const found = shortReceives(end("a", 8, 16), end("b", send, recv));
      deepEqual(found.map((text) => /receive queue of (\w)/.exec(text)![1]), short);
    });
  }

  it("Q-01: a shared receive queue is exempt", () => {
    deepEqual(shortReceives(end("a", 8, 8), end("b", 8, 1, true)), []);
  });
});
