import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { Time } from "../../../fabric/base/time.ts";
import { SCM_BASE } from "../memory/address_map.ts";
import {
  type CpuProgram,
  HostRig,
  pattern,
  type PlanChanges,
  RIG_TIMING,
} from "../testing/host_testing.ts";
import { LogBook } from "../memory/memory_log_testing.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

const BOOT = RIG_TIMING.bootPs;
const { storePs, flushIssuePs, fencePs } = RIG_TIMING;
/** 64 B at the rate at which a core can stream. */
const LINE_PS = 16_000;

/** Runs a program to its end. @returns the rig, and when it ended. */
function run(program: CpuProgram, changes: PlanChanges = {}): { rig: HostRig; endedAt: Time } {
  let endedAt = 0;
  const rig = new HostRig(changes, {
    programs: {
      *program(cpu) {
        yield* program(cpu);
        endedAt = cpu.now;
      },
    },
  });
  rig.run();
  assert.deepEqual(rig.reported("program-failed"), []);
  return { rig, endedAt };
}

function durable(rig: HostRig): [offset: number, bytes: number][] {
  return rig.durable.map(({ offset, data }) => [offset, data.length]);
}

describe("clwb", () => {
  it("P-04: promises nothing without a fence", () => {
    const { rig, endedAt } = run(function* (cpu) {
      cpu.store(cpu.scm.address + 32, pattern(64));
      cpu.clwb(cpu.scm.address + 32, 64);
      yield* cpu.settle();
    });
    assert.deepEqual(rig.durable, []);
    assert.equal(endedAt, BOOT + 2 * storePs + 2 * flushIssuePs);
  });

  it("P-04: one fence covers several, in order, and costs what flushes would but for their fences", () => {
    const ranges = [[256, 128], [0, 1], [128, 64]] as const;
    const { rig, endedAt } = run(function* (cpu) {
      for (const [at, length] of ranges) cpu.store(cpu.scm.address + at, pattern(length));
      for (const [at, length] of ranges) cpu.clwb(cpu.scm.address + at, length);
      yield* cpu.sfence();
    });
    assert.deepEqual(durable(rig), [[256, 64], [320, 64], [0, 64], [128, 64]]);
    assert.equal(endedAt, BOOT + 4 * storePs + 4 * LINE_PS + fencePs);
  });

  it("costs its issue where a line is clean, also by a clwb before", () => {
    const { rig, endedAt } = run(function* (cpu) {
      cpu.store(cpu.scm.address, pattern(8));
      cpu.clwb(cpu.scm.address, 8);
      cpu.clwb(cpu.scm.address, 8);
      yield* cpu.sfence();
    });
    assert.deepEqual(durable(rig), [[0, 64]]);
    assert.equal(endedAt, BOOT + storePs + LINE_PS + flushIssuePs + fencePs);
  });
});

describe("clwb, by what made the lines dirty", () => {
  const { clwbDeviceBitsPerSecond } = RIG_TIMING, LINES = 40;
  const devicePs = 64 * 8 * 1e12 / clwbDeviceBitsPerSecond;

  /** What a flush of lines takes that a device wrote; every `stored`th of them a core has stored to since. */
  function flushPs(stored: number): Time {
    let took = 0;
    const data = new Uint8Array(64 * LINES);
    const rig = new HostRig({ ddio: true }, {
      programs: {
        *program(cpu) {
          yield* cpu.sleep(4_000_000);
          for (let i = 0; i < LINES; i += stored) cpu.store(cpu.scm.address + 64 * i, pattern(1));
          yield* cpu.settle();
          const from = cpu.now;
          yield* cpu.flush(cpu.scm.address, 64 * LINES);
          took = cpu.now - from;
        },
      },
    });
    rig.arrive(1_000_000, { kind: "memory-write", address: SCM_BASE, data, noSnoop: false });
    rig.run();
    assert.equal(rig.durable.length, LINES);
    return took - fencePs;
  }

  it("lines that DDIO has put into the LLC have a rate of their own, until a core stores to them", () => {
    assert.equal(flushPs(LINES), LINE_PS + (LINES - 1) * devicePs);
    assert.equal(flushPs(2), LINES / 2 * (LINE_PS + devicePs));
  });

  it("are under way while the core does other work, before it fences", () => {
    const ends = [0, 100_000, 10_000_000].map((work) =>
      run(function* (cpu) {
        cpu.store(cpu.scm.address, pattern(20 * 64));
        cpu.clwb(cpu.scm.address, 20 * 64);
        cpu.charge(work);
        yield* cpu.sfence();
      }).endedAt - BOOT - 20 * storePs - fencePs
    );
    // At the end, four lines wait until the queue has room beside sixteen.
    const issuePs = 20 * flushIssuePs, roomPs = 4 * RIG_TIMING.scmLinePs;
    assert.deepEqual(ends, [20 * LINE_PS, 20 * LINE_PS, issuePs + 10_000_000 + roomPs]);
  });
});

describe("ntstore", () => {
  it("P-04: promises nothing without a fence, and is no line of the LLC", () => {
    const { rig, endedAt } = run(function* (cpu) {
      cpu.ntstore(cpu.scm.address + 60, pattern(100));
      yield* cpu.settle();
    });
    assert.deepEqual(rig.durable, []);
    assert.equal(endedAt, BOOT + 3 * storePs);
    assert.equal(rig.node.statistics().llcMisses, 0);
  });

  it("P-04: fenced, costs and leaves what ntStore does", () => {
    const ends = [true, false].map((apart) =>
      run(function* (cpu) {
        if (apart) {
          cpu.ntstore(cpu.scm.address + 60, pattern(100));
          yield* cpu.sfence();
        } else {
          yield* cpu.ntStore(cpu.scm.address + 60, pattern(100));
        }
      })
    );
    assert.equal(ends[0]!.endedAt, ends[1]!.endedAt);
    assert.deepEqual(durable(ends[0]!.rig), [[60, 4], [64, 64], [128, 32]]);
    assert.deepEqual(ends[0]!.rig.survivors, ends[1]!.rig.survivors);
  });

  it("gathers words of a line into one write", () => {
    const { rig } = run(function* (cpu) {
      for (let word = 0; word < 8; word++) {
        cpu.ntstore(cpu.scm.address + 8 * word, pattern(8, word));
      }
      yield* cpu.sfence();
    });
    assert.deepEqual(durable(rig), [[0, 64]]);
    assert.equal(rig.node.statistics().scmWpqLines, 1);
  });

  it("has what is stored seen by the core and by devices, and kept when the program changes its bytes", () => {
    const { rig } = run(function* (cpu) {
      const bytes = pattern(8);
      cpu.ntstore(cpu.scm.address, bytes);
      bytes.fill(0);
      assert.deepEqual([...cpu.load(cpu.scm.address, 8)], [...pattern(8)]);
      cpu.ntstore(cpu.scm.address + 64, pattern(8, 2));
      yield* cpu.sleep(1_000_000);
    });
    rig.arrive(rig.now, {
      kind: "memory-read",
      tag: 1,
      address: SCM_BASE + 64,
      length: 8,
      noSnoop: true,
    });
    rig.run();
    const [answer] = rig.sent;
    assert.ok(answer?.message.kind === "completion");
    assert.deepEqual([...answer.message.data], [...pattern(8, 2)]);
  });

  it("streams at the core's rate, whatever it has of buffers", () => {
    const bytes = 64 * 50;
    const { rig, endedAt } = run(function* (cpu) {
      cpu.ntstore(cpu.scm.address, pattern(bytes));
      yield* cpu.sfence();
    });
    assert.equal(endedAt, BOOT + 50 * LINE_PS + fencePs);
    assert.deepEqual(rig.survivors.subarray(0, bytes), pattern(bytes));
  });
});

describe("sfence", () => {
  it("costs its own time where nothing is to be waited for", () => {
    const { endedAt } = run(function* (cpu) {
      yield* cpu.sfence();
      yield* cpu.flush(cpu.scm.address, 0);
    });
    assert.equal(endedAt, BOOT + 2 * fencePs);
  });

  it("P-04 (in part): is part of flush and ntStore: they wait for what was begun before", () => {
    for (const whole of ["flush", "ntStore"] as const) {
      const { rig } = run(function* (cpu) {
        cpu.store(cpu.scm.address + 1024, pattern(8));
        cpu.clwb(cpu.scm.address + 1024, 8);
        cpu.ntstore(cpu.scm.address + 2048, pattern(8));
        if (whole === "flush") yield* cpu.flush(cpu.scm.address, 8);
        else yield* cpu.ntStore(cpu.scm.address, pattern(8));
      });
      const offsets = durable(rig).map(([offset]) => offset).filter((offset) => offset > 0);
      assert.deepEqual(offsets, [1024, 2048], whole);
    }
  });

  it("waits for room in the write pending queue", () => {
    const slow = { scmLinePs: 2_000_000, wpqLines: 2 };
    const { rig, endedAt } = run(function* (cpu) {
      for (let block = 0; block < 4; block++) {
        cpu.ntstore(cpu.scm.address + 256 * block, pattern(8));
      }
      yield* cpu.sfence();
    }, { timing: slow });
    assert.ok(endedAt > BOOT + 2 * slow.scmLinePs, `${endedAt}`);
    assert.equal(rig.durable.length, 4);
    assert.equal(rig.node.statistics().scmWpqOverflows, 0);
  });
});

describe("Stores and fences", () => {
  it("P-04, P-41: what was fenced survives at every instant, what was not may, by whole words", () => {
    const step = fc.record({
      kind: fc.constantFrom("store", "clwb", "ntstore", "sfence", "flush", "ntStore"),
      from: fc.nat(120).map((word) => word * 8),
      length: fc.integer({ min: 1, max: 20 }).map((words) => words * 8),
    });
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 25 }),
        fc.constantFrom("adr", "eadr", "wsp"),
        (list, domain) => {
          const book = new LogBook(1 << 18);
          // By byte: every value so far, and from which on a fence has promised one.
          const values = Array.from({ length: 1024 + 256 }, () => [0]);
          const promisedFrom = values.map(() => 0);
          let issued = new Map<number, number>();
          const rig = new HostRig({
            domain,
            llc: { bytes: 1024, ways: 4, ddioWays: 1, evict: "lru" },
          }, {
            options: { memoryLog: book },
            programs: {
              *program(cpu) {
                for (const [i, { kind, from, length }] of list.entries()) {
                  const at = cpu.scm.address + from, bytes = pattern(length, i);
                  if (kind === "store") cpu.store(at, bytes);
                  if (kind === "ntstore") cpu.ntstore(at, bytes);
                  if (kind === "clwb") cpu.clwb(at, length);
                  for (let byte = from; byte < from + length && kind !== "sfence"; byte++) {
                    if (kind !== "clwb" && kind !== "flush") {
                      values[byte]!.push(bytes[byte - from]!);
                    }
                    if (kind !== "store") issued.set(byte, values[byte]!.length - 1);
                  }
                  if (kind === "sfence") yield* cpu.sfence();
                  if (kind === "flush") yield* cpu.flush(at, length);
                  if (kind === "ntStore") yield* cpu.ntStore(at, bytes);
                  if (kind === "store" || kind === "ntstore" || kind === "clwb") continue;
                  for (const [byte, since] of issued) promisedFrom[byte] = since;
                  issued = new Map();
                  for (const [byte, each] of values.entries()) {
                    const found = book.image[byte]!;
                    assert.ok(each.includes(found, promisedFrom[byte]), `byte ${byte}: ${found}`);
                  }
                }
              },
            },
          });
          rig.run();
          assert.deepEqual(rig.reported("program-failed"), []);
          assert.deepEqual(book.image, rig.survivors);
          const newest = Uint8Array.from(values, (each) => each.at(-1)!);
          assert.deepEqual(book.newest().subarray(0, newest.length), newest);
          for (const { offset, bytes } of book.durables) {
            assert.ok(offset % 8 === 0 && bytes.length % 8 === 0, `${bytes.length} B at ${offset}`);
          }
        },
      ),
      seeded({ numRuns: 100 }),
    );
  });
});

describe("command", () => {
  it("refuses what is no command of the RNIC, and says what it found", () => {
    const wrong: readonly (readonly [command: unknown, found: RegExp])[] = [
      [null, /found null, expected one with an op/],
      [undefined, /found undefined/],
      [Symbol("x"), /found a symbol/],
      [{ op: "fly" }, /found \{"op":"fly"\}/],
    ];
    run(function* (cpu) {
      for (const [command, found] of wrong) {
        assert.throws(() => cpu.command(command as never).next(), found);
      }
      yield* cpu.settle();
    });
  });
});

describe("note", () => {
  it("P-41: has the bytes of a declared write as they were, whatever the program does to them", () => {
    const bytes = Uint8Array.of(1, 2);
    const rig = new HostRig({}, {
      isAudited: true,
      programs: {
        // deno-lint-ignore require-yield -- it waits for nothing
        *declares(cpu) {
          cpu.note({ kind: "writes", id: 0, on: "a", at: 0, bytes });
          bytes.fill(9);
        },
      },
    });
    rig.run();
    assert.deepEqual(rig.reported("program-failed"), []);
    const notes = rig.audits.flatMap((note) => note.kind === "writes" ? [[...note.bytes]] : []);
    assert.deepEqual(notes, [[1, 2]]);
  });
});
