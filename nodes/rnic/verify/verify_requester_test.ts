/**
 * Verified writes at their sender, whose peer the test plays (V-01, V-09): acknowledgements on the way,
 * the one answer, what is sent again, and what completes.
 */
import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { NAK_SYNDROMES, rnrSyndrome } from "../../../fabric/wire/roce/aeth.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import type { QpAttributes } from "../../../fabric/wire/host_bus/rnic_command.ts";
import {
  decodeVerdict,
  VERIFY_BYTES_MAX,
  VERIFY_STATUS,
} from "../../../fabric/wire/roce/verify_eth.ts";
import { LIMITS } from "../state/limits.ts";
import { counter, type Pair, post, statuses } from "../testing/pair_testing.ts";
import {
  alone,
  answer,
  CHECKED,
  FOREVER,
  frames,
  isAlive,
  moreSent,
  MTU,
  postVerified,
  respond,
  sentSince,
  shapes,
  untilSent,
  verdict,
} from "../testing/verify_requester_testing.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

const ACK = "RC ACKNOWLEDGE", ANSWER = "RC RDMA READ RESPONSE ONLY";
const SEQUENCE_ERROR = { syndrome: NAK_SYNDROMES["psn-sequence-error"] };

/** A verified write of so many packets, all of which are on the wire; no timer runs. */
function sentWrite(
  packets: number,
  attributes: QpAttributes = {},
): { readonly p: Pair; readonly sent: RocePacket[] } {
  const p = alone({ pathMtu: MTU, ...FOREVER, ...attributes });
  postVerified(p, { ...CHECKED, length: packets * MTU });
  const sent = untilSent(p, packets);
  p.rig.run();
  equal(frames(p), packets);
  return { p, sent };
}

describe("an ACK of a verified write's packets", () => {
  it("V-01: is reception, which neither answers nor completes it", () => {
    const { p, sent } = sentWrite(4);
    for (const packet of sent.slice(0, 3)) respond(p, ACK, packet);
    same(sentSince(p, 4), []);
    same(statuses(p), []);
    answer(p, sent[3]!);
    p.rig.run();
    same(statuses(p), ["SUCCESS"]);
  });

  it("V-01: lets the window move, so that the longest message arrives at the smallest MTU", () => {
    const p = alone({ pathMtu: MTU, ...FOREVER }, { memoryBytes: 1 << 23 });
    const from = p.rig.register(p.rig.a, { length: VERIFY_BYTES_MAX, va: 0x2_0000_0000 });
    const sges = [{ address: from.va, length: VERIFY_BYTES_MAX, lkey: from.key }];
    const count = VERIFY_BYTES_MAX / MTU;
    postVerified(p, { ...CHECKED, sges });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run();
    equal(frames(p), LIMITS.windowPackets);
    while (frames(p) < count) {
      const known = frames(p);
      respond(p, ACK, moreSent(p, known)[known - 1]!);
      p.rig.run();
      equal(frames(p), Math.min(count, known + LIMITS.windowPackets));
    }
    answer(p, moreSent(p, count)[count - 1]!);
    p.rig.run();
    same(statuses(p), ["SUCCESS"]);
    equal(counter(p, "a", "retransmissions"), 0);
  });

  it("V-08: of the last packet or behind it says that the answer was lost: only LAST is sent again", () => {
    for (const behind of [0, 1]) {
      const { p, sent } = sentWrite(4);
      post(p, "write", { length: 8 });
      const [next] = untilSent(p, 5).slice(4);
      respond(p, ACK, behind === 0 ? sent[3]! : next!);
      same(sentSince(p, 5), ["VERIFY LAST 3", "WRITE ONLY 4"]);
      // More that says the same asks for nothing more.
      respond(p, ACK, next!);
      same(sentSince(p, 7), []);
      answer(p, sent[3]!);
      respond(p, ACK, next!);
      p.rig.run();
      same(statuses(p), ["SUCCESS", "SUCCESS"]);
    }
  });

  it("§3.3: a lost answer costs a retry, as any loss does", () => {
    const p = alone({ pathMtu: MTU, timeout: 6, retryCnt: 1 });
    postVerified(p, { ...CHECKED, length: 8 });
    const [only] = untilSent(p, 1);
    respond(p, ACK, only!);
    p.rig.run();
    same(statuses(p), ["RETRY_EXC_ERR"]);
    same([frames(p), counter(p, "a", "timeouts")], [2, 1]);
  });
});

describe("go-back-N within a verified write", () => {
  it("§3.3: goes on from the packet that the peer expects, and counts those before it as received", () => {
    for (const at of [0, 1, 2, 3]) {
      const { p, sent } = sentWrite(4);
      respond(p, ACK, sent[at]!, SEQUENCE_ERROR);
      same(sentSince(p, 4), shapes(sent).slice(at), `from ${at} on`);
      answer(p, sent[3]!);
      p.rig.run();
      same(statuses(p), ["SUCCESS"]);
    }
  });

  it("§3.3: a time-out sends again what is not acknowledged, only LAST where all else is", () => {
    for (const acked of [0, 1, 3]) {
      const p = alone({ pathMtu: MTU, timeout: 6 });
      postVerified(p, { ...CHECKED, length: 4 * MTU });
      const sent = untilSent(p, 4);
      if (acked > 0) respond(p, ACK, sent[acked - 1]!);
      const again = moreSent(p, 4 + 4 - acked).slice(4);
      same(shapes([sent[0]!, ...again]).slice(1), shapes(sent).slice(acked));
      equal(counter(p, "a", "timeouts"), 1);
      answer(p, sent[3]!);
      p.rig.run();
      same(statuses(p), ["SUCCESS"]);
    }
  });

  it("§3.3: does not send again what an ACK has overtaken", () => {
    const packets = 120;
    const { p, sent } = sentWrite(packets);
    respond(p, ACK, sent[0]!, SEQUENCE_ERROR);
    moreSent(p, packets + 1);
    respond(p, ACK, sent[100]!);
    const again = sentSince(p, packets);
    equal(again.at(-1), `VERIFY LAST ${packets - 1}`);
    equal(again.length < packets, true, `${again.length} were sent again`);
    equal(again.includes("VERIFY MIDDLE 99"), false);
    equal(again.includes("VERIFY MIDDLE 101"), true);
  });

  it("§3.3: waits as an RNR NAK of the first packet says, and begins again", () => {
    const { p, sent } = sentWrite(3);
    respond(p, ACK, sent[0]!, { syndrome: rnrSyndrome(1) });
    same(sentSince(p, 3), shapes(sent));
    equal(counter(p, "a", "rnrNaksIn"), 1);
    answer(p, sent[2]!);
    p.rig.run();
    same(statuses(p), ["SUCCESS"]);
  });

  it("§3.3: a NAK that ends the queue pair fails it as a whole, not what was before", () => {
    const ends = [
      ["invalid-request", "REM_INV_REQ_ERR"],
      ["remote-access-error", "REM_ACCESS_ERR"],
      ["remote-operational-error", "REM_OP_ERR"],
    ] as const;
    for (const [nak, status] of ends) {
      for (const at of [1, 2, 4]) {
        const p = alone({ pathMtu: MTU, ...FOREVER });
        post(p, "write", { length: 8 });
        postVerified(p, { ...CHECKED, length: 4 * MTU, unsignaled: true });
        postVerified(p, { ...CHECKED, length: 8 });
        const sent = untilSent(p, 6);
        respond(p, ACK, sent[at]!, { syndrome: NAK_SYNDROMES[nak] });
        p.rig.run();
        same(statuses(p), ["SUCCESS", status, "WR_FLUSH_ERR"]);
      }
    }
  });
});

describe("the answer to a verified write", () => {
  it("V-01: completes it, and says that all of it was received, whatever ACKs were lost", () => {
    const p = alone({ pathMtu: MTU, ...FOREVER });
    post(p, "write", { length: 8 });
    postVerified(p, { ...CHECKED, length: 3 * MTU });
    const sent = untilSent(p, 4);
    answer(p, sent[3]!);
    p.rig.run();
    same(statuses(p), ["SUCCESS", "SUCCESS"]);
    equal(isAlive(p), true);
  });

  it("V-01: has the last packet's PSN; another one is none", () => {
    const { p, sent } = sentWrite(3);
    for (const packet of sent.slice(0, 2)) answer(p, packet);
    same(sentSince(p, 3), []);
    same(statuses(p), []);
    equal(counter(p, "a", "ignoredResponsesIn"), 2);
    answer(p, sent[2]!);
    answer(p, sent[2]!, { status: VERIFY_STATUS["read-failed"] });
    p.rig.run();
    same(statuses(p), ["SUCCESS"]);
    equal(counter(p, "a", "ignoredResponsesIn"), 3);
  });

  it("§3.3: of another kind, size or version is a bad response", () => {
    const good = verdict();
    const bad: [Parameters<typeof respond>[1], Uint8Array<ArrayBuffer>][] = [
      [ANSWER, new Uint8Array(0)],
      [ANSWER, good.slice(1)],
      [ANSWER, new Uint8Array([...good, 0])],
      [ANSWER, good.with(0, 2)],
      [ANSWER, good.with(1, 4)],
      ["RC RDMA READ RESPONSE FIRST", good],
      ["RC RDMA READ RESPONSE MIDDLE", good],
      ["RC RDMA READ RESPONSE LAST", good],
      ["RC ATOMIC ACKNOWLEDGE", new Uint8Array(0)],
    ];
    for (const [opcode, payload] of bad) {
      const { p, sent } = sentWrite(2);
      const memory = p.rig.bytes(p.rig.a, p.from);
      respond(p, opcode, sent[1]!, { payload });
      p.rig.run();
      same(statuses(p), ["BAD_RESP_ERR"], `${opcode} of ${payload.length} B`);
      same(p.rig.bytes(p.rig.a, p.from), memory);
      equal(isAlive(p), false);
    }
  });

  it("V-08: of a later write shows that an earlier one's was lost: that one is asked for", () => {
    const p = alone({ pathMtu: MTU, ...FOREVER });
    postVerified(p, { ...CHECKED, length: 3 * MTU });
    postVerified(p, { ...CHECKED, length: 2 * MTU });
    const sent = untilSent(p, 5);
    answer(p, sent[4]!);
    const again = sentSince(p, 5);
    same(again, ["VERIFY LAST 2", "VERIFY FIRST 3", "VERIFY LAST 4"]);
    answer(p, sent[2]!, { status: VERIFY_STATUS["crc-mismatch"] });
    answer(p, sent[4]!);
    p.rig.run();
    same(statuses(p), ["VERIFY_ERR", "SUCCESS"]);
  });
});

describe("any responses to verified writes", () => {
  /** A response of any kind, about a packet that was sent or one that was not. */
  const anyResponse = fc.record({
    opcode: fc.constantFrom(ACK, ANSWER, "RC RDMA READ RESPONSE FIRST", "RC ATOMIC ACKNOWLEDGE"),
    psn: fc.integer({ min: -2, max: 14 }),
    syndrome: fc.oneof(
      { weight: 3, arbitrary: fc.constant(0x1f) },
      { weight: 2, arbitrary: fc.constant(SEQUENCE_ERROR.syndrome) },
      { weight: 1, arbitrary: fc.nat(255) },
    ),
    payload: fc.oneof(
      fc.record({ status: fc.nat(5), checks: fc.nat(31) }).map(verdict),
      fc.uint8Array({ maxLength: 12 }).map((bytes) => new Uint8Array(bytes)),
    ),
  });

  it("V-01: complete each write at most once and in order, with its own answer or an error", () => {
    fc.assert(
      fc.property(fc.array(anyResponse, { maxLength: 24 }), (responses) => {
        const p = alone({ pathMtu: MTU, timeout: 5, retryCnt: 1 });
        const posted = [4, 1, 3].map((packets) =>
          postVerified(p, { ...CHECKED, length: packets * MTU })
        );
        const [first] = untilSent(p, 1);
        for (const { opcode, psn, syndrome, payload } of responses) {
          const bth = { ...first!.bth, psn: (first!.bth.psn + psn) & 0xff_ffff };
          respond(p, opcode as typeof ACK, { ...first!, bth }, {
            syndrome,
            payload: opcode === ACK || opcode === "RC ATOMIC ACKNOWLEDGE"
              ? new Uint8Array(0)
              : payload,
          });
          for (let steps = 0; steps < 12; steps++) p.rig.step();
        }
        p.rig.run();
        const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
        same(cqes.map(({ wqeIndex }) => wqeIndex), posted);
        for (const { opcode, status, verify } of cqes) {
          const isAnswered = status === "SUCCESS" || status === "VERIFY_ERR";
          equal(opcode, isAnswered ? "requester" : "requester-error");
          const answered = decodeVerdict(verify)?.status;
          equal(answered !== undefined, isAnswered);
          if (isAnswered) equal(answered === "written", status === "SUCCESS");
        }
      }),
      seeded({ numRuns: 200, seed: 4 }),
    );
  });
});
