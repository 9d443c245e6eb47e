/**
 * C-09: an orderly shutdown loses nothing. A host that has the last value of lines alone, in its card or in its LLC,
 * is told to shut down: all of it is in home's memory before its power goes off. The same program without an order
 * loses it, as `home_restart_test.ts` has it.
 */
import assert from "node:assert/strict";
import { ROOT } from "../../console/base/paths.ts";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { findingsOf, planOf } from "../../console/checks/record_testing.ts";
import { shutdowns } from "../../console/checks/shutdowns.ts";
import { reportsOf } from "../../console/rack/run_variant.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { Cpu, Steps } from "../../nodes/host/cpu/program.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import type { ShutdownReport } from "../../nodes/host/shutdown.ts";
import { CommandRig } from "../support/command.ts";
import { RackBench } from "../support/process_rack.ts";
import { findingsOfShared, recordOfShared, type SharedOf, sharedRack } from "./shared_rack.ts";

const LINES = 8;

function* until(cpu: Cpu, us: number): Steps<void> {
  if (cpu.now < us * PS_PER_US) yield* cpu.sleep(us * PS_PER_US - cpu.now);
}

/** Each host stores to lines of its own, and does not flush; home loads all of them at `loadsAt`. */
function program(loadsAt: number): Program {
  return function* ({ cpu }) {
    const isFirst = cpu.now < 100 * PS_PER_US;
    const region = yield* cpu.region("s");
    const first = region.isHome ? 0 : LINES / 2;
    if (isFirst) {
      // A far card whose lease ends without another access brings its lines home by itself.
      yield* until(cpu, 185);
      for (let line = first; line < first + LINES / 2; line++) {
        yield* region.store(64 * line, new Uint8Array(64).fill(line + 1));
      }
    }
    yield* until(cpu, loadsAt);
    if (!region.isHome) return;
    const found: number[] = [];
    for (let line = 0; line < LINES; line++) {
      found.push((yield* region.load(64 * line + 63, 1))[0]!);
    }
    cpu.report("found", found);
  };
}

function runOf(of: SharedOf & { readonly loadsAt?: number }) {
  const { loadsAt = 400, ...rack } = of;
  const given = { hosts: ["a", "b"], lines: LINES, restart: true, program: program(loadsAt) };
  const record = recordOfShared(sharedRack({ ...given, ...rack }));
  const values = (host: string, topic: string) =>
    record.reports.filter((each) => each.node === host && each.topic === topic)
      .map(({ value }) => value);
  const failed = record.reports.filter(({ topic }) =>
    topic === "program-failed" || topic === "region-lost"
  );
  return {
    record,
    failed,
    found: values("a", "found"),
    done: (host: string) => values(host, "shutdown") as ShutdownReport[],
  };
}

const ALL = Array.from({ length: LINES }, (_, line) => line + 1);
const HALF = LINES / 2;

describe("an orderly shutdown", () => {
  for (const placement of ["remote", "local"] as const) {
    it(`C-09: of a far host brings its lines home, copies kept ${placement}`, () => {
      const faults = ["{ at: 200us, shutdown: b, within: 15us }"];
      const { record, failed, found, done } = runOf({ placement, faults });
      assert.deepEqual(failed, []);
      assert.deepEqual(found, [ALL]);
      const [report] = done("b");
      assert.deepEqual(report?.regions, ["s"]);
      assert.equal(report.begun, 200 * PS_PER_US);
      assert.ok(report.complete < 215 * PS_PER_US);
      assert.deepEqual(findingsOfShared(record), []);
    });

    it(`C-09: of home brings far lines and its LLC's to SCM, copies kept ${placement}`, () => {
      const faults = ["{ at: 200us, shutdown: a, within: 15us }", "{ at: 320us, start: a }"];
      const { record, failed, found, done } = runOf({ placement, faults, loadsAt: 600 });
      assert.deepEqual(failed, []);
      assert.deepEqual(found, [ALL]);
      const [report] = done("a");
      assert.deepEqual(report?.regions, ["s"]);
      assert.ok(report.lines >= HALF, `${report.lines} lines`);
      assert.ok(report.complete < 215 * PS_PER_US);
      assert.deepEqual(findingsOfShared(record), []);
    });
  }

  it("C-09: ends programs, which have not failed, and refuses their accesses", () => {
    const stubborn: Program = function* ({ cpu }) {
      const region = yield* cpu.region("s");
      const errors: string[] = [];
      yield* until(cpu, region.isHome ? 1000 : 190);
      while (cpu.now < 220 * PS_PER_US) {
        try {
          yield* region.fetchAdd(0, 1n);
        } catch (error) {
          errors.push((error as Error).name);
          yield* cpu.sleep(PS_PER_US);
        }
      }
      cpu.report("errors", errors);
      yield* until(cpu, 1000);
    };
    const faults = ["{ at: 200us, shutdown: b, within: 100us }"];
    const { record, failed, done } = runOf({ faults, program: stubborn });
    assert.deepEqual(failed, []);
    const errors = record.reports.filter(({ topic }) => topic === "errors");
    const names = errors.find(({ node }) => node === "b")?.value as string[];
    assert.ok(names.length > 10, `${names.length} errors`);
    assert.deepEqual(new Set(names), new Set(["HostShutdown"]));
    // The program, and the service `cm`.
    assert.equal(done("b")[0]?.stopped, 2);
    assert.deepEqual(findingsOfShared(record), []);
  });

  it("C-09: writes back what caches have of SCM where no region is", () => {
    const plain: Program = function* ({ cpu }) {
      const { address } = cpu.scm;
      if (cpu.now < 200 * PS_PER_US) {
        yield* until(cpu, 150);
        cpu.store(address, new Uint8Array(256).fill(7));
        cpu.ntstore(address + 256, new Uint8Array(32).fill(8));
        return;
      }
      cpu.report("found", [...cpu.load(address, 288)].filter((byte) => byte > 0).length);
    };
    const again = "{ at: 320us, start: a }";
    const orderly = ["{ at: 200us, shutdown: a, within: 100us }", again];
    assert.deepEqual(runOf({ faults: orderly, program: plain }).found, [288]);
    const abrupt = ["{ at: 300us, kill: a }", again];
    assert.deepEqual(runOf({ faults: abrupt, program: plain }).found, [0]);
  });

  it("C-09: a power failure at the same instant loses the lines", () => {
    const faults = ["{ at: 200us, kill: a }", "{ at: 320us, start: a }"];
    const { found } = runOf({ faults, loadsAt: 600 });
    assert.deepEqual(found, [new Array(LINES).fill(0)]);
  });
});

describe("a shutdown that has too little time", () => {
  const CUT = "b: its shutdown at 200 us had", END = "and did not end: its power went off at";

  /** What the checker finds where b is shut down at 200 us. */
  function foundOf(within: string, program: Program): string[] {
    const faults = [`{ at: 200us, shutdown: b, within: ${within} }`];
    const record = recordOfShared(
      sharedRack({ hosts: ["a", "b"], lines: LINES, faults, program }),
    );
    return shutdowns.check(record).map(({ text }) => text);
  }

  it("C-09: fails the verdict, which names the region that was to be given back", () => {
    assert.deepEqual(foundOf("15us", program(400)), []);
    const left = `${CUT} 1 us ${END} 201 us before it had given back its shared region s`;
    assert.deepEqual(foundOf("1us", program(400)), [left]);
  });

  it("C-09: names how many programs had not ended", () => {
    const stubborn: Program = function* ({ cpu }) {
      while (cpu.now < 300 * PS_PER_US) {
        try {
          yield* cpu.sleep(PS_PER_US);
        } catch {
          // It takes no notice of the shutdown.
        }
      }
    };
    // The program, and the service `cm`.
    const left = `${CUT} 10 us ${END} 210 us before its 2 programs had ended`;
    assert.deepEqual(foundOf("10us", stubborn), [left]);
  });

  it("C-09: names how many lines of SCM were not written back", () => {
    const dirty: Program = function* ({ cpu }) {
      if (cpu.host !== "b") return;
      yield* until(cpu, 150);
      cpu.store(cpu.scm.address, new Uint8Array(64 * 4096).fill(7));
    };
    assert.deepEqual(foundOf("1ms", dirty), []);
    const [text = ""] = foundOf("30us", dirty);
    const lines = /before it had written back the last (\d+) lines of SCM$/.exec(text)?.[1];
    assert.ok(Number(lines) > 0 && Number(lines) < 4096, text);
  });

  it("C-09: is not judged where another power failure cuts it short, or the run ends before", () => {
    const plan = planOf(["{ at: 10us, shutdown: b, within: 5us }"]);
    const at = (us: number) => [{ at: us * PS_PER_US, action: "kill", node: "b" }] as const;
    assert.equal(findingsOf(shutdowns, { plan, power: at(15) }).length, 1);
    assert.deepEqual(findingsOf(shutdowns, { plan, power: at(14) }), []);
    assert.deepEqual(findingsOf(shutdowns, { plan, power: at(15), until: 15 * PS_PER_US }), []);
  });

  it("C-09: rack run says so, and its exit code is 1", async () => {
    const rig = await CommandRig.open();
    try {
      const lines = ["50us", "1us"].map((within, i) => {
        const path = `${rig.cache}/${i}.yaml`;
        Deno.writeTextFileSync(path, scenarioOf(`{ at: 100us, shutdown: b, within: ${within} }`));
        return ["run", path, "--pack", "all", "--allow-read", ROOT];
      });
      const [long, short] = await rig.each(lines);
      assert.match(long!.stdout, /^ok {3}shutdowns-end-in-time \(1 orderly shutdown\)$/m);
      assert.equal(long!.code, 0);
      const text =
        /^FAIL shutdowns-end-in-time: .*b: its shutdown at 100 us had 1 us and did not end/m;
      assert.match(short!.stdout, text);
      assert.equal(short!.code, 1);
    } finally {
      await rig.close();
    }
  });
});

const ADDS = new URL("./adds_program.ts", import.meta.url).pathname;

/** Three hosts add to words of a region of a. */
function scenarioOf(...faults: readonly string[]): string {
  return `
name: shared-shutdown
seed: 5
defaults: { attach: coherent, scm: { size: 1MiB }, dram: 4MiB, services: none }
hosts: { a: {}, b: {}, c: {} }
shared:
  - { name: s, home: a, far: [b, c], bytes: 4KiB, lease: 20us }
programs:
  - { on: all, program: ${ADDS} }
faults:
${faults.map((fault) => `  - ${fault}\n`).join("")}`;
}

describe("an orderly shutdown, in several processes", () => {
  let bench: RackBench;
  beforeAll(async () => void (bench = await RackBench.open()));
  afterAll(() => bench.close());

  const SCENARIO = scenarioOf(
    "{ at: 60us, shutdown: c, within: 60us }",
    "{ at: 600us, shutdown: a, within: 60us }",
    "{ at: 700us, start: a }",
  );

  it("C-09: has one digest in one process and in one per machine: a far host and home shut down", async () => {
    const one = await bench.run({ scenario: SCENARIO, packing: "all" });
    const of = (topic: string) =>
      reportsOf(one.outcome).filter((each) => each.topic === topic).map(({ node }) => node);
    assert.deepEqual(of("shutdown"), ["c", "a"]);
    assert.deepEqual(of("adds").toSorted(), ["a", "b"]);
    const { outcome } = await bench.run({ scenario: SCENARIO, packing: "machine" });
    assert.ok(outcome.processes > 1);
    assert.equal(outcome.digest, one.outcome.digest);
  });
});
