/** P-31 in flow 2: what a CPU is told to flush, and in which order its word goes out. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import type { Cqe } from "../../../fabric/wire/host_bus/cqe.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import {
  decodePersistRanges,
  PERSIST_RANGE_BYTES,
} from "../../../fabric/wire/host_bus/persist_ranges.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import type { Device } from "../state/device.ts";
import { LIMITS } from "../state/limits.ts";
import { allocateMw } from "../testing/objects_testing.ts";
import {
  counter,
  EVERY_ACCESS,
  names,
  packets,
  type Pair,
  post,
  statuses,
} from "../testing/pair_testing.ts";
import { FLOW_1, FLOW_2, persistingPair } from "../testing/pm_testing.ts";
import { noteWrittenAt } from "./pm_ranges.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { createResponder } from "../state/responder_state.ts";
import type { RigMr } from "../testing/rig_parts_testing.ts";

const EMPTY = { remote: { va: 0n, rkey: 0 } } as const;

/** A pair whose `b` has memory for receives of `recvBytes` each, of which `count` are posted. */
interface Told extends Pair {
  readonly inbox: RigMr;
  readonly recvBytes: number;
}

function byCpu(options: { count?: number; recvBytes?: number; persistent?: boolean } = {}): Told {
  const { count = 1, recvBytes = 128, persistent = false } = options;
  const p = persistingPair(FLOW_2, { access: EVERY_ACCESS });
  const length = Math.max(1, count * recvBytes);
  const inbox = p.rig.register(p.rig.b, { length, va: 0x9_0000_0000, persistent });
  for (let i = 0; i < count; i++) {
    const sges = recvBytes === 0
      ? []
      : [{ address: inbox.va + i * recvBytes, length: recvBytes, lkey: inbox.key }];
    p.rig.recv(p.rig.b, p.b, sges, "none");
  }
  return { ...p, inbox, recvBytes };
}

/** Lets `b` be told; the requester is still waiting. */
function goOn(p: Pair): void {
  p.rig.ring(p.rig.a, p.a.sq);
  p.rig.runFor(20 * PS_PER_US);
}

function toldTo(p: Pair): Cqe[] {
  return p.rig.poll(p.rig.b, p.b.recvCq).filter(({ opcode }) => opcode === "recv-persistence");
}

/** What a CPU has to flush for the CQE, relative to the target; the message's own range is last. */
function rangesOf(p: Told, cqe: Cqe): [at: number, length: number][] {
  const at = cqe.wqeIndex * p.recvBytes;
  const told = p.rig.bytes(p.rig.b, p.inbox, at, cqe.immediate * PERSIST_RANGE_BYTES);
  const others = decodePersistRanges(told).map(({ va, length }): [number, number] => {
    return [Number(va) - p.to.va, Number(length)];
  });
  return [...others, [Number(cqe.va) - p.to.va, cqe.byteCount]];
}

/** Both queue pairs through RESET to RTS again, with rings that are empty. */
function restart(p: Pair): void {
  const { rig, a, b } = p;
  for (const [side, qp] of [[rig.a, a], [rig.b, b]] as const) {
    assert.equal(rig.modify(side, qp, { state: "reset" }).status, "ok");
    rig.poll(side, qp.sendCq);
    for (const ring of [qp.sq, qp.rq]) {
      ring.write = ring.depth - 1;
      ring.stamp = rig.now;
    }
  }
  const accessFlags = EVERY_ACCESS | ACCESS.remoteWritePersistence;
  for (const [side, qp, peer] of [[rig.a, a, b], [rig.b, b, a]] as const) {
    rig.bringUp(side, qp, { qpn: peer.qpn, attributes: { accessFlags } });
  }
}

/** The CPU says that it has flushed the message with this PSN. */
function acknowledge(p: Pair, psn: number): void {
  p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: psn, signaled: false });
  p.rig.runFor(5 * PS_PER_US);
}

function persistenceAcks(p: Pair): number[] {
  return packets(p, "b").flatMap(({ bth }, i) =>
    names(p, "b")[i] === "VENDOR PERSISTENCE ACKNOWLEDGE" ? [bth.psn] : []
  );
}

/** A persistent WRITE without data, and what the CPU is told for it beside its own empty range. */
function whatElse(p: Told): [number, number][] {
  post(p, "write-persistence", EMPTY);
  goOn(p);
  const [cqe] = toldTo(p);
  assert.equal(cqe?.byteCount, 0);
  return rangesOf(p, cqe).slice(0, -1);
}

describe("noteWritten", () => {
  it("P-31: plain WRITEs before a persistent one are told with it, by lines, its own range last", () => {
    const p = byCpu();
    post(p, "write", { at: 100, length: 100 });
    post(p, "write", { at: 8190, length: 5000 });
    post(p, "write-persistence", { at: 4000, length: 200 });
    goOn(p);
    const [cqe] = toldTo(p);
    assert.deepEqual(rangesOf(p, cqe!), [[64, 192 - 64 + 64], [8128, 5120], [4000, 200]]);
    acknowledge(p, cqe!.psn);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("P-31: nothing is told twice, nor what the message's own range says", () => {
    const p = byCpu({ count: 3 });
    post(p, "write", { at: 0, length: 64 });
    post(p, "write", { at: 1024, length: 64 });
    post(p, "write-persistence", { at: 1024, length: 64 });
    post(p, "write-persistence", { at: 2048, length: 64 });
    post(p, "write", { at: 0, length: 8 });
    post(p, "write-persistence", { at: 2048, length: 64 });
    goOn(p);
    assert.deepEqual(toldTo(p).map((cqe) => rangesOf(p, cqe)), [
      [[0, 64], [1024, 64]],
      [[2048, 64]],
      [[0, 64], [2048, 64]],
    ]);
  });

  it("P-31: WRITE WITH IMM, atomics and ATOMIC WRITE are told, a comparison that failed is not", () => {
    const cases: [SendWqe["opcode"], Partial<SendWqe>, boolean][] = [
      ["write-immediate", { length: 8, immediate: 7 }, true],
      ["fetch-add", { length: 8, atomic: { swapAdd: 1n, compare: 0n } }, true],
      [
        "compare-swap",
        { length: 8, atomic: { swapAdd: 1n, compare: 0xeeee_eeee_eeee_eeeen } },
        true,
      ],
      ["compare-swap", { length: 8, atomic: { swapAdd: 1n, compare: 5n } }, false],
      ["atomic-write", { inline: new Uint8Array(8) }, true],
      ["read", { length: 8 }, false],
    ].map(([opcode, work, told]) =>
      [opcode, work, told] as [SendWqe["opcode"], Partial<SendWqe>, boolean]
    );
    for (const [opcode, work, told] of cases) {
      const p = byCpu({ count: 2 });
      post(p, opcode, { at: 4096, ...work });
      assert.deepEqual(whatElse(p), told ? [[4096, 64]] : [], opcode);
    }
  });

  it("P-31: a SEND into persistent memory is told, one into DRAM is not", () => {
    for (const persistent of [true, false]) {
      const p = byCpu({ count: 2, persistent });
      post(p, "send", { length: 100 });
      const at = p.inbox.va - p.to.va;
      assert.deepEqual(whatElse(p), persistent ? [[at, 128]] : []);
    }
  });

  it("P-31: by keys that are no more, and by the host's own address through a window", () => {
    const p = byCpu();
    const rkey = allocateMw(p.rig, p.rig.b, 2) + 1;
    const other = p.rig.register(p.rig.b, {
      length: 4096,
      va: p.to.va + 0x10_0000,
      access: ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.mwBind,
    });
    const access = ACCESS.remoteWrite | ACCESS.zeroBased;
    const bind = { rkey, lkey: other.key, va: BigInt(other.va + 1024), length: 1024, access };
    p.rig.send(p.rig.b, p.b, { opcode: "bind-mw", bind });
    p.rig.run();
    post(p, "write", { length: 64, remote: { va: 64n, rkey } });
    post(p, "write", { at: 512, length: 64 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    p.rig.send(p.rig.b, p.b, { opcode: "local-invalidate", immediate: rkey });
    p.rig.run();
    for (const key of [other.key, p.to.key]) {
      assert.equal(p.rig.command(p.rig.b, { op: "deregister-mr", key }).status, "ok");
    }
    assert.deepEqual(whatElse(p), [[512, 64], [0x10_0000 + 1024 + 64, 64]]);
  });

  it("P-31: a FLUSH takes its own range off the list, and no other", () => {
    const p = byCpu({ count: 2 });
    post(p, "write", { at: 0, length: 256 });
    const flush = {
      select: FLUSH_SELECT.range,
      placement: FLUSH_PLACEMENT.persistence,
      length: 64,
    };
    post(p, "flush", { at: 64, length: 0, flush });
    goOn(p);
    const [cqe] = toldTo(p);
    assert.deepEqual(rangesOf(p, cqe!), [[64, 64]]);
    acknowledge(p, cqe!.psn);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.deepEqual(whatElse(p), [[0, 64], [128, 128]]);
  });

  it("P-31: a reset forgets what was written, and the messages that were to be flushed", () => {
    const p = byCpu({ count: 1 });
    post(p, "write", { length: 64 });
    post(p, "write-persistence", { at: 1024, length: 64 });
    post(p, "write", { at: 2048, length: 64 });
    goOn(p);
    const [told] = toldTo(p);
    restart(p);
    p.rig.recv(p.rig.b, p.b, [{ address: p.inbox.va, length: 128, lkey: p.inbox.key }], "none");
    // The CPU's word is about what is forgotten.
    const { psn } = told!;
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: psn });
    p.rig.runFor(5 * PS_PER_US);
    const [word] = p.rig.poll(p.rig.b, p.b.sendCq).map(({ status }) => status);
    assert.deepEqual([word, persistenceAcks(p)], ["LOC_QP_OP_ERR", []]);
    restart(p);
    p.rig.recv(p.rig.b, p.b, [{ address: p.inbox.va, length: 128, lkey: p.inbox.key }], "none");
    assert.deepEqual(whatElse(p), []);
  });

  it("P-31: is per queue pair", () => {
    const p = byCpu({ count: 1 });
    const other = p.rig.connect();
    p.rig.send(p.rig.a, other.a, {
      opcode: "write",
      sges: [{ address: p.from.va, length: 64, lkey: p.from.key }],
      remote: { va: BigInt(p.to.va), rkey: p.to.key },
    });
    p.rig.run();
    assert.deepEqual(whatElse(p), []);
  });

  it("P-31: of a service without ACKs nothing is noted: there is no promise to keep", () => {
    const device = { persistence: FLOW_2 } as Device;
    for (const type of ["rc", "uc", "ud"] as const) {
      const qp = { type, responder: createResponder(0) } as unknown as QueuePair;
      noteWrittenAt(device, qp, { va: 64, length: 8, persistent: true });
      assert.equal(qp.responder.dirty.spans.length, type === "rc" ? 1 : 0, type);
    }
  });

  it("P-24: where an LSB read flushes, nothing is noted and nothing told", () => {
    const p = persistingPair(FLOW_1, { access: EVERY_ACCESS });
    post(p, "write", { length: 64 });
    post(p, "write-persistence", EMPTY);
    goOn(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.equal(counter(p, "b", "recvPersisted"), 0);
  });
});

describe("writeRanges", () => {
  /** Writes a line in every other one, `count` of them. */
  function scatter(p: Pair, count: number): void {
    for (let i = 0; i < count; i++) post(p, "write", { at: 128 * i, length: 8 });
  }

  function covers(ranges: readonly (readonly [number, number])[], at: number): boolean {
    return ranges.some(([from, length]) => at >= from && at + 8 <= from + length);
  }

  it("P-31: covers all in wider ranges where the RECV or the card has no room for each", () => {
    for (const [count, recvBytes] of [[8, 128], [9, 128], [40, 128], [60, 16]] as const) {
      const p = byCpu({ recvBytes });
      scatter(p, count);
      const told = whatElse(p);
      assert.equal(told.length, Math.min(count, recvBytes / 16), `${count} in ${recvBytes} B`);
      for (let i = 0; i < count; i++) assert.ok(covers(told, 128 * i), `write ${i} of ${count}`);
    }
  });

  it(`P-31: more than ${LIMITS.dirtySpans} are told as so many wider ones`, () => {
    const p = byCpu({ recvBytes: 4096 });
    const count = LIMITS.dirtySpans + 20;
    for (let i = 0; i < 2; i++) {
      for (let k = i * 42; k < (i + 1) * 42; k++) post(p, "write", { at: 128 * k, length: 8 });
      goOn(p);
    }
    const told = whatElse(p);
    assert.equal(told.length, LIMITS.dirtySpans);
    for (let i = 0; i < count; i++) assert.ok(covers(told, 128 * i), `write ${i}`);
  });

  it("P-31: a RECV without memory, or with a bad key, has one range in its CQE that covers all", () => {
    for (const isEmpty of [true, false]) {
      const p = byCpu({ count: 0 });
      const bad = [{ address: p.to.va, length: 64, lkey: 0xdead00 }];
      p.rig.recv(p.rig.b, p.b, isEmpty ? [] : bad, "none");
      scatter(p, 3);
      post(p, "write-persistence", { at: 1000, length: 10 });
      goOn(p);
      const [cqe] = toldTo(p);
      assert.equal(cqe!.immediate, 0);
      assert.deepEqual([Number(cqe!.va) - p.to.va, cqe!.byteCount], [0, 1010]);
    }
  });

  it("P-31: what one range cannot name is not said to be flushed: the queue pair fails", () => {
    const p = byCpu({ count: 0 });
    const far = p.rig.register(p.rig.b, { length: 4096, va: p.to.va + 2 ** 33 });
    p.rig.recv(p.rig.b, p.b, [], "none");
    post(p, "write", { length: 8 });
    post(p, "write", { length: 8, remote: { va: BigInt(far.va), rkey: far.key } });
    post(p, "write-persistence", { at: 1000, length: 10 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run();
    const cqes = p.rig.poll(p.rig.b, p.b.recvCq).map(({ status }) => status);
    assert.deepEqual(cqes, ["LOC_LEN_ERR"]);
    assert.deepEqual(persistenceAcks(p), []);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "RETRY_EXC_ERR"]);
  });
});

describe("persistence ACKs", () => {
  it("P-31: leave in the order of the messages, whichever the CPU has flushed first", () => {
    const p = byCpu({ count: 3 });
    for (let i = 0; i < 3; i++) post(p, "write-persistence", { at: 1024 * i, length: 64 });
    goOn(p);
    const psns = toldTo(p).map(({ psn }) => psn);
    assert.equal(psns.length, 3);
    acknowledge(p, psns[2]!);
    acknowledge(p, psns[1]!);
    assert.deepEqual(persistenceAcks(p), []);
    assert.deepEqual(statuses(p), []);
    acknowledge(p, psns[0]!);
    assert.deepEqual(persistenceAcks(p), psns);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("P-31: wait for a FLUSH before them, which has taken its range off the list", () => {
    const p = byCpu({ count: 2 });
    post(p, "write", { at: 0, length: 64 });
    const { persistence: placement } = FLUSH_PLACEMENT;
    post(p, "flush", { flush: { select: FLUSH_SELECT.range, placement, length: 64 } });
    post(p, "write-persistence", { at: 1024, length: 64 });
    goOn(p);
    const [flushed, kept] = toldTo(p).map(({ psn }) => psn);
    acknowledge(p, kept!);
    assert.deepEqual(persistenceAcks(p), []);
    acknowledge(p, flushed!);
    assert.deepEqual(persistenceAcks(p), [kept]);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("P-30: a CPU that never answers for one message holds all later ones, and the requester gives up", () => {
    const p = byCpu({ count: 2 });
    for (let i = 0; i < 2; i++) post(p, "write-persistence", { at: 1024 * i, length: 64 });
    goOn(p);
    acknowledge(p, toldTo(p)[1]!.psn);
    p.rig.run();
    assert.deepEqual(persistenceAcks(p), []);
    assert.equal(statuses(p)[0], "RETRY_EXC_ERR");
  });

  for (const [name, plan] of [["LSB read", FLOW_1], ["CPU's flush", FLOW_2]] as const) {
    it(`P-30: a queue pair that fails with an ${name} under way sends none`, () => {
      const p = persistingPair(plan, { access: EVERY_ACCESS });
      p.rig.recv(p.rig.b, p.b, [], "none");
      post(p, "write-persistence", { length: 64 });
      p.rig.ring(p.rig.a, p.a.sq);
      const { log } = p.rig.b.host;
      const before = log.length;
      p.rig.run(() =>
        log.slice(before).some((message) =>
          plan.flush === "read"
            ? message.kind === "memory-read" && message.length === 1
            : message.kind === "memory-write" && message.data.length === 64
        )
      );
      const attributes = { state: "err" } as const;
      const command = { op: "modify-qp", qpn: p.b.qpn, attributes } as const;
      p.rig.toRnic(p.rig.b, { kind: "command", id: 99, command });
      p.rig.run(() => log.slice(before).some((message) => message.kind === "reply"));
      assert.equal(counter(p, "b", "acksOut"), 1, "the data was there");
      for (const { psn } of toldTo(p)) acknowledge(p, psn);
      p.rig.run();
      assert.deepEqual(persistenceAcks(p), []);
      assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
    });
  }
});
