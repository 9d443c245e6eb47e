import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { findingsOf, noted, PLAN } from "../../console/checks/record_testing.ts";
import { silence } from "../../console/checks/silence.ts";
import { WireLedger } from "../../console/checks/wire_ledger.ts";
import { livesOf } from "../../console/checks/lives.ts";

const POWER = [
  { at: 100, action: "kill", node: "a" },
  { at: 200, action: "start", node: "a" },
  { at: 100, action: "kill", node: "a-rnic" },
] as const;

const DEAD = [100, 150, 199], ALIVE = [0, 99, 200, 10_000];

describe("P-41: a node without power", () => {
  it("is known by its lives", () => {
    assert.deepEqual(livesOf(PLAN, POWER).get("a"), [{ from: 0, to: 100 }, {
      from: 200,
      to: Infinity,
    }]);
    // A kill without power, and a start with power, change nothing.
    const twice = [...POWER, { at: 150, action: "kill", node: "a" } as const];
    assert.deepEqual(livesOf(PLAN, twice).get("a"), livesOf(PLAN, POWER).get("a"));
  });

  it("reports nothing", () => {
    const of = (time: number) =>
      findingsOf(silence, {
        power: POWER,
        reports: [{ time, node: "a", topic: "result", value: {} }],
      });
    for (const time of ALIVE) assert.deepEqual(of(time), []);
    for (const time of DEAD) assert.match(of(time)[0]!, /a reports result at \d+ ps, when it has/);
  });

  it("is told nothing", () => {
    const of = (time: number) =>
      findingsOf(silence, { power: POWER, notes: [noted(time, { kind: "visible", id: 0 })] });
    for (const time of ALIVE) assert.deepEqual(of(time), []);
    for (const time of DEAD) assert.match(of(time)[0]!, /a notes visible/);
  });

  it("makes nothing persistent", () => {
    const of = (time: number) =>
      findingsOf(silence, { power: POWER, durable: [{ time, node: "a" }] });
    for (const time of ALIVE) assert.deepEqual(of(time), []);
    for (const time of DEAD) assert.equal(of(time).length, 1);
  });

  it("sends and receives nothing", () => {
    const of = (time: number) => {
      const wire = new WireLedger(PLAN, livesOf(PLAN, POWER));
      const node = PLAN.nodes.findIndex(({ name }) => name === "a-rnic");
      const at = { time, node, event: 1, port: 1, startPs: time, endPs: time };
      wire.see({ ...at, kind: "sent", frame: Uint8Array.of(1), text: "" });
      return findingsOf(silence, { power: POWER, wire });
    };
    assert.deepEqual(of(99), []);
    assert.match(of(100)[0]!, /a-rnic has sent a frame at 100 ps without power/);
  });
});
