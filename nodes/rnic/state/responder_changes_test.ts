import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ACK_SYNDROME, NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import type { QueuePair } from "./queue_pair.ts";
import { followReception, mergeAck, oweAck, oweAnswer, passAnswer } from "./responder_changes.ts";
import { type AckService, createResponder, type ReadService } from "./responder_state.ts";

const FIRST_PSN = 0xff_fffe;

function ack(psn: number, syndrome: number = ACK_SYNDROME): AckService {
  return { kind: "ack", psn, syndrome, msn: 1, readyAt: 0 };
}

describe("followReception (P-28)", () => {
  const responderOf = () => ({ responder: createResponder(FIRST_PSN) }) as unknown as QueuePair;
  /** What holds back a later ACK. */
  const oweRead = (qp: QueuePair, psn: number) => {
    oweAnswer(qp, { kind: "read", psn } as ReadService);
    oweAck(qp, ack(500));
  };

  it("waits for the reception ACK that is owed, also in another one", () => {
    const qp = responderOf();
    oweRead(qp, FIRST_PSN + 1);
    assert.equal(followReception(qp, ack(FIRST_PSN)), true);
    passAnswer(qp);
    assert.equal(followReception(qp, ack(499)), true);
  });

  it("waits for no later one, where its own is the transmitter's, across the PSNs' wrap", () => {
    const qp = responderOf();
    oweAck(qp, ack(FIRST_PSN));
    passAnswer(qp);
    // The transmitter still has it: this one is merged.
    assert.equal(mergeAck(qp, { psn: 0, readyAt: 0 }), true);
    oweRead(qp, 1);
    for (const psn of [FIRST_PSN, 0]) assert.equal(followReception(qp, ack(psn)), false);
    assert.equal(followReception(qp, ack(2)), true);
  });

  it("takes an answer for a sign of what came before, and no NAK, which may be withdrawn", () => {
    const qp = responderOf();
    oweAck(qp, ack(10, NAK_SYNDROMES["psn-sequence-error"]));
    passAnswer(qp);
    oweRead(qp, 11);
    assert.equal(followReception(qp, ack(9)), true);
    passAnswer(qp);
    assert.equal(followReception(qp, ack(9)), false);
  });
});
