/** ibv_alloc_null_mr(3): what the card reads from a null region, and writes to it, never meets the bus. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { EVERY_ACCESS, type Pair, pair } from "../testing/pair_testing.ts";
import type { RigMr, Side } from "../testing/rig_parts_testing.ts";

let p: Pair;
const keys = { a: 0, b: 0 };

function allocate(side: Side, pd = 1): number {
  const reply = p.rig.command(side, { op: "allocate-null-mr", pd });
  assert.ok(reply.status === "ok" && reply.op === "register-mr", JSON.stringify(reply));
  return reply.lkey;
}

beforeEach(() => {
  p = pair();
  keys.a = allocate(p.rig.a);
  keys.b = allocate(p.rig.b);
});

/** Bytes that the card has read from a region, and written to it, since the log was cleared. */
function traffic(side: Side, { address, length }: RigMr): { read: number; written: number } {
  const isIn = (at: number) => at >= address && at < address + length;
  let read = 0, written = 0;
  for (const message of side.host.log) {
    if (message.kind === "memory-read" && isIn(message.address)) read += message.length;
    if (message.kind === "memory-write" && isIn(message.address)) written += message.data.length;
  }
  return { read, written };
}

/** Bytes of the longest read or write of all memory: that of a WQE or a CQE, where no payload was. */
function largest(side: Side, kind: "memory-read" | "memory-write"): number {
  return side.host.log.reduce((most, message) => {
    if (message.kind !== kind) return most;
    const bytes = message.kind === "memory-read" ? message.length : message.data.length;
    return Math.max(most, bytes);
  }, 0);
}

function sent(at: number, length: number): Uint8Array {
  return p.rig.bytes(p.rig.a, p.from, at, length);
}

function statuses(): string[] {
  return p.rig.poll(p.rig.a, p.a.sendCq).map(({ status }) => status);
}

describe("a null region", () => {
  it("is sent as zeros between what other elements name, by DMA of those alone", () => {
    const { rig, a, from, to } = p;
    const write = (sges: Parameters<typeof rig.send>[2]["sges"]) =>
      rig.send(rig.a, a, {
        opcode: "write",
        remote: { va: BigInt(to.va), rkey: to.key },
        ...(sges && { sges }),
      });
    rig.a.host.log.length = 0;
    // Across packets, and at any address.
    write([
      { address: from.va, length: 100, lkey: from.key },
      { address: 12345, length: 5000, lkey: keys.a },
      { address: from.va + 100, length: 50, lkey: from.key },
    ]);
    rig.run();
    assert.deepEqual(statuses(), ["SUCCESS"]);
    const expected = new Uint8Array(5150);
    expected.set(sent(0, 100));
    expected.set(sent(100, 50), 5100);
    assert.deepEqual(rig.bytes(rig.b, to, 0, 5150), expected);
    assert.equal(rig.bytes(rig.b, to, 5150, 1)[0], 0xee);
    assert.equal(traffic(rig.a, from).read, 150);
    // All of a message, of one packet and of several.
    for (const length of [8, 6000]) {
      rig.fill(rig.b, to, () => 0xee);
      rig.a.host.log.length = 0;
      write([{ address: 0, length, lkey: keys.a }]);
      rig.run();
      assert.deepEqual(statuses(), ["SUCCESS"]);
      assert.deepEqual(rig.bytes(rig.b, to, 0, length), new Uint8Array(length));
      assert.ok(largest(rig.a, "memory-read") <= 1024, "the payload was read");
    }
  });

  it("takes nothing of a READ's response, a receive, or an atomic's original", () => {
    const { rig, a, b, from, to } = p;
    rig.fill(rig.b, to, (i) => i % 251);
    rig.a.host.log.length = 0;
    rig.send(rig.a, a, {
      opcode: "read",
      remote: { va: BigInt(to.va), rkey: to.key },
      sges: [
        { address: from.va, length: 64, lkey: from.key },
        { address: 0, length: 3000, lkey: keys.a },
        { address: from.va + 64, length: 36, lkey: from.key },
      ],
    });
    rig.run();
    assert.deepEqual(statuses(), ["SUCCESS"]);
    assert.deepEqual(sent(0, 64), rig.bytes(rig.b, to, 0, 64));
    assert.deepEqual(sent(64, 36), rig.bytes(rig.b, to, 3064, 36));
    assert.equal(traffic(rig.a, from).written, 100);
    const before = rig.bytes(rig.a, from).slice();
    const remote = { va: BigInt(to.va), rkey: to.key };
    const atomic = { swapAdd: 1n, compare: 0n };
    rig.send(rig.a, a, {
      opcode: "fetch-add",
      remote,
      atomic,
      sges: [{ address: 0, length: 8, lkey: keys.a }],
    });
    rig.recv(rig.b, b, [{ address: 0, length: 9000, lkey: keys.b }]);
    rig.b.host.log.length = 0;
    rig.send(rig.a, a, {
      opcode: "send",
      sges: [{ address: from.va, length: 9000, lkey: from.key }],
    });
    rig.run();
    assert.deepEqual(statuses(), ["SUCCESS", "SUCCESS"]);
    assert.equal(rig.poll(rig.b, b.recvCq)[0]?.byteCount, 9000);
    assert.ok(largest(rig.b, "memory-write") <= 64, "the message was written");
    assert.deepEqual(rig.bytes(rig.a, from), before);
  });

  it("has no rkey, is bound to no window, is not registered anew, and is one domain's", () => {
    const { rig, a, from, to } = p;
    for (const change of [{ access: EVERY_ACCESS }, { pd: 2 }]) {
      const reply = rig.command(rig.a, { op: "reregister-mr", key: keys.a, change });
      assert.ok(reply.status === "error" && reply.errno === "EINVAL");
    }
    const sges = [{ address: from.va, length: 8, lkey: from.key }];
    rig.send(rig.a, a, { opcode: "write", remote: { va: 0n, rkey: keys.b }, sges });
    rig.run();
    assert.deepEqual(statuses(), ["REM_ACCESS_ERR"]);
    const others = [
      [keys.a, "bind-mw", "MW_BIND_ERR"],
      [allocate(rig.a, 2), "write", "LOC_PROT_ERR"],
    ] as const;
    for (const [lkey, opcode, status] of others) {
      const { a } = rig.connect();
      const mw = rig.command(rig.a, { op: "allocate-mw", type: 2, pd: 1 });
      assert.ok(mw.status === "ok" && mw.op === "allocate-mw");
      const bind = { rkey: mw.rkey, lkey, va: 0n, length: 64, access: 4 };
      const write = {
        sges: [{ address: 0, length: 8, lkey }],
        remote: { va: BigInt(to.va), rkey: to.key },
      };
      rig.send(rig.a, a, { opcode, ...(opcode === "write" ? write : { bind }) });
      rig.run();
      assert.deepEqual(rig.poll(rig.a, a.sendCq).map((each) => each.status), [status]);
    }
  });

  it("is gone when it is deregistered, and its number is another's with another variant", () => {
    const { rig, to } = p;
    const { a } = rig.connect();
    assert.equal(rig.command(rig.a, { op: "deregister-mr", key: keys.a }).status, "ok");
    rig.send(rig.a, a, {
      opcode: "write",
      remote: { va: BigInt(to.va), rkey: to.key },
      sges: [{ address: 0, length: 8, lkey: keys.a }],
    });
    rig.run();
    assert.deepEqual(rig.poll(rig.a, a.sendCq).map(({ status }) => status), ["LOC_PROT_ERR"]);
    assert.equal(allocate(rig.a), keys.a + 1);
  });
});
