/** Protection of memory (`rocev2.md` §7.3): regions that change or go away, and memory windows. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import type { WcStatus } from "../../../fabric/wire/host_bus/cqe.ts";
import {
  ACCESS,
  type RegionChange,
  type RnicCommand,
  type WindowType,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import { allocateMw } from "../testing/objects_testing.ts";
import type { RigMr, RigQp, Side } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { checkRegion } from "./memory_region.ts";

const { localWrite, remoteWrite, remoteRead, remoteAtomic, mwBind, zeroBased, relaxedOrdering } =
  ACCESS;
const ALL = localWrite | remoteWrite | remoteRead | mwBind;
const BYTES = 8192;

let rig: Rig, qp: { a: RigQp; b: RigQp }, source: RigMr, target: RigMr;

beforeEach(() => {
  rig = new Rig();
  qp = rig.connect();
  source = rig.register(rig.a, { length: BYTES });
  target = rig.register(rig.b, { length: BYTES, access: ALL });
  rig.fill(rig.a, source, (i) => i + 1);
});

/** A WRITE from `a`. @returns its status; "nothing" where it made no completion. */
function write(to: { va?: bigint; key?: number; length?: number; by?: RigQp } = {}): string {
  const { va = BigInt(target.va), key = target.key, length = 64, by = qp.a } = to;
  rig.send(rig.a, by, {
    opcode: "write",
    sges: length === 0 ? [] : [{ address: source.va, length, lkey: source.key }],
    remote: { va, rkey: key },
  });
  rig.run();
  return rig.poll(rig.a, by.sendCq).at(-1)?.status ?? "nothing";
}

function isUntouched(): boolean {
  return rig.bytes(rig.b, target).every((byte) => byte === 0);
}

function change(change: RegionChange, key = target.key): void {
  const reply = rig.command(rig.b, { op: "reregister-mr", key, change });
  assert.equal(reply.status, "ok", JSON.stringify(reply));
}

/** Other pages of `b` under the same addresses, so that a write by the old ones would show. */
function elsewhere(): NonNullable<RegionChange["place"]> {
  const address = rig.b.host.allocate(BYTES);
  const va = target.va + BYTES;
  return { va, length: BYTES, pageBytes: 4096, pages: [address, address + 4096], persistent: true };
}

describe("a region that is registered anew", () => {
  it("§7 #32: a receive in its old memory fails the SEND with REM_OP_ERR", () => {
    rig.recv(rig.b, qp.b, [{ address: target.va, length: 64, lkey: target.key }]);
    change({ place: elsewhere() });
    rig.send(rig.a, qp.a, { opcode: "send", inline: Uint8Array.of(1) });
    rig.run();
    assert.equal(rig.poll(rig.a, qp.a.sendCq)[0]?.status, "REM_OP_ERR");
    assert.equal(rig.poll(rig.b, qp.b.recvCq)[0]?.status, "LOC_PROT_ERR");
    assert.ok(isUntouched());
  });

  it("§7 #33: in another domain: SEND into it REM_OP_ERR, WRITE by its key REM_ACCESS_ERR", () => {
    change({ pd: 2 });
    assert.equal(write(), "REM_ACCESS_ERR");
    const other = rig.connect();
    rig.recv(rig.b, other.b, [{ address: target.va, length: 64, lkey: target.key }]);
    rig.send(rig.a, other.a, { opcode: "send", inline: Uint8Array.of(1) });
    rig.run();
    assert.equal(rig.poll(rig.a, other.a.sendCq)[0]?.status, "REM_OP_ERR");
    assert.ok(isUntouched());
  });

  it("§7 #34: without REMOTE_WRITE: REM_ACCESS_ERR, memory untouched; READs go on", () => {
    change({ access: localWrite | remoteRead });
    assert.equal(write(), "REM_ACCESS_ERR");
    assert.ok(isUntouched());
    const other = rig.connect();
    rig.send(rig.a, other.a, {
      opcode: "read",
      sges: [{ address: source.va, length: 8, lkey: source.key }],
      remote: { va: BigInt(target.va), rkey: target.key },
    });
    rig.run();
    assert.equal(rig.poll(rig.a, other.a.sendCq)[0]?.status, "SUCCESS");
  });

  it("§7 #86: is refused relaxed ordering, as it is at first: nothing honours it", () => {
    const access = ALL | relaxedOrdering;
    const { va } = target;
    const region = { ...elsewhere(), va, pd: 1, access };
    const refusals = [
      rig.command(rig.b, { op: "register-mr", region }),
      rig.command(rig.b, { op: "reregister-mr", key: target.key, change: { access } }),
    ];
    for (const reply of refusals) {
      assert.ok(reply.status === "error" && reply.errno === "EINVAL");
      assert.match(reply.reason, /IBV_ACCESS_RELAXED_ORDERING/);
    }
    assert.equal(write(), "SUCCESS", "what was not changed is as it was");
  });

  it("keeps its key, and is what it was where the change is refused", () => {
    const reply = rig.command(rig.b, {
      op: "reregister-mr",
      key: target.key,
      change: { access: remoteWrite },
    });
    assert.equal(reply.status === "error" && reply.errno, "EINVAL");
    assert.equal(write(), "SUCCESS");
    const place = elsewhere();
    change({ place });
    assert.equal(write({ va: BigInt(place.va) }), "SUCCESS");
    assert.deepEqual(
      rig.b.host.memory.slice(place.pages[0], place.pages[0]! + 4),
      Uint8Array.of(1, 2, 3, 4),
    );
  });
});

describe("checkRegion", () => {
  const refused = (access: number) =>
    checkRegion({ pd: 1, va: 0, length: 1, pageBytes: 1, pages: [0], persistent: true, access });

  it("§7 #31: remote write and remote atomic access each need local write access", () => {
    for (const access of [remoteWrite, remoteAtomic, remoteWrite | remoteAtomic]) {
      assert.match(refused(access) ?? "granted", /needs local write access/);
      assert.equal(refused(access | localWrite), undefined);
    }
    assert.equal(refused(remoteRead), undefined);
  });
});

describe("keys and bounds", () => {
  it("§7 #38: a bad local key: LOC_PROT_ERR, nothing on the wire", () => {
    const sent = rig.a.framesSent;
    const sges = [{ address: source.va, length: 8, lkey: source.key + 1 }];
    const remote = { va: BigInt(target.va), rkey: target.key };
    rig.send(rig.a, qp.a, { opcode: "write", sges, remote });
    rig.run();
    assert.equal(rig.poll(rig.a, qp.a.sendCq)[0]?.status, "LOC_PROT_ERR");
    assert.equal(rig.a.framesSent, sent);
  });

  it("§7 #39: a key with another variant: REM_ACCESS_ERR", () => {
    assert.equal(write({ key: target.key + 1 }), "REM_ACCESS_ERR");
    assert.ok(isUntouched());
  });

  const beyond: [string, (mr: RigMr) => bigint, number][] = [
    ["two bytes at the last", (mr) => BigInt(mr.va + BYTES - 1), 2],
    ["one byte before the first", (mr) => BigInt(mr.va - 1), 2],
    ["a range that wraps at 2^64", () => 2n ** 64n - 1n, 2],
    ["an address above 2^53", (mr) => 2n ** 63n + BigInt(mr.va), 2],
  ];
  for (const [name, va, length] of beyond) {
    it(`§7 #40: ${name}: REM_ACCESS_ERR`, () => {
      assert.equal(write({ va: va(target), length }), "REM_ACCESS_ERR");
      assert.ok(isUntouched());
    });
  }

  it("§7 #41: of no bytes, with key and address 0: SUCCESS, one PSN", () => {
    const before = rig.a.framesSent;
    assert.equal(write({ va: 0n, key: 0, length: 0 }), "SUCCESS");
    assert.equal(rig.a.framesSent, before + 1);
    assert.equal(write(), "SUCCESS");
  });

  it("a deregistered key opens nothing, nor does it when its index is used again", () => {
    rig.command(rig.b, { op: "deregister-mr", key: target.key });
    const again = rig.register(rig.b, { length: BYTES });
    assert.equal(again.key >>> 8, target.key >>> 8);
    assert.notEqual(again.key, target.key);
    assert.equal(write(), "REM_ACCESS_ERR");
  });
});

/** What is under way when a region ends: nothing touches its memory any more. */
function trafficInto(end: (key: number) => RnicCommand): void {
  /** Lets frames of a side arrive 2 µs apart, so that a command comes between two of them. */
  function spread(name: "a" | "b"): void {
    let frames = 0;
    rig.fate = (from) => from === name ? { delayPs: 2_000_000 * frames++ } : "pass";
  }

  /** Ends the region when a counter of the side says that a message has come in part. */
  function midway(side: Side, key: number, part: { counter: string; total: number }): void {
    const { counter, total } = part;
    rig.run(() => side.rnic.statistics()[counter]! >= 3);
    assert.equal(rig.command(side, end(key)).status, "ok");
    assert.ok(side.rnic.statistics()[counter]! < total, "the rest is still to come");
  }

  /** What of a memory differs later from now. */
  function frozen(side: Side, mr: RigMr): () => void {
    const then = rig.bytes(side, mr);
    return () => assert.deepEqual(rig.bytes(side, mr), then);
  }

  it("a WRITE that is coming in ends with REM_ACCESS_ERR, and writes no byte any more", () => {
    const sges = [{ address: source.va, length: BYTES, lkey: source.key }];
    spread("a");
    const remote = { va: BigInt(target.va), rkey: target.key };
    rig.send(rig.a, qp.a, { opcode: "write", sges, remote });
    midway(rig.b, target.key, { counter: "requestsIn", total: 8 });
    const check = frozen(rig.b, target);
    rig.run();
    assert.equal(rig.poll(rig.a, qp.a.sendCq)[0]?.status, "REM_ACCESS_ERR");
    check();
  });

  it("a SEND into it ends with REM_OP_ERR and LOC_PROT_ERR", () => {
    rig.recv(rig.b, qp.b, [{ address: target.va, length: BYTES, lkey: target.key }]);
    const sges = [{ address: source.va, length: BYTES, lkey: source.key }];
    spread("a");
    rig.send(rig.a, qp.a, { opcode: "send", sges });
    midway(rig.b, target.key, { counter: "requestsIn", total: 8 });
    const check = frozen(rig.b, target);
    rig.run();
    assert.equal(rig.poll(rig.a, qp.a.sendCq)[0]?.status, "REM_OP_ERR");
    assert.equal(rig.poll(rig.b, qp.b.recvCq)[0]?.status, "LOC_PROT_ERR");
    check();
  });

  it("a READ whose answer is coming into it ends with LOC_PROT_ERR", () => {
    rig.fill(rig.b, target, (i) => i + 5);
    spread("b");
    rig.send(rig.a, qp.a, {
      opcode: "read",
      sges: [{ address: source.va, length: BYTES, lkey: source.key }],
      remote: { va: BigInt(target.va), rkey: target.key },
    });
    midway(rig.a, source.key, { counter: "readResponsesIn", total: 8 });
    const check = frozen(rig.a, source);
    rig.run();
    assert.equal(rig.poll(rig.a, qp.a.sendCq)[0]?.status, "LOC_PROT_ERR");
    check();
  });

  it("what is being sent from it ends with LOC_PROT_ERR", () => {
    const pair = rig.connect({ attributes: { pathMtu: 256 } });
    const long = rig.register(rig.a, { length: 1 << 20 });
    const wide = rig.register(rig.b, { length: 1 << 20 });
    rig.send(rig.a, pair.a, {
      opcode: "write",
      sges: [{ address: long.va, length: 1 << 20, lkey: long.key }],
      remote: { va: BigInt(wide.va), rkey: wide.key },
    });
    midway(rig.a, long.key, { counter: "framesOut", total: 4096 });
    rig.run();
    assert.equal(rig.poll(rig.a, pair.a.sendCq)[0]?.status, "LOC_PROT_ERR");
  });
}

describe("a region that is deregistered under traffic", () => {
  trafficInto((key) => ({ op: "deregister-mr", key }));
});

describe("a region that is registered anew under traffic, in another domain", () => {
  trafficInto((key) => ({ op: "reregister-mr", key, change: { pd: 2 } }));
});

describe("memory window", () => {
  /** Posts a bind at `b` and looks at its status. @returns the new key. */
  function bind(
    rkey: number,
    info: {
      va?: number;
      length?: number;
      access?: number;
      lkey?: number;
      by?: RigQp;
      status?: WcStatus;
      key?: number;
    } = {},
  ): number {
    const { va = target.va + 4000, length = 200, access = remoteWrite, by = qp.b } = info;
    const next = info.key ?? ((rkey & ~0xff) | ((rkey + 1) & 0xff)) >>> 0;
    const lkey = info.lkey ?? target.key;
    const operands = { rkey: next, lkey, va: BigInt(va), length, access };
    rig.send(rig.b, by, { opcode: "bind-mw", bind: operands });
    rig.run();
    assert.equal(rig.poll(rig.b, by.sendCq).at(-1)?.status, info.status ?? "SUCCESS");
    return next;
  }

  const inside = () => BigInt(target.va + 4000);

  it("§7 #42: type 1: a WRITE by its key; bound to nothing, REM_ACCESS_ERR", () => {
    const first = allocateMw(rig, rig.b, 1);
    const bound = bind(first);
    assert.equal(write({ key: bound, va: inside(), length: 200 }), "SUCCESS");
    assert.deepEqual(rig.bytes(rig.b, target, 4000, 200), rig.bytes(rig.a, source, 0, 200));
    bind(bound, { length: 0 });
    assert.equal(write({ key: bound, va: inside() }), "REM_ACCESS_ERR");
  });

  it("type 1 may be bound again at once: the old key is dead; any queue pair of the domain", () => {
    const first = bind(allocateMw(rig, rig.b, 1));
    const second = bind(first, { va: target.va, length: 64 });
    const other = rig.connect();
    assert.equal(write({ key: second, by: other.a }), "SUCCESS");
    assert.equal(write({ key: first, va: inside(), by: other.a }), "REM_ACCESS_ERR");
  });

  const ends: [string, (key: number) => void][] = [
    ["LOCAL_INV", (key) => {
      rig.send(rig.b, qp.b, { opcode: "local-invalidate", immediate: key });
      rig.run();
      assert.equal(rig.poll(rig.b, qp.b.sendCq).at(-1)?.status, "SUCCESS");
    }],
    ["SEND_WITH_INV", (key) => {
      rig.recv(rig.b, qp.b, []);
      rig.send(rig.a, qp.a, { opcode: "send-invalidate", immediate: key });
      rig.run();
      rig.poll(rig.a, qp.a.sendCq);
      const cqe = rig.poll(rig.b, qp.b.recvCq).at(-1)!;
      assert.deepEqual([cqe.opcode, cqe.immediate], ["recv-invalidate", key]);
    }],
    ["dealloc", (key) => {
      assert.equal(rig.command(rig.b, { op: "deallocate-mw", rkey: key }).status, "ok");
    }],
  ];
  for (const [name, end] of ends) {
    it(`§7 #43: type 2: a WRITE by its key; after ${name}, REM_ACCESS_ERR`, () => {
      const key = bind(allocateMw(rig, rig.b, 2));
      assert.equal(write({ key, va: inside() }), "SUCCESS");
      end(key);
      assert.equal(write({ key, va: inside() }), "REM_ACCESS_ERR");
    });
  }

  it("§4.5: a window's index comes back with a key that none of its binds had", () => {
    const first = allocateMw(rig, rig.b, 1);
    const bound = bind(bind(bind(first)));
    assert.equal(rig.command(rig.b, { op: "deallocate-mw", rkey: bound }).status, "ok");
    const again = allocateMw(rig, rig.b, 1);
    assert.equal(again, bound + 1);
  });

  it("§7 #44: without REMOTE_WRITE: REM_ACCESS_ERR", () => {
    const key = bind(allocateMw(rig, rig.b, 2), { access: remoteRead });
    assert.equal(write({ key, va: inside() }), "REM_ACCESS_ERR");
    assert.ok(isUntouched());
  });

  it("§7 #45: to a region without MW_BIND: MW_BIND_ERR", () => {
    const plain = rig.register(rig.b, { length: BYTES });
    const va = plain.va;
    bind(allocateMw(rig, rig.b, 2), { lkey: plain.key, va, status: "MW_BIND_ERR" });
  });

  it("§7 #46: type 2 bound to another queue pair of the domain: REM_ACCESS_ERR", () => {
    const key = bind(allocateMw(rig, rig.b, 2));
    const other = rig.connect();
    assert.equal(write({ key, va: inside(), by: other.a }), "REM_ACCESS_ERR");
    assert.equal(write({ key, va: inside() }), "SUCCESS");
  });

  it("§7 #77: SEND_WITH_INV of a key that is none: no NAK, the queue pair goes to ERR", () => {
    const key = allocateMw(rig, rig.b, 2);
    rig.recv(rig.b, qp.b, []);
    const before = rig.b.framesSent;
    rig.send(rig.a, qp.a, { opcode: "send-invalidate", immediate: key });
    rig.run();
    assert.equal(rig.b.framesSent, before);
    assert.ok(rig.b.host.events.some(({ type }) => type === "QP_FATAL"));
    assert.equal(rig.poll(rig.a, qp.a.sendCq)[0]?.status, "RETRY_EXC_ERR");
  });

  const illegal: [string, WindowType, Parameters<typeof bind>[1]][] = [
    ["a range that begins before the region", 2, { va: 0xffff_ffff }],
    ["a range that ends behind it", 2, { length: BYTES }],
    ["type 2 to nothing", 2, { length: 0 }],
    ["rights that a window cannot give", 2, { access: mwBind }],
    ["relaxed ordering, which nothing honours", 2, { access: remoteWrite | relaxedOrdering }],
    ["addresses from 0 with type 1", 1, { access: remoteWrite | zeroBased }],
    ["a key that is no region's", 1, { lkey: 0x7700 }],
  ];
  for (const [name, type, info] of illegal) {
    it(`§4.5: MW_BIND_ERR for ${name}`, () => {
      bind(allocateMw(rig, rig.b, type), { ...info, status: "MW_BIND_ERR" });
    });
  }

  it("§4.5: remote write or atomic needs LOCAL_WRITE of the region, a free window, its domain", () => {
    const readOnly = rig.register(rig.b, { length: BYTES, access: remoteRead | mwBind });
    const access = remoteAtomic;
    const status = "MW_BIND_ERR";
    bind(allocateMw(rig, rig.b, 1), { lkey: readOnly.key, va: readOnly.va, access, status });
    const other = rig.connect();
    const bound = bind(allocateMw(rig, rig.b, 2), { by: other.b });
    bind(bound, { by: other.b, status });
    const foreign = rig.connect();
    bind(allocateMw(rig, rig.b, 2, 9), { by: foreign.b, status });
  });

  it("zero-based type 2 counts from 0, across pages", () => {
    const access = remoteWrite | zeroBased;
    const key = bind(allocateMw(rig, rig.b, 2), { access });
    assert.equal(write({ key, va: 90n, length: 100 }), "SUCCESS");
    assert.deepEqual(rig.bytes(rig.b, target, 4090, 100), rig.bytes(rig.a, source, 0, 100));
    assert.equal(write({ key, va: 150n, length: 51 }), "REM_ACCESS_ERR");
  });

  it("§7 #37: an atomic by a zero-based one that begins at no multiple of 8: 0x61, no byte is written", () => {
    const access = remoteAtomic | zeroBased;
    const by = rig.connect({ attributes: { accessFlags: remoteAtomic } });
    const add = (va: number) => {
      const rkey = bind(allocateMw(rig, rig.b, 2), { access, va, by: by.b });
      rig.send(rig.a, by.a, {
        opcode: "fetch-add",
        sges: [{ address: source.va, length: 8, lkey: source.key }],
        atomic: { swapAdd: 1n, compare: 0n },
        remote: { va: 0n, rkey },
      });
      rig.run();
      return rig.poll(rig.a, by.a.sendCq)[0]?.status;
    };
    assert.equal(add(target.va + 4088), "SUCCESS");
    assert.equal(add(target.va + 4092), "REM_INV_REQ_ERR");
    assert.equal(rig.bytes(rig.b, target, 4088, 16).join(""), "1000000000000000");
  });

  it("takes LOCAL_WRITE as drivers do, and grants nothing by it", () => {
    const key = bind(allocateMw(rig, rig.b, 2), { access: localWrite | remoteRead });
    assert.equal(write({ key, va: inside() }), "REM_ACCESS_ERR");
    assert.ok(isUntouched());
    const other = rig.connect();
    const access = localWrite | remoteWrite;
    const open = bind(allocateMw(rig, rig.b, 1), { access, by: other.b });
    const sges = [{ address: target.va + 4000, length: 8, lkey: open }];
    rig.recv(rig.b, other.b, sges);
    rig.send(rig.a, other.a, {
      opcode: "send",
      sges: [{ ...sges[0]!, address: source.va, lkey: source.key }],
    });
    rig.run();
    assert.equal(rig.poll(rig.b, other.b.recvCq)[0]?.status, "LOC_PROT_ERR");
    assert.ok(isUntouched());
  });

  it("is bound again under the key that it has: type 1 at once, type 2 when it is free", () => {
    const one = bind(allocateMw(rig, rig.b, 1));
    bind(one, { key: one, va: target.va, length: 64 });
    assert.equal(write({ key: one, va: BigInt(target.va), length: 64 }), "SUCCESS");
    const other = rig.connect();
    assert.equal(write({ key: one, va: inside(), by: other.a }), "REM_ACCESS_ERR");
    const first = allocateMw(rig, rig.b, 2), by = rig.connect();
    // Also the key that it was allocated with.
    bind(first, { key: first, by: by.b });
    rig.send(rig.b, by.b, { opcode: "local-invalidate", immediate: first });
    rig.run();
    rig.poll(rig.b, by.b.sendCq);
    bind(first, { key: first, by: by.b });
    assert.equal(write({ key: first, va: inside(), by: by.a }), "SUCCESS");
    bind(first, { key: first, by: by.b, status: "MW_BIND_ERR" });
  });

  it("grants no local access, not even to read", () => {
    const key = bind(allocateMw(rig, rig.b, 1), { access: remoteRead });
    const sges = [{ address: target.va + 4000, length: 8, lkey: key }];
    rig.send(rig.b, qp.b, { opcode: "send", sges });
    rig.run();
    assert.equal(rig.poll(rig.b, qp.b.sendCq)[0]?.status, "LOC_PROT_ERR");
  });

  it("§4.5: its region can neither go nor change while it is bound; it can when its queue pair is gone", () => {
    bind(allocateMw(rig, rig.b, 2));
    const commands = [
      { op: "deregister-mr", key: target.key },
      { op: "reregister-mr", key: target.key, change: { pd: 2 } },
    ] as const;
    for (const command of commands) {
      const reply = rig.command(rig.b, command);
      assert.equal(reply.status === "error" && reply.errno, "EINVAL");
    }
    rig.command(rig.b, { op: "destroy-qp", qpn: qp.b.qpn });
    assert.equal(rig.command(rig.b, commands[0]).status, "ok");
  });

  it("§4.5: type 1 stays open when the queue pair is gone that bound it, and its region then, too", () => {
    const binder = rig.connect();
    const key = bind(allocateMw(rig, rig.b, 1), { by: binder.b });
    const own = bind(allocateMw(rig, rig.b, 2), { by: binder.b });
    assert.equal(rig.command(rig.b, { op: "destroy-qp", qpn: binder.b.qpn }).status, "ok");
    assert.equal(write({ key, va: inside(), length: 8 }), "SUCCESS");
    const gone = rig.command(rig.b, { op: "deregister-mr", key: target.key });
    assert.ok(gone.status === "error" && /^1 memory windows are bound/.test(gone.reason));
    assert.equal(write({ key: own, va: inside(), length: 8 }), "REM_ACCESS_ERR", "type 2 does not");
  });

  it("§3.2: LOCAL_INV waits for all before it; a region's own key it cannot take", () => {
    const window = bind(allocateMw(rig, rig.b, 2));
    rig.enqueueSend(rig.b, qp.b, {
      opcode: "read",
      sges: [{ address: target.va, length: 4096, lkey: target.key }],
      remote: { va: BigInt(source.va), rkey: source.key },
    });
    rig.send(rig.b, qp.b, { opcode: "local-invalidate", immediate: window });
    const statuses = () => rig.poll(rig.b, qp.b.sendCq).map(({ status }) => status);
    // While the READ is under way the window is open.
    assert.equal(write({ key: window, va: inside(), length: 8 }), "SUCCESS");
    rig.run();
    assert.deepEqual(statuses(), ["SUCCESS", "SUCCESS"]);
    rig.send(rig.b, qp.b, { opcode: "local-invalidate", immediate: target.key });
    rig.run();
    assert.deepEqual(statuses(), ["MW_BIND_ERR"]);
  });
});
