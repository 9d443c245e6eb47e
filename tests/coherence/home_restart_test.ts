/**
 * C-10: home loses its power while a far card has a line that nothing else has. Where home's directory is in SCM
 * (decision 7), its next life knows that, and says so; else it shows what it has received last. The far card tells its
 * host in either case.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { Cpu, Steps } from "../../nodes/host/cpu/program.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";
import { findingsOfShared, recordOfShared, type SharedOf, sharedRack } from "./shared_rack.ts";

/** Home is killed at 150 µs, and has power again; the second time it is killed in the midst of its second life. */
const ONCE = ["{ at: 150us, kill: a }", "{ at: 200us, start: a }"];
const TWICE = [...ONCE, "{ at: 400us, kill: a }", "{ at: 450us, start: a }"];

function* until(cpu: Cpu, us: number): Steps<void> {
  if (cpu.now < us * PS_PER_US) yield* cpu.sleep(us * PS_PER_US - cpu.now);
}

/**
 * Line 0: the far host has flushed 5 and stored 6. Line 1: it has a copy. Line 2: home has flushed 7, line 3: the far
 * host has stored 9 and home has loaded it. Then home's next life loads them all at `loadsAt`, and the far host.
 */
function program(loadsAt: number, mends?: "store" | "flush"): Program {
  function* told(cpu: Cpu, line: number): Steps<void> {
    const region = yield* cpu.region("s");
    let found: unknown;
    try {
      [found] = yield* region.load(64 * line, 1);
    } catch (error) {
      found = (error as Error).name;
    }
    cpu.report("found", { line, found });
  }
  return function* ({ cpu }) {
    const of = (value: number, length = 1) => new Uint8Array(length).fill(value);
    const region = yield* cpu.region("s");
    if (region.isHome && cpu.now < 150 * PS_PER_US) {
      yield* region.store(128, of(7));
      yield* region.flush(128, 1);
      yield* until(cpu, 140);
      yield* region.load(192, 1);
      return;
    }
    if (!region.isHome) {
      yield* region.store(0, of(5));
      yield* region.flush(0, 1);
      yield* region.load(64, 1);
      yield* region.store(192, of(9));
      yield* until(cpu, 145);
      yield* region.store(0, of(6));
    }
    yield* until(cpu, region.isHome ? loadsAt : loadsAt + 50);
    // The far host's load would bring what home has mended to memory.
    if (!region.isHome && mends !== undefined) return;
    for (const line of [0, 1, 2, 3]) yield* told(cpu, line);
    if (!region.isHome || mends === undefined) return;
    yield* region.store(0, of(8, 64));
    if (mends === "flush") yield* region.flush(0, 64);
    yield* told(cpu, 0);
  };
}

function runOf(
  of: SharedOf & { readonly loadsAt?: number; readonly mends?: "store" | "flush" },
): { record: RunRecord; found: (host: string) => unknown[]; lost: (host: string) => unknown[] } {
  const { loadsAt = 300, mends, ...rack } = of;
  const given = { hosts: ["a", "b"], lines: 4, restart: true, program: program(loadsAt, mends) };
  const record = recordOfShared(sharedRack({ faults: ONCE, ...given, ...rack }));
  const of_ = (host: string, topic: string) =>
    record.reports.filter((each) => each.node === host && each.topic === topic)
      .map(({ value }) => value);
  return {
    record,
    found: (host) => of_(host, "found").map((value) => (value as { found: unknown }).found),
    lost: (host) => of_(host, "region-lost"),
  };
}

const LINE_0 = { region: "s", ranges: [{ offset: 0, length: 64 }] };

describe("home's power failure while a far card has its line alone", () => {
  for (const memory of ["scm", "dram"] as const) {
    it(`C-10, decision 7: directory on the card, ${memory}: home shows what it received last, the far card says what it had`, () => {
      const { record, found, lost } = runOf({ memory });
      const last = memory === "scm" ? [5, 0, 7, 9] : [0, 0, 0, 0];
      assert.deepEqual(found("a"), last);
      assert.deepEqual(found("b"), last);
      assert.deepEqual(lost("a"), []);
      assert.deepEqual(lost("b"), [LINE_0]);
      assert.deepEqual(findingsOfShared(record), []);
    });
  }

  it("C-10, decision 7: directory in SCM: the line is poison, and home says so by range, as the far card does", () => {
    const { record, found, lost } = runOf({ more: ", directory: memory" });
    assert.deepEqual(found("a"), ["RegionLost", 0, 7, 9]);
    assert.deepEqual(found("b"), ["RegionLost", 0, 7, 9]);
    assert.deepEqual(lost("a"), [LINE_0]);
    assert.deepEqual(lost("b"), [LINE_0]);
    assert.deepEqual(findingsOfShared(record), []);
  });

  it("C-10, decision 7: poison outlasts a second power failure, until a store to the whole line is persistent", () => {
    const memory = { more: ", directory: memory", faults: TWICE };
    const { record, found, lost } = runOf({ ...memory, loadsAt: 500 });
    assert.deepEqual(found("a"), ["RegionLost", 0, 7, 9]);
    assert.deepEqual(lost("a"), [LINE_0, LINE_0]);
    assert.deepEqual(findingsOfShared(record), []);
    const volatile = runOf({ ...memory, mends: "store" });
    assert.deepEqual(volatile.found("a"), ["RegionLost", 0, 7, 9, 8, "RegionLost", 0, 7, 9, 8]);
    assert.deepEqual(findingsOfShared(volatile.record), []);
    const flushed = runOf({ ...memory, mends: "flush" });
    assert.deepEqual(flushed.found("a"), ["RegionLost", 0, 7, 9, 8, 8, 0, 7, 9, 8]);
    assert.deepEqual(flushed.lost("a"), [LINE_0]);
    assert.deepEqual(findingsOfShared(flushed.record), []);
  });

  for (const placement of ["remote", "local"] as const) {
    it(`C-10, decision 7: random accesses around home's power failure, directory in SCM, copies kept ${placement}`, () => {
      let lost = 0;
      for (const at of [61, 70, 77]) {
        const faults = [`{ at: ${at}us, kill: a }`, `{ at: ${at + 60}us, start: a }`];
        const record = recordOfShared(
          sharedRack({
            seed: at,
            lines: 4,
            accesses: 40,
            faults,
            placement,
            restart: true,
            more: ", directory: memory",
          }),
        );
        assert.deepEqual(findingsOfShared(record), []);
        lost += record.reports.filter(({ node, topic }) => node === "a" && topic === "region-lost")
          .length;
      }
      assert.ok(lost > 0);
    });
  }
});

describe("home's power failure while far hosts wait for one line", () => {
  /** Each stores into line 0 again and again. */
  const contend: Program = function* ({ cpu }) {
    for (let i = 0; i < 200; i++) {
      try {
        const region = yield* cpu.region("s");
        yield* region.store(0, Uint8Array.of(i));
      } catch (error) {
        if (!/^Region(Lost|Fenced|Refused)$/.test((error as Error).name)) throw error;
        yield* cpu.sleep(2 * PS_PER_US);
      }
    }
  };

  for (const offNs of [1, 45_000]) {
    it(`C-09, decision 9: its card has forgotten, not passed over, what it had taken: off for ${offNs} ns`, () => {
      for (const at of [155_000, 155_100, 155_200, 155_300]) {
        const faults = [`{ at: ${at}ns, kill: a }`, `{ at: ${at + offNs}ns, start: a }`];
        const hosts = ["a", "b", "c", "d"];
        const record = recordOfShared(
          sharedRack({ faults, hosts, lines: 1, restart: true, program: contend }),
        );
        const begun = record.notes.filter(({ time, note }) =>
          time > (at + offNs + 1000) * 1000 && note.kind === "line-turn" && note.step === "begun"
        );
        assert.ok(begun.length > 50, `${begun.length} begin after the failure`);
        assert.deepEqual(findingsOfShared(record), []);
      }
    });
  }
});
