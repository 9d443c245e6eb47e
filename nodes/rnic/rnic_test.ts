import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { GSI_QKEY } from "../../fabric/wire/roce/deth.ts";
import { OPCODE } from "../../fabric/wire/roce/opcode.ts";
import {
  decodePacket,
  encodePacket,
  isRefusal,
  type RocePacket,
} from "../../fabric/wire/roce/packet.ts";
import { makeBth } from "../../fabric/wire/roce/packet_testing.ts";
import type { QpAttributes } from "../../fabric/wire/host_bus/rnic_command.ts";
import type { RigMr, RigQp } from "./testing/rig_parts_testing.ts";
import { Rig } from "./testing/rnic_testing.ts";

function frameTo(
  rig: Rig,
  packet: Partial<RocePacket> & Pick<RocePacket, "bth">,
): Uint8Array<ArrayBuffer> {
  return encodePacket({
    destinationMac: rig.b.plan.mac,
    sourceMac: rig.a.plan.mac,
    sourceAddress: rig.a.plan.address,
    destinationAddress: rig.b.plan.address,
    dscp: 0,
    ecn: 2,
    ttl: 64,
    identification: 1,
    udpSourcePort: 0xc000,
    payload: new Uint8Array(0),
    ...packet,
  });
}

function writeTo(
  qp: RigQp,
  mr: RigMr,
  change: Partial<RocePacket["bth"]> = {},
): Partial<RocePacket> & Pick<RocePacket, "bth"> {
  return {
    bth: makeBth({
      opcode: OPCODE["RC RDMA WRITE ONLY"],
      destQpn: qp.qpn,
      psn: 0xff_fffe,
      ackReq: true,
      ...change,
    }),
    reth: { va: BigInt(mr.va), rkey: mr.key, length: 4 },
    payload: new Uint8Array([1, 2, 3, 4]),
  };
}

describe("receiving module drops in silence (rocev2.md §3.4)", () => {
  const cases: [string, (rig: Rig, qp: RigQp, mr: RigMr) => Uint8Array<ArrayBuffer>, string][] = [
    ["what is no RoCE frame", () => new Uint8Array(60), "drop-undecodable"],
    ["a flipped payload bit", (rig, qp, mr) => {
      const bytes = frameTo(rig, writeTo(qp, mr));
      bytes[71]! ^= 1;
      return bytes;
    }, "drop-undecodable"],
    [
      "another MAC",
      (rig, qp, mr) => frameTo(rig, { ...writeTo(qp, mr), destinationMac: 5 }),
      "drop-foreign-mac",
    ],
    [
      "another address",
      (rig, qp, mr) => frameTo(rig, { ...writeTo(qp, mr), destinationAddress: 5 }),
      "drop-foreign-address",
    ],
    [
      "an unknown queue pair",
      (rig, qp, mr) => frameTo(rig, writeTo(qp, mr, { destQpn: 999 })),
      "drop-unknown-qp",
    ],
    [
      "a stranger's address",
      (rig, qp, mr) => frameTo(rig, { ...writeTo(qp, mr), sourceAddress: 7 }),
      "drop-wrong-peer",
    ],
    [
      "another partition",
      (rig, qp, mr) => frameTo(rig, writeTo(qp, mr, { pKey: 0x8001 })),
      "drop-p-key",
    ],
    ["another service", (rig, qp) =>
      frameTo(rig, {
        bth: makeBth({ opcode: OPCODE["UC SEND ONLY"], destQpn: qp.qpn, psn: 0xff_fffe }),
      }), "drop-wrong-service"],
    ["a congestion notification", (rig, qp) =>
      frameTo(rig, {
        bth: makeBth({ opcode: OPCODE["CNP"], destQpn: qp.qpn, psn: 0 }),
        payload: new Uint8Array(16),
      }), "drop-congestion-notification"],
  ];
  for (const [name, make, counter] of cases) {
    it(`${name}: no answer, no change, counted`, () => {
      const rig = new Rig();
      const mr = rig.register(rig.b, { length: 4096 });
      const { b } = rig.connect();
      rig.inject(rig.b, make(rig, b, mr));
      rig.run();
      assert.equal(rig.b.rnic.statistics()[counter], 1);
      assert.deepEqual(rig.frames, []);
      assert.deepEqual(rig.bytes(rig.b, mr, 0, 4), new Uint8Array(4));
      rig.inject(rig.b, frameTo(rig, writeTo(b, mr)));
      rig.run();
      assert.deepEqual(rig.bytes(rig.b, mr, 0, 4), new Uint8Array([1, 2, 3, 4]));
    });
  }

  it("ECN, DSCP and TTL may change on the way", () => {
    const rig = new Rig();
    const mr = rig.register(rig.b, { length: 4096 });
    const { b } = rig.connect();
    rig.inject(rig.b, frameTo(rig, { ...writeTo(b, mr), ecn: 3, dscp: 9, ttl: 3 }));
    rig.run();
    assert.deepEqual(rig.bytes(rig.b, mr, 0, 4), new Uint8Array([1, 2, 3, 4]));
  });

  it("in RTR requests are served (COMM_EST), responses dropped; before RTR nothing is taken", () => {
    const rig = new Rig();
    const mr = rig.register(rig.b, { length: 4096 });
    const qp = rig.createQp(rig.b);
    rig.modify(rig.b, qp, { state: "init", accessFlags: 7 });
    rig.inject(rig.b, frameTo(rig, writeTo(qp, mr)));
    rig.run();
    assert.equal(rig.b.rnic.statistics()["drop-wrong-state"], 1);
    rig.modify(rig.b, qp, {
      state: "rtr",
      destAddress: rig.a.plan.address,
      pathMtu: 1024,
      destQpn: 5,
      rqPsn: 0xff_fffe,
      maxDestRdAtomic: 1,
      minRnrTimer: 1,
    });
    const ack = makeBth({ opcode: OPCODE["RC ACKNOWLEDGE"], destQpn: qp.qpn, psn: 0 });
    rig.inject(rig.b, frameTo(rig, { bth: ack, aeth: { syndrome: 0x1f, msn: 0 } }));
    rig.inject(rig.b, frameTo(rig, writeTo(qp, mr)));
    rig.run();
    assert.equal(rig.b.rnic.statistics()["drop-wrong-state"], 2);
    assert.deepEqual(rig.b.host.events, [{ type: "COMM_EST", qpn: qp.qpn }]);
    assert.equal(rig.frames.length, 1);
  });
});

describe("responder refuses with NAK 0x61 and fails (rocev2.md §3.4)", () => {
  const wrong: [string, RocePacket["bth"]["opcode"], Partial<RocePacket>][] = [
    ["MIDDLE without a message", OPCODE["RC RDMA WRITE MIDDLE"], { payload: new Uint8Array(1024) }],
    ["FIRST that is not the path MTU long", OPCODE["RC RDMA WRITE FIRST"], {
      payload: new Uint8Array(512),
    }],
    ["ONLY of another length than announced", OPCODE["RC RDMA WRITE ONLY"], {
      payload: new Uint8Array(12),
    }],
    ["COMPARE & SWAP that the queue pair does not permit", OPCODE["RC COMPARE & SWAP"], {
      atomicEth: { va: 0n, rkey: 0, swapAdd: 0n, compare: 0n },
    }],
    ["FLUSH that the queue pair does not permit", OPCODE["RC FLUSH"], {
      feth: { reserved: 0, select: 0, placement: 2 },
    }],
    ["ATOMIC WRITE that announces another length", OPCODE["RC ATOMIC WRITE"], {
      payload: new Uint8Array(8),
    }],
  ];
  for (const [name, opcode, change] of wrong) {
    it(`${name}`, () => {
      const rig = new Rig();
      const mr = rig.register(rig.b, { length: 4096 });
      const { b } = rig.connect();
      rig.recv(rig.b, b, []);
      const packet = { ...writeTo(b, mr, { opcode }), ...change };
      const reth = { va: BigInt(mr.va), rkey: mr.key, length: 2048 };
      rig.inject(rig.b, frameTo(rig, { ...packet, reth }));
      rig.run();
      const answer = decodePacket(rig.frames[0]!.bytes);
      assert.ok(!isRefusal(answer) && answer.aeth!.syndrome === 0x61);
      assert.equal(rig.frames.length, 1);
      assert.deepEqual(rig.b.host.events.filter(({ type }) => type !== "COMM_EST"), [
        { type: "QP_REQ_ERR", qpn: b.qpn },
      ]);
      assert.deepEqual(rig.poll(rig.b, b.recvCq).map(({ status }) => status), ["WR_FLUSH_ERR"]);
      assert.deepEqual(rig.bytes(rig.b, mr), new Uint8Array(4096));
    });
  }

  it("a new message inside an open one", () => {
    const rig = new Rig();
    const mr = rig.register(rig.b, { length: 4096 });
    const { b } = rig.connect();
    const reth = { va: BigInt(mr.va), rkey: mr.key, length: 2048 };
    const first = writeTo(b, mr, { opcode: OPCODE["RC RDMA WRITE FIRST"] });
    rig.inject(rig.b, frameTo(rig, { ...first, reth, payload: new Uint8Array(1024).fill(9) }));
    rig.inject(rig.b, frameTo(rig, writeTo(b, mr, { psn: 0xff_ffff })));
    rig.run();
    assert.equal(rig.b.rnic.statistics()["naksOut"], 1);
    assert.deepEqual(
      rig.bytes(rig.b, mr, 0, 4),
      new Uint8Array(4).fill(9),
      "what was placed stays",
    );
  });

  it("a vendor LAST behind a plain FIRST", () => {
    const rig = new Rig();
    const mr = rig.register(rig.b, { length: 4096 });
    const { b } = rig.connect();
    const reth = { va: BigInt(mr.va), rkey: mr.key, length: 1028 };
    const first = writeTo(b, mr, { opcode: OPCODE["RC RDMA WRITE FIRST"] });
    const last = writeTo(b, mr, {
      opcode: OPCODE["VENDOR WRITE PERSISTENCE LAST"],
      psn: 0xff_ffff,
    });
    rig.inject(rig.b, frameTo(rig, { ...first, reth, payload: new Uint8Array(1024) }));
    rig.inject(rig.b, frameTo(rig, last));
    rig.run();
    assert.equal(rig.b.rnic.statistics()["naksOut"], 1);
    assert.equal(rig.b.rnic.statistics()["lsbReads"], 0);
  });
});

const ROUTE = { trafficClass: 0, hopLimit: 64, udpSourcePort: 0 };

describe("UD", () => {
  function datagrams(qpn?: number): { rig: Rig; a: RigQp; b: RigQp; from: RigMr; to: RigMr } {
    const rig = new Rig();
    const from = rig.register(rig.a, { length: 8192 });
    const to = rig.register(rig.b, { length: 8192 });
    rig.fill(rig.a, from, (i) => i + 1);
    const options = { type: "ud" as const, ...(qpn !== undefined && { qpn }) };
    const a = rig.createQp(rig.a, options), b = rig.createQp(rig.b, options);
    for (const [side, qp] of [[rig.a, a], [rig.b, b]] as const) {
      rig.modify(side, qp, { state: "init", qKey: 0x1234 });
      rig.modify(side, qp, { state: "rtr" });
      rig.modify(side, qp, { state: "rts", sqPsn: 0 });
    }
    return { rig, a, b, from, to };
  }

  it("a SEND between GSIs arrives behind the 40-byte area, with its source", () => {
    const { rig, a, b, from, to } = datagrams(1);
    rig.recv(rig.b, b, [{ address: to.va, length: 300, lkey: to.key }]);
    rig.send(rig.a, a, {
      opcode: "send",
      ud: { qKey: GSI_QKEY, qpn: 1, address: rig.b.plan.address, ...ROUTE },
      sges: [{ address: from.va, length: 256, lkey: from.key }],
    });
    rig.run();
    const [cqe] = rig.poll(rig.b, b.recvCq);
    assert.deepEqual([cqe?.opcode, cqe?.byteCount, cqe?.sourceQpn], ["recv", 296, 1]);
    assert.deepEqual(rig.bytes(rig.b, to, 40, 256), rig.bytes(rig.a, from, 0, 256));
    assert.deepEqual(
      rig.bytes(rig.b, to, 20 + 12, 4),
      new Uint8Array([10, 0, 0, 1]),
      "IPv4 source",
    );
    assert.equal(rig.poll(rig.a, a.sendCq)[0]?.status, "SUCCESS");
  });

  it("wrong Q_Key, no RECV, or too small a RECV: dropped, counted, the sender succeeds", () => {
    const { rig, a, b, to } = datagrams();
    function say(qKey: number): void {
      rig.send(rig.a, a, {
        opcode: "send",
        ud: { qKey, qpn: b.qpn, address: rig.b.plan.address, ...ROUTE },
        inline: new Uint8Array(100),
      });
      rig.run();
      assert.equal(rig.poll(rig.a, a.sendCq)[0]?.status, "SUCCESS");
    }
    say(0x9999);
    assert.equal(rig.b.rnic.statistics()["drop-q-key"], 1);
    say(0x1234);
    assert.equal(rig.b.rnic.statistics()["drop-no-recv"], 1);
    rig.recv(rig.b, b, [{ address: to.va, length: 139, lkey: to.key }]);
    say(0x1234);
    assert.equal(rig.b.rnic.statistics()["drop-recv-too-small"], 1);
    assert.deepEqual(rig.poll(rig.b, b.recvCq), []);
  });

  it("longer than the port MTU: completes, nothing is sent", () => {
    const { rig, a, b, from } = datagrams();
    rig.send(rig.a, a, {
      opcode: "send",
      ud: { qKey: 0x1234, qpn: b.qpn, address: rig.b.plan.address, ...ROUTE },
      sges: [{ address: from.va, length: 4097, lkey: from.key }],
    });
    rig.run();
    assert.equal(rig.poll(rig.a, a.sendCq)[0]?.status, "SUCCESS");
    assert.deepEqual(rig.frames, []);
  });
});

describe("life cycle", () => {
  it("a refused modify is EINVAL and changes nothing", () => {
    const rig = new Rig();
    const qp = rig.createQp(rig.a);
    const wrong: QpAttributes[] = [
      { state: "rtr" },
      { state: "init" },
      { state: "init", accessFlags: 1, sqPsn: 5 },
      { state: "rts" },
      { state: "err" },
    ];
    for (const attributes of wrong) {
      const reply = rig.modify(rig.a, qp, attributes);
      assert.ok(reply.status === "error" && reply.errno === "EINVAL", JSON.stringify(attributes));
    }
    assert.equal(rig.modify(rig.a, qp, { state: "init", accessFlags: 1 }).status, "ok");
  });

  it("to ERR: everything posted completes WR_FLUSH_ERR in order; later posts too", () => {
    const rig = new Rig({ fate: () => "drop" });
    const from = rig.register(rig.a, { length: 8192 });
    const { a } = rig.connect();
    const sends = Array.from(
      { length: 5 },
      () => rig.enqueueSend(rig.a, a, { opcode: "send", inline: new Uint8Array(20) }),
    );
    rig.ring(rig.a, a.sq);
    const recvs = Array.from(
      { length: 3 },
      () => rig.recv(rig.a, a, [{ address: from.va, length: 9, lkey: from.key }]),
    );
    rig.run(() => rig.frames.length > 2);
    rig.modify(rig.a, a, { state: "err" });
    rig.run();
    const cqes = rig.poll(rig.a, a.sendCq);
    assert.ok(cqes.every(({ status }) => status === "WR_FLUSH_ERR"));
    assert.deepEqual(
      cqes.filter(({ opcode }) => opcode === "requester-error").map(({ wqeIndex }) => wqeIndex),
      sends,
    );
    assert.deepEqual(
      cqes.filter(({ opcode }) => opcode === "responder-error").map(({ wqeIndex }) => wqeIndex),
      recvs,
    );
    rig.send(rig.a, a, { opcode: "send", inline: new Uint8Array(20) });
    rig.recv(rig.a, a, [], "pointer");
    rig.run();
    assert.deepEqual(rig.poll(rig.a, a.sendCq).map(({ status }) => status), [
      "WR_FLUSH_ERR",
      "WR_FLUSH_ERR",
    ]);
  });

  it("RESET after an error, then the way up again: traffic works with fresh PSNs", () => {
    const rig = new Rig();
    const from = rig.register(rig.a, { length: 8192 });
    const to = rig.register(rig.b, { length: 8192 });
    const { a, b } = rig.connect();
    const wqe = {
      opcode: "write",
      sges: [{ address: from.va, length: 100, lkey: from.key }],
    } as const;
    rig.send(rig.a, a, { ...wqe, remote: { va: BigInt(to.va), rkey: to.key + 1 } });
    rig.run();
    assert.equal(rig.poll(rig.a, a.sendCq)[0]?.status, "REM_ACCESS_ERR");
    for (const [side, qp, peer] of [[rig.a, a, b], [rig.b, b, a]] as const) {
      assert.equal(rig.modify(side, qp, { state: "reset" }).status, "ok");
      for (const ring of [qp.sq, qp.rq]) {
        ring.write = ring.depth - 1;
        rig.ring(side, ring, "none");
      }
      rig.bringUp(side, qp, { qpn: peer.qpn, attributes: { sqPsn: 77, rqPsn: 77 } });
    }
    rig.send(rig.a, a, { ...wqe, remote: { va: BigInt(to.va), rkey: to.key } });
    rig.run();
    const [cqe] = rig.poll(rig.a, a.sendCq);
    assert.deepEqual([cqe?.status, cqe?.wqeIndex], ["SUCCESS", 0]);
  });

  it("a destroyed queue pair is gone for its peer; its completion queues are free again", () => {
    const rig = new Rig();
    const { b } = rig.connect();
    assert.equal(rig.command(rig.b, { op: "destroy-cq", cqn: b.sendCq.cqn }).status, "error");
    assert.equal(rig.command(rig.b, { op: "destroy-qp", qpn: b.qpn }).status, "ok");
    assert.equal(rig.command(rig.b, { op: "destroy-cq", cqn: b.sendCq.cqn }).status, "ok");
    assert.equal(rig.command(rig.b, { op: "destroy-qp", qpn: b.qpn }).status, "error");
  });
});
