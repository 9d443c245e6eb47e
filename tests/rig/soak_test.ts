/**
 * Transfers by order, more of them than the card has queues, of any sizes: what a program that has ended
 * leaves of the RNIC and of memory is taken back, so objects and memory stay as they were. And a few
 * steps of `deno task soak`, which does that, and more, to a rack of processes for an hour.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Simulator } from "../../fabric/partition/simulator.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import type { ProgramPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { v8Flags } from "../../console/base/v8_flags.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { nodeFactory } from "../../nodes/factory.ts";

/** After so many transfers their sizes and methods come again. */
const CYCLE = 110;
const TRANSFERS = 3 * CYCLE;
const FIRST_US = 300, EACH_US = 250;
const STEPS = 3;

const SCENARIO = `
name: soak
seed: 7
defaults: { scm: { size: 1MiB }, dram: 64MiB, queues: { count: 64 } }
hosts: { a: {}, b: {} }
`;

/** A put of ever another size, then a get of the same object, and so on; as orders start them. */
function transfer(index: number): ProgramPlan {
  const at = (FIRST_US + EACH_US * index) * PS_PER_US;
  const program = index % 2 === 0
    ? { run: "put", options: { to: "b", name: "object", ...drawn(index % CYCLE) } }
    : { run: "get", options: { from: "b", name: "object" } };
  return { ...program, at, service: false, order: index + 1 };
}

function drawn(index: number) {
  return { bytes: 1 + index * 7919 % 16_384, method: METHODS[index / 2 % METHODS.length]! };
}

const METHODS = ["persist-opcode", "send-flush", "write-send", "verify-persist", "write-flush"];

function planOf(programs: readonly ProgramPlan[]): RackPlan {
  const [variant] = variants(parseScenario(SCENARIO, "soak.yaml"));
  const plan = makePlan(variant!);
  const nodes = plan.nodes.map((node) =>
    node.kind === "host" && node.name === "a"
      ? { ...node, config: { ...node.config, programs } }
      : node
  );
  return { ...plan, nodes };
}

describe("Many transfers on one rack", () => {
  it(`${TRANSFERS}: every one is done, and objects and memory are as after the first`, () => {
    const plan = planOf(Array.from({ length: TRANSFERS }, (_, index) => transfer(index)));
    const scm = new Map(["a", "b"].map((host) => [host, new Uint8Array(1 << 20)]));
    let done = 0;
    const simulator = new Simulator({
      plan,
      create: nodeFactory({
        plan,
        image: (host) => (offset, length) => scm.get(host)!.slice(offset, offset + length),
        inputs: () => ({}),
      }),
      onDurable: (host, writes) => {
        for (const { offset, data } of writes) scm.get(host)!.set(data, offset);
      },
      onReport: (_time, _node, topic, value) => {
        assert.notEqual(topic, "program-failed", JSON.stringify(value));
        if (topic !== "result") return;
        assert.equal((value as { status: string }).status, "done", JSON.stringify(value));
        done++;
      },
    });
    const held: number[][] = [];
    for (let step = 1; step <= STEPS; step++) {
      simulator.run((FIRST_US + EACH_US * TRANSFERS * step / STEPS) * PS_PER_US);
      const { a, b } = simulator.statistics();
      held.push([a, b].map((host) => host!["dramAllocatedBytes"]!));
    }
    simulator.run();
    assert.equal(done, TRANSFERS);
    for (const each of held) assert.deepEqual(each, held[0]);
    assert.deepEqual(simulator.unfinished().filter(({ value }) => !value.serves), []);
  });
});

describe("deno task soak", () => {
  it("holds through transfers, a power failure and a kill of a service, and leaves nothing", async () => {
    const soak = fromFileUrl(projectFile("scripts/soak/soak.ts"));
    // Of this seed, the first three steps are one of each.
    const words = ["--steps", "3", "--seed", "2958", "--json"];
    const flags = ["--no-prompt", "--no-check", "--cached-only", v8Flags(), "--allow-all"];
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", ...flags, soak, ...words],
    }).output();
    const [out, text] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    assert.equal(code, 0, `${out}${text}`);
    const { counts, failures, objects } = JSON.parse(out!);
    assert.deepEqual(failures, []);
    assert.ok(objects > 0);
    for (const step of ["transfers", "power failures", "kills of a service"]) {
      assert.equal(counts[step], 1, out);
    }
  });
});
