import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import type { PersistenceDomain } from "../../../fabric/rack/plan/persistence_domain.ts";
import type { HostTiming } from "../../../fabric/rack/plan/plan.ts";
import { SCM_BASE } from "../memory/address_map.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { MemorySystem } from "../memory/memory_system.ts";
import { RIG_TIMING, rigPlan } from "../testing/host_testing.ts";
import { byteAt, type Ended, HomeBench } from "./home_bench_testing.ts";

/** Room for 16 lines in the LLC, so that lines of a region are evicted soon. */
const SMALL = {
  llc: { bytes: 1024, ways: 4, ddioWays: 1, evict: "lru" as const },
  dramBytes: 4096,
  scmBytes: 4096,
};
const LINE = SCM_BASE / LINE_BYTES;

function benchOf(
  { domain = "adr", ...timing }: { readonly domain?: PersistenceDomain } & Partial<HostTiming> = {},
) {
  const memory = new MemorySystem(rigPlan({ ...SMALL, domain, timing }));
  const image = new Uint8Array(SMALL.scmBytes);
  /** SCM as a power failure now would leave it. */
  const survivors = (): Uint8Array => {
    for (const { offset, data } of memory.durable.take()) image.set(data, offset);
    return image;
  };
  return { memory, bench: new HomeBench(memory), survivors };
}

function firstByte({ answer }: Ended): number {
  assert.equal(answer.result, "done");
  return (answer.data as Uint8Array)[0]!;
}

/** From the medium. */
const SCM_READ_PS = RIG_TIMING.dmaReadScmPs + RIG_TIMING.scmMediumPs;

describe("HomeAgent", () => {
  it("C-05, P-04: a core's store is volatile under adr until it is flushed, durable at once under eadr", () => {
    const { bench, survivors } = benchOf();
    bench.access("home", "store", LINE, byteAt(0, 5));
    assert.equal(survivors()[0], 0);
    bench.access("home", "flush", LINE);
    assert.equal(survivors()[0], 5);
    const eadr = benchOf({ domain: "eadr" });
    eadr.bench.access("home", "store", LINE, byteAt(0, 5));
    assert.equal(eadr.survivors()[0], 5);
  });

  it("decision 11: a far load brings a dirty line of the LLC to memory before it is lent", () => {
    const { bench, survivors } = benchOf();
    bench.access("home", "store", LINE, byteAt(0, 5));
    assert.equal(firstByte(bench.access("far", "load", LINE)), 5);
    assert.equal(survivors()[0], 5);
    assert.deepEqual(bench.states, [`${LINE} M`, `${LINE} S`]);
  });

  it("C-09, decision 11: a recalled line is durable when home's core has it, and counted as a write of SCM", () => {
    const { bench, survivors } = benchOf();
    bench.access("far", "store", LINE, byteAt(0, 7));
    assert.equal(survivors()[0], 0);
    assert.equal(firstByte(bench.access("home", "load", LINE)), 7);
    assert.equal(survivors()[0], 7);
    assert.equal(bench.agent.writeBacksScm, 1);
    assert.equal(bench.agent.snoops, 1);
  });

  it("C-05: a far store takes the line from the LLC, and its cores are told", () => {
    const { bench, memory } = benchOf();
    bench.access("home", "load", LINE);
    assert.ok(memory.llc.find(memory.physical.lineOf(SCM_BASE)) >= 0);
    bench.access("far", "store", LINE, byteAt(0, 7));
    assert.equal(memory.llc.find(memory.physical.lineOf(SCM_BASE)), -1);
    assert.deepEqual(bench.changes, [LINE]);
  });

  it("C-09: a byte that a core stores anew reaches SCM, though the line had it so before the far card took it", () => {
    const { bench, survivors } = benchOf();
    bench.access("home", "store", LINE, byteAt(5, 9));
    bench.access("far", "store", LINE, byteAt(5, 0));
    bench.access("far", "store", LINE, byteAt(7, 1));
    bench.access("home", "store", LINE, byteAt(5, 9));
    bench.access("home", "flush", LINE);
    assert.deepEqual([survivors()[5], survivors()[7]], [9, 1]);
  });

  it("C-09: a dirty line that other memory evicts from the LLC is in SCM, and is lent from there", () => {
    const { bench, memory, survivors } = benchOf();
    bench.access("home", "store", LINE, byteAt(0, 9));
    const line = new Uint8Array(LINE_BYTES);
    for (let at = 0; at < SMALL.dramBytes; at += LINE_BYTES) memory.load(at, line);
    assert.equal(memory.llc.find(memory.physical.lineOf(SCM_BASE)), -1);
    assert.equal(survivors()[0], 9);
    assert.equal(firstByte(bench.access("far", "load", LINE)), 9);
    assert.equal(firstByte(bench.access("home", "load", LINE)), 9);
    assert.deepEqual(bench.states, [`${LINE} M`, `${LINE} I`, `${LINE} S`]);
  });

  it("decision 16: a core's store that misses costs what the line's memory takes, one that hits only the core's part", () => {
    const { bench } = benchOf();
    const costs = [0, LINE].map((line) => {
      const [miss, hit] = [1, 2].map((value) =>
        bench.access("home", "store", line, byteAt(0, value)).costPs
      );
      return miss! - hit!;
    });
    const scmPs = RIG_TIMING.scmLoadPs + RIG_TIMING.scmMediumPs;
    assert.deepEqual(costs, [RIG_TIMING.dramLoadPs, scmPs]);
    assert.ok(costs[0] !== costs[1]);
  });

  it("decision 7: keeps no record of a line that memory alone has", () => {
    const { bench } = benchOf();
    const whole = { kind: "write", mask: (1n << 64n) - 1n, bytes: new Uint8Array(64) } as const;
    // The far card's cache has four lines: what it takes in after them it writes back for.
    for (let line = 0; line < 20; line++) bench.access("far", "store", LINE + line, whole);
    bench.runAll();
    assert.equal(bench.agent.records, 4);
  });

  it("decision 12: what the card brings waits for room in the iMC, and is durable then", () => {
    const slow = { wpqLines: 2, scmLinePs: 2_048_000 };
    const { bench, memory, survivors } = benchOf(slow);
    bench.access("far", "store", LINE, byteAt(0, 7));
    bench.runAll();
    const begin = bench.now;
    const ticket = bench.begin("home", "load", LINE);
    // The far card's answer is at home's card 2.15 us after that, and at the agent 100 ns later.
    while (bench.now < begin + 2_150_000) bench.next();
    for (const at of [1024, 2048]) memory.writeThrough(SCM_BASE + at, new Uint8Array(LINE_BYTES));
    const roomAt = memory.freeAt(SCM_BASE, LINE_BYTES);
    assert.ok(roomAt > bench.now + 1_000_000);
    bench.next();
    assert.equal(bench.now, begin + 2_250_000);
    assert.equal(bench.ended(ticket), undefined);
    assert.equal(survivors()[0], 0);
    bench.runAll();
    assert.equal(bench.ended(ticket)!.at, roomAt);
    assert.equal(survivors()[0], 7);
  });

  it("C-08: a grant goes before a later snoop of its line, though the snoop is ready first", () => {
    const { bench } = benchOf();
    bench.begin("far", "store", LINE, byteAt(0, 7));
    // The request arrives after the wire and the bus; its grant takes as long as SCM does.
    while (bench.agent.nextAt > bench.now + SCM_READ_PS && bench.next());
    assert.equal(bench.sent.length, 0);
    const ticket = bench.begin("home", "load", LINE);
    bench.runAll();
    assert.deepEqual(bench.sent.map(({ message }) => message.op).slice(0, 2), [
      "GrantE",
      "SnpData",
    ]);
    assert.equal(firstByte(bench.ended(ticket)!), 7);
  });

  it("C-02: accesses cost what the profile says: a miss, a hit, a store, and a snoop's way there and back", () => {
    const { bench } = benchOf();
    assert.equal(
      bench.access("home", "load", LINE).costPs,
      RIG_TIMING.scmLoadPs + RIG_TIMING.scmMediumPs,
    );
    assert.equal(bench.access("home", "load", LINE).costPs, RIG_TIMING.llcHitPs);
    assert.equal(
      bench.access("home", "store", LINE, byteAt(0, 1)).costPs,
      RIG_TIMING.storePs,
    );
    bench.access("far", "store", LINE, byteAt(0, 7));
    bench.runAll();
    const begin = bench.now;
    const { at } = bench.access("home", "load", LINE);
    // Processing 50 ns and bus 100 ns, wire there and back, bus.
    assert.equal(at - begin, 50_000 + 100_000 + 2_000_000 + 100_000);
  });

  it("decision 14: when the card is lost, what it had alone is lost, and the rest is as it was", () => {
    const { bench } = benchOf();
    bench.access("far", "store", LINE, byteAt(0, 7));
    bench.access("home", "store", LINE + 1, byteAt(0, 3));
    bench.access("far", "load", LINE + 1);
    bench.runAll();
    bench.agent.disconnected(bench.now);
    assert.deepEqual(bench.agent.cardLost(bench.now), [LINE]);
    assert.equal(bench.access("home", "load", LINE).answer.result, "lost");
    assert.equal(bench.access("home", "store", LINE, byteAt(0, 1)).answer.result, "lost");
    assert.equal(firstByte(bench.access("home", "load", LINE + 1)), 3);
    const whole = { kind: "write", mask: (1n << 64n) - 1n, bytes: new Uint8Array(64).fill(4) };
    bench.access("home", "store", LINE, whole as ReturnType<typeof byteAt>);
    assert.equal(firstByte(bench.access("home", "load", LINE)), 4);
  });

  it("decision 14: what was to leave for a card that is gone, or for one that is lost, leaves for no other", () => {
    // A look into the LLC takes longer than the port, so that a snoop waits.
    const bench = new HomeBench(benchOf().memory, { ...RIG_TIMING, llcHitPs: 200_000 });
    const { agent } = bench;
    bench.begin("far", "store", LINE, byteAt(0, 7));
    while (agent.nextAt > bench.now + SCM_READ_PS && bench.next());
    assert.equal(agent.messages, 1, "the grant is on its way out");
    agent.disconnected(bench.now);
    assert.deepEqual([agent.messages, agent.nextAt], [0, NEVER]);
    // A core asks for the line meanwhile: the snoop is for the card that does not hear it.
    const ticket = bench.begin("home", "load", LINE);
    assert.deepEqual([agent.messages, agent.waiting], [1, 1]);
    assert.deepEqual(agent.cardLost(bench.now), [LINE]);
    assert.equal(bench.ended(ticket)!.answer.result, "lost");
    assert.deepEqual([agent.messages, agent.waiting, agent.nextAt], [0, 0, NEVER]);
    assert.deepEqual(bench.sent, []);
  });

  it("C-09: each load of both sides has the last store's value, and a flush keeps it, whatever is evicted", () => {
    const step = fc.record({
      by: fc.constantFrom("home", "far"),
      kind: fc.constantFrom("load", "store", "flush"),
      line: fc.nat({ max: 6 }),
      noise: fc.nat({ max: 60 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const { bench, memory, survivors } = benchOf();
        const last = new Map<number, number>(), line64 = new Uint8Array(LINE_BYTES);
        for (const [i, { by, kind, line, noise }] of steps.entries()) {
          memory.load(noise * LINE_BYTES, line64);
          const ended = bench.access(
            by as "home" | "far",
            kind as "load" | "store" | "flush",
            LINE + line,
            kind === "store" ? byteAt(0, i + 1) : undefined,
          );
          assert.equal(ended.answer.result, "done");
          if (kind === "store") last.set(line, i + 1);
          if (kind === "load") assert.equal(firstByte(ended), last.get(line) ?? 0);
          if (kind === "flush") assert.equal(survivors()[line * LINE_BYTES], last.get(line) ?? 0);
        }
      }),
      seeded({ numRuns: 60 }),
    );
  });
});
