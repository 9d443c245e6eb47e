import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { fetchAdd, refused } from "../testing/atomic_testing.ts";
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
  post,
  setWord,
  statuses,
  word,
} from "../testing/pair_testing.ts";
import { wordOf } from "../state/memory.ts";

describe("ATOMIC WRITE (P-50)", () => {
  const data = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);

  it("writes its eight bytes as they are and is answered with an empty READ response", () => {
    const p = pair();
    post(p, "atomic-write", { at: 16, inline: data });
    go(p);
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 16, 8), data);
    assert.deepEqual(names(p, "a"), ["RC ATOMIC WRITE"]);
    assert.deepEqual(names(p, "b"), ["RC RDMA READ RESPONSE ONLY"]);
    assert.equal(packets(p, "b")[0]!.payload.length, 0);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    const writes = p.rig.b.host.log.filter((message) =>
      message.kind === "memory-write" && message.address === p.to.address + 16
    );
    assert.equal(writes.length, 1, "P-41: one DMA write of all eight");
  });

  it("§7 #75: another length or an address that is no multiple of 8 is refused with 0x61", () => {
    const p = pair();
    post(p, "atomic-write", { at: 16, inline: data });
    go(p);
    const [sent] = packets(p, "a");
    const psn = (FIRST_PSN + 1) & 0xff_ffff;
    const cases = [
      changed(sent!, { bth: { psn }, reth: { ...sent!.reth!, length: 4 } }),
      changed(sent!, { bth: { psn }, reth: { ...sent!.reth!, va: sent!.reth!.va + 4n } }),
    ];
    for (const packet of cases) {
      const q = pair();
      post(q, "atomic-write", { at: 16, inline: data });
      go(q);
      inject(q, "b", packet);
      q.rig.run();
      assert.equal(packets(q, "b").at(-1)!.aeth!.syndrome, 0x61);
      assert.deepEqual(q.rig.b.host.events.filter(({ type }) => type === "QP_REQ_ERR").length, 1);
    }
    refused(pair(), "REM_INV_REQ_ERR", (q) => post(q, "atomic-write", { at: 4, inline: data }));
  });

  it("a WQE without eight bytes inline is none: LOC_QP_OP_ERR", () => {
    const short = data.subarray(0, 4).slice();
    refused(pair(), "LOC_QP_OP_ERR", (q) => post(q, "atomic-write", { inline: short }));
    refused(pair(), "LOC_QP_OP_ERR", (q) => post(q, "atomic-write", { length: 8 }));
  });

  it("rights: REMOTE_WRITE of queue pair (0x61) and region (0x62)", () => {
    const write = (q: Pair) => post(q, "atomic-write", { inline: data });
    const accessFlags = EVERY_ACCESS & ~ACCESS.remoteWrite;
    refused(pair({}, { attributes: { accessFlags } }), "REM_INV_REQ_ERR", write);
    const bare = ACCESS.localWrite | ACCESS.remoteRead;
    refused(pair({}, {}, bare), "REM_ACCESS_ERR", write);
  });

  it("a lost answer is replayed, the write is not", () => {
    const p = pair({ fate: losing("RC RDMA READ RESPONSE ONLY") });
    post(p, "atomic-write", { at: 8, inline: data });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(counter(p, "b", "atomicsExecuted"), 1);
  });

  it("waits for a FETCH & ADD of another queue pair that holds the word, and is answered when that is done", () => {
    const p = pair();
    setWord(p, 0, 5n);
    const other = { ...p, ...p.rig.connect({ attributes: { accessFlags: EVERY_ACCESS } }) };
    fetchAdd(p, 0, 1n);
    post(other, "atomic-write", { at: 0, inline: wordOf(100n) });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.ring(p.rig.a, other.a.sq);
    p.rig.run();
    assert.equal(counter(p, "b", "atomicsHeld"), 1);
    assert.equal(word(p, 0), 100n, "the sum of an older value does not come on top");
    assert.deepEqual([...statuses(p), ...statuses(other)], ["SUCCESS", "SUCCESS"]);
    assert.equal(counter(p, "a", "timeouts"), 0);
  });
});
