import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { InvariantError } from "../../../fabric/base/assert.ts";
import { NEVER, TIME_END } from "../../../fabric/base/time.ts";
import type { MemoryWrite } from "../../../fabric/wire/host_bus/pcie.ts";
import { AddressMap, SCM_BASE, VIRTUAL_SCM_BASE } from "../memory/address_map.ts";
import {
  type CpuProgram,
  HostRig,
  pattern,
  type PlanChanges,
  RIG_TIMING,
} from "../testing/host_testing.ts";
import { Processor } from "./processor.ts";
import type { Wait } from "./program.ts";

const BOOT = RIG_TIMING.bootPs;
/** From a write's arrival until it is visible: 64 B. */
const VISIBLE_PS = RIG_TIMING.iioPs + 4000;

function host(program: CpuProgram, changes: PlanChanges = {}): HostRig {
  return new HostRig(changes, { programs: { program } });
}

function write(address: number, data = pattern(64)): MemoryWrite {
  return { kind: "memory-write", address, data, noSnoop: false };
}

/** From the medium. */
const SCM_LOAD_PS = RIG_TIMING.scmLoadPs + RIG_TIMING.scmMediumPs;

describe("Cpu time", () => {
  it("owes for work, and lets it pass at the next yield", () => {
    const seen: number[] = [];
    const rig = host(function* (cpu) {
      cpu.charge(700);
      cpu.load(cpu.scm.address, 8);
      seen.push(cpu.now);
      yield* cpu.settle();
      seen.push(cpu.now);
      yield* cpu.settle();
      yield* cpu.sleep(300);
      seen.push(cpu.now);
      cpu.charge(50);
      yield* cpu.sleep(300);
      seen.push(cpu.now);
    });
    rig.run();
    const paid = BOOT + 700 + SCM_LOAD_PS;
    assert.deepEqual(seen, [BOOT, paid, paid + 300, paid + 650]);
    const { cpuPs, pollPs } = rig.node.statistics();
    assert.deepEqual([cpuPs, pollPs], [750 + SCM_LOAD_PS, 0]);
  });

  it("P-04: flush returns when the iMC has accepted every line, which tears under a power failure", () => {
    let flushedAt = 0;
    const rig = host(function* (cpu) {
      cpu.store(cpu.scm.address + 32, pattern(192));
      yield* cpu.flush(cpu.scm.address + 32, 192);
      flushedAt = cpu.now;
      yield* cpu.flush(cpu.scm.address, 256);
      assert.equal(cpu.now, flushedAt + 4 * RIG_TIMING.flushIssuePs + RIG_TIMING.fencePs);
      yield* cpu.flush(cpu.scm.address, 0);
    });
    const steps: [at: number, bytes: number][] = [];
    while (rig.next()) {
      steps.push([
        rig.now,
        rig.durable.reduce((n, { data }) => n + data.length, 0),
      ]);
    }
    const stored = BOOT + 4 * RIG_TIMING.storePs;
    const growth = steps.filter(([, bytes], i) => bytes !== (steps[i - 1]?.[1] ?? 0));
    // One line takes 16 ns; issuing it, less.
    assert.deepEqual(growth, [1, 2, 3, 4].map((line) => [stored + 16_000 * line, 64 * line]));
    assert.equal(flushedAt, stored + 64_000 + RIG_TIMING.fencePs);
    assert.deepEqual([...rig.survivors.subarray(32, 224)], [...pattern(192)]);
  });

  it("ntStore goes past the LLC, and returns when the iMC has accepted all", () => {
    const rig = host(function* (cpu) {
      const bytes = pattern(100);
      const storing = cpu.ntStore(cpu.scm.address + 60, bytes);
      let turn = storing.next();
      bytes.fill(0);
      while (!turn.done) turn = storing.next(yield turn.value);
      assert.equal(cpu.now, BOOT + 5_000 + 16_000 + 8_000 + RIG_TIMING.fencePs);
      assert.deepEqual([...cpu.load(cpu.scm.address + 60, 100)], [...pattern(100)]);
    });
    rig.run();
    assert.deepEqual(rig.reported("program-failed"), []);
    assert.deepEqual(rig.durable.map(({ offset, data }) => [offset, data.length]), [
      [60, 4],
      [64, 64],
      [128, 32],
    ]);
    assert.deepEqual([...rig.survivors.subarray(60, 160)], [...pattern(100)]);
  });

  it("flush waits for room in the write pending queue", () => {
    const slow = { scmLinePs: 2_000_000, wpqLines: 2 };
    let flushedAt = 0;
    const rig = host(function* (cpu) {
      for (let block = 0; block < 4; block++) {
        cpu.store(cpu.scm.address + 256 * block, pattern(8));
        yield* cpu.flush(cpu.scm.address + 256 * block, 8);
      }
      flushedAt = cpu.now;
    }, { timing: slow });
    rig.run();
    assert.ok(flushedAt > BOOT + 2 * slow.scmLinePs, `${flushedAt}`);
    assert.equal(rig.durable.length, 4);
  });
});

describe("Cpu waits", () => {
  it("waitMemory ends when a DMA write to the range is visible, and counts as polling", () => {
    const seen: unknown[] = [];
    const rig = host(function* (cpu) {
      cpu.charge(1000);
      seen.push(yield* cpu.waitMemory(cpu.scm.address + 64, 64, NEVER), cpu.now);
      seen.push([...cpu.load(cpu.scm.address + 64, 2)]);
    });
    rig.arrive(2_000_000, write(SCM_BASE));
    rig.arrive(3_000_000, write(SCM_BASE + 64));
    rig.run();
    const woken = 3_000_000 + VISIBLE_PS + RIG_TIMING.pollPs;
    assert.deepEqual(seen, ["changed", woken, [...pattern(2)]]);
    const { pollPs, cpuPs } = rig.node.statistics();
    assert.deepEqual([pollPs, cpuPs], [woken - BOOT - 1000, 1000 + RIG_TIMING.scmLoadPs]);
  });

  it("waitMemory ends with the piece of a long write that it waits for, not with the last one", () => {
    const seen: unknown[] = [];
    const rig = host(function* (cpu) {
      seen.push(yield* cpu.waitMemory(cpu.scm.address + 128, 64, NEVER), cpu.now);
    });
    rig.arrive(3_000_000, { ...write(SCM_BASE), data: pattern(1280) });
    rig.run();
    // The third of twenty pieces.
    assert.deepEqual(seen, ["changed", 3_000_000 + VISIBLE_PS + 2 * 4000 + RIG_TIMING.pollPs]);
  });

  it("waitMemory does not miss what happens while owed time is paid", () => {
    const seen: unknown[] = [];
    const rig = host(function* (cpu) {
      cpu.charge(10_000_000);
      seen.push(yield* cpu.waitMemory(cpu.scm.address, 64, NEVER), cpu.now);
    });
    rig.arrive(BOOT + 5, write(SCM_BASE));
    rig.run();
    assert.deepEqual(seen, ["changed", BOOT + 10_000_000 + RIG_TIMING.pollPs]);
  });

  it("waitMemory follows a buffer over its scattered pages", () => {
    const seen: unknown[] = [];
    let last = 0;
    const rig = host(function* (cpu) {
      const buffer = cpu.allocate(3 * 4096);
      last = buffer.pages[2]!;
      seen.push(yield* cpu.waitMemory(buffer.address, buffer.length, NEVER));
      seen.push([...cpu.load(buffer.address + 2 * 4096, 2)]);
    });
    rig.run(BOOT);
    rig.arrive(2_000_000, write(last));
    rig.run();
    assert.deepEqual(seen, ["changed", [...pattern(2)]]);
  });

  it("of memory that is not mapped, or not all, are errors in the program's own stack, which can catch them", () => {
    const stacks: string[] = [];
    const rig = host(function* waiting(cpu) {
      const end = cpu.scm.address + cpu.scm.length;
      for (const [address, length] of [[0x1234, 8], [end - 64, 128]] as const) {
        const sources = [{ kind: "memory", address, length }] as const;
        for (
          const wait of [
            () => cpu.waitMemory(address, length, NEVER),
            () => cpu.waitAny(sources, NEVER),
          ]
        ) {
          try {
            yield* wait();
          } catch (error) {
            stacks.push((error as Error).stack!);
          }
        }
      }
    });
    rig.run();
    assert.equal(stacks.length, 4);
    for (const stack of stacks) {
      assert.match(stack, /Cannot access 0x[0-9a-f]+: no memory is mapped there[^]* waiting /);
    }
  });

  it("every wait ends at its deadline, and not before what is owed is paid", () => {
    const seen: unknown[] = [];
    const rig = host(function* (cpu) {
      seen.push(yield* cpu.waitMemory(cpu.scm.address, 8, BOOT + 100), cpu.now - BOOT);
      seen.push(yield* cpu.waitInterrupt(1, BOOT + 200), cpu.now - BOOT);
      cpu.charge(1000);
      seen.push(yield* cpu.waitSignal("x", BOOT + 300), cpu.now - BOOT);
      seen.push(yield* cpu.waitAny([{ kind: "signal", name: "x" }], 0), cpu.now - BOOT);
    });
    rig.run();
    assert.deepEqual(seen, ["timeout", 100, "timeout", 200, "timeout", 1200, "timeout", 1200]);
  });

  it("an interrupt without a waiting program is latched for the next wait, once", () => {
    const seen: unknown[] = [];
    const rig = host(function* (cpu) {
      yield* cpu.sleep(5_000_000);
      seen.push(yield* cpu.waitInterrupt(3, NEVER), cpu.now - BOOT);
      seen.push(yield* cpu.waitInterrupt(3, BOOT + 6_000_000), cpu.now - BOOT);
    });
    rig.arrive(BOOT, { kind: "interrupt", vector: 3 });
    rig.arrive(BOOT, { kind: "interrupt", vector: 3 });
    rig.run();
    assert.deepEqual(seen, ["raised", 5_000_000, "timeout", 6_000_000]);
    assert.equal(rig.node.statistics().interrupts, 2);
  });

  it("an interrupt is work of the program that it wakes, and of its core", () => {
    const seen: number[] = [];
    const rig = host(function* (cpu) {
      const before = cpu.workPs;
      yield* cpu.waitInterrupt(3, NEVER);
      seen.push(cpu.workPs - before);
      yield* cpu.waitInterrupt(4, BOOT + 9_000_000);
      seen.push(cpu.workPs - before);
    });
    rig.arrive(BOOT + 1_000_000, { kind: "interrupt", vector: 3 });
    rig.run();
    const { interruptPs } = RIG_TIMING;
    assert.deepEqual(seen, [interruptPs, interruptPs]);
    assert.equal(rig.node.statistics().cpuPs, interruptPs);
  });

  it("a wait for several interrupts takes all of them that are latched", () => {
    const seen: unknown[] = [];
    const rig = host(function* (cpu) {
      yield* cpu.sleep(5_000_000);
      const sources = [3, 4].map((vector) => ({ kind: "interrupt", vector }) as const);
      seen.push(yield* cpu.waitAny(sources, NEVER), cpu.now - BOOT);
      seen.push(yield* cpu.waitInterrupt(4, BOOT + 6_000_000));
      seen.push(yield* cpu.waitInterrupt(3, BOOT + 7_000_000));
    });
    for (const vector of [3, 4]) rig.arrive(BOOT, { kind: "interrupt", vector });
    rig.run();
    assert.deepEqual(seen, ["happened", 5_000_000, "timeout", "timeout"]);
  });

  it("a wait for several interrupts ends at once where one of them is latched, whichever it is", () => {
    for (const latched of [3, 4]) {
      const seen: unknown[] = [];
      const rig = host(function* (cpu) {
        yield* cpu.sleep(5_000_000);
        const sources = [3, 4].map((vector) => ({ kind: "interrupt", vector }) as const);
        const deadline = BOOT + 9_000_000;
        seen.push(yield* cpu.waitAny(sources, deadline), cpu.now - BOOT);
        seen.push(yield* cpu.waitAny(sources, deadline), cpu.now - BOOT);
      });
      rig.arrive(BOOT, { kind: "interrupt", vector: latched });
      rig.run();
      assert.deepEqual(seen, ["happened", 5_000_000, "timeout", 9_000_000], `${latched}`);
    }
  });

  it("signals wake the programs that wait for them, and are not latched", () => {
    const seen: unknown[] = [];
    const rig = new HostRig({}, {
      programs: {
        *waits(cpu) {
          seen.push(yield* cpu.waitSignal("go", NEVER), cpu.now - BOOT);
          seen.push(yield* cpu.waitSignal("go", BOOT + 900), cpu.now - BOOT);
        },
        *signals(cpu) {
          yield* cpu.sleep(500);
          cpu.signal("other");
          cpu.signal("go");
          cpu.signal("go");
        },
      },
    });
    rig.run();
    assert.deepEqual(seen, ["signaled", 500, "timeout", 900]);
  });

  it("waitAny ends by whichever source comes first", () => {
    const seen: unknown[] = [];
    const rig = host(function* (cpu) {
      const sources = [
        { kind: "memory", address: cpu.scm.address, length: 8 },
        { kind: "interrupt", vector: 4 },
        { kind: "signal", name: "x" },
      ] as const;
      seen.push(yield* cpu.waitAny(sources, NEVER), cpu.now);
      seen.push(yield* cpu.waitAny(sources, NEVER), cpu.now);
      seen.push(yield* cpu.waitAny(sources, 7_000_000), cpu.now);
    });
    rig.arrive(2_000_000, write(SCM_BASE));
    rig.arrive(3_000_000, { kind: "interrupt", vector: 4 });
    rig.run();
    assert.deepEqual(seen, [
      "happened",
      2_000_000 + VISIBLE_PS + RIG_TIMING.pollPs,
      "happened",
      3_000_000 + RIG_TIMING.interruptPs,
      "timeout",
      7_000_000,
    ]);
  });
});

/** A processor by itself, with a program that waits for one reply; `log` has what it meets. */
function alone(startAt = 0) {
  const map = new AddressMap({ dramBytes: 1 << 20, scmBytes: 1 << 20 });
  const processor = new Processor({ cores: 1, pollPs: 1, interruptPs: 1, map });
  const log: unknown[] = [];
  processor.add({
    name: "waits",
    startAt,
    *start() {
      try {
        log.push(yield { kind: "reply", id: 1, answers: true });
      } catch (error) {
        log.push(error);
      }
    },
    onFailure: (error) => void log.push(error),
  });
  return { processor, log };
}

describe("Processor", () => {
  it("throws what came first of two errors, when the reply is there that the program waits for", () => {
    const { processor, log } = alone();
    processor.run(0);
    const [first, second] = [new Error("first"), new Error("second")];
    assert.equal(processor.throwInto("waits", first, 10), true);
    assert.equal(processor.throwInto("waits", second, 20), true);
    processor.run(20);
    assert.deepEqual(log, [], "the device still has the command");
    const reply = { status: "ok", op: "done" } as const;
    assert.equal(processor.reply({ id: 1, reply }, 30), true);
    processor.run(30);
    assert.deepEqual(log, [first]);
    assert.equal(processor.throwInto("waits", second, 40), false, "it has ended");
  });

  it("throws nothing into a program that has not begun", () => {
    const { processor, log } = alone(1_000);
    assert.equal(processor.throwInto("waits", new Error("early"), 10), false);
    processor.run(1_000);
    assert.deepEqual([log, processor.nextAt], [[], NEVER], "it waits for its reply");
  });

  it("a device that is gone answers its own commands alone, when their programs have paid for their work", () => {
    const { processor, log } = alone();
    let owes = 0;
    processor.add({
      name: "works",
      startAt: 0,
      *start(account) {
        account.owed = 50;
        log.push(yield { kind: "reply", id: 2, answers: true });
        owes = account.owed;
      },
      onFailure: (error) => void log.push(error),
    });
    processor.run(0);
    processor.run(50);
    const reply = { status: "error", errno: "ENOENT", reason: "gone" } as const;
    processor.replyToAll({ isOwn: (id) => id === 1 }, reply, 60);
    processor.run(60);
    assert.deepEqual([log, [...processor.names]], [[{ kind: "done", reply }], ["works"]]);
    processor.replyToAll({ isOwn: (id) => id === 2 }, reply, 60);
    assert.equal(processor.nextAt, 60);
    processor.run(60);
    assert.deepEqual([log.length, owes, processor.running], [2, 0, 0]);
  });

  it("a reply that comes while its program pays for its work ends the wait when that is paid", () => {
    const map = new AddressMap({ dramBytes: 1 << 20, scmBytes: 1 << 20 });
    const processor = new Processor({ cores: 1, pollPs: 1, interruptPs: 1, map });
    processor.add({
      name: "works",
      startAt: 0,
      *start(account) {
        account.owed = 50;
        yield { kind: "reply", id: 2, answers: true };
      },
      onFailure: (error) => assert.fail(String(error)),
    });
    processor.run(0);
    processor.reply({ id: 2, reply: { status: "ok", op: "done" } }, 10);
    assert.equal(processor.nextAt, 50);
  });

  it("an answer that no program waits for, as it has ended, changes nothing", () => {
    const { processor, log } = alone();
    processor.run(0);
    const before = [processor.nextAt, processor.running];
    processor.loaded(1, new Uint8Array(8), 5);
    processor.lineDone(1, 5);
    processor.reply({ id: 2, reply: { status: "ok", op: "done" } }, 5);
    assert.deepEqual([processor.nextAt, processor.running], before);
    assert.deepEqual(log, []);
  });

  it("a wait beyond the end of virtual time does not end", () => {
    const map = new AddressMap({ dramBytes: 1 << 20, scmBytes: 1 << 20 });
    for (const [at, expected] of [[TIME_END, TIME_END], [TIME_END + 1, NEVER]] as const) {
      const processor = new Processor({ cores: 1, pollPs: 1, interruptPs: 1, map });
      processor.add({
        name: "sleeps",
        startAt: 0,
        *start() {
          yield { kind: "time", at, answers: true };
        },
        onFailure: (error) => assert.fail(String(error)),
      });
      processor.run(0);
      assert.equal(processor.nextAt, expected);
    }
  });

  it("a program that is stopped before its start does not begin, and has ended", () => {
    const { processor, log } = alone(1_000);
    assert.equal(processor.isRunning("waits"), true);
    assert.equal(processor.stopPrograms(new Error("stop"), 10), 1);
    assert.equal(processor.isRunning("waits"), false);
    assert.deepEqual([processor.running, [...processor.names], processor.nextAt], [0, [], NEVER]);
    processor.run(2_000);
    assert.deepEqual([log, processor.unfinished()], [[], []]);
  });

  /** Works three times for `work`, and says when it did. */
  function worker(work: number, log: [string, number][]): CpuProgram {
    return function* (cpu) {
      for (let i = 0; i < 3; i++) {
        log.push([String(work), cpu.now - BOOT]);
        cpu.charge(work);
        yield* cpu.settle();
      }
    };
  }

  it("programs on one core take turns at their yields, first ready first", () => {
    const log: [string, number][] = [];
    const programs = { x: worker(100, log), y: worker(30, log) };
    const rig = new HostRig({ cores: 1 }, { programs });
    rig.run();
    assert.deepEqual(log, [
      ["100", 0],
      ["30", 100],
      ["100", 130],
      ["30", 230],
      ["100", 260],
      ["30", 360],
    ]);
    assert.equal(rig.node.statistics().cpuPs, 390);
  });

  it("programs on cores of their own do not wait for each other", () => {
    const log: [string, number][] = [];
    const rig = new HostRig({ cores: 3 }, {
      programs: { x: worker(100, log), y: worker(30, log) },
    });
    rig.run();
    assert.deepEqual(log.filter(([name]) => name === "30").map(([, at]) => at), [0, 30, 60]);
    const { "core0.cpuPs": core0, "core1.cpuPs": core1, "core2.cpuPs": core2 } = rig.node
      .statistics();
    assert.deepEqual([core0, core1, core2], [300, 90, 0]);
  });

  it("a sleeping or waiting program leaves its core to others", () => {
    const log: [string, number][] = [];
    const rig = new HostRig({ cores: 1 }, {
      programs: {
        *sleeps(cpu) {
          yield* cpu.sleep(1000);
          log.push(["slept", cpu.now - BOOT]);
        },
        works: worker(400, log),
      },
    });
    rig.run();
    assert.deepEqual(log, [["400", 0], ["400", 400], ["400", 800], ["slept", 1200]]);
  });

  it("reports a program that throws, with its stack, and goes on", () => {
    const log: [string, number][] = [];
    const rig = new HostRig({}, {
      programs: {
        // deno-lint-ignore require-yield -- it does not get that far
        *throws() {
          throw new RangeError("no such thing");
        },
        // deno-lint-ignore require-yield -- nor does this
        *strays(cpu) {
          cpu.load(123, 1);
        },
        *yields() {
          yield { kind: "nonsense" } as unknown as Wait;
        },
        *waits(cpu) {
          yield* cpu.waitMemory(5, 5, NEVER);
        },
        plain: (() => undefined) as unknown as CpuProgram,
        late: (async function* () {}) as unknown as CpuProgram,
        // deno-lint-ignore require-yield -- it only reports
        *tells(cpu) {
          cpu.report("result", { seen: [1n, new Set([2])] });
        },
        works: worker(10, log),
      },
    });
    rig.run();
    const failures = rig.reported("program-failed") as { program: string; message: string }[];
    assert.deepEqual(failures.map(({ program }) => program), [
      "throws#0",
      "strays#1",
      "yields#2",
      "waits#3",
      "plain#4",
      "late#5",
      "tells#6",
    ]);
    assert.match(failures[0]!.message, /no such thing/);
    assert.match((failures[0] as unknown as { stack: string }).stack, /processor_test/);
    assert.match(failures[1]!.message, /0x7b: no memory is mapped/);
    assert.match(failures[2]!.message, /yield\*/);
    assert.match(failures[4]!.message, /function\*/);
    assert.match(failures[5]!.message, /function.*async/);
    assert.match(failures[6]!.message, /Cannot report "result": found a Set at \.seen\[1\]/);
    assert.equal(log.length, 3);
    assert.deepEqual(rig.reported("program-ended"), [{ program: "works#7" }]);
  });

  it("says what a program throws that is no error, and what it yields that is no wait", () => {
    const thrown: unknown[] = [undefined, "text", Object.create(null), { errno: "EINVAL" }];
    const yielded: unknown[] = [undefined, null, 5];
    const programs = [...thrown, ...yielded].map((value, i): [string, CpuProgram] => [
      `p${i}`,
      function* () {
        if (i < thrown.length) throw value;
        yield value as Wait;
      },
    ]);
    const rig = new HostRig({}, { programs: Object.fromEntries(programs) });
    rig.run();
    const failures = rig.reported("program-failed") as { message: string; stack: string }[];
    assert.deepEqual(failures.map(({ message }) => message), [
      "undefined",
      "text",
      "{}",
      '{ errno: "EINVAL" }',
      "EINVAL: a yield of undefined: expected yield* and a call",
      "EINVAL: a yield of null: expected yield* and a call",
      "EINVAL: a yield of 5: expected yield* and a call",
    ]);
    assert.deepEqual(failures.map(({ stack }) => stack), failures.map(() => ""));
  });

  it("does not take a broken invariant of ours for the program's failure", () => {
    // deno-lint-ignore require-yield -- it fails at once
    const rig = host(function* () {
      throw new InvariantError("ours");
    });
    assert.throws(() => rig.run(), InvariantError);
  });

  it("ends a program that yields without end at one instant", () => {
    let turns = 0;
    const rig = host(function* (cpu) {
      for (;; turns++) yield* cpu.sleep(0);
    });
    rig.run();
    const [failure] = rig.reported("program-failed") as { message: string }[];
    assert.match(failure!.message, /yields without end at 1000000 ps/);
    assert.ok(turns >= 99_000, `after ${turns} turns`);
  });

  it("gives each program a stream of randomness of its own, the same in every run of a life", () => {
    function drawn(life = 0): unknown[] {
      const rig = new HostRig({}, {
        options: { life },
        programs: {
          // deno-lint-ignore require-yield -- it only draws
          *x(cpu) {
            cpu.report("x", [cpu.random(), cpu.random()]);
          },
          // deno-lint-ignore require-yield -- it only draws
          *y(cpu) {
            cpu.report("y", [cpu.random(), cpu.random()]);
          },
        },
      });
      rig.run();
      return [rig.reported("x"), rig.reported("y")];
    }
    const [x, y] = drawn();
    assert.deepEqual(drawn(), [x, y]);
    assert.notDeepEqual(x, y);
    assert.notDeepEqual(drawn(1), [x, y]);
  });

  it("faults an access just past the SCM", () => {
    // deno-lint-ignore require-yield -- it fails at once
    const rig = host(function* (cpu) {
      cpu.store(VIRTUAL_SCM_BASE + cpu.scm.length - 4, pattern(8));
    });
    rig.run();
    assert.match(
      (rig.reported("program-failed")[0] as { message: string }).message,
      /Cannot access/,
    );
  });
});
