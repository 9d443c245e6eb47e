/**
 * Connections: programs of one host that ask for theirs in the same moment, over the queue pair that
 * they share for it, and the PSNs that both directions begin with.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Observation } from "../../fabric/capture/observation.ts";
import { decodeCm } from "../../fabric/wire/roce/cm.ts";
import { decodePacket, isRefusal, type RocePacket } from "../../fabric/wire/roce/packet.ts";
import { GSI_QPN } from "../../fabric/wire/roce/bth.ts";
import type { Program, Steps } from "../../nodes/host/cpu/program.ts";
import type { Qp } from "../../nodes/host/verbs/queue_pair.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

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
const QP = { maxSendWr: 4, maxRecvWr: 4 };

/** Takes a SEND, and answers it with another. */
const answering: Program = function* ({ cpu, device, options }) {
  const { allocPd, createCq, regMr, listen, waitEvent, accept, postRecv, postSend } = device.verbs;
  const { refused, waitCompletion, sge, must } = device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const mr = must(yield* regMr(pd, cpu.allocate(BYTES), { access: ["localWrite"] }));
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
  const mr = must(yield* regMr(pd, cpu.allocate(BYTES), { access: ["localWrite"] }));
  yield* cpu.sleep(500_000_000);
  const qp = { ...QP, pd, type: options.type as "rc" | "uc", sendCq: cq, recvCq: cq };
  const connection = yield* connect(device, { to: "b", service: "psn", qp });
  if (refused(connection)) throw new Error(connection.reason);
  must(yield* postRecv(connection.qp, { sges: [sge(mr)] }));
  must(yield* postSend(connection.qp, { opcode: "send", sges: [sge(mr)] }));
  for (let count = 0; count < 2;) {
    for (const { status } of yield* waitCompletion(cq)) {
      cpu.report("completed", status);
      count++;
    }
  }
};

/** Each packet that a host's card sent, in order, in a rack whose two programs send one message each. */
function packetsOf(type: "rc" | "uc"): { readonly from: string; readonly packet: RocePacket }[] {
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
  - { on: b, run: ./answering.ts, type: ${type} }
  - { on: a, run: ./asking.ts, type: ${type} }
`,
    {
      programs: { "./answering.ts": answering, "./asking.ts": asking },
      observer: { scope: "wire", see, commit: () => {} },
    },
  );
  rack.run();
  assert.deepEqual(rack.reported("program-failed"), []);
  assert.deepEqual(rack.reported("completed"), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  return seen;
}

describe("The PSN in a REQ or REP (architecture §12.6)", () => {
  for (const type of ["rc", "uc"] as const) {
    it(`${type}: is the one with which the receiver of the message begins to send`, () => {
      const seen = packetsOf(type);
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
