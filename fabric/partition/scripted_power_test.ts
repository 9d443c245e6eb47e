/** Power failures, returns and writebacks of a plan, as events. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FaultPlan } from "../rack/plan/plan.ts";
import { EVENT_KINDS } from "./event_queue.ts";
import { NEVER } from "../base/time.ts";
import { createRig, leastPs } from "./partition_testing.ts";
import { scriptedPower } from "./scripted_power.ts";

const INDEX = new Map([["a", 0], ["b", 1]]);

function events(
  faults: readonly FaultPlan[],
  begun: { readonly bootAt: number; readonly life: number },
): string[] {
  const { bootAt, life } = begun;
  const of = { indexOf: INDEX, bootAt, begun: new Map([["a", { life }], ["b", { life }]]) };
  return scriptedPower(faults, of).map(({ time, kind, target, targetLife }) =>
    `${kind === EVENT_KINDS.powerOff ? "off" : "on"} ${target}/${targetLife} @${time}`
  );
}

const fault = (node: string, action: FaultPlan["action"], at: number): FaultPlan => ({
  at,
  action,
  node,
});

describe("scriptedPower", () => {
  it("numbers the lives of each node by its own returns", () => {
    const faults = [
      fault("a", "kill", 1),
      fault("b", "kill", 2),
      fault("a", "start", 3),
      fault("b", "start", 4),
      fault("a", "kill", 5),
      fault("a", "start", 6),
    ];
    assert.deepEqual(events(faults, { bootAt: 0, life: 0 }), [
      "off 0/0 @1",
      "off 1/0 @2",
      "on 0/1 @3",
      "on 1/1 @4",
      "off 0/1 @5",
      "on 0/2 @6",
    ]);
  });

  it("cuts a first life at the very instant at which it would begin", () => {
    assert.deepEqual(events([fault("a", "kill", 0)], { bootAt: 0, life: 0 }), ["off 0/0 @0"]);
    const { partition, heard } = createRig({ plan: { faults: [fault("b", "kill", 0)] } });
    partition.advance(NEVER);
    assert.deepEqual(heard.filter((line) => line.startsWith("b/")), []);
  });

  it("of a later life leaves out what was up to its beginning, and the return that began it", () => {
    const faults = [
      fault("a", "kill", 10),
      fault("a", "kill", 50),
      fault("a", "start", 60),
      fault("a", "kill", 70),
      fault("a", "start", 80),
    ];
    assert.deepEqual(events(faults, { bootAt: 50, life: 2 }), ["off 0/2 @70", "on 0/3 @80"]);
  });
});

describe("Writebacks of a plan", () => {
  it("happen also where several are at one instant, and at the one of the beginning", () => {
    const at = 50_000;
    const writeback = { node: "b", from: 0, to: 8, buffered: false };
    const { partition, heard } = createRig({
      boot: { at, life: 1 },
      plan: { writebacks: [at - 1, at, at].map((each) => ({ ...writeback, at: each })) },
    });
    partition.advance(NEVER);
    assert.deepEqual(heard.slice(2, 5), [
      `b/1 writeback @${at}`,
      `b/1 writeback @${at}`,
      `b/1 up:0 @${at + leastPs("a")}`,
    ]);
  });
});
