import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { AnswerOrder } from "../../console/checks/answer_order.ts";
import { answersInOrder } from "../../console/checks/wire_checks.ts";
import { livesOf } from "../../console/checks/lives.ts";
import { findingsOf, noted, PLAN, planOf } from "../../console/checks/record_testing.ts";
import { DOUBTS_MAX, WireLedger } from "../../console/checks/wire_ledger.ts";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import { ACK_SYNDROME, NAK_SYNDROMES, rnrSyndrome } from "../../fabric/wire/roce/aeth.ts";
import { GSI_QPN } from "../../fabric/wire/roce/bth.ts";
import { inGrh, makeBth } from "../../fabric/wire/roce/packet_testing.ts";
import { hintParts } from "../../fabric/wire/roce/hint.ts";
import { macOfAddress } from "../../fabric/wire/roce/neighbour.ts";
import { OPCODE, type OpcodeName, opcodeRow } from "../../fabric/wire/roce/opcode.ts";
import { encodePacket, type RocePacket } from "../../fabric/wire/roce/packet.ts";

const HERE = 0x0a00_0002, PEER = 0x0a00_0001;

const { hintEth: ANNOUNCED } = hintParts({
  type: "announce",
  kinds: 1,
  reason: "none",
  sequence: 0,
  answer: true,
  groups: [],
});

interface Said {
  readonly psn: number;
  readonly msn?: number;
  readonly syndrome?: number;
  /** Payload; of a READ request what it asks for. */
  readonly bytes?: number;
  readonly qpn?: number;
  readonly udpSourcePort?: number;
  /** The frame is RoCEv1's. */
  readonly flowLabel?: number;
}

/** A frame of `opcode`; requests go to queue pair 0x22 here, answers to 0x11 of the peer. */
function frame(opcode: OpcodeName, said: Said): Uint8Array<ArrayBuffer> {
  const { psn, msn = 0, syndrome = ACK_SYNDROME, bytes = 0, udpSourcePort = 0xc001 } = said;
  const { headers, direction } = opcodeRow(OPCODE[opcode])!;
  const isRequest = direction === "request";
  const [from, to] = isRequest ? [PEER, HERE] : [HERE, PEER];
  const isRead = opcode === "RC RDMA READ REQUEST";
  const packet: RocePacket = {
    destinationMac: macOfAddress(to),
    sourceMac: macOfAddress(from),
    sourceAddress: from,
    destinationAddress: to,
    dscp: 0,
    ecn: 0,
    ttl: 64,
    identification: 1,
    udpSourcePort,
    bth: makeBth({ opcode: OPCODE[opcode], destQpn: said.qpn ?? (isRequest ? 0x22 : 0x11), psn }),
    payload: new Uint8Array(isRead ? 0 : bytes),
    ...(headers.includes("reth") && { reth: { va: 0n, rkey: 1, length: bytes } }),
    ...(headers.includes("aeth") && { aeth: { syndrome, msn } }),
    ...(headers.includes("atomicEth") &&
      { atomicEth: { va: 0n, rkey: 1, swapAdd: 1n, compare: 0n } }),
    ...(headers.includes("atomicAckEth") && { atomicAckEth: { original: 0n } }),
    ...(headers.includes("persistEth") && { persistEth: { version: 1, reserved: 0 } as never }),
    ...(headers.includes("hintEth") && { hintEth: ANNOUNCED }),
    ...(headers.includes("deth") && { deth: { qKey: 1, reserved: 0, sourceQpn: 1 } }),
  };
  const { flowLabel } = said;
  return encodePacket(flowLabel === undefined ? packet : inGrh(packet, { flowLabel }));
}

type Step = readonly [kind: "in" | "out", frame: Uint8Array<ArrayBuffer>];

const write = (psn: number, more: Partial<Said> = {}): Step => [
  "in",
  frame("RC RDMA WRITE ONLY", { psn, bytes: 8, ...more }),
];
const read = (
  psn: number,
  bytes = 0,
): Step => ["in", frame("RC RDMA READ REQUEST", { psn, bytes })];
const add = (psn: number): Step => ["in", frame("RC FETCH & ADD", { psn })];
const ack = (psn: number, msn: number, more: Partial<Said> = {}): Step => [
  "out",
  frame("RC ACKNOWLEDGE", { psn, msn, ...more }),
];
const nak = (psn: number, msn: number, syndrome: number): Step => ack(psn, msn, { syndrome });
const data = (psn: number, msn: number, position = "ONLY", bytes = 0): Step => [
  "out",
  frame(`RC RDMA READ RESPONSE ${position}` as OpcodeName, { psn, msn, bytes }),
];
const sum = (
  psn: number,
  msn: number,
): Step => ["out", frame("RC ATOMIC ACKNOWLEDGE", { psn, msn })];
const kept = (psn: number, msn: number): Step => [
  "out",
  frame("VENDOR PERSISTENCE ACKNOWLEDGE", { psn, msn }),
];

/** What is wrong with the answers of a port, in their order. */
function wrong(...steps: readonly Step[]): string[] {
  const order = new AnswerOrder();
  return steps.flatMap(([kind, bytes], i) => {
    if (kind === "out") return order.sent(bytes, i)?.text ?? [];
    order.received(bytes);
    return [];
  });
}

const GAP = NAK_SYNDROMES["psn-sequence-error"];
const GONE = NAK_SYNDROMES["remote-operational-error"];

describe("AnswerOrder", () => {
  it("lets answers leave in the order of the requests, ACKs together, across the PSNs' wrap", () => {
    const last = 0xff_ffff;
    assert.deepEqual(
      wrong(
        write(last),
        write(0),
        read(1),
        add(2),
        write(3),
        ack(0, 2),
        data(1, 3),
        sum(2, 4),
        ack(3, 5),
      ),
      [],
    );
  });

  it("finds data that passes an ACK, an atomic's answer, or another's data", () => {
    const behind = "is behind the answer of a later request";
    assert.deepEqual(wrong(write(0), read(1), data(1, 2), ack(0, 2)), [behind]);
    const [found] = wrong(add(0), read(1), data(1, 2), sum(0, 2));
    assert.match(found!, /^is behind the answer of a later request, or/);
    assert.equal(wrong(read(0), read(1), data(1, 2), data(0, 2)).length, 1);
  });

  it("finds an ACK that passes data, also where it is a duplicate's", () => {
    assert.equal(wrong(write(0), read(1), write(2), ack(2, 3), data(1, 3)).length, 1);
    const replay = [write(0), read(1), ack(0, 1), data(1, 2), write(0), read(1)];
    assert.deepEqual(wrong(...replay, ack(0, 2), data(1, 2)), []);
    assert.equal(wrong(...replay, data(1, 2), ack(0, 2)).length, 1);
  });

  it("lets the ACK of a duplicate confirm all that has come, or less, once for each", () => {
    const all = [write(0), write(1), write(2), ack(2, 3), write(0), write(1)];
    assert.deepEqual(wrong(...all, ack(2, 3), ack(2, 3)), []);
    assert.deepEqual(wrong(...all, ack(0, 3), ack(1, 3)), []);
    assert.equal(wrong(...all, ack(2, 3), ack(2, 3), ack(2, 3)).length, 1);
  });

  it("knows a READ's frames: one after the other, with nothing between but a persistence ACK", () => {
    const first = [write(0), read(1, 3000), ack(0, 1), data(1, 2, "FIRST", 1024)];
    const rest = [data(2, 2, "MIDDLE", 1024), data(3, 2, "LAST", 952)];
    assert.deepEqual(wrong(...first, kept(0, 2), ...rest), []);
    assert.equal(wrong(...first, write(4), ack(4, 3), ...rest).length, 2);
    assert.deepEqual(
      wrong(...first, read(2, 1976), data(2, 2, "FIRST", 1024), rest[1]!),
      [],
      "again",
    );
    assert.deepEqual(wrong(...first, write(4), nak(2, 3, GONE)), [], "refused in the middle");
  });

  it("holds a gap's NAK behind what came before the gap, and against what was confirmed", () => {
    assert.deepEqual(wrong(read(0), write(2), data(0, 1), nak(1, 1, GAP), write(1), ack(1, 2)), []);
    assert.equal(wrong(read(0), write(2), nak(1, 1, GAP), data(0, 1)).length, 1);
    const confirmed = [write(0), write(1), ack(1, 2)];
    assert.deepEqual(wrong(...confirmed, nak(1, 2, GAP)), ["asks for what it has confirmed"]);
    assert.deepEqual(wrong(...confirmed, nak(1, 2, rnrSyndrome(1))), [
      "asks for what it has confirmed",
    ]);
    assert.deepEqual(wrong(...confirmed, nak(2, 2, GAP)), []);
  });

  it("finds MSNs that run back, behind persistence ACKs too", () => {
    assert.deepEqual(wrong(write(0), add(1), ack(0, 1), sum(1, 0)), [
      "takes its MSN back from 1 to 0",
    ]);
    assert.deepEqual(wrong(write(0), write(1), ack(0, 1), kept(0, 2), ack(1, 1)), [
      "takes its MSN back from 2 to 1",
    ]);
  });

  it("finds what confirms or answers what has not come", () => {
    for (const step of [ack(1, 1), kept(1, 1), data(0, 1), sum(0, 1), nak(2, 1, GAP)]) {
      assert.equal(wrong(write(0), step).length, 1);
    }
    assert.equal(wrong(ack(0, 1)).length, 1);
  });

  it("P-28: finds a persistence ACK before the reception ACK of its PSN, whatever is between them later", () => {
    const early = ["comes before the reception ACK of its PSN"];
    assert.equal(wrong(write(0), kept(0, 1), ack(0, 1)).length, 1, "of the first of all");
    assert.deepEqual(wrong(write(0), write(1), ack(0, 1), kept(1, 1), ack(1, 2)), early);
    const read1 = [write(0), read(1), write(2), ack(0, 1), data(1, 2)];
    assert.deepEqual(wrong(...read1, kept(0, 2), ack(2, 3), kept(2, 3)), []);
    const mad: Step = ["in", frame("UD SEND ONLY", { psn: 7, bytes: 256, qpn: GSI_QPN })];
    assert.deepEqual(wrong(write(0), ack(0, 1), mad, kept(0, 1)), [], "what was before the CM's");
    const known = [add(0), write(1), sum(0, 1), ack(1, 2)];
    for (const doubt of [[], [mad]]) {
      const again = [...known, ...doubt, add(0), sum(0, 2)];
      assert.deepEqual(wrong(...again, kept(1, 2)), [], "the first request of all comes again");
      assert.deepEqual(wrong(...again, add(0), sum(0, 2), kept(1, 2)), [], "and once more");
      assert.deepEqual(wrong(...again, write(2), kept(2, 2)), early, "not received before, either");
    }
  });

  it("C-01 (in part): tells RoCEv1's connections apart by their flow labels", () => {
    const one = { flowLabel: 7 }, two = { flowLabel: 8 };
    const other = { qpn: 0x23, ...two }, answer = { qpn: 0x12, ...two };
    const begun = [write(0, one), write(0, other), ack(0, 1, answer), write(1, other)];
    assert.deepEqual(wrong(...begun, ack(1, 2, answer), ack(0, 1, one)), []);
    const back = [...begun, ack(1, 2, answer), ack(0, 2, answer), ack(0, 1, one)];
    assert.equal(wrong(...back).length, 1);
  });

  it("tells connections of one peer apart, by PSNs or by UDP port", () => {
    const other = { qpn: 0x23, udpSourcePort: 0xc002 };
    const answer = { qpn: 0x12, udpSourcePort: 0xc002 };
    assert.deepEqual(
      wrong(write(0), write(0, other), write(1, other), ack(1, 2, answer), ack(0, 1)),
      [],
    );
    assert.equal(
      wrong(
        write(0),
        write(0, other),
        write(1, other),
        ack(1, 2, answer),
        ack(0, 2, answer),
        ack(0, 1),
      )
        .length,
      1,
    );
    assert.deepEqual(
      wrong(write(9000), write(5, other), ack(5, 1, { qpn: 0x12 }), ack(9000, 1)),
      [],
    );
  });

  it("H-22: takes hints, whose PSNs are their own, for no requests", () => {
    const hint = (psn: number): Step => ["in", frame("VENDOR HINT", { psn })];
    const far = 0x10_0000;
    const steps = [write(far), hint(0), ack(far, 1), hint(1), write(far + 1), ack(far + 1, 2)];
    assert.deepEqual(wrong(...steps, hint(2), read(far + 2), data(far + 2, 3)), []);
    // Nor is one answered.
    assert.equal(wrong(write(far), hint(far + 1), ack(far + 1, 1)).length, 1);
  });

  it("lets a queue pair be connected anew, by other PSNs or behind the CM's messages", () => {
    const before = [write(0), write(1), ack(1, 2)];
    assert.deepEqual(wrong(...before, write(0x40_0000), ack(0x40_0000, 1)), []);
    const mad: Step = ["in", frame("UD SEND ONLY", { psn: 7, bytes: 256, qpn: GSI_QPN })];
    assert.deepEqual(wrong(...before, mad, write(1), write(2), ack(2, 1)), []);
    assert.equal(wrong(...before, write(2), ack(2, 1)).length, 1);
    assert.deepEqual(wrong(...before, write(0), write(1), ack(1, 2), ack(0, 1)).length, 1);
    assert.deepEqual(wrong(...before, write(0), ack(0, 1)), [], "the same PSN as before");
    const late = write(0x40_0000);
    assert.deepEqual(
      wrong(...before, late, write(2), late, write(2), write(3), ack(2, 3), ack(2, 3), ack(3, 4)),
      [],
      "a packet of another connection that comes late",
    );
    const elsewhere = { qpn: 0x30 };
    assert.deepEqual(wrong(...before, write(0x40_0000, elsewhere), ack(0x40_0000, 1)), []);
  });

  it("forgets in time", () => {
    const order = new AnswerOrder();
    for (let psn = 0; psn < 40_000; psn++) {
      order.received(write(psn)[1]);
      if (psn < 20_000) assert.equal(order.sent(ack(psn, psn + 1)[1], psn), undefined);
    }
    assert.equal(order.sent(ack(39_999, 40_000)[1], 40_000), undefined);
  });
});

describe("AnswerOrder, of a queue pair that may have been connected anew", () => {
  function conditions(...steps: readonly Step[]) {
    const order = new AnswerOrder();
    return steps.flatMap(([kind, bytes], i) => {
      if (kind === "out") return order.sent(bytes, i)?.unless ?? [];
      order.received(bytes);
      return [];
    });
  }

  it("names the rq_psn with which the ACK of a duplicate is right, once", () => {
    const apart = [write(5), ack(99, 0), write(5), ack(99, 0), write(6), write(7), ack(99, 0)];
    assert.deepEqual(conditions(...apart), [{ qpn: 0x22, rqPsn: 100, since: -1 }]);
    assert.deepEqual(conditions(...apart, write(100), ack(100, 1)), conditions(...apart));
    // Each duplicate is answered once, and what has been executed has an MSN.
    assert.equal(wrong(...apart, ack(99, 0), ack(99, 0)).length, 2);
    assert.deepEqual(conditions(write(5), ack(99, 1)), []);
    assert.equal(wrong(write(5), ack(99, 1)).length, 1);
  });

  it("knows since when: the first answer of the connection before", () => {
    assert.deepEqual(conditions(write(5), ack(5, 1), write(6), ack(6, 2), write(7), ack(7, 1)), [
      { qpn: 0x22, rqPsn: undefined, since: 1 },
    ]);
    const again = [write(5), ack(5, 1), write(6), ack(6, 2), write(3), ack(99, 0)];
    assert.deepEqual(conditions(...again), [{ qpn: 0x22, rqPsn: 100, since: 1 }]);
  });
});

describe("answers-in-order", () => {
  const index = PLAN.nodes.findIndex(({ name }) => name === "b-rnic");

  function show(wire: WireLedger, steps: readonly Step[], everyPs: number): void {
    for (const [i, [kind, frame]] of steps.entries()) {
      const time = everyPs * i;
      wire.see({
        ...{ kind: kind === "in" ? "received" : "sent", node: index, event: i, port: 1, text: "" },
        ...{ time, startPs: time, endPs: time + 10, frame },
      });
    }
  }

  function find(
    steps: readonly Step[],
    of: { readonly plan?: RackPlan; readonly power?: readonly FaultPlan[] } = {},
  ): string[] {
    const { plan = PLAN, power = plan.faults } = of;
    const wire = new WireLedger(plan, livesOf(plan, power));
    show(wire, steps, 1_000_000);
    return findingsOf(answersInOrder, { plan, wire });
  }

  it("asks the notes of the card's host whether a program set its queue pair so", () => {
    const wire = new WireLedger(PLAN, livesOf(PLAN, []));
    const steps = [write(5), ack(99, 0), write(100), ack(100, 1), write(101), ack(101, 2)];
    show(wire, [...steps, write(102), ack(102, 1)], 1000);
    const found = (
      ...notes: readonly [time: number, rqPsn: number, qpn?: number, node?: string][]
    ) =>
      findingsOf(answersInOrder, {
        plan: PLAN,
        wire,
        notes: notes.map(([time, rqPsn, qpn = 0x22, node = "b"]) =>
          noted(time, { kind: "connects", qpn, rqPsn }, { node })
        ),
      }).map((text) => /psn=\d+/.exec(text)![0]);
    assert.deepEqual(found([1, 100], [5000, 7]), []);
    assert.deepEqual(found(), ["psn=99", "psn=102"]);
    assert.deepEqual(found([1, 100]), ["psn=102"], "no reset since its first answer");
    assert.deepEqual(found([1, 101], [5000, 7]), ["psn=99"], "another rq_psn");
    assert.deepEqual(found([1, 100], [7001, 7]), ["psn=102"], "afterwards");
    assert.deepEqual(found([1, 100, 0x23], [5000, 7, 0x22, "a"]), ["psn=99", "psn=102"]);
  });

  it("keeps so many doubts and no more", () => {
    const wire = new WireLedger(PLAN, livesOf(PLAN, []));
    const unless = { qpn: 0x22, rqPsn: undefined, since: 0 };
    const doubt = { text: "kept", rnic: "b-rnic", unless, time: 1 };
    for (let i = 0; i < DOUBTS_MAX; i++) wire.doubts.push(doubt);
    show(wire, [write(5), ack(99, 0)], 1000);
    assert.equal(wire.doubts.length, DOUBTS_MAX);
  });

  const late = [write(0), read(1), data(1, 2), ack(0, 2)];

  it("names the card, the frame and the instant", () => {
    const [found] = find(late);
    assert.match(
      found!,
      /^b-rnic sends .* RC ACKNOWLEDGE qp=0x11 psn=0 .* at 3000000 ps, which is behind/,
    );
  });

  it("knows nothing of what a card received before it lost its power", () => {
    const plan = planOf(["{ at: 1500ns, kill: b-rnic }", "{ at: 1700ns, start: b-rnic }"]);
    assert.equal(find([write(0), write(1), ack(1, 2)], { plan }).length, 1);
    assert.deepEqual(find([write(0), ack(0, 1), write(0), ack(0, 0)], { plan }), []);
  });

  it("does not look at what a process received that was killed by no plan: it is dated anew", () => {
    const power = [{ at: 9_000_000, action: "kill", node: "b-rnic" }] as const;
    assert.deepEqual(find(late, { power }), []);
  });

  it("does not count a frame that a cable has damaged: the RNIC drops it", () => {
    const damaged = write(2)[1].slice();
    damaged[60]! ^= 1;
    assert.equal(find([write(0), ["in", damaged], ack(2, 2)]).length, 1);
    assert.equal(find([write(0), write(2), ack(2, 2)]).length, 0);
  });
});
