import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { ACCESS, type PersistencePlan } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { WQE_OPCODES } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import {
  changed,
  counter,
  EVERY_ACCESS,
  FIRST_PSN,
  go,
  inject,
  losing,
  names,
  packets,
  type Pair,
  pair,
  PAIR_BYTES,
  post,
  recvs,
  statuses,
} from "../testing/pair_testing.ts";
import { needOfFlush } from "./flush_operation.ts";
import { FLOW_1, FLOW_2, flushByCpu } from "../testing/pm_testing.ts";

const { globalVisibility: GLOBAL, persistence: PERSISTENT } = FLUSH_PLACEMENT;
const { range: RANGE, region: REGION } = FLUSH_SELECT;

function onFlow(flow: PersistencePlan, ...rest: [Parameters<typeof pair>[1]?, number?]): Pair {
  return pair({ persistence: { a: flow, b: flow } }, ...rest);
}

interface FlushWork {
  readonly at?: number;
  readonly length?: number;
  readonly select?: number;
  readonly placement?: number;
  readonly fence?: boolean;
}

function flush(p: Pair, work: FlushWork = {}): number {
  const { at = 0, length = 1000, select = RANGE, placement = PERSISTENT, fence = false } = work;
  return post(p, "flush", { at, fence, flush: { select, placement, length } });
}

function needOfPlacement(placement: number, select: number = RANGE): number | undefined {
  const feth = { reserved: 0, select, placement };
  return needOfFlush({ feth } as RocePacket);
}

describe("needOfFlush", () => {
  const cases: [number, number | undefined][] = [
    [0, undefined],
    [GLOBAL, ACCESS.flushGlobal],
    [PERSISTENT, ACCESS.flushPersistent],
    [GLOBAL | PERSISTENT, ACCESS.flushGlobal | ACCESS.flushPersistent],
  ];
  for (const [placement, need] of cases) {
    it(`placement ${placement} needs access ${need}`, () => {
      assert.equal(needOfPlacement(placement), need);
    });
  }

  it("a placement or selection that is not defined asks for nothing that there is", () => {
    assert.equal(needOfPlacement(4 | GLOBAL), undefined);
    assert.equal(needOfPlacement(GLOBAL, REGION + 1), undefined);
    assert.equal(needOfPlacement(GLOBAL, REGION), ACCESS.flushGlobal);
  });
});

describe("FLUSH, flow 1", () => {
  it("§7 #76: answered with an empty READ RESPONSE ONLY of the same PSN; CQE opcode FLUSH", () => {
    const p = onFlow(FLOW_1);
    const position = flush(p, { at: 16, length: 600 });
    go(p);
    assert.deepEqual(names(p, "a"), ["RC FLUSH"]);
    const [request] = packets(p, "a");
    assert.deepEqual(request!.feth, { reserved: 0, select: RANGE, placement: PERSISTENT });
    assert.deepEqual(request!.reth, { va: BigInt(p.to.va + 16), rkey: p.to.key, length: 600 });
    const [answer] = packets(p, "b");
    assert.deepEqual(names(p, "b"), ["RC RDMA READ RESPONSE ONLY"]);
    assert.deepEqual([answer!.bth.psn, answer!.payload.length], [FIRST_PSN, 0]);
    const [cqe] = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual([cqe?.status, cqe?.wqeOpcode, cqe?.wqeIndex], [
      "SUCCESS",
      WQE_OPCODES["flush"].code,
      position,
    ]);
  });

  for (const placement of [GLOBAL, PERSISTENT, GLOBAL | PERSISTENT]) {
    it(`its answer (placement ${placement}) leaves when no earlier WRITE is in the IIO`, () => {
      const p = onFlow(FLOW_1);
      let checked = 0;
      p.rig.fate = (from) => {
        const isAnswer = from === "b" && names(p, "b").at(-1) === "RC RDMA READ RESPONSE ONLY";
        if (isAnswer) {
          checked++;
          assert.ok(!isBuffered(p), "P-24: the data is still on its way");
        }
        return "pass";
      };
      post(p, "write", { length: 5000 });
      post(p, "write", { at: 8192, length: 3000 });
      flush(p, { placement });
      go(p);
      assert.equal(checked, 1);
      assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
      assert.equal(counter(p, "b", "lsbReads"), 1);
    });
  }

  it("a later WRITE does not wait for it, an ATOMIC WRITE behind it does", () => {
    const p = onFlow(FLOW_1);
    const data = new Uint8Array(8).fill(1);
    post(p, "write", { length: 1000 });
    flush(p);
    post(p, "atomic-write", { at: 8000, inline: data });
    p.rig.fate = (from) => {
      if (from === "b" && names(p, "b").filter((name) => name.includes("RESPONSE")).length === 1) {
        const placed = p.rig.bytes(p.rig.b, p.to, 8000, 8);
        assert.deepEqual(placed, new Uint8Array(8).fill(0xee), "not before the FLUSH's answer");
      }
      return "pass";
    };
    go(p);
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 8000, 8), data);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("covers an atomic before it", () => {
    const p = onFlow(FLOW_1);
    post(p, "fetch-add", { at: 64, length: 8, atomic: { swapAdd: 1n, compare: 0n } });
    flush(p);
    p.rig.fate = (from) => {
      if (from === "b" && names(p, "b").at(-1) === "RC RDMA READ RESPONSE ONLY") {
        assert.ok(!isBuffered(p));
      }
      return "pass";
    };
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
  });

  it("a lost answer is given again, without another DMA read (§3.5)", () => {
    const p = pair({ persistence: { b: FLOW_1 }, fate: losing("RC RDMA READ RESPONSE ONLY", 2) });
    flush(p);
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(packets(p, "b").length, 3);
    assert.equal(counter(p, "b", "lsbReads"), 1);
    assert.equal(counter(p, "b", "flushesExecuted"), 1);
  });

  it("a duplicate of one that never was is dropped", () => {
    const p = onFlow(FLOW_1);
    flush(p);
    go(p);
    const psn = FIRST_PSN - 5;
    inject(p, "b", changed(packets(p, "a")[0]!, { bth: { psn } }));
    p.rig.run();
    assert.equal(packets(p, "b").length, 1);
    assert.equal(counter(p, "b", "drop-stale-duplicate"), 1);
  });

  it("that the host refuses is answered with NAK 0x63", () => {
    const p = onFlow(FLOW_1);
    flush(p);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.rig.frames.length === 1);
    p.rig.b.host.refuseReads = true;
    p.rig.run();
    assert.deepEqual(statuses(p), ["REM_OP_ERR"]);
  });

  it("is not counted by max_rd_atomic, but a fence waits for it", () => {
    const p = onFlow(FLOW_1, { attributes: { maxRdAtomic: 0, maxDestRdAtomic: 0 } });
    flush(p);
    flush(p);
    post(p, "write", { length: 8, fence: true });
    p.rig.fate = (from) => {
      const isWrite = from === "a" && names(p, "a").at(-1) === "RC RDMA WRITE ONLY";
      if (isWrite) assert.equal(packets(p, "b").length, 2);
      return "pass";
    };
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("an ACK that passes it tells that its answer was lost", () => {
    const p = pair({ persistence: { b: FLOW_1 }, fate: losing("RC RDMA READ RESPONSE ONLY") });
    flush(p);
    post(p, "write", { length: 8 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.equal(counter(p, "a", "timeouts"), 0);
  });
});

describe("FLUSH, flow 2", () => {
  it("to persistence: the CPU is told by a RECV, and the answer waits for what it says (P-26)", () => {
    const p = onFlow(FLOW_2);
    recvs(p, 2);
    post(p, "write", { at: 100, length: 3000 });
    flush(p, { at: 100, length: 3000 });
    post(p, "write", { at: 9000, length: 10 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(20 * PS_PER_US);
    assert.deepEqual(names(p, "b"), ["RC ACKNOWLEDGE"], "the WRITE's, and nothing behind it");
    assert.equal(counter(p, "b", "lsbReads"), 0);
    const told = flushByCpu(p);
    const psn = (FIRST_PSN + 3) & 0xff_ffff;
    assert.deepEqual(told, [{ va: p.to.va + 100, length: 3000, psn }]);
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
    assert.equal(flushByCpu(p).length, 0, "told once");
  });

  it("of the whole region names the region to the CPU", () => {
    const p = onFlow(FLOW_2);
    recvs(p, 1);
    flush(p, { select: REGION, at: 5, length: 3 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(10 * PS_PER_US);
    assert.deepEqual(flushByCpu(p).map(({ va, length }) => [va, length]), [[p.to.va, PAIR_BYTES]]);
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS"]);
  });

  it("to visibility needs no CPU: the read behind the WRITEs does", () => {
    const p = onFlow(FLOW_2);
    post(p, "write", { length: 3000 });
    flush(p, { placement: GLOBAL });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.equal(counter(p, "b", "recvPersisted"), 0);
    assert.equal(counter(p, "b", "lsbReads"), 1);
  });

  it("without a RECV is never answered: RETRY_EXC_ERR, not a promise", () => {
    const p = onFlow(FLOW_2, { attributes: { retryCnt: 2 } });
    p.rig.leavesRequests = true;
    flush(p);
    go(p);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
    assert.deepEqual(packets(p, "b"), []);
  });

  it("a RECV that comes late is found at the duplicate; the CPU is told once", () => {
    const p = onFlow(FLOW_2);
    flush(p);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(30 * PS_PER_US);
    recvs(p, 2);
    p.rig.runFor(200 * PS_PER_US);
    assert.equal(flushByCpu(p).length, 1);
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(flushByCpu(p).length, 0);
  });

  it("a lost answer is given again without the CPU", () => {
    const p = pair({ persistence: { b: FLOW_2 }, fate: losing("RC RDMA READ RESPONSE ONLY") });
    recvs(p, 2);
    flush(p);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(10 * PS_PER_US);
    flushByCpu(p);
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(counter(p, "b", "recvPersisted"), 1);
  });

  it("of no bytes has nothing for the CPU", () => {
    const p = onFlow(FLOW_2);
    flush(p, { length: 0 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(counter(p, "b", "recvPersisted"), 0);
  });
});

describe("rights of FLUSH", () => {
  const global = EVERY_ACCESS & ~ACCESS.flushPersistent;
  const cases: [string, number, FlushWork, string][] = [
    ["persistent", global, { placement: PERSISTENT }, "REM_ACCESS_ERR"],
    ["both", global, { placement: GLOBAL | PERSISTENT }, "REM_ACCESS_ERR"],
    ["global, range", global, { placement: GLOBAL }, "SUCCESS"],
    ["global, MR", global, { placement: GLOBAL, select: REGION, at: 9, length: 0 }, "SUCCESS"],
    ["a range that leaves it", global, { placement: GLOBAL, at: PAIR_BYTES - 8 }, "REM_ACCESS_ERR"],
  ];
  for (const [name, access, work, status] of cases) {
    it(`§7 #47: region with FLUSH_GLOBAL only, ${name}: ${status}`, () => {
      const p = onFlow(FLOW_1, {}, access);
      flush(p, work);
      go(p);
      assert.deepEqual(statuses(p), [status]);
    });
  }

  it("a queue pair without the flag refuses with 0x61 (§4.5)", () => {
    for (
      const [bit, placement] of [["flushGlobal", GLOBAL], ["flushPersistent", PERSISTENT]] as const
    ) {
      const accessFlags = EVERY_ACCESS & ~ACCESS[bit];
      const p = onFlow(FLOW_1, { attributes: { accessFlags } });
      flush(p, { placement });
      go(p);
      assert.deepEqual(statuses(p), ["REM_INV_REQ_ERR"]);
    }
  });

  for (
    const [name, work] of [
      ["no placement", { placement: 0 }],
      ["a reserved placement", { placement: 4 }],
      ["a reserved selectivity", { select: 2 }],
    ] as [string, FlushWork][]
  ) {
    it(`${name} is refused with 0x61`, () => {
      const p = onFlow(FLOW_1);
      flush(p, work);
      go(p);
      assert.deepEqual(statuses(p), ["REM_INV_REQ_ERR"]);
    });
  }

  it("an unknown key is refused with 0x62, range and region", () => {
    for (const select of [RANGE, REGION]) {
      const p = onFlow(FLOW_1);
      const remote = { va: BigInt(p.to.va), rkey: p.to.key + 1 };
      post(p, "flush", { remote, flush: { select, placement: PERSISTENT, length: 8 } });
      go(p);
      assert.deepEqual(statuses(p), ["REM_ACCESS_ERR"]);
    }
  });
});

/** Whether bytes of the target are on the cable or in the IIO. */
function isBuffered(p: Pair): boolean {
  return p.rig.b.host.buffered.some(({ address }) =>
    address >= p.to.address && address < p.to.address + PAIR_BYTES
  );
}
