import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { DurableWrite } from "../../../fabric/node.ts";
import type { PersistenceDomain } from "../../../fabric/rack/plan/persistence_domain.ts";
import { SCM_BASE } from "./address_map.ts";
import { pattern, RIG_TIMING, rigPlan } from "../testing/host_testing.ts";
import { MemoryPlay, operations, PLAY_BYTES } from "./memory_play_testing.ts";
import { MemorySystem } from "./memory_system.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

/** Room for 16 lines in the LLC, 4 of them for DDIO, so that everything happens soon. */
const SMALL = {
  llc: { bytes: 1024, ways: 4, ddioWays: 1, evict: "lru" as const },
  dramBytes: 4096,
  scmBytes: 4096,
};

function small(domain: PersistenceDomain = "adr", image?: Uint8Array): MemorySystem {
  return new MemorySystem(
    rigPlan({ ...SMALL, domain }),
    image && ((offset, length) => image.subarray(offset, offset + length)),
  );
}

function load(memory: MemorySystem, address: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  memory.load(address, bytes);
  return bytes;
}

/** Applies what became durable to `image`. */
function replay(memory: MemorySystem, image: Uint8Array): void {
  for (const { offset, data } of memory.durable.take()) image.set(data, offset);
}

describe("MemorySystem", () => {
  it("P-01, P-05: is one coherent memory, and records exactly what would survive", () => {
    fc.assert(
      fc.property(operations, fc.constantFrom("adr", "eadr", "wsp"), (list, domain) => {
        const play = new MemoryPlay(domain);
        for (const operation of list) {
          const looked = play.apply(operation);
          if (looked !== undefined) assert.deepEqual(looked.found, looked.expected);
          assert.deepEqual(play.seen(), play.scm);
          assert.deepEqual(play.durable, play.survivors());
          if (domain === "wsp") assert.deepEqual(play.durable, play.afterPosted());
          if (domain !== "eadr") continue;
          const [one, two] = play.unfenced;
          for (const [i, byte] of play.scm.entries()) {
            if (!one!.has(i) && !two!.has(i)) assert.equal(play.durable[i], byte, `byte ${i}`);
          }
        }
      }),
      seeded({ numRuns: 300 }),
    );
  });

  it("C-05: a snoop writes a line back if it is dirty, once, and leaves it cached; one that is dropped is not there", () => {
    const memory = small(), bytes = pattern(8);
    const written = () => memory.durable.take().map(({ offset }) => offset);
    load(memory, SCM_BASE + 64, 8);
    memory.cleanLine(SCM_BASE + 64);
    memory.cleanLine(SCM_BASE + 128);
    assert.deepEqual(written(), [], "nothing is dirty");
    memory.store(SCM_BASE + 64, bytes);
    memory.cleanLine(SCM_BASE + 64);
    assert.deepEqual(written(), [64]);
    memory.cleanLine(SCM_BASE + 64);
    assert.deepEqual(written(), []);
    const { misses } = memory.llc;
    assert.deepEqual(load(memory, SCM_BASE + 64, 8), bytes);
    assert.equal(memory.llc.misses, misses);
    memory.dropLine(SCM_BASE + 64);
    memory.dropLine(SCM_BASE + 64);
    assert.deepEqual(load(memory, SCM_BASE + 64, 8), bytes);
    assert.equal(memory.llc.misses, misses + 1);
  });

  it("P-04: what is stored past the cache is lost until the fence, and is seen at once", () => {
    for (const domain of ["adr", "eadr", "wsp"] as const) {
      const memory = small(domain), core = {};
      assert.equal(memory.combining.store(core, SCM_BASE + 60, pattern(20)), 0);
      assert.equal(memory.durable.take().length, domain === "wsp" ? 2 : 0);
      const seen = memory.dmaRead(SCM_BASE + 56, { length: 8, noSnoop: true });
      assert.deepEqual([...seen], [0, 0, 0, 0, ...pattern(4)], "a load drains the buffer");
      const [first, ...rest] = memory.durable.take();
      assert.deepEqual([first?.offset, rest.length], domain === "wsp" ? [undefined, 0] : [60, 0]);
      memory.combining.release(memory.combining.oldestOf(core)!);
      assert.equal(memory.combining.oldestOf(core), undefined);
      const image = new Uint8Array(4096);
      replay(memory, image);
      if (domain !== "wsp") {
        assert.deepEqual([...image.subarray(64, 80)], [...pattern(20)].slice(4));
      }
    }
  });

  it("a core has ten write-combining buffers: the eleventh line sends the oldest on", () => {
    const memory = small(), core = {}, other = {};
    for (let line = 0; line < 10; line++) {
      memory.combining.store(core, SCM_BASE + 64 * line, pattern(64));
    }
    memory.combining.store(other, SCM_BASE + 2048, pattern(8));
    assert.deepEqual(memory.durable.take(), []);
    assert.equal(memory.combining.store(core, SCM_BASE + 1024, pattern(8)), 64);
    assert.deepEqual(memory.durable.take().map(({ offset, data }) => [offset, data.length]), [
      [0, 64],
    ]);
    assert.equal(memory.combining.oldestOf(core)!.address, SCM_BASE + 64);
  });

  it("P-04: a buffer that an access has drained is not drained again, over newer bytes", () => {
    const memory = small(), core = {};
    memory.combining.store(core, SCM_BASE, pattern(64, 1));
    const buffer = memory.combining.oldestOf(core)!;
    memory.dmaRead(SCM_BASE, { length: 8, noSnoop: true });
    memory.combining.store({}, SCM_BASE, pattern(64, 2));
    memory.combining.drain(SCM_BASE, 64);
    memory.combining.release(buffer);
    assert.deepEqual(load(memory, SCM_BASE, 64), pattern(64, 2));
  });

  it("P-04: an access drains the buffers of its own lines, and of none beside them", () => {
    const memory = small(), core = {};
    for (const line of [0, 1, 2]) memory.combining.store(core, SCM_BASE + 64 * line, pattern(8));
    const drained = () => memory.durable.take().map(({ offset }) => offset);
    load(memory, SCM_BASE + 192, 64);
    assert.deepEqual(drained(), []);
    load(memory, SCM_BASE + 64 + 63, 1);
    assert.deepEqual(drained(), [64]);
    load(memory, SCM_BASE, 64);
    assert.deepEqual(drained(), [0]);
    load(memory, SCM_BASE + 128, 1);
    assert.deepEqual(drained(), [128]);
  });

  const ACCESSES: Readonly<Record<string, (memory: MemorySystem, at: number) => unknown>> = {
    load: (memory, at) => load(memory, at, 8),
    store: (memory, at) => memory.store(at, pattern(8)),
    "read by DMA": (memory, at) => memory.dmaRead(at, { length: 8, noSnoop: true }),
    "write by DMA into the LLC": (memory, at) => memory.dmaWriteCache(at, pattern(8)),
    "write by DMA into memory": (memory, at) => memory.writeThrough(at, pattern(8)),
    "look for dirty lines": (memory, at) => memory.dirtyLines(at, 8),
    "copy of the card": (memory, at) => memory.share(at, 8),
    "look at the medium": (memory, at) => memory.mediumAt(at, 8),
    "store past the cache by another core": (memory, at) =>
      memory.combining.store({}, at, pattern(8)),
  };
  for (const [name, access] of Object.entries(ACCESSES)) {
    it(`P-04: no access passes over a buffer's bytes, or drains one beside its own: ${name}`, () => {
      const memory = small(), core = {};
      for (const line of [0, 1, 2]) memory.combining.store(core, SCM_BASE + 64 * line, pattern(8));
      const left = () => {
        const offsets: number[] = [];
        for (;;) {
          const buffer = memory.combining.oldestOf(core);
          if (buffer === undefined) return offsets;
          offsets.push(buffer.address - SCM_BASE);
          memory.combining.release(buffer);
        }
      };
      access(memory, SCM_BASE + 64);
      assert.deepEqual(left(), [0, 128]);
      memory.combining.store(core, SCM_BASE + 64, pattern(8));
      access(memory, SCM_BASE + 64 + 56);
      assert.deepEqual(left(), [], "the line's last bytes");
    });
  }

  it("V-03: what a core has stored past the cache is on the medium when its line has drained", () => {
    const memory = small();
    memory.advance(1000);
    memory.combining.store({}, SCM_BASE, pattern(64));
    const at = memory.mediumAt(SCM_BASE, 64);
    assert.ok(at > 1000, "the line goes into the queue now");
    const medium = new Uint8Array(64);
    memory.physical.scm.read(0, medium);
    assert.deepEqual(medium, new Uint8Array(64));
    memory.advance(at);
    memory.physical.scm.read(0, medium);
    assert.deepEqual(medium, pattern(64));
  });

  it("C-05: a line that the card gets a copy of is in memory, wherever the newest bytes were", () => {
    const memory = small(), found = new Uint8Array(192);
    memory.store(SCM_BASE, pattern(64, 1));
    memory.combining.store({}, SCM_BASE + 64, pattern(64, 2));
    memory.combining.store({}, SCM_BASE + 128, pattern(8, 3));
    memory.share(SCM_BASE, 192);
    memory.physical.read(SCM_BASE, found);
    const expected = new Uint8Array(192);
    expected.set(pattern(64, 1)),
      expected.set(pattern(64, 2), 64),
      expected.set(pattern(8, 3), 128);
    assert.deepEqual(found, expected);
  });

  it("peek has the newest bytes, also those that a core streams, and changes nothing", () => {
    const memory = small();
    memory.store(SCM_BASE, pattern(64, 1));
    memory.combining.store({}, SCM_BASE + 64, pattern(16, 2));
    memory.streams.set({}, { offset: SCM_BASE + 128, data: pattern(16, 3) });
    const expected = new Uint8Array(192);
    expected.set(pattern(64, 1)),
      expected.set(pattern(16, 2), 64),
      expected.set(pattern(16, 3), 128);
    for (let times = 0; times < 2; times++) {
      assert.deepEqual(memory.peek(SCM_BASE, 192), expected);
    }
    assert.deepEqual(memory.peek(SCM_BASE + 136, 16), expected.slice(136, 152));
    assert.deepEqual(memory.durable.take(), []);
  });

  it("P-05: under wsp what the IIO has survives, above what cores store before it gets to memory", () => {
    const memory = small("wsp"), image = new Uint8Array(4096);
    memory.postedArrived(SCM_BASE + 8, pattern(8, 1));
    replay(memory, image);
    assert.deepEqual([...image.subarray(8, 16)], [...pattern(8, 1)]);
    memory.store(SCM_BASE, pattern(24, 2));
    replay(memory, image);
    const cores = pattern(24, 2);
    cores.set(pattern(8, 1), 8);
    assert.deepEqual(image.subarray(0, 24), cores);
    memory.writeThrough(SCM_BASE + 8, pattern(8, 1));
    memory.postedLeft(SCM_BASE + 8, pattern(8, 1));
    memory.store(SCM_BASE + 8, pattern(8, 3));
    replay(memory, image);
    assert.deepEqual([...image.subarray(8, 16)], [...pattern(8, 3)], "it is in memory by then");
  });

  it("P-04: a store to SCM is volatile until its line is flushed", () => {
    const memory = small();
    memory.store(SCM_BASE + 60, pattern(8));
    assert.deepEqual(memory.durable.take(), []);
    assert.deepEqual(memory.dirtyLines(SCM_BASE + 60, 8), { stored: 2, device: 0 });
    memory.writeBackRange(SCM_BASE, 64);
    const [first, ...rest] = memory.durable.take();
    assert.deepEqual([first!.offset, [...first!.data.subarray(60)]], [
      0,
      [...pattern(8)].slice(0, 4),
    ]);
    assert.deepEqual(rest, []);
    assert.deepEqual(
      memory.dirtyLines(SCM_BASE, 128),
      { stored: 1, device: 0 },
      "a flushed line stays, and is clean",
    );
    memory.writeBackRange(SCM_BASE, 64);
    assert.deepEqual(memory.durable.take(), []);
  });

  it("P-04: a line that is evicted becomes persistent by it", () => {
    const memory = small();
    for (let line = 0; line < 5; line++) memory.store(SCM_BASE + line * 256, pattern(8, line));
    const evicted = memory.durable.take();
    assert.deepEqual(evicted.map(({ offset }) => offset), [0]);
    assert.deepEqual([...evicted[0]!.data.subarray(0, 8)], [...pattern(8, 0)]);
  });

  it("P-01: under eADR a store to SCM is persistent at once, and is recorded once", () => {
    const memory = small("eadr");
    const bytes = pattern(8);
    memory.store(SCM_BASE + 8, bytes);
    const recorded = memory.durable.take();
    assert.deepEqual(recorded.map(({ offset, data }) => [offset, [...data]]), [[8, [
      ...pattern(8),
    ]]]);
    bytes.fill(0xff);
    assert.deepEqual([...recorded[0]!.data], [...pattern(8)], "the record is a copy");
    memory.writeBackRange(SCM_BASE, 64);
    assert.deepEqual(memory.durable.take(), []);
  });

  it("never records DRAM", () => {
    for (const domain of ["adr", "eadr"] as const) {
      const memory = small(domain);
      memory.store(0, pattern(64));
      memory.writeBackRange(0, 64);
      memory.writeThrough(256, pattern(64));
      memory.dmaWriteCache(512, pattern(64));
      assert.deepEqual(memory.durable.take(), []);
    }
  });

  it("P-02: a flow 1 write takes the dirty bytes of its line along and gives the line up", () => {
    const memory = small();
    memory.store(SCM_BASE + 8, pattern(8, 1));
    memory.writeThrough(SCM_BASE + 16, pattern(8, 2));
    const expected = [...Array(8).fill(0), ...pattern(8, 1), ...pattern(8, 2)];
    const image = new Uint8Array(4096);
    replay(memory, image);
    assert.deepEqual([...image.subarray(0, 24)], expected);
    assert.equal(memory.dmaReadPlace(SCM_BASE, false), "scm");
  });

  it("P-02: a read that passes the cache by does not see a dirty line", () => {
    const memory = small();
    memory.store(SCM_BASE, pattern(8));
    const how = { length: 8, noSnoop: true };
    assert.deepEqual([...memory.dmaRead(SCM_BASE, how)], Array(8).fill(0));
    assert.deepEqual([memory.dmaReadPlace(SCM_BASE, true), memory.dmaReadPlace(SCM_BASE, false)], [
      "scm",
      "llc",
    ]);
  });

  it("finds a native program's stores, which it does not see, in the caches at the next DMA read", () => {
    const memory = small(), process = new Uint8Array(4096);
    memory.foreign.map(0, {
      read: (address, length) => process.slice(address, address + length),
      write: (address, bytes) => process.set(bytes, address),
      isWatched: false,
    }, 0);
    assert.equal(memory.dmaReadPlace(64, false), "dram", "nothing was stored");
    process[130] = 1;
    assert.equal(memory.dmaReadPlace(64, false), "dram", "another line");
    assert.equal(memory.dmaReadPlace(128, false), "llc");
    assert.equal(memory.dmaReadPlace(130, false), "llc");
    memory.writeThrough(128, pattern(64));
    assert.equal(
      memory.dmaReadPlace(128, false),
      "dram",
      "the card has written it past the caches",
    );
    process[191] = 1;
    assert.equal(memory.dmaReadPlace(128, false), "llc");
    assert.equal(memory.dmaRead(128, { length: 64, noSnoop: false })[63], 1);
  });

  it("load costs a full latency for the first line and an overlapped one for the others", () => {
    const memory = small();
    const { scmLoadPs, scmMediumPs, dramLoadPs, llcHitPs } = RIG_TIMING;
    assert.equal(memory.load(SCM_BASE, new Uint8Array(8)), scmLoadPs + scmMediumPs);
    memory.advance(1_000_000);
    assert.equal(memory.load(SCM_BASE + 64, new Uint8Array(8)), scmLoadPs, "its block is buffered");
    assert.equal(memory.load(SCM_BASE + 8, new Uint8Array(8)), llcHitPs);
    assert.equal(memory.load(0, new Uint8Array(256)), dramLoadPs + 3 * dramLoadPs / 10);
    assert.equal(memory.load(0, new Uint8Array(0)), 0);
    assert.equal(memory.store(60, new Uint8Array(8)), 2 * RIG_TIMING.storePs);
  });

  it("V-08: a cell that is stuck holds its value, in whichever way bytes get to it, and that survives", () => {
    const stuckBits = [
      { offset: 5, bit: 3, value: 1 },
      { offset: 5, bit: 0, value: 0 },
      { offset: 100, bit: 7, value: 1 },
      { offset: 700, bit: 1, value: 0 },
    ] as const;
    function hold(bytes: Uint8Array): Uint8Array {
      for (const { offset, bit, value } of stuckBits) {
        const rest = bytes[offset]! & ~(1 << bit);
        bytes[offset] = rest | value << bit;
      }
      return bytes;
    }
    fc.assert(
      fc.property(operations, fc.constantFrom("adr", "eadr", "wsp"), (list, domain) => {
        const play = new MemoryPlay(domain, { stuckBits });
        hold(play.durable);
        hold(play.book.image);
        // What cores see may come from a cache, so it is none of this test's business.
        for (const operation of list) {
          play.apply(operation);
          assert.deepEqual(play.durable, hold(play.durable.slice()));
          assert.deepEqual(play.durable, play.survivors());
          assert.deepEqual(play.book.image, play.durable);
        }
        for (const versions of play.book.dirtyLines) {
          const line = new Uint8Array(PLAY_BYTES);
          line.set(versions[1].at(-1)!.bytes, versions[0]);
          const held = hold(line.slice()).subarray(versions[0], versions[0] + 64);
          assert.deepEqual(
            held,
            versions[1].at(-1)!.bytes,
            "a line may leave only as it can be held",
          );
        }
      }),
      seeded({ numRuns: 150 }),
    );
    const memory = new MemorySystem(rigPlan({ ...SMALL, stuckBits }));
    assert.deepEqual([load(memory, SCM_BASE + 5, 1)[0], load(memory, SCM_BASE + 100, 1)[0]], [
      8,
      128,
    ]);
  });

  it("P-01 (in part): counts what the medium is written by whole blocks, for each byte that came", () => {
    const strided = small(), random = small();
    for (let line = 0; line < 16; line++) {
      strided.advance(line * 100_000);
      strided.writeThrough(SCM_BASE + 256 * line, pattern(64));
      random.advance(line * 100_000);
      random.writeThrough(SCM_BASE + 256 * line + 8, pattern(8));
    }
    const found = [strided, random].map(({ physical: { scmImc, scmModules } }) => [
      scmImc.acceptedBytes,
      scmModules[0]!.lines,
      scmModules[0]!.blocksOut,
      scmModules[0]!.readModifyWrites,
    ]);
    assert.deepEqual(found, [[1024, 16, 16, 16], [128, 16, 16, 16]]);
  });

  it("takes the image of what it records before the record is out", () => {
    const file = pattern(4096, 3);
    const memory = small("adr", file);
    memory.writeThrough(SCM_BASE, pattern(64, 4));
    const commits: DurableWrite[] = memory.durable.take();
    for (const { offset, data } of commits) file.set(data, offset);
    file.set([0xab], 100);
    assert.equal(load(memory, SCM_BASE + 100, 1)[0], pattern(4096, 3)[100]);
  });
});
