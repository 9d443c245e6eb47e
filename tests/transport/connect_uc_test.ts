/** Connections over UC, by the connection manager that otherwise makes them over RC. */
import { deepStrictEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import type { Qp } from "../../nodes/host/verbs/objects.ts";

const US = 1_000_000;
const BULK_BYTES = 10_000;

/** Listens for UC, and takes one SEND of several packets. */
const cmServer: Program = function* ({ cpu, device, options }) {
  const { allocPd, createCq, regMr, listen, waitEvent, accept, postRecv, sge, must } = device.verbs;
  const { refused, waitCompletion } = device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const mr = must(yield* regMr(pd, cpu.allocate(BULK_BYTES), { access: ["localWrite"] }));
  const listener = must(listen(device, "uc"));
  const event = yield* waitEvent(listener);
  if (event?.kind !== "request") return;
  const type = options.type as "rc" | "uc";
  const qp = { pd, type, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 };
  const prepare = function* (made: Qp): Steps<void> {
    must(yield* postRecv(made, { wrId: 5, sges: [sge(mr)] }));
  };
  const connection = yield* accept(listener, event.request, { qp, prepare });
  if (refused(connection)) return cpu.report("server", connection.reason);
  const [got] = yield* waitCompletion(cq);
  cpu.report("server", [connection.qp.type, got?.status, got?.byteLen]);
};

const cmClient: Program = function* ({ cpu, device, options }) {
  const { allocPd, createCq, regMr, connect, disconnect, postSend, sge, must } = device.verbs;
  const { refused, waitCompletion } = device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const mr = must(yield* regMr(pd, cpu.allocate(BULK_BYTES), { access: [] }));
  yield* cpu.sleep(500 * US);
  const type = options.type as "rc" | "uc";
  const qp = { pd, type, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 };
  const connection = yield* connect(device, { to: "b", service: "uc", qp });
  if (refused(connection)) return cpu.report("client", connection.reason);
  must(yield* postSend(connection.qp, { opcode: "send", sges: [sge(mr)] }));
  const [sent] = yield* waitCompletion(cq);
  yield* disconnect(connection);
  cpu.report("client", [connection.qp.type, sent?.status]);
};

const PROGRAMS = { "./cm_server.ts": cmServer, "./cm_client.ts": cmClient };

/** The server takes UC; the client asks for a queue pair of type `client`. */
function run(client: "rc" | "uc"): SimulatedRack {
  const scenario = `
name: cm
hosts: { a: {}, b: {} }
programs:
  - { on: b, run: ./cm_server.ts, type: uc }
  - { on: a, run: ./cm_client.ts, type: ${client} }
`;
  return new SimulatedRack(scenario, { programs: PROGRAMS }).run();
}

describe("connection manager", () => {
  it("connects UC as it does RC", () => {
    const rack = run("uc");
    same(rack.reported("program-failed"), []);
    same(rack.reported("client"), [["uc", "SUCCESS"]]);
    same(rack.reported("server"), [["uc", "SUCCESS", BULK_BYTES]]);
  });

  it("refuses ends of different types, with the reason (9: invalid transport)", () => {
    const rack = run("rc");
    same(rack.reported("client"), ["Rejected, reason 9"]);
    same(rack.reported("server"), ["The peer requests another type of queue pair"]);
  });
});
