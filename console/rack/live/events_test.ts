import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../../fabric/rack/scenario/variants.ts";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { changes, type Seen } from "./events.ts";

const PLAN = makePlan(variants(parseScenario("name: x\nhosts: { a: {}, b: {} }\n", "x"))[0]!);
const CABLE = PLAN.cables.findIndex(({ kind }) => kind === "network");

const CLOCK: ClockStatus = {
  run: "x",
  now: 5,
  next: 7,
  paused: false,
  limit: Infinity,
  pace: 0,
  finished: false,
  standsAt: null,
  breaks: [],
  hits: [],
  watchedFrom: null,
  ordersFrom: 0,
  recalled: [],
  driven: { order: 0, verb: "" },
  digest: "d",
  events: 3,
  refused: 0,
  refusals: [],
  why: [],
};

const BEFORE: Seen = {
  clock: CLOCK,
  processes: [
    { name: "a", kind: "partition", pid: 11, alive: true },
    { name: "timekeeper", kind: "timekeeper", pid: 12, alive: true },
  ],
  linkFaults: [],
  power: [{ at: 1, action: "kill", nodes: ["b"] }],
  powerCount: 1,
};

function changesTo(now: Partial<Seen>): unknown[] {
  return changes(PLAN, { before: BEFORE, now: { ...BEFORE, power: [], ...now } });
}

describe("changes", () => {
  it("are none where time goes on and nothing else", () => {
    assert.deepEqual(changesTo({ clock: { ...CLOCK, now: 99, next: 100, events: 50 } }), []);
  });

  it("tell of a clock that is paused, held at a time, or at a pace, with its time", () => {
    for (const held of [{ paused: true }, { limit: 40 }, { pace: 7 }, { finished: true }]) {
      const [event, ...more] = changesTo({ clock: { ...CLOCK, now: 9, ...held } });
      assert.deepEqual(more, []);
      assert.equal((event as { event: string }).event, "clock");
      assert.equal((event as { virtualPs: number }).virtualPs, 9);
    }
  });

  it("are none of a clock that does not answer", () => {
    assert.deepEqual(changesTo({ clock: undefined }), []);
  });

  it("tell of processes that have ended, are back under another number, or are new", () => {
    const [a, timekeeper] = BEFORE.processes as [Seen["processes"][0], Seen["processes"][0]];
    const dead = { ...a, alive: false };
    assert.deepEqual(changesTo({ processes: [dead, timekeeper] }), [{ event: "process", ...dead }]);
    const again = { ...timekeeper, pid: 13 };
    assert.deepEqual(changesTo({ processes: [a, again] }), [
      { event: "process", ...timekeeper, alive: false },
      { event: "process", ...again },
    ]);
    const nats = { name: "nats", kind: "nats", pid: 14, alive: true } as const;
    assert.deepEqual(changesTo({ processes: [a, timekeeper, nats] }), [
      { event: "process", ...nats },
    ]);
  });

  it("tell of each power failure and return since", () => {
    const power = [{ at: 8, action: "start", nodes: ["b", "b-rnic"] }] as const;
    assert.deepEqual(changesTo({ power, powerCount: 2 }), [
      { event: "power", action: "start", nodes: ["b", "b-rnic"], atPs: 8 },
    ]);
  });

  it("tell once of a fault that is ordered of a cable", () => {
    const fault = { id: 4, action: "cut", cable: CABLE, direction: "both", at: 30 } as const;
    const told = { event: "link", fault: 4, action: "cut", target: "a-rnic/tor", atPs: 30 };
    assert.deepEqual(changesTo({ linkFaults: [fault] }), [told]);
    const before = { ...BEFORE, linkFaults: [fault] };
    assert.deepEqual(changes(PLAN, { before, now: { ...before, power: [] } }), []);
  });
});
