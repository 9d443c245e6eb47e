import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/time/time.ts";
import { OPCODE, opcodeRow } from "../../fabric/wire/opcode.ts";
import { decodePacket, isRefusal, type RocePacket } from "../../fabric/wire/packet.ts";
import { ACCESS } from "../../fabric/wire/rnic_command.ts";
import type { Pair } from "./pair_testing.ts";
import type { RigMr } from "./rig_parts_testing.ts";
import { Rig } from "./rnic_testing.ts";

function packets(rig: Rig, from: "a" | "b"): RocePacket[] {
  const all: RocePacket[] = [];
  for (const frame of rig.frames) {
    if (frame.from !== from) continue;
    const packet = decodePacket(frame.bytes);
    assert.ok(!isRefusal(packet), "every frame that is sent can be decoded");
    all.push(packet);
  }
  return all;
}

function names(rig: Rig, from: "a" | "b"): string[] {
  return packets(rig, from).map(({ bth }) => opcodeRow(bth.opcode)!.name);
}

function pair(
  options: ConstructorParameters<typeof Rig>[0] = {},
  qp: Parameters<Rig["connect"]>[0] = {},
): Pair {
  const rig = new Rig(options);
  const from = rig.register(rig.a, { length: 32768, scattered: true });
  const to = rig.register(rig.b, { length: 32768 });
  rig.fill(rig.b, to, () => 0xee);
  for (let i = 0; i < 32768; i++) poke(rig.a, { mr: from, at: i, value: i * 7 + (i >> 8) });
  return { rig, ...rig.connect(qp), from, to };
}

/** Scattered pages lie in reverse order. */
function physical(mr: RigMr, at: number): number {
  const page = Math.floor(at / 4096);
  return mr.address - page * 4096 + (at % 4096);
}

function poke(side: Rig["a"], byte: { mr: RigMr; at: number; value: number }): void {
  side.host.memory[physical(byte.mr, byte.at)] = byte.value & 0xff;
}

function source(pair: Pair, at: number, length: number): Uint8Array {
  const { rig, from } = pair;
  return Uint8Array.from({ length }, (_, i) => rig.a.host.memory[physical(from, at + i)]!);
}

function write(pair: Pair, length: number, more: { at?: number; signaled?: boolean } = {}): number {
  const { rig, a, from, to } = pair;
  const at = more.at ?? 0;
  return rig.enqueueSend(rig.a, a, {
    opcode: "write",
    signaled: more.signaled ?? true,
    remote: { va: BigInt(to.va + at), rkey: to.key },
    sges: [{ address: from.va + at, length, lkey: from.key }],
  });
}

function read(pair: Pair, length: number, at = 0): number {
  const { rig, a, from, to } = pair;
  return rig.enqueueSend(rig.a, a, {
    opcode: "read",
    remote: { va: BigInt(to.va + at), rkey: to.key },
    sges: [{ address: from.va + at, length, lkey: from.key }],
  });
}

function go(pair: Pair): void {
  pair.rig.ring(pair.rig.a, pair.a.sq);
  pair.rig.run();
}

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
      const p = pair();
      write(p, length, { at: 3 });
      go(p);
      assert.deepEqual(names(p.rig, "a"), expected);
      assert.deepEqual(names(p.rig, "b"), ["RC ACKNOWLEDGE"]);
      const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
      assert.deepEqual(cqes.map(({ status }) => status), ["SUCCESS"]);
      assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 3, length), source(p, 3, length));
      assert.equal(p.rig.bytes(p.rig.b, p.to, 3 + length, 1)[0], 0xee);
      assert.equal(p.rig.poll(p.rig.b, p.b.recvCq).length, 0);
    });
  }

  it("with inline data needs no payload read and keeps the data of posting time (Q-02)", () => {
    const p = pair();
    const { rig, a, to } = p;
    const inline = Uint8Array.from({ length: 200 }, (_, i) => i);
    rig.send(rig.a, a, { opcode: "write", remote: { va: BigInt(to.va), rkey: to.key }, inline });
    rig.run();
    assert.deepEqual(rig.bytes(rig.b, to, 0, 200), inline);
    assert.equal(rig.a.rnic.statistics()["dmaReads"], 1);
  });

  it("gathers several elements of local memory", () => {
    const p = pair();
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
    const p = pair();
    for (let i = 0; i < 8; i++) write(p, 100, { at: i * 100, signaled: false });
    const last = write(p, 100, { at: 800 });
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ wqeIndex }) => wqeIndex), [last]);
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 900), source(p, 0, 900));
  });

  it("with immediate consumes a RECV and tells the message's length", () => {
    const p = pair();
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
    const p = pair({}, { attributes: { sqPsn: 0xff_fffe, rqPsn: 0xff_fffe } });
    write(p, 5000);
    go(p);
    assert.deepEqual(packets(p.rig, "a").map(({ bth }) => bth.psn), [
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
      const p = pair();
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
    const p = pair();
    read(p, 3000);
    write(p, 10, { at: 8000 });
    go(p);
    assert.deepEqual(packets(p.rig, "a").map(({ bth }) => bth.psn), [0xff_fffe, 1]);
    assert.deepEqual(packets(p.rig, "b").map(({ bth }) => bth.psn), [0xff_fffe, 0xff_ffff, 0, 1]);
  });

  it("§7 #67: at most max_rd_atomic are outstanding, and nothing overtakes them", () => {
    const p = pair({}, { attributes: { maxRdAtomic: 2 } });
    for (let i = 0; i < 5; i++) read(p, 100, i * 100);
    write(p, 10, { at: 8000 });
    let outstanding = 0, most = 0;
    p.rig.fate = (_from, frame) => {
      const packet = decodePacket(frame.bytes) as RocePacket;
      if (packet.bth.opcode === OPCODE["RC RDMA READ REQUEST"]) {
        most = Math.max(most, ++outstanding);
      }
      if (packet.bth.opcode === OPCODE["RC RDMA READ RESPONSE ONLY"]) outstanding--;
      return "pass";
    };
    go(p);
    assert.equal(most, 2);
    assert.equal(names(p.rig, "a").at(-1), "RC RDMA WRITE ONLY");
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 6);
  });

  it("§7 #68: a fenced WRITE waits for it, an unfenced one does not", () => {
    for (const fence of [true, false]) {
      const p = pair();
      read(p, 1000);
      p.rig.enqueueSend(p.rig.a, p.a, {
        opcode: "write",
        fence,
        remote: { va: BigInt(p.to.va + 9000), rkey: p.to.key },
        sges: [{ address: p.from.va, length: 8, lkey: p.from.key }],
      });
      let sawResponse = false, order = "";
      p.rig.fate = (from, frame) => {
        const { bth } = decodePacket(frame.bytes) as RocePacket;
        if (from === "b" && bth.opcode === OPCODE["RC RDMA READ RESPONSE ONLY"]) sawResponse = true;
        if (bth.opcode === OPCODE["RC RDMA WRITE ONLY"]) order = sawResponse ? "after" : "before";
        return "pass";
      };
      go(p);
      assert.equal(order, fence ? "after" : "before");
    }
  });

  it("§7 #74: behind a WRITE of the same address returns what was written (P-03, P-10)", () => {
    const p = pair();
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
    const p = pair();
    p.rig.fill(p.rig.b, p.to, (i) => i * 5);
    let lost = 0;
    p.rig.fate = (from, frame) => {
      const { bth } = decodePacket(frame.bytes) as RocePacket;
      const isSecond = from === "b" && bth.psn === 0xff_ffff;
      return isSecond && lost++ === 0 ? "drop" : "pass";
    };
    read(p, 4000);
    go(p);
    const requests = packets(p.rig, "a").map(({ bth, reth }) => [bth.psn, reth!.length]);
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
    const p = pair();
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
    const p = pair();
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
    const p = pair({}, { attributes: { rnrRetry: 0 } });
    post(p, 100);
    post(p, 100);
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ status }) => status), ["RNR_RETRY_EXC_ERR", "WR_FLUSH_ERR"]);
  });

  it("§7 #62: longer than the RECV: NAK 0x61, LOC_LEN_ERR here, REM_INV_REQ_ERR there", () => {
    const p = pair();
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
    const p = pair();
    p.rig.recv(p.rig.b, p.b, [{ address: p.to.va, length: 500, lkey: p.to.key + 1 }]);
    post(p, 100);
    go(p);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "REM_OP_ERR");
    assert.equal(p.rig.poll(p.rig.b, p.b.recvCq)[0]?.status, "LOC_PROT_ERR");
  });

  it("§7 #52: whose ACK is lost is acknowledged again and received once", () => {
    const p = pair();
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

describe("loss", () => {
  it("§7 #51: of one middle packet: one NAK 0x60 however many follow, and the rest is sent again", () => {
    const p = pair();
    p.rig.fate = (from, _frame, count) => from === "a" && count === 2 ? "drop" : "pass";
    write(p, 8000);
    go(p);
    assert.equal(p.rig.b.rnic.statistics()["naksOut"], 1);
    assert.equal(p.rig.a.rnic.statistics()["timeouts"], 0);
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 8000), source(p, 0, 8000));
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "SUCCESS");
  });

  it("§7 #60: of everything: retry_cnt more attempts, then RETRY_EXC_ERR and the rest is flushed", () => {
    const p = pair({ fate: (from) => from === "a" ? "drop" : "pass" }, {
      attributes: { retryCnt: 3 },
    });
    write(p, 10);
    write(p, 10);
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ status }) => status), ["RETRY_EXC_ERR", "WR_FLUSH_ERR"]);
    assert.equal(packets(p.rig, "a").length, 2 * 4);
  });

  it("§7 #70: of a READ response before an ACK: the first WRITE completes, the READ is asked for again", () => {
    const p = pair();
    let lost = 0;
    p.rig.fate = (from, frame) => {
      const { bth } = decodePacket(frame.bytes) as RocePacket;
      const isResponse = from === "b" && bth.opcode === OPCODE["RC RDMA READ RESPONSE ONLY"];
      return isResponse && lost++ === 0 ? "drop" : "pass";
    };
    const order = [write(p, 10), read(p, 10, 100), write(p, 10, { at: 200 })];
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ wqeIndex }) => wqeIndex), order);
    assert.ok(cqes.every(({ status }) => status === "SUCCESS"));
    assert.equal(p.rig.a.rnic.statistics()["timeouts"], 0);
  });

  it("§7 #61: time-out 0 never fires", () => {
    const p = pair({ fate: () => "drop" }, { attributes: { timeout: 0 } });
    write(p, 10);
    go(p);
    assert.equal(packets(p.rig, "a").length, 1);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 0);
  });
});

describe("ACK", () => {
  it("of a WRITE leaves when its DMA writes have been handed to the bus, not before", () => {
    const p = pair({}, { attributes: { pathMtu: 4096 } });
    let checked = 0;
    p.rig.fate = (from) => {
      if (from === "b") {
        const { time } = p.rig.frames.at(-1)!;
        assert.ok(time >= p.rig.b.toHost.freeAt, `${time} is before ${p.rig.b.toHost.freeAt}`);
        checked++;
      }
      return "pass";
    };
    write(p, 4096);
    go(p);
    assert.equal(checked, 1);
  });

  it("§7 #69: of the last of several WRITEs completes all of them in order", () => {
    const p = pair();
    p.rig.fate = (from, frame) => {
      const { bth } = decodePacket(frame.bytes) as RocePacket;
      return from === "b" && bth.psn !== 0 ? "drop" : "pass";
    };
    const order = [write(p, 10), write(p, 10, { at: 20 }), write(p, 10, { at: 40 })];
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ wqeIndex }) => wqeIndex), order);
    assert.equal(p.rig.a.rnic.statistics()["retransmissions"], 0);
  });
});

describe("protection (rocev2.md §7.3)", () => {
  const inside = { length: 100, at: 0, key: 0, flags: ACCESS.localWrite | ACCESS.remoteWrite };
  const cases: [string, Partial<typeof inside>, string][] = [
    ["a key with another variant", { key: 1 }, "REM_ACCESS_ERR"],
    ["a range that leaves the region", { at: 32767, length: 2 }, "REM_ACCESS_ERR"],
    ["a region of the whole address space", { at: -0x1_0000_0000, length: 100 }, "REM_ACCESS_ERR"],
    ["a region without remote write", { flags: ACCESS.localWrite }, "REM_ACCESS_ERR"],
  ];
  for (const [name, change, status] of cases) {
    it(`WRITE to ${name} is refused and changes nothing`, () => {
      const { length, at, key, flags } = { ...inside, ...change };
      const p = pair();
      const { rig, a, from } = p;
      const to = rig.register(rig.b, { length: 32768, access: flags, va: 0x2_0000_0000 });
      const before = rig.b.host.memory.slice(to.address, to.address + to.length);
      rig.send(rig.a, a, {
        opcode: "write",
        remote: { va: BigInt(to.va + at), rkey: to.key + key },
        sges: [{ address: from.va, length, lkey: from.key }],
      });
      rig.run();
      assert.equal(rig.poll(rig.a, a.sendCq)[0]?.status, status);
      assert.deepEqual(rig.b.host.memory.slice(to.address, to.address + to.length), before);
      assert.deepEqual(rig.b.host.events.map(({ type }) => type), ["QP_ACCESS_ERR"]);
    });
  }

  it("WRITE to a region of another protection domain is refused", () => {
    const p = pair();
    const to = p.rig.register(p.rig.b, { length: 4096, pd: 2, va: 0x3_0000_0000 });
    write({ ...p, to }, 10);
    go(p);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "REM_ACCESS_ERR");
  });

  it("a VA near 2^64 does not wrap into a region", () => {
    const p = pair();
    p.rig.send(p.rig.a, p.a, {
      opcode: "write",
      remote: { va: 2n ** 64n - 4n, rkey: p.to.key },
      sges: [{ address: p.from.va, length: 100, lkey: p.from.key }],
    });
    p.rig.run();
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "REM_ACCESS_ERR");
  });

  it("§7 #41: zero-length WRITE and READ need neither key nor address and use one PSN each", () => {
    const p = pair();
    for (const opcode of ["write", "read"] as const) {
      p.rig.enqueueSend(p.rig.a, p.a, { opcode, remote: { va: 0n, rkey: 0 } });
    }
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ status }) => status), ["SUCCESS", "SUCCESS"]);
    assert.deepEqual(packets(p.rig, "a").map(({ bth }) => bth.psn), [0xff_fffe, 0xff_ffff]);
  });

  it("a queue pair without the access flag refuses with 0x61", () => {
    const p = pair({}, { attributes: { accessFlags: ACCESS.localWrite } });
    write(p, 10);
    go(p);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "REM_INV_REQ_ERR");
  });

  it("a bad local key fails here, with nothing on the wire, and flushes the rest in order", () => {
    const p = pair();
    const { rig, a, from, to } = p;
    const good = write(p, 10);
    rig.enqueueSend(rig.a, a, {
      opcode: "write",
      remote: { va: BigInt(to.va), rkey: to.key },
      sges: [{ address: from.va, length: 10, lkey: from.key + 1 }],
    });
    write(p, 10);
    go(p);
    const cqes = rig.poll(rig.a, a.sendCq);
    assert.deepEqual(cqes.map(({ status }) => status), ["SUCCESS", "LOC_PROT_ERR", "WR_FLUSH_ERR"]);
    assert.equal(cqes[0]!.wqeIndex, good);
    assert.equal(names(rig, "a").length, 1);
  });

  it("a deregistered region is refused, its index comes back with another key", () => {
    const p = pair();
    p.rig.command(p.rig.b, { op: "deregister-mr", key: p.to.key });
    const next = p.rig.register(p.rig.b, { length: 32768 });
    assert.equal(next.key >>> 8, p.to.key >>> 8);
    assert.notEqual(next.key, p.to.key);
    write(p, 10);
    go(p);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "REM_ACCESS_ERR");
  });

  it("memory that the host refuses fails the work that needs it", () => {
    const p = pair();
    p.rig.a.host.refuseReads = false;
    write(p, 2000);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() =>
      p.rig.a.rnic.statistics()["wqeReads"] === 1 &&
      p.rig.a.host.log.at(-1)?.kind === "memory-read" && p.rig.a.rnic.statistics()["dmaReads"]! >= 2
    );
    p.rig.a.host.refuseReads = true;
    p.rig.run(() => p.rig.a.rnic.statistics()["dmaErrors"]! > 0);
    p.rig.a.host.refuseReads = false;
    p.rig.run();
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "LOC_PROT_ERR");
  });
});

describe("round robin", () => {
  it("two queue pairs share the wire, as many frames each as share a DMA read", () => {
    const p = pair();
    const other = { ...p, ...p.rig.connect() };
    p.rig.frames.length = 0;
    // More than the first one can fetch before the second one's WQE is here.
    for (let i = 0; i < 4; i++) {
      write(p, 32768);
      write(other, 32768);
    }
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.ring(p.rig.a, other.a.sq);
    p.rig.run();
    const owners = packets(p.rig, "a").map(({ bth }) => bth.destQpn);
    let longest = 0, run = 0;
    for (let i = 100; i < 150; i++) {
      run = owners[i] === owners[i - 1] ? run + 1 : 1;
      longest = Math.max(longest, run);
    }
    assert.equal(longest, 4, `one queue pair had ${longest} frames in a row: ${owners}`);
  });
});
