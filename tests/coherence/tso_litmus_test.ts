/**
 * Litmus tests of both memory models (decision 16): what a rack shows is what the model allows, and of what TSO allows
 * beyond sequential consistency it shows each shape's outcome. Names of shapes: Alglave, Maranget, Tautschnig (herding
 * cats, 2014); n5, n6 and iwp2.4: Sewell et al., "x86-TSO" (CACM 2010) and Owens et al. (TPHOLs 2009).
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { Region, Steps } from "../../nodes/host/cpu/program.ts";
import { CHECKS, recordOfText } from "./shared_rack.ts";
import { type Op, outcomesOf, outcomeText, type Threads, type Variable } from "./memory_models.ts";

const LINE_BYTES = 64, WORD_BYTES = 8;

interface Shape {
  readonly name: string;
  readonly threads: Threads;
  /** Allowed by neither model, by TSO alone. */
  readonly never?: RegExp;
  readonly weak?: RegExp;
}

const store = (to: Variable, value = 1): Op => ["store", to, value];
const load = (from: Variable): Op => ["load", from];
const fence: Op = ["fence"];

const SHAPES: readonly Shape[] = [
  {
    name: "SB",
    threads: [[store("x"), load("y")], [store("y"), load("x")]],
    weak: /^0, 0;/,
  },
  {
    name: "SB with MFENCE",
    threads: [[store("x"), fence, load("y")], [store("y"), fence, load("x")]],
    never: /^0, 0;/,
  },
  {
    name: "SB with MFENCE in one thread",
    threads: [[store("x"), fence, load("y")], [store("y"), load("x")]],
    weak: /^0, 0;/,
  },
  {
    name: "SB with locked instructions",
    threads: [[store("x"), ["add", "y", 0], load("y")], [store("y"), ["add", "x", 0], load("x")]],
    never: /^0, 0;/,
  },
  {
    name: "MP",
    threads: [[store("x"), store("y")], [load("y"), load("x")]],
    never: /, 1 0;/,
  },
  {
    name: "LB",
    threads: [[load("x"), store("y")], [load("y"), store("x")]],
    never: /^1, 1;/,
  },
  {
    name: "IRIW",
    threads: [[store("x")], [store("y")], [load("x"), load("y")], [load("y"), load("x")]],
    never: /, 1 0, 1 0;/,
  },
  {
    name: "2+2W",
    threads: [[store("x", 1), store("y", 2)], [store("y", 1), store("x", 2)]],
    never: /; x=1 y=1$/,
  },
  {
    name: "R",
    threads: [[store("x"), store("y")], [store("y", 2), load("x")]],
    weak: /, 0; x=1 y=2$/,
  },
  {
    name: "S",
    threads: [[store("x", 2), store("y")], [load("y"), store("x")]],
    never: /, 1; x=2 /,
  },
  {
    name: "n5",
    threads: [[store("x", 1), load("x")], [store("x", 2), load("x")]],
    never: /^2, 1;/,
  },
  {
    name: "n6: forwarding",
    threads: [[store("x", 1), load("x"), load("y")], [store("y", 2), store("x", 2)]],
    weak: /^1 0, -; x=1 /,
  },
  {
    name: "iwp2.4: SB with forwarding",
    threads: [[store("x"), load("x"), load("y")], [store("y"), load("y"), load("x")]],
    weak: /^1 0, 1 0;/,
  },
];

const HOSTS = ["a", "b", "c", "d"] as const;
const ROUNDS = 24;
const BEGIN_PS = 1000 * PS_PER_US, ROUND_PS = 60 * PS_PER_US;

interface Rack {
  readonly memory: "sc" | "tso";
  readonly placement?: "local" | "remote";
  /** Of the region's tables. */
  readonly sizes?: string;
  /** How long a store stays in its buffer at least. */
  readonly drain?: string;
  /** Threads begin this long after each other at most. */
  readonly jitterPs?: number;
}

function scenario({ memory, placement = "remote", sizes = "", drain = "10ns" }: Rack): string {
  return `
name: litmus
defaults: { attach: coherent, services: none, scm: { size: 1MiB }, dram: 64MiB, memory: ${memory},
  timing: { host: { storeBuffer: ${drain} } } }
hosts: { ${HOSTS.map((name) => `${name}: {}`).join(", ")} }
shared:
  - { name: s, home: a, far: [b, c, d], bytes: ${2 * LINE_BYTES * ROUNDS},
      memory: dram, placement: ${placement}${sizes} }
programs: [{ on: all, run: ./program.ts }]
`;
}

function word(value: number): Uint8Array {
  const bytes = new Uint8Array(WORD_BYTES);
  bytes[0] = value;
  return bytes;
}

function* look(region: Region, offset: number): Steps<number> {
  return (yield* region.load(offset, WORD_BYTES))[0]!;
}

/** What was seen, with how often; and judged by the checkers of `console/checks`. */
function seenOf(threads: Threads, rack: Rack): Map<string, number> {
  const { jitterPs = PS_PER_US } = rack;
  const record = recordOfText(scenario(rack), {
    "./program.ts": function* ({ cpu }) {
      const index = HOSTS.indexOf(cpu.host as typeof HOSTS[number]);
      const rng = rngFor(1, `litmus/${cpu.host}`);
      const region = yield* cpu.region("s");
      const at = (round: number, variable: Variable) =>
        LINE_BYTES * (2 * round + (variable === (round % 2 === 0 ? "x" : "y") ? 0 : 1));
      for (let round = 0; round < ROUNDS; round++) {
        // Each computer plays each part, in two of three rounds with copies of both lines near.
        const thread = (index + round) % HOSTS.length, ops = threads[thread] ?? [];
        if (round % 3 > 0) {
          for (const each of ["x", "y"] as const) yield* look(region, at(round, each));
        }
        const beginPs = BEGIN_PS + round * ROUND_PS + rng.below(jitterPs);
        assert.ok(beginPs >= cpu.now, `round ${round} is to begin at ${beginPs}, it is ${cpu.now}`);
        yield* cpu.sleep(beginPs - cpu.now);
        const registers: number[] = [];
        for (const op of ops) {
          if (op[0] === "fence") yield* region.fence();
          else if (op[0] === "store") yield* region.store(at(round, op[1]), word(op[2]));
          else if (op[0] === "add") yield* region.fetchAdd(at(round, op[1]), BigInt(op[2]));
          else registers.push(yield* look(region, at(round, op[1])));
        }
        if (thread < threads.length) cpu.report("seen", { round, thread, registers });
      }
      if (index > 0) return;
      yield* cpu.sleep(2 * ROUND_PS);
      for (let round = 0; round < ROUNDS; round++) {
        const x = yield* look(region, at(round, "x")), y = yield* look(region, at(round, "y"));
        cpu.report("final", { round, x, y });
      }
    },
  });
  assert.deepEqual(record.reports.filter(({ topic }) => topic === "program-failed"), []);
  assert.deepEqual(CHECKS.flatMap((check) => check.check(record)), []);
  const counts = new Map<string, number>();
  const of = <Value>(topic: string) =>
    record.reports.filter((report) => report.topic === topic).map(({ value }) => value as Value);
  const seen = of<{ round: number; thread: number; registers: number[] }>("seen");
  for (const { round, ...content } of of<{ round: number; x: number; y: number }>("final")) {
    const own = seen.filter((each) => each.round === round).sort((a, b) => a.thread - b.thread);
    assert.equal(own.length, threads.length);
    const text = outcomeText(own.map(({ registers }) => registers), content);
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  assert.equal([...counts.values()].reduce((sum, count) => sum + count, 0), ROUNDS);
  return counts;
}

const TINY = ", remoteCache: 1, localCache: 1, slots: 1, entries: 1, writeBacks: 1";

const RACKS: readonly (readonly [name: string, rack: Omit<Rack, "memory">])[] = [
  ["copies at far cards", {}],
  ["copies at home's card", { placement: "local" }],
  ["threads that begin at about one instant", { jitterPs: PS_PER_US / 20 }],
  ["stores that stay for 3 us", { drain: "3us", jitterPs: 2 * PS_PER_US }],
  ["stores that stay for 6 us", { drain: "6us", jitterPs: 5 * PS_PER_US }],
  ["all tables one entry long", { sizes: TINY }],
];

describe("litmus tests of two memory models", () => {
  for (const { name, threads, never, weak } of SHAPES) {
    it(`decision 16: ${name}: the models say what the literature says`, () => {
      const sc = [...outcomesOf(threads, "sc")], tso = [...outcomesOf(threads, "tso")];
      assert.ok(sc.every((outcome) => tso.includes(outcome)));
      if (never !== undefined) assert.ok(![...tso].some((outcome) => never.test(outcome)));
      if (weak === undefined) return;
      assert.ok(!sc.some((outcome) => weak.test(outcome)));
      assert.ok(tso.some((outcome) => weak.test(outcome)));
    });

    for (const memory of ["sc", "tso"] as const) {
      it(`decision 16: ${name}: a rack with \`memory: ${memory}\` shows what the model allows`, () => {
        const allowed = outcomesOf(threads, memory), all = new Set<string>();
        for (const [rackName, rack] of RACKS) {
          for (const outcome of seenOf(threads, { ...rack, memory }).keys()) {
            assert.ok(allowed.has(outcome), `${rackName}: ${outcome}`);
            all.add(outcome);
          }
        }
        assert.ok(all.size > 1, `threads do not meet: ${[...all].join(" / ")}`);
        const isSeen = weak !== undefined && [...all].some((outcome) => weak.test(outcome));
        assert.equal(isSeen, weak !== undefined && memory === "tso", [...all].join(" / "));
      });
    }
  }
});
