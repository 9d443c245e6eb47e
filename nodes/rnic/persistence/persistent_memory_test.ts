/** What depends on whether a region's memory outlives a power failure (P-02, P-21, P-22, P-50). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { ACCESS, type PersistencePlan } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { allocateMw } from "../testing/objects_testing.ts";
import {
  counter,
  EVERY_ACCESS,
  go,
  names,
  type Pair,
  pair,
  PAIR_BYTES,
  post,
  RECV_AT,
  recvs,
  statuses,
} from "../testing/pair_testing.ts";
import { FLOW_1, FLOW_2, flushByCpu } from "../testing/pm_testing.ts";

const NO_SNOOP: PersistencePlan = { flow: 1, flush: "read", noSnoop: true };
const PLANS: readonly [string, PersistencePlan][] = [
  ["flow 1", FLOW_1],
  ["flow 2", FLOW_2],
  ["flow 1 by the NS bit", NO_SNOOP],
  ["flow 2 with the NS bit", { flow: 2, flush: "cpu", noSnoop: true }],
];
const DRAM_ACCESS = (EVERY_ACCESS & ~ACCESS.flushPersistent) | ACCESS.mwBind;

/** A pair whose target lies in DRAM, with every right that there is for it, or in SCM. */
function pairOn(memory: "scm" | "dram", plan: PersistencePlan): Pair {
  // Without this right of the queue pair the vendor's opcodes do not exist for the peer.
  const accessFlags = EVERY_ACCESS | ACCESS.remoteWritePersistence;
  const p = pair({ persistence: { b: plan } }, { attributes: { accessFlags } });
  const persistent = memory === "scm";
  const access = persistent ? EVERY_ACCESS | ACCESS.mwBind : DRAM_ACCESS;
  const to = p.rig.register(p.rig.b, { length: PAIR_BYTES, access, persistent });
  p.rig.fill(p.rig.b, to, () => 0xee);
  return { ...p, to };
}

/** The pair by a window of type 1 over all of its target instead. */
function byWindow(p: Pair): Pair {
  const { rig, b, to } = p;
  const key = allocateMw(rig, rig.b, 1) + 1;
  const access = ACCESS.remoteWrite | ACCESS.remoteRead;
  const bind = { rkey: key, lkey: to.key, va: BigInt(to.va), length: to.length, access };
  rig.send(rig.b, b, { opcode: "bind-mw", bind });
  rig.run();
  assert.deepEqual(rig.poll(rig.b, b.sendCq).map(({ status }) => status), ["SUCCESS"]);
  return { ...p, to: { ...to, key } };
}

function isUntouched({ rig, to }: Pair): boolean {
  return rig.bytes(rig.b, to).every((byte) => byte === 0xee);
}

describe("a persistence opcode into memory that is not persistent", () => {
  for (const [name, plan] of PLANS) {
    it(`P-21: ${name}: remote access error, of one packet and of several; nothing is written`, () => {
      for (const length of [8, 10_000]) {
        const p = pairOn("dram", plan);
        post(p, "write-persistence", { length });
        go(p);
        assert.deepEqual(statuses(p), ["REM_ACCESS_ERR"]);
        assert.ok(isUntouched(p));
        assert.deepEqual([counter(p, "b", "lsbReads"), counter(p, "b", "recvPersisted")], [0, 0]);
        assert.ok(!names(p, "b").includes("VENDOR PERSISTENCE ACKNOWLEDGE"));
      }
    });
  }

  it("P-21: through a window: what its parent is", () => {
    const dram = byWindow(pairOn("dram", FLOW_1));
    post(dram, "write-persistence", { length: 100 });
    go(dram);
    assert.deepEqual([statuses(dram), isUntouched(dram)], [["REM_ACCESS_ERR"], true]);
    const scm = byWindow(pairOn("scm", FLOW_1));
    post(scm, "write-persistence", { length: 100 });
    go(scm);
    assert.deepEqual([statuses(scm), isUntouched(scm)], [["SUCCESS"], false]);
  });

  it("a plain WRITE is taken, and an empty persistent one promises what was written before (P-31)", () => {
    const p = pairOn("dram", FLOW_1);
    post(p, "write", { length: 100 });
    post(p, "write-persistence");
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.equal(counter(p, "b", "lsbReads"), 1);
  });

  it("P-50: FLUSH to persistence is refused, as nothing there grants it; to visibility it is not", () => {
    for (const select of [FLUSH_SELECT.range, FLUSH_SELECT.region]) {
      const p = pairOn("dram", FLOW_1);
      const { globalVisibility, persistence } = FLUSH_PLACEMENT;
      for (const placement of [globalVisibility, persistence]) {
        post(p, "flush", { flush: { select, placement, length: 8 } });
      }
      go(p);
      assert.deepEqual(statuses(p), ["SUCCESS", "REM_ACCESS_ERR"]);
    }
  });
});

describe("a window over persistent memory", () => {
  it("P-22: a WRITE by its key is persisted where its region's WRITEs are", () => {
    const p = pairOn("scm", FLOW_1);
    const access = EVERY_ACCESS | ACCESS.mwBind | ACCESS.remoteWritePersistence;
    const to = p.rig.register(p.rig.b, { length: PAIR_BYTES, access });
    const window = byWindow({ ...p, to });
    post(window, "write-persist-address", { length: 100 });
    go(window);
    assert.deepEqual(statuses(window), ["SUCCESS"]);
    assert.equal(counter(window, "b", "lsbPersisted"), 1);
  });

  it("P-26, P-50: its CPU is told the host's own addresses of a WRITE and of a FLUSH by its key", () => {
    const p = pairOn("scm", FLOW_2);
    const { rig } = p;
    recvs(p, 2);
    const rkey = allocateMw(rig, rig.b, 2) + 1, start = 1024;
    const access = ACCESS.remoteWrite | ACCESS.flushPersistent | ACCESS.zeroBased;
    const bind = { rkey, lkey: p.to.key, va: BigInt(p.to.va + start), length: 4096, access };
    rig.send(rig.b, p.b, { opcode: "bind-mw", bind });
    rig.run();
    assert.deepEqual(rig.poll(rig.b, p.b.sendCq).map(({ status }) => status), ["SUCCESS"]);
    const { persistence: placement } = FLUSH_PLACEMENT;
    post(p, "write-persistence", { length: 100, remote: { va: 64n, rkey } });
    const flush = { select: FLUSH_SELECT.range, placement, length: 200 };
    post(p, "flush", { flush, remote: { va: 512n, rkey } });
    rig.ring(rig.a, p.a.sq);
    rig.run(() => counter(p, "b", "recvPersisted") === 2);
    rig.runFor(PS_PER_US);
    const told = flushByCpu(p).map(({ va, length }) => [va - p.to.va, length]);
    assert.deepEqual(told, [[start + 64, 100], [start + 512, 200]]);
    rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
  });

  it("P-02, P-24: what is written by its key carries NS = 1 where the processor looks at it", () => {
    for (const memory of ["scm", "dram"] as const) {
      const p = byWindow(pairOn(memory, NO_SNOOP));
      const before = p.rig.b.host.log.length;
      post(p, "write", { length: 100 });
      go(p);
      const bits = p.rig.b.host.log.slice(before).flatMap((message) =>
        message.kind === "memory-write" && message.data.length === 100 ? [message.noSnoop] : []
      );
      assert.deepEqual(bits, [memory === "scm"]);
    }
  });
});

describe("registration", () => {
  const page = { va: 0, length: 4096, pageBytes: 4096, pages: [0] };
  const write = ACCESS.localWrite | ACCESS.remoteWrite;
  for (const right of ["remoteWritePersistence", "flushPersistent"] as const) {
    it(`P-22: ${right} needs persistent memory, at first and anew`, () => {
      const { rig } = pair();
      const access = write | ACCESS[right];
      const errno = (persistent: boolean) => {
        const region = { pd: 1, access, ...page, persistent };
        const reply = rig.command(rig.b, { op: "register-mr", region });
        return reply.status === "error" ? reply.errno : undefined;
      };
      assert.deepEqual([errno(true), errno(false)], [undefined, "EINVAL"]);
      const { key } = rig.register(rig.b, { length: 4096, access });
      const change = { place: { ...page, persistent: false } };
      const reply = rig.command(rig.b, { op: "reregister-mr", key, change });
      assert.equal(reply.status, "error");
      const without = { ...change, access: write };
      assert.equal(
        rig.command(rig.b, { op: "reregister-mr", key, change: without }).status,
        "ok",
      );
      const regained = rig.command(rig.b, { op: "reregister-mr", key, change: { access } });
      assert.equal(regained.status, "error", "the memory is what it is");
    });
  }
});

/** NS bits of what `b` has been told to write: into the target, and anywhere else. */
function writtenBits(p: Pair, from: number): { inside: Set<boolean>; outside: Set<boolean> } {
  const inside = new Set<boolean>(), outside = new Set<boolean>();
  for (const message of p.rig.b.host.log.slice(from)) {
    if (message.kind !== "memory-write") continue;
    const offset = message.address - p.to.address;
    (offset >= 0 && offset < p.to.length ? inside : outside).add(message.noSnoop);
  }
  return { inside, outside };
}

const OPERATIONS: Readonly<Record<string, (p: Pair) => void>> = {
  "WRITE": (p) => void post(p, "write", { length: 10_000 }),
  "WRITE WITH IMM": (p) => void post(p, "write-immediate", { length: 100 }),
  "SEND": (p) => void post(p, "send", { length: 4000 }),
  "SEND WITH IMM": (p) => void post(p, "send-immediate", { length: 100 }),
  "ATOMIC WRITE": (p) => void post(p, "atomic-write", { inline: new Uint8Array(8) }),
  "FETCH & ADD": (p) =>
    void post(p, "fetch-add", { length: 8, atomic: { swapAdd: 1n, compare: 0n } }),
  "COMPARE & SWAP": (p) => {
    const compare = 0xeeee_eeee_eeee_eeeen;
    post(p, "compare-swap", { length: 8, atomic: { swapAdd: 1n, compare } });
  },
};

describe("the NS bit of what is written", () => {
  for (const [name, operate] of Object.entries(OPERATIONS)) {
    it(`P-02, P-24: ${name}: 1 into persistent memory where it asks for flow 1, else 0`, () => {
      for (const memory of ["scm", "dram"] as const) {
        for (const [, plan] of PLANS) {
          const p = pairOn(memory, plan);
          recvs(p, 1);
          const from = p.rig.b.host.log.length;
          operate(p);
          go(p);
          assert.deepEqual(statuses(p), ["SUCCESS"]);
          const { inside, outside } = writtenBits(p, from);
          assert.deepEqual(
            [...inside],
            [plan.flow === 1 && plan.noSnoop && memory === "scm"],
            memory,
          );
          assert.ok(!outside.has(true), "CQEs and queue information are read by cores");
        }
      }
    });
  }

  it("P-02 (in part): a READ's answer in the requester's own persistent memory has it too", () => {
    const p = pairOn("scm", NO_SNOOP);
    const from = p.rig.b.host.log.length;
    p.rig.send(p.rig.b, p.b, {
      opcode: "read",
      sges: [{ address: p.to.va + RECV_AT, length: 5000, lkey: p.to.key }],
      remote: { va: BigInt(p.from.va), rkey: p.from.key },
    });
    p.rig.run();
    assert.deepEqual([...writtenBits(p, from).inside], [true]);
  });

  it("each element of a scattered SEND has its own region's", () => {
    const p = pairOn("scm", NO_SNOOP);
    const { rig } = p;
    const dram = rig.register(rig.b, { length: 4096, persistent: false });
    rig.recv(rig.b, p.b, [
      { address: dram.va, length: 100, lkey: dram.key },
      { address: p.to.va, length: 100, lkey: p.to.key },
    ]);
    const from = rig.b.host.log.length;
    post(p, "send", { length: 200 });
    go(p);
    const payload = rig.b.host.log.slice(from).flatMap((message) =>
      message.kind === "memory-write" && message.data.length === 100 ? [message.noSnoop] : []
    );
    assert.deepEqual(payload, [false, true]);
  });
});
