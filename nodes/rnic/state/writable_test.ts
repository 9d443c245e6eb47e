/**
 * State of the protocol is written in this folder alone. The compiler proves it: each line here that it does not
 * refuse is an error of `deno check`. What runs shows that the functions of the folder do write.
 */
import assert from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { createQueuePair, enterState, type QueuePair } from "./queue_pair.ts";
import { acceptRequest, noteDropped } from "./responder_changes.ts";

/** Never called. */
export function writesFromOutside(qp: QueuePair): void {
  const { requester, responder } = qp;
  // @ts-expect-error A number.
  responder.expectedPsn = 1;
  // @ts-expect-error A message.
  responder.open = undefined;
  // @ts-expect-error A line.
  responder.responses.shift();
  // @ts-expect-error The packets that wait.
  responder.stalled.clear();
  // @ts-expect-error A ring.
  responder.resources.push();
  // @ts-expect-error Records of persistent messages.
  responder.persists.shift();
  // @ts-expect-error A number.
  requester.cursor++;
  // @ts-expect-error The WQEs.
  requester.work.shift();
  // @ts-expect-error A map.
  requester.persistWaiting.clear();
  // @ts-expect-error The queue pair's own.
  qp.state = "err";
  // @ts-expect-error How often it was reset.
  qp.life++;
  // @ts-expect-error What the firmware was told.
  qp.attributes.maxDestRdAtomic = 1;
}

it("what happens to a queue pair is written by the functions of this folder", () => {
  const ring = { address: 0, units: 64 };
  const qp = createQueuePair({
    qpn: 17,
    type: "rc",
    pd: 1,
    sqQueue: 0,
    rqQueue: 1,
    rqStride: 64,
    srq: undefined,
    rings: { sq: ring, rq: ring },
    sendCq: 2,
    recvCq: 2,
    persistCompletion: "persistence",
    weight: 1,
    slot: 0,
  });
  assert.equal(acceptRequest(qp, 7), 1);
  noteDropped(qp, 9);
  noteDropped(qp, 8);
  qp.requester.creditLimit = 3;
  enterState(qp, "err");
  const { state, responder, requester } = qp;
  assert.deepEqual([responder.expectedPsn, responder.lastDropped, requester.creditLimit, state], [
    7,
    9,
    3,
    "err",
  ]);
});
