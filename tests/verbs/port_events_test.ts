/** PORT_ERR, PORT_ACTIVE and DEVICE_FATAL: events of the port and of the device, which every context has. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_MS } from "../../fabric/base/time.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

/** Tells each event of its context, and what `queryPort` says then; of a second context what is left for it. */
const watches: Program = function* ({ cpu, device }) {
  const v = device.verbs;
  const second = v.openContext(device);
  const deadline = cpu.now + 5 * PS_PER_MS;
  for (;;) {
    const event = yield* v.getAsyncEvent(device, { deadline });
    if (event === "timeout") break;
    v.must(v.ackAsyncEvent(device, event));
    const port = yield* v.queryPort(device, 1);
    cpu.report("seen", [event.type, v.failed(port) ? port.errno : port.state]);
  }
  for (;;) {
    const event = yield* v.getAsyncEvent(second, { deadline: cpu.now });
    if (event === "timeout") break;
    cpu.report("second", event);
  }
};

function run(faults: string, events = "message") {
  const rack = new SimulatedRack(
    `
name: ports
defaults: { services: none, queues: { events: ${events} } }
hosts: { a: {}, b: {} }
programs: [{ on: a, program: ./watches.ts }, { on: b, program: ./watches.ts }]
faults: [${faults}]
`,
    { programs: { "./watches.ts": watches } },
  ).run();
  assert.deepEqual(rack.reported("program-failed"), []);
  return {
    a: rack.reported("seen", "a"),
    b: rack.reported("seen", "b"),
    second: rack.reported("second", "a"),
  };
}

const CUT = "{ at: 1ms, cut: a-rnic/tor }, { at: 2ms, heal: a-rnic/tor }";

describe("asynchronous events of the port", () => {
  for (const events of ["message", "queue"]) {
    it(`a cable that is cut and heals: PORT_ERR and PORT_ACTIVE in each context, by ${events}`, () => {
      const { a, b, second } = run(CUT, events);
      assert.deepEqual(a, [["PORT_ERR", "down"], ["PORT_ACTIVE", "active"]]);
      assert.deepEqual(b, [], "its own cable stands");
      assert.deepEqual(second, [
        { type: "PORT_ERR", portNum: 1 },
        { type: "PORT_ACTIVE", portNum: 1 },
      ]);
    });
  }

  it("a switch that loses its power and gets it again: at all cards behind its ports", () => {
    const { a, b } = run("{ at: 1ms, kill: tor }, { at: 2ms, start: tor }");
    assert.deepEqual(a, [["PORT_ERR", "down"], ["PORT_ACTIVE", "active"]]);
    assert.deepEqual(b, a);
  });

  it("a cut of one way, of which no end is told, has none", () => {
    const { a, b } = run("{ at: 1ms, cut: a-rnic->tor }");
    assert.deepEqual([a, b], [[], []]);
  });
});

describe("asynchronous events of the device", () => {
  it("a card that fails under its host: DEVICE_FATAL at that host, and commands are refused", () => {
    const { a, b, second } = run("{ at: 1ms, kill: a-rnic }");
    assert.equal(a.length, 1);
    assert.deepEqual(Object.values(a[0]!)[0], "DEVICE_FATAL");
    assert.notEqual(Object.values(a[0]!)[1], "active");
    assert.deepEqual(b, []);
    assert.deepEqual(second, [{ type: "DEVICE_FATAL" }]);
  });
});
