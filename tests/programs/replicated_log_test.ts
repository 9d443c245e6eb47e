/** The replicated log: a minority's power failures, the client's own, and reading it back (P-41). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { madeUpBytes } from "../../nodes/host/programs/common/made_up.ts";
import { checkAll } from "../../console/checks/all.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

interface Wanted {
  readonly replicas?: number;
  readonly method?: string;
  readonly ddio?: "on" | "off";
  readonly bytes?: number;
  readonly linger?: string;
  readonly more?: string;
  readonly faults?: readonly string[];
  readonly programs?: readonly string[];
}

const NAMES = ["b", "c", "d", "e", "f"];

function scenario(wanted: Wanted = {}): string {
  const { replicas = 3, method = "persist-opcode", ddio = "off", bytes = 16_384 } = wanted;
  const { linger = "2ms" } = wanted;
  const names = NAMES.slice(0, replicas);
  return [
    "name: log",
    "seed: 3",
    "profile: clx-optane-cx5",
    `defaults: { ddio: ${ddio}, dram: 64MiB, scm: { size: 1MiB } }`,
    "hosts:",
    "  a: {}",
    ...names.map((name) => `  ${name}: {}`),
    "programs:",
    `  - { on: a, run: log, to: [${names.join(", ")}], bytes: ${bytes}, record: 256, depth: 8,`,
    `      method: ${method}, restart: true, linger: ${linger}${wanted.more ?? ""} }`,
    ...wanted.programs ?? [],
    ...(wanted.faults ? ["faults:", ...wanted.faults.map((fault) => `  - ${fault}`)] : []),
  ].join("\n") + "\n";
}

interface LogResult {
  readonly program: string;
  readonly status: string;
  readonly durable: number;
  readonly records: number;
  readonly recovered: number;
  readonly epoch: number;
  readonly replicas: readonly { host: string; acked: number; tries: number }[];
  readonly bytes?: number;
}

function results(rack: SimulatedRack, program = "log"): LogResult[] {
  return rack.reports.filter(({ topic, value }) => topic === "result" && value.program === program)
    .map(({ value }) => value as unknown as LogResult);
}

function at(time: Time): string {
  return `${time / 1_000}ns`;
}

/** When the first and the last record were told durable in an undisturbed run. */
function span(rack: SimulatedRack): [first: Time, last: Time] {
  const told = rack.reports.filter(({ topic }) => topic === "progress").map(({ time }) => time);
  return [told[0]!, told.at(-1)!];
}

describe("The replicated log", () => {
  for (const method of METHODS) {
    for (const ddio of ["off", "on"] as const) {
      it(`P-41: ${method}, DDIO ${ddio}: appends all to every replica`, () => {
        const rack = new SimulatedRack(scenario({ method, ddio })).run();
        const [result] = results(rack);
        assert.equal(result?.status, "done");
        assert.deepEqual([result?.durable, result?.records, result?.recovered], [64, 64, 0]);
        // The claim, the barrier, the records.
        assert.deepEqual(result?.replicas.map(({ acked }) => acked), [66, 66, 66]);
      });
    }
  }

  it("P-41: a minority may lose its power at any time, and is helped when it comes back", () => {
    const [from, to] = span(new SimulatedRack(scenario()).run());
    for (const method of ["persist-opcode", "send-flush", "write-flush"]) {
      for (let part = 0; part <= 4; part++) {
        const kill = from - 2 * PS_PER_US + Math.floor((to - from) * part / 4);
        const faults = [
          `{ at: ${at(kill)}, kill: c }`,
          `{ at: ${at(kill + 150 * PS_PER_US)}, start: c }`,
        ];
        const rack = new SimulatedRack(scenario({ method, faults, linger: "20ms" })).run();
        const [result] = results(rack);
        assert.equal(result?.status, "done", `${method} at ${kill}`);
        assert.equal(result?.durable, 64);
        assert.deepEqual(result?.replicas.map(({ acked }) => acked), [66, 66, 66]);
      }
    }
  });

  it("P-41: two of five for good; three of five, and nothing more is told durable", () => {
    const [from, to] = span(new SimulatedRack(scenario({ replicas: 5 })).run());
    const kill = Math.floor((from + to) / 2);
    const faults = ["c", "e"].map((host, i) => `{ at: ${at(kill + i * 1_000)}, kill: ${host} }`);
    const two = new SimulatedRack(scenario({ replicas: 5, faults })).run();
    assert.equal(results(two)[0]?.status, "done");
    assert.equal(results(two)[0]?.durable, 64);
    const more = [...faults, `{ at: ${at(kill + 3_000)}, kill: f }`];
    const three = new SimulatedRack(
      scenario({ replicas: 5, faults: more, more: ", patience: 5ms" }),
    ).run();
    const [result] = results(three);
    assert.equal(result?.status, "failed");
    assert.ok(result!.durable > 0 && result!.durable < 64, `${result!.durable} are durable`);
  });

  it("P-41: a client that loses its power finds what was durable, and goes on behind it", () => {
    const [from, to] = span(new SimulatedRack(scenario()).run());
    for (let part = 1; part <= 4; part++) {
      const kill = from + Math.floor((to - from) * part / 5);
      const faults = [
        `{ at: ${at(kill)}, kill: a }`,
        `{ at: ${at(kill + 50 * PS_PER_US)}, start: a }`,
      ];
      const rack = new SimulatedRack(scenario({ faults })).run();
      const told = rack.reports.filter(({ topic, time }) => topic === "progress" && time < kill);
      const last = Number(told.at(-1)!.value.durable);
      const [result] = results(rack);
      assert.equal(result?.status, "done");
      assert.deepEqual([result?.epoch, result?.durable], [2, 64]);
      assert.ok(result!.recovered >= last, `${result!.recovered} found, ${last} were durable`);
      // Both claims are there, both barriers, and each record once.
      assert.deepEqual(result?.replicas.map(({ acked }) => acked), [67, 67, 67]);
    }
  });

  it("is read back, byte for byte, without a replica that is gone", () => {
    const [, last] = span(new SimulatedRack(scenario()).run());
    const rack = new SimulatedRack(scenario({
      faults: [`{ at: ${at(last + 100 * PS_PER_US)}, kill: b }`],
      programs: ["  - { on: a, run: log-read, from: [b, c, d], at: 10ms, attempts: 2 }"],
    })).run();
    const [read] = results(rack, "log-read");
    assert.equal(read?.status, "done");
    assert.equal(read?.records, 64);
    const output = rack.reports.find(({ topic }) => topic === "output")!;
    assert.deepEqual(
      new Uint8Array(output.value.bytes as Uint8Array),
      madeUpBytes(16_384, "made-up"),
    );
  });

  it("P-12: the method that promises nothing loses what it claims is durable: the checker sees it", () => {
    const [from] = span(new SimulatedRack(scenario({ method: "write-only", ddio: "on" })).run());
    const faults = ["b", "c"].map((host, i) =>
      `{ at: ${at(from + 2e6 + i * 1_000)}, kill: ${host} }`
    );
    const wrong = scenario({ method: "write-only", ddio: "on", faults, more: ", patience: 1ms" });
    const rack = new SimulatedRack(wrong).run();
    const record = rack.record(rack.simulator.now + 1);
    const verdict = checkAll({ ...record, claims: true })
      .find(({ checker }) => checker.name === "durable-records-are-kept");
    assert.match(verdict!.findings[0]!.text, /were confirmed durable, b, c have not as many/);
  });
});
