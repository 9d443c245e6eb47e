/** UC and UD over a network that loses, doubles and delays: less may arrive, but nothing wrong. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import type { RigQp } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { connectUc, createUd, udAddress } from "../testing/unreliable_testing.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

const SLOT_BYTES = 2048, MESSAGES_MAX = 12, GRH_BYTES = 40;
const NUM_RUNS = 150;

const anyFate = fc.oneof(
  { weight: 6, arbitrary: fc.constant("pass" as const) },
  { weight: 2, arbitrary: fc.constant("drop" as const) },
  { weight: 1, arbitrary: fc.constant("twice" as const) },
  { weight: 2, arbitrary: fc.record({ delayPs: fc.nat(3_000_000) }, { noNullPrototype: true }) },
);
const anyRun = fc.record({
  lengths: fc.array(fc.nat(1200), { minLength: 1, maxLength: MESSAGES_MAX }),
  fates: fc.array(anyFate, { maxLength: 60 }),
  receives: fc.nat(MESSAGES_MAX),
}, { noNullPrototype: true });
type Run = typeof anyRun extends fc.Arbitrary<infer T> ? T : never;

/** Byte `at` of message `number`: no two messages agree in three bytes running. */
function byteOf(number: number, at: number): number {
  return (number * 37 + at * (number + 3)) & 0xff;
}

/** Sends the messages, each with its number as immediate, and looks at what has become of them. */
function play(service: "uc" | "ud", { lengths, fates, receives }: Run): void {
  const rig = new Rig();
  rig.tracing = false;
  const area = service === "ud" ? GRH_BYTES : 0;
  const from = rig.register(rig.a, { length: SLOT_BYTES * MESSAGES_MAX });
  const to = rig.register(rig.b, { length: SLOT_BYTES * MESSAGES_MAX });
  rig.fill(rig.a, from, (i) => byteOf(Math.floor(i / SLOT_BYTES), i % SLOT_BYTES));
  const { a, b }: { a: RigQp; b: RigQp } = service === "uc"
    ? connectUc(rig)
    : { a: createUd(rig, rig.a), b: createUd(rig, rig.b) };
  rig.fate = (side, _frame, index) => side === "b" ? "pass" : fates[index] ?? "pass";
  for (let slot = 0; slot < receives; slot++) {
    const address = to.va + slot * SLOT_BYTES;
    rig.recv(rig.b, b, [{ address, length: SLOT_BYTES, lkey: to.key }]);
  }
  for (const [number, length] of lengths.entries()) {
    rig.enqueueSend(rig.a, a, {
      opcode: "send-immediate",
      immediate: number,
      sges: [{ address: from.va + number * SLOT_BYTES, length, lkey: from.key }],
      ...(service === "ud" && { ud: udAddress(rig.b.plan.address, b.qpn) }),
    });
  }
  rig.ring(rig.a, a.sq);
  rig.run();
  const sent = rig.poll(rig.a, a.sendCq);
  assert.equal(sent.length, lengths.length, "every send completes");
  assert.ok(sent.every(({ status }) => status === "SUCCESS"));
  const received = rig.poll(rig.b, b.recvCq);
  assert.ok(received.length <= receives);
  for (const [slot, cqe] of received.entries()) {
    assert.equal(cqe.opcode, "recv-immediate");
    const length = lengths[cqe.immediate]!;
    assert.equal(cqe.byteCount, length + area, "no message is cut or joined");
    const bytes = rig.bytes(rig.b, to, slot * SLOT_BYTES + area, length);
    assert.deepEqual(bytes, Uint8Array.from({ length }, (_, at) => byteOf(cqe.immediate, at)));
  }
  if (fates.every((fate) => fate === "pass") && receives >= lengths.length) {
    assert.deepEqual(received.map(({ immediate }) => immediate), [...lengths.keys()]);
  }
  assert.deepEqual(rig.frames.filter((frame) => frame.from === "b"), [], "nothing is answered");
}

describe("whatever the network does", () => {
  for (const service of ["uc", "ud"] as const) {
    it(`a message over ${service} arrives whole or not at all, in the receive of its turn`, () => {
      fc.assert(fc.property(anyRun, (run) => play(service, run)), seeded({ numRuns: NUM_RUNS }));
    });
  }
});
