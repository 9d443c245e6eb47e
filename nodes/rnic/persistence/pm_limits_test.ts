/** How many persistent writes are outstanding, asked for again, and remembered (P-28, P-30). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { LIMITS } from "../state/limits.ts";
import {
  EVERY_ACCESS,
  names,
  packetOf,
  packets,
  type Pair,
  pair,
  post,
  statuses,
} from "../testing/pair_testing.ts";
import { findRecord, rememberPersist } from "../state/persist_records.ts";
import type { PersistRecord } from "../state/responder_state.ts";
import { FLOW_1, FLOW_2, flushByCpu } from "../testing/pm_testing.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { createResponder } from "../state/responder_state.ts";
import { ACCESS, type PersistencePlan } from "../../../fabric/wire/host_bus/rnic_command.ts";

/** A pair whose rings hold more than may be outstanding; `timeout` as the attribute, 0 is never. */
function deepPair(plan: PersistencePlan, timeout: number): Pair {
  const accessFlags = EVERY_ACCESS | ACCESS.remoteWritePersistence;
  return pair({ persistence: { b: plan } }, {
    depth: 1024,
    rqDepth: 1024,
    persistCompletion: "reception",
    attributes: { accessFlags, timeout },
  });
}

function writes(p: Pair): number {
  return names(p, "a").filter((name) => name.startsWith("VENDOR WRITE")).length;
}

describe("persistent writes whose persistence ACK is not here yet", () => {
  const { persistWaiting, persistProbes } = LIMITS;

  it(`P-28: are ${persistWaiting} at most, though all are received; one that is confirmed makes room`, () => {
    const p = deepPair(FLOW_2, 0);
    p.rig.recv(p.rig.b, p.b, [], "none");
    p.rig.recv(p.rig.a, p.a, [], "none");
    for (let i = 0; i < persistWaiting + 10; i++) post(p, "write-persistence", { length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    const received: string[] = [];
    for (let i = 0; i < 100; i++) {
      p.rig.runFor(PS_PER_US);
      received.push(...statuses(p));
    }
    assert.equal(writes(p), persistWaiting);
    assert.deepEqual(received, new Array(persistWaiting).fill("SUCCESS"));
    assert.equal(flushByCpu(p).length, 1);
    p.rig.runFor(100 * PS_PER_US);
    assert.equal(writes(p), persistWaiting + 1);
  });

  it(`P-30: are asked for again ${persistProbes} at a time-out, the oldest first`, () => {
    // 16.8 ms: all is received long before.
    const p = deepPair(FLOW_1, 12);
    p.rig.fate = (_from, frame) =>
      packetOf(frame.bytes).bth.opcode === OPCODE["VENDOR PERSISTENCE ACKNOWLEDGE"]
        ? "drop"
        : "pass";
    const count = persistProbes + 8;
    for (let i = 0; i < count; i++) post(p, "write-persistence", { length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(30_000 * PS_PER_US);
    const psns = packets(p, "a").map(({ bth }) => bth.psn);
    assert.deepEqual(psns.slice(count), psns.slice(0, persistProbes));
  });
});

describe("remember", () => {
  const { persistRecords } = LIMITS;
  const firstPsn = 0xff_fff0;

  function queuePair(): QueuePair {
    return { responder: createResponder(firstPsn) } as unknown as QueuePair;
  }

  function psnOf(number: number): number {
    return (firstPsn + number) & 0xff_ffff;
  }

  /** Remembers so many, each in the state that it has by its number. */
  function remembered(
    count: number,
    stateOf: (number: number) => PersistRecord["state"],
  ): QueuePair {
    const qp = queuePair();
    for (let number = 0; number < count; number++) {
      const psn = psnOf(number), range = { va: 0, length: 8, spans: [] };
      const state = stateOf(number);
      rememberPersist(qp, { firstPsn: psn, lastPsn: psn, ...range, state, service: undefined });
    }
    return qp;
  }

  function isKept(qp: QueuePair, number: number): boolean {
    return findRecord(qp, psnOf(number)) !== undefined;
  }

  it(`P-30: keeps ${persistRecords} messages that are persistent, the newest`, () => {
    const qp = remembered(persistRecords + 5, () => "persisted");
    assert.equal(qp.responder.persists.length, persistRecords);
    assert.deepEqual([4, 5, persistRecords + 4].map((number) => isKept(qp, number)), [
      false,
      true,
      true,
    ]);
  });

  for (const state of ["pending", "notified", "flushed"] as const) {
    it(`P-30: forgets none that is ${state}, nor any behind it`, () => {
      const isOpen = (number: number) => number === 3;
      const qp = remembered(persistRecords + 50, (number) => isOpen(number) ? state : "persisted");
      assert.ok(!isKept(qp, 2));
      assert.ok(isKept(qp, 3));
      assert.equal(qp.responder.persists.length, persistRecords + 50 - 3);
      findRecord(qp, psnOf(3))!.state = "persisted";
      const psn = psnOf(persistRecords + 50), range = { va: 0, length: 8, spans: [] };
      rememberPersist(qp, {
        firstPsn: psn,
        lastPsn: psn,
        ...range,
        state: "persisted",
        service: undefined,
      });
      assert.equal(qp.responder.persists.length, persistRecords);
    });
  }
});
