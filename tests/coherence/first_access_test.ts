/** First accesses of programs to shared regions, over the whole rack. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_MS, PS_PER_US } from "../../fabric/base/time.ts";
import type { Region, Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

/** What a program does in a test, once it has the region. */
type Act = (region: Region, context: ProgramContext) => Steps<void>;

/** Each host's part, as a program of its own: `a` is home, the others are far. */
function rackOf(
  acts: Readonly<Record<string, Act>>,
  { region = "", more = "", options = "" }: {
    readonly region?: string;
    readonly more?: string;
    /** Of the programs. */
    readonly options?: string;
  } = {},
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
    "programs:",
    ...hosts.map((name) => `  - { on: ${name}, run: ./${name}.ts${options} }`),
    more,
  ].join("\n");
  return new SimulatedRack(text, { programs });
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

for (const placement of ["remote", "local", "auto"] as const) {
  describe(`a region whose copies are kept ${placement}`, () => {
    const region = `, placement: ${placement}`;

    it("C-06, C-07, C-09: home stores, the far host loads; it stores, home loads", () => {
      const rack = rackOf({
        *a(s, { cpu }) {
          assert.ok(s.isHome);
          yield* s.store(8, bytesOf(1, 2, 3));
          yield* s.store(1024, bytesOf(1));
          yield* turn(s, 2);
          cpu.report("seen", [...(yield* s.load(8, 3)), ...(yield* s.load(60, 8))]);
        },
        *b(s, { cpu }) {
          assert.ok(!s.isHome);
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

    it("C-09: two far hosts and home hand a line round, and none sees an old value", () => {
      const round = (first: number): Act =>
        function* (s, { cpu }) {
          for (let i = 0; i < 4; i++) {
            yield* turn(s, first + 3 * i);
            const [before] = yield* s.load(100, 1);
            assert.equal(before, first + 3 * i);
            yield* s.store(100, bytesOf(before! + 1));
            yield* s.store(1024, bytesOf(before! + 1));
          }
          cpu.report("rounds", 4);
        };
      const rack = rackOf({ a: round(0), b: round(1), c: round(2) }, { region }).run();
      assert.deepEqual(failures(rack), []);
      assert.deepEqual(rack.reported("rounds"), [4, 4, 4]);
    });

    it("decision 15: atomics of all hosts on one word lose no addition; each old value is seen once", () => {
      const add: Act = function* (s, { cpu }) {
        const seen: number[] = [];
        for (let i = 0; i < 10; i++) seen.push(Number(yield* s.fetchAdd(16, 3n)));
        cpu.report("seen", seen);
      };
      const rack = rackOf({ a: add, b: add, c: add }, { region }).run();
      assert.deepEqual(failures(rack), []);
      const seen = (rack.reported("seen") as unknown as number[][]).flat().sort((x, y) => x - y);
      assert.deepEqual(seen, Array.from({ length: 30 }, (_, i) => 3 * i));
    });

    it("decision 12: what a far host has flushed survives home's power failure, what it has not is lost", () => {
      const rack = rackOf({
        *a(s) {
          yield* s.load(0, 1);
        },
        *b(s, { cpu }) {
          yield* s.store(0, bytesOf(1, 2, 3, 4));
          yield* s.store(128, bytesOf(9));
          yield* s.flush(0, 4);
          cpu.report("flushed", cpu.now);
        },
        // A card that nothing is asked of gives back what it has, before its lease is over.
      }, { region: `${region}, lease: 5ms`, more: "faults: [{ at: 300us, kill: a }]" }).run();
      assert.deepEqual(failures(rack), []);
      assert.equal(rack.reported("flushed", "b").length, 1);
      assert.deepEqual([...rack.scm.get("a")!.subarray(0, 4)], [1, 2, 3, 4]);
      assert.equal(rack.scm.get("a")![128], 0);
    });
  });
}

describe("a shared region", () => {
  it("decision 12: home's own store is volatile until it is flushed", () => {
    const rack = rackOf({
      *a(s) {
        yield* s.store(0, bytesOf(5));
        yield* s.flush(0, 1);
        yield* s.store(0, bytesOf(6));
      },
      *b() {},
    }, { more: "faults: [{ at: 300us, kill: a }]" }).run();
    assert.deepEqual(failures(rack), []);
    assert.equal(rack.scm.get("a")![0], 5);
  });

  it("decision 12: home's flush recalls a line that a far card has written", () => {
    const rack = rackOf({
      *a(s) {
        yield* turn(s, 1);
        yield* s.flush(0, 2);
      },
      *b(s) {
        yield* s.store(0, bytesOf(7, 8));
        yield* s.store(1024, bytesOf(1));
      },
    }, { more: "faults: [{ at: 300us, kill: a }]" }).run();
    assert.deepEqual(failures(rack), []);
    assert.deepEqual([...rack.scm.get("a")!.subarray(0, 2)], [7, 8]);
  });

  it("decision 1: plain instructions at its addresses are refused, with what to use", () => {
    const text: string[] = [];
    const plain: readonly ((context: ProgramContext) => Steps<void> | void)[] = [
      ({ cpu }) => void cpu.load(cpu.scm.address + 4000, 200),
      ({ cpu }) => cpu.store(cpu.scm.address, bytesOf(1)),
      ({ cpu }) => cpu.ntstore(cpu.scm.address, bytesOf(1)),
      ({ cpu }) => cpu.clwb(cpu.scm.address, 1),
      ({ cpu }) => cpu.flush(cpu.scm.address, 1),
      ({ cpu }) => cpu.ntStore(cpu.scm.address, bytesOf(1)),
      function* ({ cpu }) {
        yield* cpu.waitMemory(cpu.scm.address, 8, PS_PER_MS);
      },
    ];
    const rack = rackOf({
      *a(_, context) {
        for (const each of plain) {
          try {
            yield* each(context) ?? [];
          } catch (error) {
            text.push((error as Error).message);
          }
        }
        context.cpu.load(context.cpu.scm.address + 4096, 64);
      },
      *b() {},
    }).run();
    assert.deepEqual(failures(rack), []);
    assert.equal(text.length, plain.length);
    assert.match(text[0]!, /of region s, .*expected const r = yield\* cpu\.region\("s"\)/);
  });

  it("C-03: a host without a part in it, and ranges beyond it, are refused", () => {
    const rack = rackOf({
      *a(s, { cpu }) {
        for (const steps of [s.load(4090, 8), s.store(4096, bytesOf(1)), s.fetchAdd(4, 1n)]) {
          try {
            yield* steps as Steps<unknown>;
          } catch (error) {
            cpu.report("refused", String(error));
          }
        }
      },
      *b(_, { cpu }) {
        yield* cpu.region("t");
      },
    }).run();
    assert.deepEqual(rack.reported("refused", "a"), [
      "RangeError: Cannot access 8 B at 4090 of region s: expected a range within its 4096 B",
      "RangeError: Cannot access 1 B at 4096 of region s: expected a range within its 4096 B",
      "RangeError: Cannot do an atomic at 4 of region s: expected a multiple of 8",
    ]);
    const [failed] = failures(rack) as { message: string }[];
    assert.equal(failed!.message, "Cannot use region t: b has a part in s");
  });

  it("decision 1: a call without yield* is told of, as it does nothing", () => {
    const rack = rackOf({
      *a(s) {
        s.store(0, bytesOf(1));
        yield* s.load(0, 1);
      },
      *b() {},
    }).run();
    const [failed] = failures(rack) as { message: string }[];
    assert.match(
      failed!.message,
      /^the call of store at first_access_test\.ts:\d+:\d+ was not awaited: write yield/,
    );
  });

  it("decision 19: a wait for a change wakes on the invalidation, or ends by its deadline", () => {
    const rack = rackOf({
      *a(s, { cpu }) {
        yield* turn(s, 1);
        yield* cpu.sleep(20 * PS_PER_US);
        cpu.report("stored", cpu.now);
        yield* s.store(64, bytesOf(1));
      },
      *b(s, { cpu }) {
        yield* s.load(64, 8);
        yield* s.store(1024, bytesOf(1));
        cpu.report("early", yield* s.waitChange(64, 8, cpu.now + 5 * PS_PER_US));
        cpu.report("woken", { how: yield* s.waitChange(64, 8, PS_PER_MS), at: cpu.now });
      },
    }, { region: ", placement: remote" }).run();
    assert.deepEqual(failures(rack), []);
    assert.deepEqual(rack.reported("early", "b"), ["timeout"]);
    const [woken] = rack.reported("woken", "b") as unknown as { how: string; at: number }[];
    const [stored] = rack.reported("stored", "a") as unknown as number[];
    assert.equal(woken!.how, "changed");
    assert.ok(woken!.at > stored! && woken!.at < stored! + 10 * PS_PER_US, `${woken!.at}`);
    const { regionPolls } = rack.simulator.statistics()["b"]!;
    assert.equal(regionPolls, 0);
  });

  it("C-09, decision 21: deregistration writes back what the far host has written", () => {
    const rack = rackOf({
      *a(s, { cpu }) {
        yield* turn(s, 1);
        cpu.report("seen", [...(yield* s.load(0, 2))]);
      },
      *b(s, { cpu }) {
        yield* s.store(0, bytesOf(3, 4));
        yield* s.deregister();
        cpu.report("deregistered", cpu.now);
        const again = yield* cpu.region("s");
        yield* again.store(1024, bytesOf(1));
      },
    }, { more: "faults: [{ at: 300us, kill: a }]" }).run();
    assert.deepEqual(failures(rack), []);
    assert.deepEqual(rack.reported("seen", "a"), [[3, 4]]);
    assert.deepEqual([...rack.scm.get("a")!.subarray(0, 2)], [3, 4]);
  });

  it("C-03, decision 21: a handle that has deregistered is refused, and a new one registers again", () => {
    const uses: readonly ((s: Region) => Steps<unknown>)[] = [
      (s) => s.load(0, 1),
      (s) => s.store(0, bytesOf(1)),
      (s) => s.fetchAdd(0, 1n),
      (s) => s.compareSwap(0, 0n, 1n),
      (s) => s.flush(0, 1),
      (s) => s.waitChange(0, 1, PS_PER_MS),
      (s) => s.deregister(),
    ];
    const act: Act = function* (s, { cpu }) {
      yield* s.deregister();
      for (const use of uses) {
        try {
          yield* use(s);
          cpu.report("accepted", String(use));
        } catch (error) {
          cpu.report("refused", String(error));
        }
      }
      const again = yield* cpu.region("s");
      yield* again.fetchAdd(8, 1n);
      cpu.report("again", cpu.now);
    };
    const rack = rackOf({
      *a(s, context) {
        yield* turn(s, 1);
        yield* act(s, context);
      },
      *b(s, context) {
        yield* act(s, context);
        const again = yield* context.cpu.region("s");
        yield* again.store(1024, bytesOf(1));
        yield* again.deregister();
        // Home has deregistered it, and registered it again.
        yield* context.cpu.sleep(100 * PS_PER_US);
        const last = yield* context.cpu.region("s");
        context.cpu.report("sum", Number(yield* last.fetchAdd(8, 1n)));
      },
    }).run();
    assert.deepEqual(failures(rack), []);
    const text =
      "RegionRefused: Cannot use region s: this handle has deregistered it: expected a " +
      'new one, const r = yield* cpu.region("s"), which registers it again';
    for (const host of ["a", "b"]) {
      assert.deepEqual(rack.reported("accepted", host), []);
      assert.deepEqual(rack.reported("refused", host), uses.map(() => text));
      assert.equal(rack.reported("again", host).length, 1);
    }
    assert.deepEqual(rack.reported("sum", "b"), [2]);
  });
});

describe("a shared region under faults", () => {
  /** What accesses have ended with, and when. */
  function* told(steps: Steps<unknown>, { cpu }: ProgramContext): Steps<void> {
    try {
      const value = yield* steps;
      cpu.report("told", {
        result: value instanceof Uint8Array ? [...value] : "done",
        at: cpu.now,
      });
    } catch (error) {
      const { name, ranges } = error as { name: string; ranges: unknown };
      cpu.report("told", { result: name, ranges, at: cpu.now });
    }
  }
  interface Told {
    readonly result: unknown;
    readonly ranges?: unknown;
    readonly at: number;
  }
  function toldBy(rack: SimulatedRack, host: string): Told[] {
    return rack.reported("told", host) as unknown as Told[];
  }

  it("C-10, decision 14: home's card dies: home's cores wait for the leases, and never see old bytes", () => {
    const rack = rackOf({
      *a(s, context) {
        yield* s.store(0, bytesOf(1));
        yield* s.store(128, bytesOf(1));
        yield* s.store(1024, bytesOf(1));
        yield* turn(s, 2);
        yield* context.cpu.sleep(100 * PS_PER_US - context.cpu.now % (100 * PS_PER_US));
        yield* context.cpu.sleep(110 * PS_PER_US);
        context.cpu.report("asked", context.cpu.now);
        yield* told(s.load(0, 4), context);
        yield* told(s.load(128, 1), context);
        yield* told(s.store(0, new Uint8Array(64).fill(5)), context);
        yield* told(s.load(0, 1), context);
      },
      *b(s, context) {
        yield* turn(s, 1);
        yield* s.store(0, bytesOf(2));
        yield* s.load(128, 1);
        yield* s.store(1024, bytesOf(2));
        yield* context.cpu.sleep(160 * PS_PER_US - context.cpu.now % (160 * PS_PER_US));
        yield* told(s.load(0, 1), context);
      },
    }, {
      region: ", placement: remote, lease: 200us",
      more: "faults: [{ at: 200us, kill: a-rnic }]",
    }).run();
    assert.deepEqual(failures(rack), []);
    const [lost, shared, stored, loaded] = toldBy(rack, "a");
    assert.equal(lost!.result, "RegionLost");
    assert.deepEqual(lost!.ranges, [{ offset: 0, length: 4 }]);
    assert.ok(lost!.at >= 425 * PS_PER_US, `leases are over 225us after 200us: ${lost!.at}`);
    assert.ok(lost!.at < 430 * PS_PER_US, `${lost!.at}`);
    assert.deepEqual(shared!.result, [1]);
    assert.equal(stored!.result, "done");
    assert.deepEqual(loaded!.result, [5]);
    const ranges = rack.reported("region-lost", "a");
    assert.deepEqual(ranges[0], { region: "s", ranges: [{ offset: 0, length: 64 }] });
  });

  it("C-10, decision 13: the far card dies: its host is told at once, and home after the lease", () => {
    const rack = rackOf({
      *a(s, context) {
        yield* turn(s, 1);
        yield* context.cpu.sleep(150 * PS_PER_US);
        yield* told(s.load(0, 2), context);
      },
      *b(s, context) {
        yield* s.store(0, bytesOf(2, 3));
        yield* s.store(1024, bytesOf(1));
        for (;;) {
          const { now } = context.cpu;
          if (now > 120 * PS_PER_US) break;
          yield* told(s.load(2048, 8), context);
          yield* context.cpu.sleep(PS_PER_US);
        }
      },
    }, {
      region: ", placement: remote, lease: 40us",
      more: "faults: [{ at: 100us, kill: b-rnic }]",
    }).run();
    const far = toldBy(rack, "b");
    const [first] = far.filter(({ result }) => result !== "done" && !Array.isArray(result));
    assert.equal(first!.result, "RegionFenced");
    assert.ok(first!.at < 105 * PS_PER_US, `${first!.at}`);
    const [home] = toldBy(rack, "a");
    assert.equal(home!.result, "RegionLost");
  });

  it("C-10: home's host dies and comes back: far accesses end within leases, and it serves again", () => {
    const rack = rackOf({
      *a(s, context) {
        yield* told(s.load(0, 4), context);
      },
      *b(s, context) {
        yield* s.store(0, bytesOf(1, 2, 3, 4));
        yield* s.flush(0, 4);
        yield* context.cpu.sleep(200 * PS_PER_US - context.cpu.now % (200 * PS_PER_US));
        yield* told(s.load(64, 4), context);
        yield* context.cpu.sleep(300 * PS_PER_US);
        const again = yield* context.cpu.region("s");
        yield* told(again.load(0, 4), context);
      },
    }, {
      region: ", placement: remote, lease: 40us",
      more: "faults: [{ at: 150us, kill: a }, { at: 250us, start: a }]",
    }).run();
    assert.deepEqual(failures(rack), []);
    const [during, after] = toldBy(rack, "b");
    assert.equal(during!.result, "RegionFenced");
    assert.ok(during!.at < 400 * PS_PER_US, `${during!.at}`);
    assert.deepEqual(after!.result, [1, 2, 3, 4]);
  });
});

describe("a directory in memory", () => {
  /** The far host reads each line, then writes it; nothing of that brings content to memory. */
  function directoryWrites(more: string): number | undefined {
    const rack = rackOf({
      *a() {},
      *b(s) {
        for (let line = 0; line < 4; line++) {
          yield* s.load(64 * line, 1);
          yield* s.store(64 * line, bytesOf(9));
        }
      },
    }, { region: `, placement: remote${more}` }).run();
    assert.deepEqual(failures(rack), []);
    return rack.simulator.statistics()["a"]!["regionDirectoryWrites"];
  }

  it("decision 7: each change of a line's right that comes without its content is a write, and is counted", () => {
    // To S and to X, of four lines.
    assert.equal(directoryWrites(", directory: memory"), 8);
    assert.equal(directoryWrites(""), undefined);
  });
});

describe("a home that comes back", () => {
  it("decision 13: accesses nothing while a far card may serve what it had lent", () => {
    const rack = rackOf({
      *a(s, context) {
        const { cpu } = context;
        yield* s.load(0, 1);
        cpu.report("accessed", cpu.now);
        if (cpu.now > 150 * PS_PER_US) yield* s.store(64, bytesOf(9));
      },
      *b(s, { cpu }) {
        for (;;) {
          if (cpu.now > 300 * PS_PER_US) return;
          try {
            const [value] = yield* s.load(64, 1);
            cpu.report("served", { value, at: cpu.now });
          } catch (error) {
            cpu.report("fenced", { name: (error as Error).name, at: cpu.now });
          }
          yield* cpu.sleep(PS_PER_US);
        }
      },
    }, {
      region: ", placement: remote, lease: 80us",
      options: ", restart: true",
      more: "faults: [{ at: 150us, kill: a }, { at: 155us, start: a }]",
    }).run();
    assert.deepEqual(failures(rack), []);
    const accessed = rack.reported("accessed", "a") as unknown as number[];
    assert.ok(accessed[1]! >= (155 + 90) * PS_PER_US, `${accessed[1]}`);
    const served = rack.reported("served", "b") as unknown as { value: number; at: number }[];
    const old = served.filter(({ value }) => value === 0);
    // It serves from its cache while home is down, and nothing old after home's store.
    assert.ok(old.some(({ at }) => at > 160 * PS_PER_US));
    assert.ok(old.every(({ at }) => at < accessed[1]!));
  });
});
