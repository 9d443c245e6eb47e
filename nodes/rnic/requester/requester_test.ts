import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import {
  EVERY_ACCESS,
  FIRST_PSN,
  go,
  packets,
  pair,
  post,
  recvs,
  statuses,
} from "../testing/pair_testing.ts";
import { verifiedPair } from "../testing/verify_testing.ts";

describe("work that crosses no wire", () => {
  // Found by random programs (seed 18): go-back-N came past it and carried it out again.
  it("§3.3: is carried out once, however often the requester goes back over it", () => {
    const p = pair({}, {}, EVERY_ACCESS);
    const memory = p.rig.register(p.rig.a, {
      length: 4096,
      va: 0x9_0000_0000,
      access: EVERY_ACCESS | ACCESS.mwBind,
    });
    const window = p.rig.command(p.rig.a, { op: "allocate-mw", type: 2, pd: 1 });
    assert.ok(window.status === "ok" && window.op === "allocate-mw");
    const bind = {
      rkey: (window.rkey & ~0xff) | ((window.rkey + 1) & 0xff),
      lkey: memory.key,
      va: BigInt(memory.va),
      length: 64,
      access: ACCESS.remoteRead,
    };
    const { framesSent } = p.rig.a;
    p.rig.fate = (from, _frame, count) => from === "a" && count === framesSent ? "drop" : "pass";
    post(p, "write", { length: 100 });
    p.rig.enqueueSend(p.rig.a, p.a, { opcode: "bind-mw", bind });
    post(p, "write", { at: 100, length: 100 });
    go(p);
    // A type 2 window that is bound cannot be bound again (MW_BIND_ERR).
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  // Found by random programs (seed 2002536): each CPU's word stood behind work that waited for the other's.
  it("P-26: what the CPU has flushed is told although work before it waits for the peer", () => {
    const persistence = { flow: 2, flush: "cpu", noSnoop: false } as const;
    const p = pair({ persistence: { a: persistence, b: persistence } });
    recvs(p, 1);
    p.rig.recv(p.rig.a, p.a, []);
    const { range } = FLUSH_SELECT;
    const flush = { select: range, placement: FLUSH_PLACEMENT.persistence, length: 64 };
    const ends = [
      { side: p.rig.a, qp: p.a, remote: { va: BigInt(p.to.va), rkey: p.to.key } },
      { side: p.rig.b, qp: p.b, remote: { va: BigInt(p.from.va), rkey: p.from.key } },
    ];
    for (const { side, qp, remote } of ends) {
      const behind: Partial<SendWqe> = { fence: true, inline: new Uint8Array(8), remote };
      p.rig.enqueueSend(side, qp, { opcode: "flush", flush, remote });
      p.rig.enqueueSend(side, qp, { ...behind, opcode: "write" });
      p.rig.ring(side, qp.sq);
    }
    const told = new Set<string>();
    p.rig.run(() => {
      for (const { side, qp } of ends) {
        if (p.rig.poll(side, qp.recvCq).length > 0) told.add(side.name);
      }
      return told.size === 2;
    });
    for (const { side, qp } of ends) {
      p.rig.send(side, qp, { opcode: "persistence-ack", immediate: FIRST_PSN, signaled: false });
    }
    p.rig.run();
    for (const { side, qp } of ends) {
      assert.deepEqual(p.rig.poll(side, qp.sendCq).map(({ status }) => status), [
        "SUCCESS",
        "SUCCESS",
      ]);
    }
  });
});

describe("frames are counted by their WQE's opcode", () => {
  const flush = {
    select: FLUSH_SELECT.range,
    placement: FLUSH_PLACEMENT.globalVisibility,
    length: 64,
  };
  const atomic = { swapAdd: 1n, compare: 0n };
  const cases: readonly [Parameters<typeof post>[1], Parameters<typeof post>[2], string][] = [
    ["send", { length: 600 }, "sendFramesOut"],
    ["send-immediate", { length: 600 }, "sendFramesOut"],
    ["write", { length: 600 }, "writeFramesOut"],
    ["write-immediate", { length: 600 }, "writeFramesOut"],
    ["write-persistence", { length: 600 }, "persistWriteFramesOut"],
    ["write-persist-address", { length: 600 }, "writeFramesOut"],
    ["write-verify", {
      length: 600,
      verify: { level: "check", persist: false },
    }, "verifyWriteFramesOut"],
    ["read", { length: 600 }, "readRequestsOut"],
    ["compare-swap", { length: 8, atomic }, "atomicRequestsOut"],
    ["fetch-add", { length: 8, atomic }, "atomicRequestsOut"],
    ["atomic-write", { inline: new Uint8Array(8) }, "atomicRequestsOut"],
    ["flush", { flush }, "flushRequestsOut"],
  ];
  for (const [opcode, work, name] of cases) {
    it(`${opcode}: ${name}`, () => {
      const p = verifiedPair();
      recvs(p, 1);
      post(p, opcode, work);
      go(p);
      const counted = Object.entries(p.rig.a.rnic.statistics()).filter(([key, count]) =>
        /(Frames|Requests)Out$/.test(key) && count > 0
      );
      assert.deepEqual(counted, [[name, packets(p, "a").length]]);
    });
  }
});
