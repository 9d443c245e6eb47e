/** What a program leaves that fails or returns is taken back, as a kernel does for a dead process. */
import { IBV_ACCESS_LOCAL_WRITE } from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Program } from "../../nodes/host/program_context.ts";
import type { DeviceState } from "../../nodes/host/verbs/objects.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const QP = { maxSendWr: 4, maxRecvWr: 4 };
const GROUP = 0xe000_0105;

function counts(state: DeviceState): Record<string, number> {
  const { queuePairs, completionQueues, sharedReceiveQueues, windows, regions, pds } = state;
  return {
    queuePairs: queuePairs.size,
    completionQueues: completionQueues.size,
    sharedReceiveQueues: sharedReceiveQueues.size,
    windows: windows.size,
    regions: regions.size,
    pds: pds.size,
  };
}

/** Makes one of everything, connects to `peer`, and fails or returns; what its thread makes is its own as well. */
const leaving: Program = function* ({ cpu, device, options }) {
  const {
    allocPd,
    createCq,
    createSrq,
    createQp,
    allocMw,
    regMr,
    modifyQp,
    attachMcast,
    createAh,
  } = device.verbs;
  const { connect, listen, refused, must } = device.verbs;
  yield* cpu.sleep(100 * PS_PER_US);
  cpu.report("before", counts(device.state));
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const srq = must(yield* createSrq(pd, { maxWr: 4 }));
  must(yield* allocMw(pd, 2));
  must(yield* regMr(pd, cpu.allocate(4096), { access: IBV_ACCESS_LOCAL_WRITE }));
  must(createAh(pd, { address: 0x0a00_0002 }));
  const ud = must(yield* createQp(pd, { type: "ud", sendCq: cq, recvCq: cq, srq, ...QP }));
  must(yield* modifyQp(ud, { state: "init", qKey: 1 }));
  must(yield* attachMcast(ud, GROUP));
  must(listen(device, "mine"));
  const connection = yield* connect(device, {
    to: "b",
    service: "peer",
    qp: { pd, sendCq: cq, recvCq: cq, ...QP },
  });
  if (refused(connection)) throw new Error(connection.reason);
  cpu.spawn("thread", function* (context) {
    must(yield* createCq(context.device, { entries: 4 }));
    yield* context.cpu.sleep(50 * PS_PER_US);
    context.cpu.report("last", counts(context.device.state));
  });
  if (options["fails"]) throw new Error("as a process that is killed");
};

const peer: Program = function* ({ cpu, device }) {
  const { allocPd, createCq, listen, waitEvent, accept, refused, must } = device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const listener = must(listen(device, "peer"));
  for (;;) {
    const event = yield* waitEvent(listener);
    if (event === undefined) continue;
    cpu.report("heard", event.kind);
    if (event.kind !== "request") continue;
    const qp = { pd, sendCq: cq, recvCq: cq, ...QP };
    if (refused(yield* accept(listener, event.request, { qp }))) throw new Error("not accepted");
  }
};

/** Comes when the other has gone: it finds the service free. */
const looking: Program = function* ({ cpu, device }) {
  const { listen, must } = device.verbs;
  yield* cpu.sleep(1000 * PS_PER_US);
  cpu.report("after", counts(device.state));
  must(listen(device, "mine"));
};

describe("A program that ends", () => {
  for (const fails of [true, false]) {
    it(`by ${fails ? "a failure" : "its return"} has every object taken back when its last thread has ended, and its peer learns of it`, () => {
      const programs = { "./leaving.ts": leaving, "./peer.ts": peer, "./looking.ts": looking };
      const rack = new SimulatedRack(
        `
name: take-back
hosts: { a: { services: none }, b: { services: none } }
programs:
  - { on: b, run: ./peer.ts }
  - { on: a, run: ./leaving.ts, fails: ${fails} }
  - { on: a, run: ./looking.ts }
`,
        { programs },
      ).run();
      const failures = rack.reported("program-failed").map(({ message }) => message);
      assert.deepEqual(failures, fails ? ["as a process that is killed"] : []);
      const [before] = rack.reported("before"), [last] = rack.reported("last");
      assert.equal(last!["queuePairs"], Number(before!["queuePairs"]) + 2, "its thread still runs");
      assert.deepEqual(rack.reported("after"), [before]);
      assert.deepEqual(rack.reported("heard", "b"), ["request", "established", "closed"]);
    });
  }
});
