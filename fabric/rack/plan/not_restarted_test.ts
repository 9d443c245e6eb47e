import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../assembly/topology.ts";
import { parseScenario } from "../scenario/parse_scenario.ts";
import { variants } from "../scenario/variants.ts";
import { notRestarted } from "./not_restarted.ts";

function warnings(programs: string, faults: string): string[] {
  const text = `
name: again
hosts: { a: {}, b: {} }
programs: ${programs}
faults: ${faults}
`;
  const plan = makePlan(variants(parseScenario(text, "again.yaml"))[0]!);
  return notRestarted(plan).map(({ node, text }) => `${node}: ${text}`);
}

const AGAIN = "[{ at: 1ms, kill: b }, { at: 2ms, start: b }]";

describe("notRestarted", () => {
  it("names each program of a host that starts again and does not run it again, once", () => {
    const two =
      "[{ on: b, program: ./p.ts }, { on: b, program: ./p.ts }, { on: a, program: ./q.ts }]";
    assert.deepEqual(warnings(two, AGAIN), [
      "b: ./p.ts does not run again when b starts at 2 ms: a program does with `restart: true`",
    ]);
  });

  it("says nothing of programs that run again, of services, of hosts that stay off, and of cards", () => {
    assert.deepEqual(warnings("[{ on: b, program: ./p.ts, restart: true }]", AGAIN), []);
    assert.deepEqual(warnings("[]", AGAIN), []);
    const plain = "[{ on: b, program: ./p.ts }]";
    assert.deepEqual(warnings(plain, "[{ at: 1ms, kill: b }]"), []);
    const card = "[{ at: 1ms, kill: b-rnic }, { at: 2ms, start: b-rnic }]";
    assert.deepEqual(warnings(plain, card), []);
  });
});
