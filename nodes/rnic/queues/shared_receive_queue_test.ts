import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { DemandDriver } from "../testing/demand_testing.ts";
import { createSrq, createSrqQp, postShared } from "../testing/objects_testing.ts";
import type { RigCq, RigMr, RigQp, RigSrq } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";

/** Two connections of `a` whose other ends at `b` share one receive queue. */
interface Shared {
  readonly rig: Rig;
  readonly srq: RigSrq;
  readonly cq: RigCq;
  readonly senders: readonly [RigQp, RigQp];
  readonly receivers: readonly [RigQp, RigQp];
  readonly source: RigMr;
  readonly target: RigMr;
}

const SLOT_BYTES = 4096;

function share(options: ConstructorParameters<typeof Rig>[0] = {}): Shared {
  const rig = new Rig(options);
  const srq = createSrq(rig, rig.b);
  const cq = rig.createCq(rig.b);
  const receivers = [0, 1].map(() => createSrqQp(rig, rig.b, { srq, cq })) as [RigQp, RigQp];
  const senders = receivers.map((receiver) => {
    const sender = rig.createQp(rig.a);
    rig.bringUp(rig.a, sender, { qpn: receiver.qpn });
    rig.bringUp(rig.b, receiver, { qpn: sender.qpn });
    return sender;
  }) as [RigQp, RigQp];
  const source = rig.register(rig.a, { length: SLOT_BYTES });
  const target = rig.register(rig.b, { length: 16 * SLOT_BYTES });
  rig.fill(rig.a, source, (i) => i * 3 + 1);
  return { rig, srq, cq, senders, receivers, source, target };
}

let shared: Shared;

beforeEach(() => shared = share());

function post({ rig, srq, target }: Shared, slot: number, bell = true): void {
  const sge = { address: target.va + slot * SLOT_BYTES, length: SLOT_BYTES, lkey: target.key };
  postShared(rig, rig.b, { srq, slot, sges: [sge], bell });
}

function send({ rig, senders, source }: Shared, which: 0 | 1, length = 100): void {
  const sges = [{ address: source.va, length, lkey: source.key }];
  rig.send(rig.a, senders[which], { opcode: "send", sges });
}

function events(rig: Rig, type: RnicEvent["type"]): RnicEvent[] {
  return rig.b.host.events.filter((event) => event.type === type);
}

describe("shared receive queue", () => {
  it("§7 #28: two queue pairs take from one pool, each CQE names its queue pair and slot", () => {
    const { rig, cq, receivers, target, source } = shared;
    for (let slot = 0; slot < 6; slot++) post(shared, slot);
    for (const which of [0, 1, 1, 0, 1, 0] as const) {
      send(shared, which);
      rig.run();
    }
    const cqes = rig.poll(rig.b, cq);
    const [first, second] = receivers.map(({ qpn }) => qpn);
    assert.deepEqual(cqes.map(({ qpn }) => qpn), [first, second, second, first, second, first]);
    assert.deepEqual(cqes.map(({ wqeIndex }) => wqeIndex), [0, 1, 2, 3, 4, 5]);
    for (let slot = 0; slot < 6; slot++) {
      assert.deepEqual(
        rig.bytes(rig.b, target, slot * SLOT_BYTES, 100),
        rig.bytes(rig.a, source, 0, 100),
      );
    }
  });

  it("a long SEND holds its WQE, and a short one of another queue pair completes before it", () => {
    const { rig, cq, receivers } = shared;
    post(shared, 0);
    post(shared, 1);
    let last = -1;
    rig.fate = (from, _frame, count) => {
      // The last packet of the long message is late.
      if (from === "a" && count === last) return { delayPs: 5_000_000 };
      return "pass";
    };
    last = rig.a.framesSent + 3;
    send(shared, 0, 4096);
    rig.runFor(3_000_000);
    send(shared, 1);
    rig.run();
    const cqes = rig.poll(rig.b, cq);
    assert.deepEqual(cqes.map(({ qpn }) => qpn), [receivers[1].qpn, receivers[0].qpn]);
    assert.deepEqual(cqes.map(({ status }) => status), ["SUCCESS", "SUCCESS"]);
  });

  it("§7 #27: ten WQEs, limit 7: the fourth SEND raises SRQ_LIMIT_REACHED, once; then it is 0", () => {
    const { rig, srq } = shared;
    for (let slot = 0; slot < 10; slot++) post(shared, slot);
    rig.run();
    assert.equal(rig.command(rig.b, { op: "modify-srq", srqn: srq.srqn, limit: 7 }).status, "ok");
    for (let i = 0; i < 3; i++) send(shared, 0);
    rig.run();
    assert.deepEqual(events(rig, "SRQ_LIMIT_REACHED"), []);
    const query = { op: "query-srq", srqn: srq.srqn } as const;
    assert.deepEqual(rig.command(rig.b, query), { status: "ok", op: "query-srq", limit: 7 });
    for (const which of [0, 1, 0, 1] as const) send(shared, which);
    rig.run();
    assert.deepEqual(events(rig, "SRQ_LIMIT_REACHED").length, 1);
    assert.deepEqual(rig.command(rig.b, query), { status: "ok", op: "query-srq", limit: 0 });
  });

  it("§4.5: a limit below the ring's size is taken, one as large refused, as one unit stays free", () => {
    const { rig, srq: { srqn, ring } } = shared;
    for (let slot = 0; slot < ring.depth - 1; slot++) post(shared, slot);
    const reply = rig.command(rig.b, { op: "modify-srq", srqn, limit: ring.depth });
    assert.ok(reply.status === "error" && reply.errno === "EINVAL");
    rig.run();
    assert.deepEqual(rig.command(rig.b, { op: "query-srq", srqn }), {
      ...{ status: "ok", op: "query-srq", limit: 0 },
    });
    const limit = ring.depth - 1;
    assert.equal(rig.command(rig.b, { op: "modify-srq", srqn, limit }).status, "ok");
    rig.run();
    assert.equal(events(rig, "SRQ_LIMIT_REACHED").length, 0, "as many are posted");
  });

  it("§4.5: a limit above what is posted is reached at once, WQEs without a doorbell count", () => {
    const { rig, srq } = shared;
    post(shared, 0);
    for (let slot = 1; slot < 4; slot++) post(shared, slot, false);
    rig.run();
    const { srqn } = srq;
    rig.command(rig.b, { op: "modify-srq", srqn, limit: 4 });
    rig.run();
    assert.deepEqual(events(rig, "SRQ_LIMIT_REACHED"), []);
    rig.command(rig.b, { op: "modify-srq", srqn, limit: 5 });
    rig.run();
    assert.deepEqual(events(rig, "SRQ_LIMIT_REACHED"), [{ type: "SRQ_LIMIT_REACHED", srqn }]);
  });

  it("§7 #30: a queue pair in ERR raises QP_LAST_WQE_REACHED, the WQEs stay for the others", () => {
    const { rig, cq, receivers } = shared;
    for (let slot = 0; slot < 3; slot++) post(shared, slot);
    rig.run();
    rig.modify(rig.b, receivers[0], { state: "err" });
    rig.run();
    const { qpn } = receivers[0];
    assert.deepEqual(events(rig, "QP_LAST_WQE_REACHED"), [{ type: "QP_LAST_WQE_REACHED", qpn }]);
    assert.deepEqual(rig.poll(rig.b, cq), []);
    for (let i = 0; i < 3; i++) send(shared, 1);
    rig.run();
    const cqes = rig.poll(rig.b, cq);
    assert.deepEqual(cqes.map(({ wqeIndex, status }) => [wqeIndex, status]), [
      [0, "SUCCESS"],
      [1, "SUCCESS"],
      [2, "SUCCESS"],
    ]);
  });

  it("what a queue pair holds when it fails is flushed, when it is reset goes back", () => {
    for (const state of ["err", "reset"] as const) {
      shared = share();
      const { rig, cq, receivers } = shared;
      post(shared, 7);
      // Three of four packets come.
      const from = rig.a.framesSent;
      rig.fate = (side, _frame, count) => side === "a" && count >= from + 3 ? "drop" : "pass";
      send(shared, 0, 4096);
      rig.runFor(5_000_000);
      rig.fate = () => "pass";
      rig.modify(rig.b, receivers[0], { state });
      send(shared, 1);
      rig.runFor(50_000_000);
      const cqes = rig.poll(rig.b, cq).map(({ qpn, wqeIndex, status }) => [qpn, wqeIndex, status]);
      assert.deepEqual(cqes, [
        state === "err" ? [receivers[0].qpn, 7, "WR_FLUSH_ERR"] : [receivers[1].qpn, 7, "SUCCESS"],
      ]);
    }
  });

  it("what waits for its memory at a queue pair that is reset goes back, too (P-26)", () => {
    const flow2 = { flow: 2, flush: "cpu", noSnoop: false } as const;
    shared = share({ persistence: { b: flow2 } });
    const { rig, srq, cq, senders, receivers, source, target } = shared;
    const driver = new DemandDriver(rig, rig.b, { servicePs: 50_000_000 });
    const cold = driver.register({ length: SLOT_BYTES });
    const sges = [{ address: cold.va, length: SLOT_BYTES, lkey: cold.key }];
    postShared(rig, rig.b, { srq, slot: 9, sges });
    rig.send(rig.a, senders[0], {
      opcode: "write-persistence",
      sges: [{ address: source.va, length: 64, lkey: source.key }],
      remote: { va: BigInt(target.va), rkey: target.key },
    });
    rig.runFor(5_000_000);
    const what = "1 receives whose memory is waited for";
    const waits = () => rig.b.rnic.heldAtRest!().some(({ text }) => text === what);
    assert.ok(waits());
    rig.modify(rig.b, receivers[0], { state: "reset" });
    assert.ok(!waits());
    send(shared, 1);
    rig.runFor(300_000_000);
    const cqes = rig.poll(rig.b, cq).map(({ qpn, wqeIndex, status }) => [qpn, wqeIndex, status]);
    assert.deepEqual(cqes, [[receivers[1].qpn, 9, "SUCCESS"]]);
  });

  it("§4.5: an empty one answers RNR; a WQE that is posted then serves whoever comes again", () => {
    const { rig, cq } = shared;
    send(shared, 0);
    send(shared, 1);
    rig.runFor(3_000_000);
    assert.deepEqual(rig.poll(rig.b, cq), []);
    post(shared, 0, false);
    post(shared, 1, false);
    rig.run();
    assert.deepEqual(rig.poll(rig.b, cq).map(({ status }) => status), ["SUCCESS", "SUCCESS"]);
    assert.ok((rig.b.rnic.statistics().rnrNaksOut ?? 0) >= 2);
  });

  it("§4.5: receives are looked up in its own protection domain, and AETHs tell no credits", () => {
    const rig = new Rig();
    const srq = createSrq(rig, rig.b, { pd: 5 });
    const cq = rig.createCq(rig.b);
    const receiver = createSrqQp(rig, rig.b, { srq, cq, pd: 1 });
    const sender = rig.createQp(rig.a);
    rig.bringUp(rig.a, sender, { qpn: receiver.qpn });
    rig.bringUp(rig.b, receiver, { qpn: sender.qpn });
    const target = rig.register(rig.b, { length: 64, pd: 5 });
    const sge = { address: target.va, length: 64, lkey: target.key };
    postShared(rig, rig.b, { srq, slot: 0, sges: [sge] });
    rig.send(rig.a, sender, { opcode: "send", inline: Uint8Array.of(1, 2, 3) });
    rig.run();
    assert.deepEqual(rig.poll(rig.b, cq).map(({ status }) => status), ["SUCCESS"]);
    const ack = rig.frames.findLast(({ from }) => from === "b")!;
    // AETH: the four bytes before the ICRC.
    assert.equal(ack.bytes.at(-8), 0x1f);
  });

  it("P-26: persistence that the CPU sees to consumes its WQEs", () => {
    const flow2 = { flow: 2, flush: "cpu", noSnoop: false } as const;
    shared = share({ persistence: { b: flow2 } });
    const { rig, cq, senders, source, target } = shared;
    rig.send(rig.a, senders[0], {
      opcode: "write-persistence",
      sges: [{ address: source.va, length: 64, lkey: source.key }],
      remote: { va: BigInt(target.va), rkey: target.key },
    });
    rig.runFor(3_000_000);
    assert.deepEqual(rig.poll(rig.b, cq), []);
    post(shared, 9);
    rig.runFor(3_000_000);
    const cqes = rig.poll(rig.b, cq);
    assert.deepEqual(cqes.map(({ opcode, wqeIndex }) => [opcode, wqeIndex]), [
      ["recv-persistence", 9],
    ]);
  });

  it("is refused: destroyed in use, a ring and a shared queue at once, one that is not there", () => {
    const { rig, srq, cq, receivers } = shared;
    const destroy = { op: "destroy-srq", srqn: srq.srqn } as const;
    const busy = rig.command(rig.b, destroy);
    assert.equal(busy.status === "error" && busy.errno, "EBUSY");
    const qp = {
      op: "create-qp",
      type: "rc",
      sq: { address: 4096, units: 64 },
      sendCq: cq.cqn,
      recvCq: cq.cqn,
      pd: 1,
      persistCompletion: "persistence",
    } as const;
    const wrong = [
      [{ ...qp, srq: srq.srqn, rq: { address: 4096, units: 64 }, rqStride: 64 }, "EINVAL"],
      [qp, "EINVAL"],
      [{ ...qp, srq: 63 }, "ENOENT"],
    ] as const;
    for (const [command, errno] of wrong) {
      const reply = rig.command(rig.b, command);
      assert.equal(reply.status === "error" && reply.errno, errno);
    }
    for (const { qpn } of receivers) rig.command(rig.b, { op: "destroy-qp", qpn });
    assert.equal(rig.command(rig.b, destroy).status, "ok");
    assert.equal(rig.command(rig.b, destroy).status, "error");
  });
});
