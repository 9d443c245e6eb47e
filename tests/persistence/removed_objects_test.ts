/**
 * Objects that are removed, and space that is held for requesters which are gone. Over the whole rack; every
 * run ends with the checker `objects-are-whole` as well.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS } from "../../console/explore/types.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

function scenario(programs: string, faults = "", host = "ddio: on"): string {
  return `
name: removed
seed: 5
hosts: { a: {}, b: { ${host}, scm: { size: 1MiB } }, c: {} }
programs:
${programs}
faults: [${faults}]
`;
}

const STORED =
  "  - { on: a, run: put, to: b, bytes: 3000, name: x, method: send-flush, size: 700 }\n";
const REMOVED = `${STORED}  - { on: a, run: remove, from: b, name: x, at: 1ms }\n`;

describe("remove", () => {
  it("P-41: leaves the object or nothing, whichever device fails when, and what it removed stays away", () => {
    const seen = new Set<string>();
    const run = (faults: string) =>
      new SimulatedRack(scenario(`${REMOVED}  - { on: c, run: list, from: b, at: 200ms }`, faults))
        .run();
    const [removed] = run("").reported("result", "a").slice(1);
    assert.equal(removed!["status"], "done");
    const whole = run("").reports.filter(({ topic, node }) => topic === "result" && node === "a");
    const endPs = whole.at(-1)!.time;
    for (const victim of ["a", "a-rnic", "b", "b-rnic"]) {
      for (const backPs of [0, 1, 2, 3, 4, 6, 9, 14].map((us) => us * 1_000_000 + 137)) {
        const faults = `{ at: ${
          endPs - backPs
        }ps, kill: ${victim} }, { at: 100ms, start: ${victim} }`;
        const rack = run(faults);
        const isDone = rack.reported("result", "a").some((each) =>
          each["program"] === "remove" && each["status"] === "done"
        );
        const [listed] = rack.reported("result", "c");
        const names = (listed!["objects"] as { name: string }[]).map(({ name }) => name);
        assert.ok(!isDone || names.length === 0, `${victim}, ${backPs} before the end`);
        seen.add(names.join());
      }
    }
    assert.deepEqual([...seen].sort(), ["", "x"]);
  });

  it("P-41: keeps that at every instant of a power failure, whatever the cache has written back", async () => {
    const [variant] = variants(parseScenario(scenario(REMOVED), "removed.yaml"));
    const rack = { plan: makePlan(variant!), inputs: {}, own: {} };
    const options = { ...EXPLORE_DEFAULTS, cut: { host: "b" }, from: 1_000_000_000 };
    const verdict = await explore(rack, options);
    assert.equal(verdict.verdict, "safe", verdict.counterexample?.found ?? verdict.why);
    assert.ok(verdict.crashPoints > 20 && verdict.bounded === 0);
  });

  it("gives the space of an incomplete object back, and says where there is none of that name", () => {
    // On `adr` with DDIO a WRITE alone promises nothing.
    const put = (name: string, at: string, method = "write-only") =>
      `  - { on: a, run: put, to: b, bytes: 600000, name: ${name}, method: ${method}, size: 64KiB, at: ${at} }\n`;
    const remove = (name: string, at: string) =>
      `  - { on: a, run: remove, from: b, name: ${name}, at: ${at} }\n`;
    const programs = put("x", "0us") + put("y", "5ms") + remove("x", "10ms") +
      put("y", "15ms", "persist-opcode") + remove("x", "20ms");
    const unsound = "a put without room and a removal without an object fail";
    const results = new SimulatedRack(scenario(programs), { unsound }).run().reported("result");
    assert.deepEqual(
      results.map(({ program, stored, error }) => [program, stored ?? error]),
      [
        ["put", "incomplete"],
        ["put", "the responder refused it: no-space"],
        ["remove", undefined],
        ["put", "complete"],
        ["remove", "the responder refused it: not-found"],
      ],
    );
  });

  it("lets who reads the object read it to its end, and disconnects who writes it in its place", () => {
    const programs =
      `${STORED}  - { on: a, run: append, to: b, records: 400, name: log, size: 1KiB }
  - { on: c, run: put, to: b, bytes: 300000, name: y, method: send-flush, size: 4KiB }
  - { on: a, run: get, from: b, name: y, at: 10ms, size: 256, depth: 1 }
  - { on: c, run: remove, from: b, name: y, at: 10050us }
  - { on: c, run: put, to: b, bytes: 300000, name: z, method: send-flush, size: 4KiB, at: 10200us }
  - { on: c, run: remove, from: b, name: log, at: 300us }
`;
    const unsound = "an append loses its log";
    const rack = new SimulatedRack(scenario(programs), { unsound }).run();
    const of = (name: string) => rack.reported("result").find((each) => each["program"] === name)!;
    assert.equal(of("get")["status"], "done");
    assert.equal(of("append")["status"], "failed");
    assert.ok((of("get")["endPs"] as number) > 10_300_000_000);
  });
});

describe("A requester that is gone without a sign", () => {
  it("P-41: gives its space back once somebody asks for it", () => {
    const programs = `
  - { on: a, run: put, to: b, bytes: 600000, name: x, method: write-flush, size: 700, depth: 3 }
  - { on: c, run: put, to: b, bytes: 601000, name: y, size: 64KiB, at: 150ms }
  - { on: c, run: list, from: b, at: 200ms }
  - { on: c, run: put, to: b, bytes: 601000, name: x, size: 64KiB, at: 250ms }`;
    const faults = "{ at: 500us, kill: a }";
    const unsound = "the first put of c finds no room";
    const rack = new SimulatedRack(scenario(programs, faults, "ddio: off"), { unsound }).run();
    const [early, listed, late] = rack.reported("result", "c");
    assert.match(String(early!["error"]), /no-space/);
    assert.deepEqual(listed!["objects"], [{ name: "x", length: 600_000, incomplete: true }]);
    assert.deepEqual([late!["stored"], late!["withdrawn"]], ["complete", true]);
  });

  it("gives its queues back: a service whose requesters died takes new ones", () => {
    // Each takes a quarter of the service's completion queue.
    const put = (name: string) =>
      `  - { on: a, run: put, to: b, bytes: 250000, name: ${name}, method: write-flush, size: 64, depth: 256, at: 1ms }\n`;
    const get = (at: string) =>
      `  - { on: c, run: get, from: b, name: x, size: 64, depth: 256, at: ${at} }\n`;
    const programs = STORED.replace("on: a", "on: c") + ["p", "q", "r"].map(put).join("") +
      get("10ms") + get("40ms");
    const faults = "{ at: 1700us, kill: a }";
    const unsound = "the first get of c finds no room";
    const rack = new SimulatedRack(scenario(programs, faults, "ddio: off"), { unsound }).run();
    const [, first, second] = rack.reported("result", "c");
    assert.match(String(first!["error"]), /connect: rejected/);
    assert.equal(second!["status"], "done", String(second!["error"]));
  });
});
