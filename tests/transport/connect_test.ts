/**
 * Connections: programs of one host that ask for theirs in the same moment, over the queue pair that
 * they share for it, the PSNs that both directions begin with, and queues that do not fit each other.
 */
import { IBV_ACCESS_LOCAL_WRITE } from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Observation } from "../../fabric/capture/observation.ts";
import { decodeCm } from "../../fabric/wire/roce/cm.ts";
import { decodePacket, isRefusal, type RocePacket } from "../../fabric/wire/roce/packet.ts";
import { GSI_QPN } from "../../fabric/wire/roce/bth.ts";
import type { Cpu, Steps } from "../../nodes/host/cpu/program.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import type { Qp } from "../../nodes/host/verbs/objects.ts";

describe("Connections that one host asks for at once", () => {
  for (const count of [2, 5]) {
    it(`${count} programs reach ${count} hosts with the first request of each`, () => {
      const names = Array.from({ length: count }, (_, i) => `h${i + 1}`);
      const rack = new SimulatedRack(`
name: connect
hosts: { a: {}, ${names.map((name) => `${name}: {}`).join(", ")} }
programs:
  - { on: [${names}], run: sink }
${names.map((to) => `  - { on: a, run: bulk, to: ${to}, begin: 450us, time: 10us }`).join("\n")}
`).run();
      const results = rack.reported("result", "a");
      assert.deepEqual(results.map(({ to }) => to).sort(), names);
      // A request that is lost comes again 500 µs later. Programs begin within the price of a look.
      for (const { status, startPs } of results) {
        assert.equal(status, "done");
        assert.ok(Number(startPs) >= 450e6 && Number(startPs) < 452e6, `began at ${startPs} ps`);
      }
    });
  }
});

const BYTES = 64;
const QP = { maxSendWr: 4, maxRecvWr: 4, sqSigAll: true };

/** Takes a SEND, and answers it with another. */
const answering: Program = function* ({ cpu, device, options }) {
  const { allocPd, createCq, regMr, listen, waitEvent, accept, postRecv, postSend } = device.verbs;
  const { refused, waitCompletion, sge, must } = device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const mr = must(yield* regMr(pd, cpu.allocate(BYTES), { access: IBV_ACCESS_LOCAL_WRITE }));
  const listener = must(listen(device, "psn"));
  const event = yield* waitEvent(listener);
  if (event?.kind !== "request") return;
  const qp = { ...QP, pd, type: options.type as "rc" | "uc", sendCq: cq, recvCq: cq };
  const prepare = function* (made: Qp): Steps<void> {
    must(yield* postRecv(made, { sges: [sge(mr)] }));
  };
  const connection = yield* accept(listener, event.request, { qp, prepare });
  if (refused(connection)) throw new Error(connection.reason);
  yield* waitCompletion(cq);
  must(yield* postSend(connection.qp, { opcode: "send", sges: [sge(mr)] }));
  const [sent] = yield* waitCompletion(cq);
  cpu.report("completed", sent?.status);
};

/** Sends, and waits for the answer. */
const asking: Program = function* ({ cpu, device, options }) {
  const { allocPd, createCq, regMr, connect, postRecv, postSend, sge, must } = device.verbs;
  const { refused, waitCompletion } = device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const mr = must(yield* regMr(pd, cpu.allocate(BYTES), { access: IBV_ACCESS_LOCAL_WRITE }));
  yield* cpu.sleep(500_000_000);
  const qp = { ...QP, pd, type: options.type as "rc" | "uc", sendCq: cq, recvCq: cq };
  const prepare = function* (made: Qp): Steps<void> {
    must(yield* postRecv(made, { sges: [sge(mr)] }));
  };
  const path = { trafficClass: Number(options.tclass), hopLimit: Number(options.hops) };
  const connection = yield* connect(device, {
    to: "b",
    service: "psn",
    qp,
    prepare,
    ...(options.tclass !== undefined && { path }),
  });
  if (refused(connection)) throw new Error(connection.reason);
  must(yield* postSend(connection.qp, { opcode: "send", sges: [sge(mr)] }));
  for (let count = 0; count < 2;) {
    for (const { status } of yield* waitCompletion(cq)) {
      cpu.report("completed", status);
      count++;
    }
  }
};

interface Types {
  readonly answering: "rc" | "uc";
  readonly asking: "rc" | "uc";
  /** More options of `asking.ts`. */
  readonly path?: string;
}

/** A rack whose two programs send one message each, and each packet that a host's card sent, in order. */
function exchange(types: Types) {
  const seen: { from: string; packet: RocePacket }[] = [];
  const see = (observation: Observation) => {
    if (observation.kind !== "sent" || observation.frame === undefined) return;
    const { name, kind } = rack.plan.nodes[observation.node]!;
    const packet = decodePacket(observation.frame);
    if (kind === "rnic" && !isRefusal(packet)) seen.push({ from: name, packet });
  };
  const rack = new SimulatedRack(
    `
name: psn
hosts: { a: {}, b: {} }
programs:
  - { on: b, run: ./answering.ts, type: ${types.answering} }
  - { on: a, run: ./asking.ts, type: ${types.asking}${types.path ?? ""} }
`,
    {
      programs: { "./answering.ts": answering, "./asking.ts": asking },
      observer: { scope: "wire", see, commit: () => {} },
    },
  );
  return { rack: rack.run(), seen };
}

describe("The PSN in a REQ or REP (architecture §12.6)", () => {
  for (const type of ["rc", "uc"] as const) {
    it(`${type}: is the one with which the receiver of the message begins to send`, () => {
      const { rack, seen } = exchange({ answering: type, asking: type });
      assert.deepEqual(rack.reported("program-failed"), []);
      assert.deepEqual(rack.reported("completed"), ["SUCCESS", "SUCCESS", "SUCCESS"]);
      const messages = seen.flatMap(({ packet }) =>
        packet.bth.destQpn === GSI_QPN ? [decodeCm(packet.payload)] : []
      );
      const [req, rep] = messages.flatMap((each) =>
        each !== undefined && "startingPsn" in each ? [each] : []
      );
      const firstOf = (host: string) =>
        seen.find(({ from, packet }) =>
          from === host && packet.bth.destQpn !== GSI_QPN && packet.payload.length === BYTES
        )?.packet.bth.psn;
      assert.deepEqual([req?.type, rep?.type], ["REQ", "REP"]);
      assert.notEqual(req?.startingPsn, rep?.startingPsn, "each direction has its own");
      assert.equal(
        firstOf("b-rnic"),
        req?.startingPsn,
        "the passive side sends from the PSN of the REQ",
      );
      assert.equal(
        firstOf("a-rnic"),
        rep?.startingPsn,
        "the active side sends from the PSN of the REP",
      );
    });
  }
});

describe("The path of a connection", () => {
  for (const type of ["rc", "uc"] as const) {
    it(`${type}: traffic class and hop limit are those of the REQ, in both ends' packets`, () => {
      const path = ", tclass: 106, hops: 9";
      const { rack, seen } = exchange({ answering: type, asking: type, path });
      assert.deepEqual(rack.reported("completed"), ["SUCCESS", "SUCCESS", "SUCCESS"]);
      const data = seen.filter(({ packet }) => packet.bth.destQpn !== GSI_QPN);
      for (const host of ["a-rnic", "b-rnic"]) {
        const own = data.filter(({ from, packet }) => from === host && packet.payload.length > 0);
        assert.ok(own.length > 0, host);
        // 106 >> 2: the lower two bits are ECN's, which the card sets.
        for (const { packet } of own) assert.deepEqual([packet.dscp, packet.ttl], [26, 9], host);
      }
    });
  }

  it("is DSCP 0 and 64 hops where nothing is said", () => {
    const { seen } = exchange({ answering: "rc", asking: "rc" });
    const data = seen.filter(({ packet }) => packet.bth.destQpn !== GSI_QPN);
    for (const { packet } of data) assert.deepEqual([packet.dscp, packet.ttl], [0, 64]);
  });
});

describe("Ends of a connection", () => {
  it("of different types are refused, with the reason (9: invalid transport)", () => {
    const { rack } = exchange({ answering: "uc", asking: "rc" });
    assert.deepEqual(rack.reported("program-failed").map(({ message }) => message).sort(), [
      "Rejected, reason 9 (invalid transport service type)",
      "The peer's queue pair is rc, ours uc: expected equal types",
    ]);
  });
});

interface Queues {
  readonly maxSendWr: number;
  readonly maxRecvWr: number;
  readonly oneSided?: boolean;
}

interface Peers {
  readonly a: Queues;
  /** `fills`: it has no memory for a larger ring. */
  readonly b: Queues & { readonly shares?: boolean; readonly fills?: boolean };
  /** `b` makes no room for what `a` may send. */
  readonly isBlind?: boolean;
  /** SENDs of `a` when it is connected, which `b` receives. */
  readonly sends?: number;
}

/** Leaves 64 KiB of DRAM. */
function fillMemory(cpu: Pick<Cpu, "allocateContiguous" | "free">): void {
  const spare = cpu.allocateContiguous(64 * 1024);
  for (let bytes = 2 ** 28; bytes >= 4096;) {
    try {
      cpu.allocateContiguous(bytes);
    } catch {
      bytes /= 2;
    }
  }
  cpu.free(spare);
}

/** `a` connects to `b`, both report how that ended; whoever has too few receives has warned. */
function connectWith(
  { a, b: { shares = false, fills = false, ...b }, isBlind = false, sends = 0 }: Peers,
) {
  const server: Program = function* ({ cpu, device }) {
    const v = device.verbs;
    const pd = v.allocPd(device);
    const cq = v.must(yield* v.createCq(device, { entries: 256 }));
    const mr = v.must(yield* v.regMr(pd, cpu.allocate(BYTES), { access: IBV_ACCESS_LOCAL_WRITE }));
    const srq = shares ? v.must(yield* v.createSrq(pd, { maxWr: 8, maxSge: 1 })) : undefined;
    const listener = v.must(v.listen(device, "depths"));
    const event = yield* v.waitEvent(listener);
    if (event?.kind !== "request") throw new Error(`No request: ${event?.kind}`);
    const { request } = event;
    if (fills) fillMemory(cpu);
    const seen = isBlind ? { ...request, peerDepths: { ...request.peerDepths, send: 0 } } : request;
    const qp = { pd, sendCq: cq, recvCq: cq, ...b, ...(srq && { srq }) };
    const connection = v.must(yield* v.accept(listener, seen, { qp }));
    if (v.refused(connection)) return cpu.report("refused", { reason: connection.reason });
    cpu.report("accepted", { room: connection.qp.caps.maxRecvWr });
    for (let i = 0; i < sends; i++) {
      v.must(yield* v.postRecv(connection.qp, { sges: [v.sge(mr)] }));
      for (const { status } of yield* v.waitCompletion(cq)) cpu.report("received", status);
    }
  };
  const client: Program = function* ({ cpu, device }) {
    const v = device.verbs;
    const pd = v.allocPd(device);
    const cq = v.must(yield* v.createCq(device, { entries: 256 }));
    const mr = v.must(yield* v.regMr(pd, cpu.allocate(BYTES), { access: IBV_ACCESS_LOCAL_WRITE }));
    const sending = { maxInlineData: 220, sqSigAll: true };
    const qp = { pd, sendCq: cq, recvCq: cq, ...sending, ...a };
    const connection = yield* v.connect(device, { to: "b", service: "depths", qp });
    if (v.refused(connection)) return cpu.report("refused", { reason: connection.reason });
    cpu.report("connected", { units: connection.qp.sq.depth });
    for (let i = 0; i < sends; i++) {
      const posted = yield* v.postSend(connection.qp, { opcode: "send", sges: [v.sge(mr)] });
      if (v.failed(posted)) return cpu.report("not-posted", posted.reason);
    }
    for (let sent = 0; sent < sends;) sent += (yield* v.waitCompletion(cq)).length;
  };
  const rack = new SimulatedRack(
    `
name: depths
hosts: { a: { services: none }, b: { services: none } }
programs: [{ on: b, run: ./server.ts }, { on: a, run: ./client.ts, at: 200us }]
`,
    { programs: { "./server.ts": server, "./client.ts": client } },
  ).run();
  assert.deepEqual(rack.reported("program-failed"), []);
  assert.deepEqual(rack.reported("refused"), []);
  assert.equal(rack.reported("connected").length, 1);
  return rack;
}

/** What was warned of, without the numbers of queue pairs. */
function warnings(rack: SimulatedRack): string[] {
  return rack.reported("warning").map(({ message }) =>
    String(message).replace(/([ab]):\d+/g, "$1")
  );
}

const SMALL = { maxSendWr: 8, maxRecvWr: 8 };

describe("A connection's queues", () => {
  it("Q-01: who accepts makes room for all that the peer may send", () => {
    const rack = connectWith({ a: { maxSendWr: 40, maxRecvWr: 8 }, b: SMALL });
    assert.deepEqual(rack.reported("accepted"), [{ room: 40 }]);
    assert.deepEqual(warnings(rack), []);
  });

  it("Q-01: an end with fewer receives than the peer has sends is warned of, and the connection works", () => {
    const asking = connectWith({ a: SMALL, b: { maxSendWr: 9, maxRecvWr: 8 } });
    assert.deepEqual(warnings(asking), [shortText("a", 8, 9)]);
    const accepting = connectWith({
      a: { maxSendWr: 40, maxRecvWr: 8 },
      b: SMALL,
      isBlind: true,
      sends: 12,
    });
    assert.deepEqual(warnings(accepting), [shortText("b", 8, 40)]);
    assert.deepEqual(accepting.reported("received"), new Array(12).fill("SUCCESS"));
  });

  it("Q-01: where there is no room for as many receives, it is a warning all the same", () => {
    const rack = connectWith({
      a: { maxSendWr: 8000, maxRecvWr: 8 },
      b: { ...SMALL, fills: true },
    });
    assert.deepEqual(rack.reported("accepted"), [{ room: 8 }]);
    assert.deepEqual(warnings(rack), [shortText("b", 8, 8000)]);
  });

  it("Q-01: compares WQEs, not units, of which an inline WQE takes several", () => {
    const rack = connectWith({ a: SMALL, b: SMALL, isBlind: true });
    assert.ok(Number(rack.reported("connected")[0]?.units) > 8);
    assert.deepEqual(warnings(rack), []);
  });

  it("Q-01: shared receive queues and one-sided queue pairs are exempt; these send nothing", () => {
    const many = { maxSendWr: 40, maxRecvWr: 8 };
    assert.deepEqual(warnings(connectWith({ a: many, b: { ...SMALL, shares: true } })), []);
    const oneSided = connectWith({ a: { ...many, oneSided: true }, b: SMALL, sends: 1 });
    assert.deepEqual(warnings(oneSided), []);
    assert.deepEqual(oneSided.reported("accepted"), [{ room: 8 }]);
    assert.match(String(oneSided.reported("not-posted")[0]), /one-sided/);
  });

  function shortText(host: "a" | "b", found: number, expected: number): string {
    const other = host === "a" ? "b" : "a";
    return `Q-01: the receive queue of ${host} holds ${found} WQEs, expected ${expected}, ` +
      `as many as the send queue of ${other}`;
  }
});
