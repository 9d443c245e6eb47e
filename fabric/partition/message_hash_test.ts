import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { Frame } from "../node.ts";
import { hashBytes } from "../base/hash.ts";
import { hashMessage, hashPlain } from "./message_hash.ts";
import type { PcieMessage } from "../wire/host_bus/pcie.ts";
import type { RegionMessage } from "../wire/host_bus/region_messages.ts";
import { anyPcieMessage } from "../wire/host_bus/pcie_testing.ts";
import { seeded } from "../base/property_testing.ts";

const anyBytes = fc.uint8Array({ maxLength: 100 });

describe("hashPlain", () => {
  it("covers byte strings inside, so that a program's content is in the digest", () => {
    const order = (content: Uint8Array) => hashPlain({ run: "put", options: { content } });
    const bytes = Uint8Array.of(1, 2, 3);
    assert.equal(order(bytes), order(Uint8Array.of(0, 1, 2, 3).subarray(1)));
    assert.notEqual(order(bytes), order(Uint8Array.of(1, 2, 4)));
    assert.equal(hashPlain({ a: 1, b: [2] }), hashPlain({ b: [2], a: 1 }));
  });
});

describe("hashBytes", () => {
  it("does not depend on where in a buffer the bytes lie", () => {
    fc.assert(
      fc.property(anyBytes, fc.nat(17), (bytes, at) => {
        const buffer = new Uint8Array(at + bytes.length + 5).fill(0xaa);
        buffer.set(bytes, at);
        assert.equal(hashBytes(buffer.subarray(at, at + bytes.length), 1), hashBytes(bytes, 1));
      }),
      seeded(),
    );
  });

  it("changes with any single bit, with the length and with the seed", () => {
    for (let length = 0; length < 70; length++) {
      const bytes = new Uint8Array(length);
      const hash = hashBytes(bytes, 1);
      assert.notEqual(hashBytes(new Uint8Array(length + 1), 1), hash);
      assert.notEqual(hashBytes(bytes, 2), hash);
      for (let bit = 0; bit < 8 * length; bit++) {
        bytes[bit >> 3]! ^= 1 << (bit & 7);
        assert.notEqual(hashBytes(bytes, 1), hash, `${length} bytes, bit ${bit}`);
        bytes[bit >> 3]! ^= 1 << (bit & 7);
      }
    }
  });

  it("spreads counters over all 32 bits with few collisions", () => {
    const view = new DataView(new ArrayBuffer(24));
    const seen = new Set<number>();
    let ones = 0, zeros = 0xffff_ffff;
    for (let i = 0; i < 20_000; i++) {
      view.setUint32(20, i);
      const hash = hashBytes(new Uint8Array(view.buffer), 1);
      seen.add(hash);
      ones |= hash;
      zeros &= hash;
    }
    // 20 000 of 2^32 collide 0.05 times by chance.
    assert.ok(seen.size >= 19_998, `${20_000 - seen.size} collisions`);
    assert.equal(ones >>> 0, 0xffff_ffff);
    assert.equal(zeros, 0);
  });

  it("is the same function from one version to the next", () => {
    const bytes = Uint8Array.from({ length: 61 }, (_, i) => i);
    assert.equal(hashBytes(bytes, 7), EXPECTED_OF_61_BYTES);
  });
});

/** Digests of recorded runs depend on it: change it knowingly. */
const EXPECTED_OF_61_BYTES = 2572243958;

describe("hashMessage", () => {
  it("keeps a frame's hash with the frame", () => {
    const frame: Frame = { kind: "frame", bytes: new Uint8Array([1, 2, 3]) };
    const hash = hashMessage(frame);
    assert.equal(frame.hash, hash);
    assert.equal(hashMessage({ kind: "frame", bytes: new Uint8Array([1, 2, 3]) }), hash);
    assert.notEqual(hashMessage({ kind: "frame", bytes: new Uint8Array([1, 2, 4]) }), hash);
  });

  it("is a 32-bit number, alike for alike content", () => {
    fc.assert(
      fc.property(anyPcieMessage, (message) => {
        const hash = hashMessage(message);
        assert.equal(hash, hash | 0);
        assert.equal(hashMessage(structuredClone(message)), hash);
      }),
      seeded(),
    );
  });

  it("differs where any field differs", () => {
    const data = new Uint8Array([1, 2, 3]);
    const different: PcieMessage[] = [
      { kind: "memory-write", address: 4096, data, noSnoop: false },
      { kind: "memory-write", address: 4096, data, noSnoop: true },
      { kind: "memory-write", address: 4097, data, noSnoop: false },
      { kind: "memory-write", address: 4096 + 2 ** 40, data, noSnoop: false },
      { kind: "memory-write", address: 4096, data: data.slice(1), noSnoop: false },
      { kind: "memory-read", tag: 1, address: 4096, length: 3, noSnoop: false },
      { kind: "memory-read", tag: 3, address: 4096, length: 1, noSnoop: false },
      { kind: "memory-read", tag: 3, address: 4096, length: 1, noSnoop: true },
      { kind: "memory-read", tag: 3, address: 4096, length: 1, noSnoop: false, medium: true },
      { kind: "memory-read", tag: 3, address: 4096, length: 1, noSnoop: true, medium: true },
      { kind: "completion", tag: 4096, status: "success", data },
      { kind: "completion", tag: 1, status: "unsupported-request", data: new Uint8Array() },
      { kind: "memory-read", tag: 3, address: 4096, length: 1, noSnoop: false, tracked: true },
      { kind: "interrupt", vector: 1 },
      { kind: "snoop-invalidate", address: 1 },
      { kind: "register-write", offset: 4096, data },
      { kind: "command", id: 1, command: { op: "destroy-qp", qpn: 17 } },
      { kind: "command", id: 1, command: { op: "destroy-cq", cqn: 17 } },
      { kind: "command", id: 2, command: { op: "destroy-qp", qpn: 17 } },
      { kind: "reply", id: 1, reply: { status: "ok", op: "done" } },
      { kind: "event", event: { type: "QP_FATAL", qpn: 17 } },
      { kind: "event", event: { type: "QP_REQ_ERR", qpn: 17 } },
    ];
    const hashes = new Set(different.map(hashMessage));
    assert.equal(hashes.size, different.length);
  });

  it("does not depend on the order of an object's keys", () => {
    const ring = { address: 1, units: 2 }, turned = { units: 2, address: 1 };
    const command = { op: "create-cq", ring, vector: null } as const;
    assert.equal(
      hashMessage({ kind: "command", id: 1, command }),
      hashMessage({
        kind: "command",
        id: 1,
        command: { vector: null, ring: turned, op: "create-cq" },
      }),
    );
  });
});

describe("hashMessage of a region's messages", () => {
  // As before their hash had code of its own: digests of kept runs stay what they are.
  const bytes = Uint8Array.from({ length: 64 }, (_, i) => i);
  const whole = (1n << 64n) - 1n;
  const store = { kind: "far-access", tag: 8, region: 1, line: 3, op: "store" } as const;
  const load = { kind: "far-access", tag: 7, region: 1, line: 3 } as const;
  const rows: readonly (readonly [message: RegionMessage, hash: number])[] = [
    [{ kind: "line", op: "RdData", address: 0x1000 }, -1078754595],
    [{ kind: "line", op: "GrantE", address: 2 ** 40 + 64, data: bytes }, 545680067],
    [{ kind: "line", op: "Cmp", address: 64, data: "lost" }, -2111817683],
    [{ ...load, op: "load" }, -1924482248],
    [{ ...load, op: "flush", lines: 9 }, 970729506],
    [{ ...store, change: { kind: "write", mask: 0xffn << 8n, bytes } }, 697512062],
    [{ ...store, change: { kind: "write", mask: whole, bytes } }, -1979539382],
    [{ ...store, change: { kind: "add", offset: 8, operand: 5n } }, -1814991129],
    [{ ...store, change: { kind: "compare-swap", offset: 8, compare: 1n, swap: 2n } }, -1967768955],
    [{ kind: "far-answer", tag: 9, result: "done" }, -410303954],
    [{ kind: "far-answer", tag: 9, result: "done", data: bytes }, -1054123421],
    [{ kind: "far-answer", tag: 9, result: "done", data: bytes, away: true }, -992367390],
    [{ kind: "far-answer", tag: 9, result: "fenced" }, 1155781794],
    [{ kind: "far-invalidate", region: 2, line: 5 }, -1217469313],
  ];
  for (const [message, hash] of rows) {
    const about = "op" in message ? message.op : message.kind;
    it(`is that of its array: ${message.kind} ${about} ${hash}`, () => {
      assert.equal(hashMessage(message), hash);
    });
  }
});
