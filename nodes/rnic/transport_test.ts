/** What WRITE, READ and SEND do on a wire that loses little (`loss_test.ts`). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { OPCODE } from "../../fabric/wire/roce/opcode.ts";
import { go, names, packetOf, packets, type Pair } from "./testing/pair_testing.ts";
import { read, scatteredPair, source, write } from "./testing/transport_testing.ts";

describe("WRITE", () => {
  const cases: [number, string[]][] = [
    [0, ["RC RDMA WRITE ONLY"]],
    [1, ["RC RDMA WRITE ONLY"]],
    [1024, ["RC RDMA WRITE ONLY"]],
    [1025, ["RC RDMA WRITE FIRST", "RC RDMA WRITE LAST"]],
    [3000, ["RC RDMA WRITE FIRST", "RC RDMA WRITE MIDDLE", "RC RDMA WRITE LAST"]],
  ];
  for (const [length, expected] of cases) {
    it(`§7 #49: of ${length} B is cut by the path MTU, lands whole and completes once`, () => {
      const p = scatteredPair();
      write(p, length, { at: 3 });
      go(p);
      assert.deepEqual(names(p, "a"), expected);
      assert.deepEqual(names(p, "b"), ["RC ACKNOWLEDGE"]);
      const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
      assert.deepEqual(cqes.map(({ status }) => status), ["SUCCESS"]);
      assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 3, length), source(p, 3, length));
      assert.equal(p.rig.bytes(p.rig.b, p.to, 3 + length, 1)[0], 0xee);
      assert.equal(p.rig.poll(p.rig.b, p.b.recvCq).length, 0);
    });
  }

  it("with inline data needs no payload read and keeps the data of posting time (Q-02)", () => {
    const p = scatteredPair();
    const { rig, a, to } = p;
    const inline = Uint8Array.from({ length: 200 }, (_, i) => i);
    rig.send(rig.a, a, { opcode: "write", remote: { va: BigInt(to.va), rkey: to.key }, inline });
    rig.run();
    assert.deepEqual(rig.bytes(rig.b, to, 0, 200), inline);
    assert.equal(rig.a.rnic.statistics()["dmaReads"], 1);
  });

  it("gathers several elements of local memory", () => {
    const p = scatteredPair();
    const { rig, a, from, to } = p;
    const sges = [[10, 700], [9000, 0], [5000, 900]].map(([at, length]) => ({
      address: from.va + at!,
      length: length!,
      lkey: from.key,
    }));
    rig.send(rig.a, a, { opcode: "write", remote: { va: BigInt(to.va), rkey: to.key }, sges });
    rig.run();
    assert.deepEqual(rig.bytes(rig.b, to, 0, 700), source(p, 10, 700));
    assert.deepEqual(rig.bytes(rig.b, to, 700, 900), source(p, 5000, 900));
  });

  it("unsignalled ones complete silently, the signalled one behind them speaks for all", () => {
    const p = scatteredPair();
    for (let i = 0; i < 8; i++) write(p, 100, { at: i * 100, signaled: false });
    const last = write(p, 100, { at: 800 });
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ wqeIndex }) => wqeIndex), [last]);
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 900), source(p, 0, 900));
  });

  it("with immediate consumes a RECV and tells the message's length", () => {
    const p = scatteredPair();
    const { rig, a, b, from, to } = p;
    rig.recv(rig.b, b, []);
    rig.send(rig.a, a, {
      opcode: "write-immediate",
      immediate: 0xdead,
      remote: { va: BigInt(to.va), rkey: to.key },
      sges: [{ address: from.va, length: 2500, lkey: from.key }],
    });
    rig.run();
    const [cqe] = rig.poll(rig.b, b.recvCq);
    assert.deepEqual([cqe?.opcode, cqe?.byteCount, cqe?.immediate], [
      "recv-write-immediate",
      2500,
      0xdead,
    ]);
    assert.equal(rig.poll(rig.a, a.sendCq)[0]?.status, "SUCCESS");
  });

  it("goes on over the wrap of the PSN", () => {
    const p = scatteredPair({}, { attributes: { sqPsn: 0xff_fffe, rqPsn: 0xff_fffe } });
    write(p, 5000);
    go(p);
    assert.deepEqual(packets(p, "a").map(({ bth }) => bth.psn), [
      0xff_fffe,
      0xff_ffff,
      0,
      1,
      2,
    ]);
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 5000), source(p, 0, 5000));
  });
});

describe("READ", () => {
  for (const length of [0, 1, 1024, 3000]) {
    it(`of ${length} B brings the peer's memory`, () => {
      const p = scatteredPair();
      p.rig.fill(p.rig.b, p.to, (i) => i * 3);
      read(p, length);
      go(p);
      const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
      assert.deepEqual(cqes.map(({ status, byteCount }) => [status, byteCount]), [[
        "SUCCESS",
        length,
      ]]);
      assert.deepEqual(source(p, 0, length), p.rig.bytes(p.rig.b, p.to, 0, length));
    });
  }

  it("§7 #50: takes one PSN per response packet, also over the wrap", () => {
    const p = scatteredPair();
    read(p, 3000);
    write(p, 10, { at: 8000 });
    go(p);
    assert.deepEqual(packets(p, "a").map(({ bth }) => bth.psn), [0xff_fffe, 1]);
    assert.deepEqual(packets(p, "b").map(({ bth }) => bth.psn), [0xff_fffe, 0xff_ffff, 0, 1]);
  });

  it("§7 #67: at most max_rd_atomic are outstanding, and nothing overtakes them", () => {
    const p = scatteredPair({}, { attributes: { maxRdAtomic: 2 } });
    for (let i = 0; i < 5; i++) read(p, 100, i * 100);
    write(p, 10, { at: 8000 });
    let outstanding = 0, most = 0;
    p.rig.fate = (_from, frame) => {
      const packet = packetOf(frame.bytes);
      if (packet.bth.opcode === OPCODE["RC RDMA READ REQUEST"]) {
        most = Math.max(most, ++outstanding);
      }
      if (packet.bth.opcode === OPCODE["RC RDMA READ RESPONSE ONLY"]) outstanding--;
      return "pass";
    };
    go(p);
    assert.equal(most, 2);
    assert.equal(names(p, "a").at(-1), "RC RDMA WRITE ONLY");
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 6);
  });

  it("§7 #68: a fenced WRITE waits for it, an unfenced one does not", () => {
    for (const fence of [true, false]) {
      const p = scatteredPair();
      read(p, 1000);
      p.rig.enqueueSend(p.rig.a, p.a, {
        opcode: "write",
        fence,
        remote: { va: BigInt(p.to.va + 9000), rkey: p.to.key },
        sges: [{ address: p.from.va, length: 8, lkey: p.from.key }],
      });
      let sawResponse = false, order = "";
      p.rig.fate = (from, frame) => {
        const { bth } = packetOf(frame.bytes);
        if (from === "b" && bth.opcode === OPCODE["RC RDMA READ RESPONSE ONLY"]) sawResponse = true;
        if (bth.opcode === OPCODE["RC RDMA WRITE ONLY"]) order = sawResponse ? "after" : "before";
        return "pass";
      };
      go(p);
      assert.equal(order, fence ? "after" : "before");
    }
  });

  it("§7 #74: behind a WRITE of the same address returns what was written (P-03, P-10)", () => {
    const p = scatteredPair();
    write(p, 64);
    const { rig, a, from, to } = p;
    rig.enqueueSend(rig.a, a, {
      opcode: "read",
      remote: { va: BigInt(to.va), rkey: to.key },
      sges: [{ address: from.va + 20000, length: 64, lkey: from.key }],
    });
    go(p);
    assert.deepEqual(source(p, 20000, 64), source(p, 0, 64));
  });

  it("§7 #55: a lost response in the middle is asked for from there", () => {
    const p = scatteredPair();
    p.rig.fill(p.rig.b, p.to, (i) => i * 5);
    let lost = 0;
    p.rig.fate = (from, frame) => {
      const { bth } = packetOf(frame.bytes);
      const isSecond = from === "b" && bth.psn === 0xff_ffff;
      return isSecond && lost++ === 0 ? "drop" : "pass";
    };
    read(p, 4000);
    go(p);
    const requests = packets(p, "a").map(({ bth, reth }) => [bth.psn, reth!.length]);
    assert.deepEqual(requests, [[0xff_fffe, 4000], [0xff_ffff, 4000 - 1024]]);
    assert.deepEqual(source(p, 0, 4000), p.rig.bytes(p.rig.b, p.to, 0, 4000));
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "SUCCESS");
  });
});

describe("SEND", () => {
  function post(p: Pair, length: number, immediate?: number): void {
    const { rig, a, from } = p;
    rig.enqueueSend(rig.a, a, {
      opcode: immediate === undefined ? "send" : "send-immediate",
      immediate: immediate ?? 0,
      sges: [{ address: from.va, length, lkey: from.key }],
    });
  }

  it("of several packets lands in the RECV's elements and completes both sides", () => {
    const p = scatteredPair();
    const { rig, b, to } = p;
    rig.recv(rig.b, b, [
      { address: to.va, length: 1500, lkey: to.key },
      { address: to.va + 4096, length: 4000, lkey: to.key },
    ]);
    post(p, 3000, 7);
    go(p);
    const [cqe] = rig.poll(rig.b, b.recvCq);
    assert.deepEqual([cqe?.opcode, cqe?.byteCount, cqe?.immediate, cqe?.wqeIndex], [
      "recv-immediate",
      3000,
      7,
      0,
    ]);
    assert.deepEqual(rig.bytes(rig.b, to, 0, 1500), source(p, 0, 1500));
    assert.deepEqual(rig.bytes(rig.b, to, 4096, 1500), source(p, 1500, 1500));
    assert.equal(rig.poll(rig.a, p.a.sendCq)[0]?.status, "SUCCESS");
  });

  it("without a RECV gets an RNR NAK, waits, and succeeds when one is posted", () => {
    const p = scatteredPair();
    post(p, 100);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(25 * PS_PER_US);
    assert.ok(p.rig.b.rnic.statistics()["rnrNaksOut"]! >= 2);
    p.rig.recv(p.rig.b, p.b, [{ address: p.to.va, length: 100, lkey: p.to.key }]);
    p.rig.run();
    assert.equal(p.rig.poll(p.rig.b, p.b.recvCq).length, 1);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "SUCCESS");
  });

  it("with rnr_retry 0 fails at the first RNR NAK", () => {
    const p = scatteredPair({}, { attributes: { rnrRetry: 0 } });
    post(p, 100);
    post(p, 100);
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ status }) => status), ["RNR_RETRY_EXC_ERR", "WR_FLUSH_ERR"]);
  });

  it("§7 #62: longer than the RECV: NAK 0x61, LOC_LEN_ERR here, REM_INV_REQ_ERR there", () => {
    const p = scatteredPair();
    p.rig.recv(p.rig.b, p.b, [{ address: p.to.va, length: 50, lkey: p.to.key }]);
    p.rig.recv(p.rig.b, p.b, [{ address: p.to.va, length: 50, lkey: p.to.key }]);
    post(p, 100);
    go(p);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "REM_INV_REQ_ERR");
    const received = p.rig.poll(p.rig.b, p.b.recvCq).map((
      { status, wqeIndex },
    ) => [status, wqeIndex]);
    assert.deepEqual(received, [["LOC_LEN_ERR", 0], ["WR_FLUSH_ERR", 1]]);
    assert.deepEqual(p.rig.b.host.events, [{ type: "QP_REQ_ERR", qpn: p.b.qpn }]);
  });

  it("into a RECV whose key is bad: NAK 0x63, LOC_PROT_ERR here, REM_OP_ERR there", () => {
    const p = scatteredPair();
    p.rig.recv(p.rig.b, p.b, [{ address: p.to.va, length: 500, lkey: p.to.key + 1 }]);
    post(p, 100);
    go(p);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "REM_OP_ERR");
    assert.equal(p.rig.poll(p.rig.b, p.b.recvCq)[0]?.status, "LOC_PROT_ERR");
  });

  it("§7 #52: whose ACK is lost is acknowledged again and received once", () => {
    const p = scatteredPair();
    p.rig.recv(p.rig.b, p.b, [{ address: p.to.va, length: 500, lkey: p.to.key }]);
    p.rig.recv(p.rig.b, p.b, [{ address: p.to.va, length: 500, lkey: p.to.key }]);
    let acks = 0;
    p.rig.fate = (from) => from === "b" && acks++ === 0 ? "drop" : "pass";
    post(p, 100);
    go(p);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "SUCCESS");
    assert.equal(p.rig.poll(p.rig.b, p.b.recvCq).length, 1);
    assert.equal(p.rig.b.rnic.statistics()["duplicatesIn"], 1);
  });
});
