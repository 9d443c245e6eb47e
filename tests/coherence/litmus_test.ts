/**
 * Decision 16: far and home accesses to a shared region block, so the order that all hosts see is that of one
 * memory (sequential consistency). Litmus tests say it, from the handbook of memory models (Alglave, Maranget,
 * Tautschnig: herding cats, 2014): each shape has an outcome that only a weaker order allows. Programs that rest on
 * this order alone are below: Peterson's lock, and a sequence lock over several lines.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { Region, Steps } from "../../nodes/host/cpu/program.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const LINE_BYTES = 64, WORD_BYTES = 8;
const VARIABLES = ["x", "y"] as const;
type Variable = typeof VARIABLES[number];
/** A store of 1, or a load into the thread's next register. */
type Op = readonly ["store" | "load", Variable];

interface Shape {
  readonly name: string;
  readonly threads: readonly (readonly Op[])[];
  /** What the loads give, thread by thread, that no order of all accesses explains. */
  readonly forbidden: string;
}

const SHAPES: readonly Shape[] = [
  {
    name: "message passing",
    threads: [[["store", "x"], ["store", "y"]], [["load", "y"], ["load", "x"]]],
    forbidden: "1 0",
  },
  {
    name: "store buffering",
    threads: [[["store", "x"], ["load", "y"]], [["store", "y"], ["load", "x"]]],
    forbidden: "0, 0",
  },
  {
    name: "load buffering",
    threads: [[["load", "x"], ["store", "y"]], [["load", "y"], ["store", "x"]]],
    forbidden: "1, 1",
  },
  {
    name: "independent reads of independent writes",
    threads: [
      [["store", "x"]],
      [["store", "y"]],
      [["load", "x"], ["load", "y"]],
      [["load", "y"], ["load", "x"]],
    ],
    forbidden: "1 0, 1 0",
  },
  {
    name: "coherence of reads of one word",
    threads: [[["store", "x"]], [["load", "x"], ["load", "x"]]],
    forbidden: "1 0",
  },
];

/** One computer more than a shape of two threads needs, so that both may be far. */
const HOSTS = ["a", "b", "c", "d"] as const;
const ROUNDS = 36;
const BEGIN_PS = 1000 * PS_PER_US, ROUND_PS = 40 * PS_PER_US;
/** Threads begin this long after each other at most: as long as a far access takes. */
const JITTER_PS = 4 * PS_PER_US;

/** Each table of the region one entry long (decision 9). */
const TINY = ", remoteCache: 1, localCache: 1, slots: 1, entries: 1, writeBacks: 1";

interface Rack {
  readonly placement: "local" | "remote" | "auto";
  readonly sizes?: string;
  readonly roce?: "v1";
  readonly hosts?: number;
}

function scenario(
  { placement, sizes = "", roce, hosts = HOSTS.length }: Rack,
): string {
  const names = HOSTS.slice(0, hosts), bytes = 2 * LINE_BYTES * ROUNDS;
  return `
name: litmus
${roce === undefined ? "" : `fabric: { roce: ${roce} }`}
defaults: { attach: coherent, services: none, scm: { size: 1MiB }, dram: 64MiB }
hosts: { ${names.map((name) => `${name}: {}`).join(", ")} }
shared:
  - { name: s, home: a, far: [${names.slice(1).join(", ")}], bytes: ${bytes},
      memory: dram, placement: ${placement}${sizes} }
programs: [{ on: all, run: ./program.ts }]
`;
}

function reported(rack: Rack, program: Program): readonly Record<string, unknown>[] {
  const simulated = new SimulatedRack(scenario(rack), { programs: { "./program.ts": program } });
  simulated.run();
  assert.deepEqual(simulated.reported("program-failed"), []);
  return simulated.reports.filter(({ topic }) => topic === "seen").map(({ value }) => value);
}

function wordOf(value: number): Uint8Array {
  const bytes = new Uint8Array(WORD_BYTES);
  bytes[0] = value;
  return bytes;
}

function* load(region: Region, offset: number): Steps<number> {
  return (yield* region.load(offset, WORD_BYTES))[0]!;
}

/** Threads, and how long each waits before an access. */
type Run = Pick<Shape, "threads"> & { readonly pausePs?: number };

/** The outcomes of a shape, by what was seen, with how often. */
function outcomesOf({ threads, pausePs = 0 }: Run, rack: Rack): Map<string, number> {
  const hosts = Math.max(3, threads.length);
  const seen = reported({ ...rack, hosts }, function* ({ cpu }) {
    const index = HOSTS.indexOf(cpu.host as typeof HOSTS[number]);
    const rng = rngFor(1, `litmus/${cpu.host}`);
    const region = yield* cpu.region("s");
    for (let round = 0; round < ROUNDS; round++) {
      const at = (variable: Variable) => {
        const first = round % 2 === 0 ? "x" : "y";
        return LINE_BYTES * (2 * round + (variable === first ? 0 : 1));
      };
      // Each computer plays each part, in every third round with copies of both lines near.
      const thread = (index + round) % hosts, ops = threads[thread] ?? [];
      if (round % 3 > 0) { for (const variable of VARIABLES) yield* load(region, at(variable)); }
      const beginPs = BEGIN_PS + round * ROUND_PS + rng.below(JITTER_PS);
      assert.ok(beginPs >= cpu.now, `round ${round} is to begin at ${beginPs}, it is ${cpu.now}`);
      yield* cpu.sleep(beginPs - cpu.now);
      const registers: number[] = [];
      for (const [op, variable] of ops) {
        if (pausePs > 0) yield* cpu.sleep(pausePs);
        if (op === "store") yield* region.store(at(variable), wordOf(1));
        else registers.push(yield* load(region, at(variable)));
      }
      if (registers.length > 0) cpu.report("seen", { round, thread, registers });
    }
  });
  const rounds = Map.groupBy(seen, ({ round }) => round);
  assert.equal(rounds.size, ROUNDS);
  const counts = new Map<string, number>();
  for (const each of rounds.values()) {
    const text = each.toSorted((x, y) => Number(x.thread) - Number(y.thread))
      .map(({ registers }) => (registers as number[]).join(" ")).join(", ");
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return counts;
}

/** With every access of a thread in the other order, as a weaker memory would have it, and time between them. */
function reversed({ threads }: Shape): Run {
  return { threads: threads.map((ops) => ops.toReversed()), pausePs: JITTER_PS };
}

/** Registers of threads whose loads were turned round, in the order of the shape. */
function turned(outcome: string): string {
  return outcome.split(", ").map((each) => each.split(" ").toReversed().join(" ")).join(", ");
}

const RACKS: readonly (readonly [name: string, rack: Rack])[] = [
  ["copies at home's card", { placement: "local" }],
  ["copies at far cards", { placement: "remote" }],
  ["copies where the accesses come from", { placement: "auto" }],
  ["all tables one entry long", { placement: "remote", sizes: TINY }],
  ["copies at home's card, all tables one entry long", { placement: "local", sizes: TINY }],
  ["RoCEv1", { placement: "remote", roce: "v1" }],
];

describe("a shared region is sequentially consistent", () => {
  for (const [name, rack] of RACKS) {
    for (const shape of SHAPES) {
      it(`C-09 (in part), decision 16: ${shape.name}: ${name}`, () => {
        const outcomes = outcomesOf(shape, rack), text = [...outcomes].join("; ");
        assert.ok(!outcomes.has(shape.forbidden), `"${shape.forbidden}" was seen: ${text}`);
        assert.ok(outcomes.size > 1, `threads do not meet: ${text}`);
      });
    }
  }

  it("is what these tests look at: threads in the other order have each forbidden outcome", () => {
    for (const shape of SHAPES) {
      // One word's two loads have no other order: the second is what the first was.
      const outcomes = outcomesOf(reversed(shape), { placement: "remote" });
      const found = [...outcomes.keys()].map(turned);
      assert.ok(found.includes(shape.forbidden), `${shape.name}: ${found.join("; ")}`);
    }
  });
});

const SECTIONS = 25;
/** Peterson's words have a line each, and so has the counter. */
const TURN_AT = 2 * LINE_BYTES, COUNTER_AT = 3 * LINE_BYTES, DONE_AT = 4 * LINE_BYTES;

describe("programs that rest on the order alone", () => {
  for (const [name, rack] of RACKS) {
    it(`C-09 (in part), decision 16: Peterson's lock excludes home and far: ${name}`, () => {
      const seen = reported({ ...rack, hosts: 2 }, function* ({ cpu }) {
        const own = cpu.host === "a" ? 0 : 1, other = 1 - own;
        const region = yield* cpu.region("s");
        for (let section = 0; section < SECTIONS; section++) {
          yield* region.store(own * LINE_BYTES, wordOf(1));
          yield* region.store(TURN_AT, wordOf(other));
          yield* region.fence();
          for (;;) {
            if ((yield* load(region, other * LINE_BYTES)) === 0) break;
            if ((yield* load(region, TURN_AT)) === own) break;
          }
          const count = yield* load(region, COUNTER_AT);
          yield* region.store(COUNTER_AT, wordOf(count + 1));
          yield* region.fence();
          yield* region.store(own * LINE_BYTES, wordOf(0));
        }
        yield* region.fetchAdd(DONE_AT, 1n);
        while ((yield* load(region, DONE_AT)) < 2) yield* cpu.sleep(PS_PER_US);
        cpu.report("seen", { count: yield* load(region, COUNTER_AT) });
      });
      assert.deepEqual(seen.map(({ count }) => count), [2 * SECTIONS, 2 * SECTIONS]);
    });

    it(`C-09 (in part), decision 16: a sequence lock shows no half of a record: ${name}`, () => {
      const RECORD_AT = LINE_BYTES, RECORD_BYTES = 3 * LINE_BYTES, WRITES = 12;
      const seen = reported({ ...rack, hosts: 3 }, function* ({ cpu }) {
        const region = yield* cpu.region("s");
        if (cpu.host === "b") {
          for (let write = 1; write <= WRITES; write++) {
            yield* region.store(0, wordOf(2 * write - 1));
            yield* region.store(RECORD_AT, new Uint8Array(RECORD_BYTES).fill(write));
            yield* region.store(0, wordOf(2 * write));
            yield* cpu.sleep(20 * PS_PER_US);
          }
          return;
        }
        let last = 0, whole = 0, torn = 0;
        while (last < 2 * WRITES) {
          const before = yield* load(region, 0);
          const record = yield* region.load(RECORD_AT, RECORD_BYTES);
          const after = yield* load(region, 0);
          if (before !== after || before % 2 === 1) torn++;
          else {
            assert.ok(record.every((byte) => byte === before / 2), `${before}: ${record}`);
            assert.ok(before >= last, `${before} behind ${last}`);
            if (before > last) whole++;
            last = before;
          }
          yield* cpu.sleep(PS_PER_US);
        }
        cpu.report("seen", { host: cpu.host, whole, torn });
      });
      assert.deepEqual(seen.map(({ host }) => host).toSorted(), ["a", "c"]);
      for (const { whole } of seen) assert.ok(Number(whole) > 1, JSON.stringify(seen));
    });
  }
});
