/** First accesses of programs to shared regions, over the whole rack. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_MS } from "../../fabric/base/time.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

type Region = ReturnType<ProgramContext["cpu"]["region"]> extends Steps<infer R> ? R : never;

/** What a program does in a test, once it has the region. */
type Act = (region: Region, context: ProgramContext) => Steps<void>;

/** Each host's part, as a program of its own: `a` is home, the others are far. */
function rackOf(
  acts: Readonly<Record<string, Act>>,
  { region = "", more = "" }: { readonly region?: string; readonly more?: string } = {},
): SimulatedRack {
  const hosts = Object.keys(acts);
  const far = hosts.filter((name) => name !== "a");
  const programs = Object.fromEntries(
    hosts.map((name): [string, Program] => [`./${name}.ts`, function* (context) {
      yield* acts[name]!(yield* context.cpu.region("s"), context);
    }]),
  );
  const text = [
    "name: x",
    "defaults: { attach: coherent, scm: { size: 1MiB }, dram: 4MiB, queues: 64, services: none }",
    `hosts: { ${hosts.map((name) => `${name}: {}`).join(", ")} }`,
    "shared:",
    `  - { name: s, home: a, far: [${far.join(", ")}], bytes: 4KiB, at: 0${region} }`,
    "until: 300us",
    "programs:",
    ...hosts.map((name) => `  - { on: ${name}, run: ./${name}.ts }`),
    more,
  ].join("\n");
  return new SimulatedRack(text, { programs, unsound: "x" });
}

function bytesOf(...words: number[]): Uint8Array {
  return Uint8Array.from(words);
}

/** Each of these has its turn when the byte at 1024 has its number. */
function* turn(region: Region, number: number): Steps<void> {
  for (;;) {
    const [now] = yield* region.load(1024, 1);
    if (now === number) return;
    assert.equal(yield* region.waitChange(1024, 1, PS_PER_MS), "changed", `turn ${number}`);
  }
}

function failures(rack: SimulatedRack): unknown[] {
  return rack.reported("program-failed");
}

for (const placement of ["remote", "local"] as const) {
  describe(`a region whose copies are kept ${placement}`, () => {
    const region = `, placement: ${placement}`;

    it("C-06, C-07, C-09: home stores, the far host loads; it stores, home loads", () => {
      const rack = rackOf({
        *a(s, { cpu }) {
          yield* s.store(8, bytesOf(1, 2, 3));
          yield* s.store(1024, bytesOf(1));
          yield* turn(s, 2);
          cpu.report("seen", [...(yield* s.load(8, 3)), ...(yield* s.load(60, 8))]);
        },
        *b(s, { cpu }) {
          yield* turn(s, 1);
          cpu.report("seen", [...(yield* s.load(8, 3))]);
          yield* s.store(9, bytesOf(7));
          yield* s.store(60, bytesOf(1, 2, 3, 4, 5, 6, 7, 8));
          yield* s.store(1024, bytesOf(2));
        },
      }, { region }).run();
      assert.deepEqual(failures(rack), []);
      assert.deepEqual(rack.reported("seen", "b"), [[1, 2, 3]]);
      assert.deepEqual(rack.reported("seen", "a"), [[1, 7, 3, 1, 2, 3, 4, 5, 6, 7, 8]]);
    });
  });
}
