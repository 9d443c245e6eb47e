/** What a NAK does not say: the responder's own words for each refusal, and what its requester learns. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { nakText } from "../../../fabric/wire/roce/aeth.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { VENDOR_ERRORS, type VendorError } from "../../../fabric/wire/host_bus/vendor_error.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import { wordOf } from "../state/memory.ts";
import {
  changed,
  EVERY_ACCESS,
  go,
  inject,
  packets,
  type Pair,
  pair,
  post,
  recvs,
} from "../testing/pair_testing.ts";

interface Case {
  readonly what: string;
  readonly opcode?: SendWqe["opcode"];
  readonly make?: () => Pair;
  /** Of the work that is posted, besides 64 B of a WRITE. */
  readonly work?: (p: Pair) => Parameters<typeof post>[2];
  readonly says: RegExp;
  readonly vendor: VendorError;
}

const { remoteWrite } = ACCESS;

const CASES: readonly Case[] = [
  {
    what: "a right that the region has not",
    make: () => pair({}, {}, EVERY_ACCESS & ~remoteWrite),
    says: new RegExp(
      "^RC RDMA WRITE ONLY of 64 B at VA 0x[0-9a-f]+, rkey 0x[0-9a-f]+: the region has no remote " +
        "write; the region is 32 KiB at 0x[0-9a-f]+, with local write, remote read, remote atomic",
    ),
    vendor: "nak-remote-access",
  },
  {
    what: "a key that was never given",
    work: (p) => ({ remote: { va: BigInt(p.to.va), rkey: 0x7f_ff00 } }),
    says: /, rkey 0x7fff00: the rkey is the key of no region and no bound window$/,
    vendor: "nak-remote-access",
  },
  {
    what: "a key of another domain",
    work: (p) => {
      const other = { length: 4096, va: 0x6_0000_0000, access: EVERY_ACCESS, pd: 2 };
      const { va, key } = p.rig.register(p.rig.b, other);
      return { remote: { va: BigInt(va), rkey: key } };
    },
    says:
      /: the region belongs to another protection domain than queue pair \d+; the region is 4 KiB/,
    vendor: "nak-remote-access",
  },
  {
    what: "bytes behind the region",
    work: ({ to }) => ({ remote: { va: BigInt(to.va + to.length - 60), rkey: to.key } }),
    says: /: 4 B of it lie behind the end; the region is 32 KiB at/,
    vendor: "nak-remote-access",
  },
  {
    what: "bytes before the region",
    work: ({ to }) => ({ remote: { va: BigInt(to.va - 8), rkey: to.key } }),
    says: /: 8 B of it lie before the region;/,
    vendor: "nak-remote-access",
  },
  {
    what: "an operation that the queue pair does not permit",
    make: () => pair({}, { attributes: { accessFlags: EVERY_ACCESS & ~remoteWrite } }),
    says: /: queue pair \d+ does not permit remote write: it permits local write, remote read,/,
    vendor: "nak-invalid-request",
  },
  {
    what: "an atomic at an odd address",
    opcode: "fetch-add",
    work: ({ to }) => ({
      length: 8,
      remote: { va: BigInt(to.va + 4), rkey: to.key },
      atomic: { swapAdd: 1n, compare: 0n },
    }),
    says:
      /^RC FETCH & ADD of 8 B at VA .*: the address of an atomic is a multiple of 8, in a zero-based window too$/,
    vendor: "nak-invalid-request",
  },
  {
    what: "an ATOMIC WRITE without the right",
    opcode: "atomic-write",
    make: () => pair({}, {}, EVERY_ACCESS & ~remoteWrite),
    work: () => ({ length: 0, inline: wordOf(7n) }),
    says: /: the region has no remote write;/,
    vendor: "nak-remote-access",
  },
  {
    what: "a SEND that is longer than its receive",
    opcode: "send",
    make: () => {
      const p = pair();
      recvs(p, 1, { length: 48 });
      return p;
    },
    says: /^RC SEND ONLY with 64 B: the message is longer than the 48 B of the receive$/,
    vendor: "nak-invalid-request",
  },
  {
    what: "a SEND of several packets that is longer than its receive",
    opcode: "send",
    make: () => {
      const p = pair();
      recvs(p, 1, { length: 1100 });
      return p;
    },
    work: () => ({ length: 4000 }),
    says: /^RC SEND (MIDDLE|LAST) with \d+ B of a message of 1100 B: the message is longer/,
    vendor: "nak-invalid-request",
  },
  {
    what: "a receive whose memory its key does not grant",
    opcode: "send",
    make: () => {
      const p = pair();
      p.rig.recv(p.rig.b, p.b, [{ address: p.to.va, length: 64, lkey: 0x7f_ff00 }]);
      return p;
    },
    says: /: the memory of the receive cannot be written: its completion says why$/,
    vendor: "nak-remote-operational",
  },
  {
    what: "a persistent write to memory that is not",
    opcode: "write-persistence",
    make: () =>
      pair({}, { attributes: { accessFlags: EVERY_ACCESS | ACCESS.remoteWritePersistence } }),
    work: (p) => {
      const access = EVERY_ACCESS & ~ACCESS.flushPersistent;
      const volatile = { length: 4096, va: 0x6_0000_0000, access, persistent: false };
      const { va, key } = p.rig.register(p.rig.b, volatile);
      return { remote: { va: BigInt(va), rkey: key } };
    },
    says: /: what is to be persistent lies in memory that is not; the region is/,
    vendor: "nak-remote-access",
  },
];

describe("refusalText", () => {
  for (const { what, opcode = "write", make = pair, work, says, vendor } of CASES) {
    it(`NAK (§1.4): ${what}`, () => {
      const p = make();
      p.rig.tracing = true;
      post(p, opcode, { length: 64, ...work?.(p) });
      go(p);
      const nak = packets(p, "b").at(-1)!.aeth!;
      const [message, ...more] = p.rig.warnings("b");
      assert.deepEqual(more, []);
      // The peer's address, the queue pairs of both, and the PSN tell whose request it was.
      const parts = /^(.+) to 10\.0\.0\.\d+, queue pair (\d+) to (\d+), PSN \d+: (.+)$/.exec(
        message!,
      );
      assert.ok(parts, message);
      assert.deepEqual(parts.slice(1, 4), [nakText(nak.syndrome)!, `${p.a.qpn}`, `${p.b.qpn}`]);
      assert.match(parts[4]!, says);
      assert.deepEqual(p.rig.warnings("a"), [], "the requester learns the syndrome alone");
      const [cqe] = p.rig.poll(p.rig.a, p.a.sendCq);
      const { status, code } = VENDOR_ERRORS[vendor];
      assert.deepEqual([cqe!.status, cqe!.vendorError], [status, code]);
      // The ladder has both sides.
      const lines = p.rig.traces.filter(({ step: { step } }) => /^(nak|error-cqe)$/.test(step));
      const own = lines.filter(({ node, step: { step } }) => node === "b" && step === "nak");
      assert.deepEqual(own.map(({ step: { text } }) => text.split(": ").slice(1).join(": ")), [
        parts[4]!,
      ]);
      const failed = lines.filter(({ node }) => node === "a").map(({ step: { text } }) => text);
      assert.equal(failed.length, 1);
      assert.ok(failed[0]!.includes(`${status}, vendor_err 0x${code.toString(16)}: `), failed[0]);
    });
  }

  it("NAK (§1.4): more READs than the responder has slots for", () => {
    const p = pair({}, { attributes: { maxRdAtomic: 4, maxDestRdAtomic: 1 } });
    for (let i = 0; i < 3; i++) post(p, "read", { length: 4096 });
    go(p);
    assert.match(
      p.rig.warnings("b")[0]!,
      /: max_dest_rd_atomic is 1, and as many READs and atomics are/,
    );
  });

  it("NAK (§3.4): a packet that continues no message, or another one", () => {
    const p = pair();
    post(p, "write", { length: 64 });
    go(p);
    const write = packets(p, "a").at(-1)!;
    const psn = (write.bth.psn + 1) & 0xff_ffff;
    const last = 0x08; // RC RDMA WRITE LAST
    const { reth: _, ...bare } = changed(write, { bth: { psn, opcode: last } });
    inject(p, "b", bare);
    p.rig.run();
    assert.match(
      p.rig.warnings("b")[0]!,
      /: no message is coming in that a last packet continues$/,
    );
  });

  it("says nothing where nothing is refused", () => {
    const p = pair();
    post(p, "write", { length: 64 });
    post(p, "read", { length: 64 });
    go(p);
    assert.deepEqual(p.rig.reports, []);
    assert.deepEqual(
      p.rig.poll(p.rig.a, p.a.sendCq).map(({ status, vendorError }) => [status, vendorError]),
      [["SUCCESS", 0], ["SUCCESS", 0]],
    );
  });
});
