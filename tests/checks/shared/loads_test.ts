import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { TimedRecord } from "../../../fabric/audit.ts";
import { fill, findingsOf } from "../../../console/checks/record_testing.ts";
import { loads } from "../../../console/checks/shared/loads.ts";
import {
  lostAt,
  type Told,
  told,
  used,
  WAIT_PS,
  word,
} from "../../../console/checks/shared/shared_testing.ts";

/** What the checker finds in these accesses. */
function found(
  accesses: readonly Told[],
  { power, more = [], memory }: {
    readonly power?: Parameters<typeof findingsOf>[1]["power"];
    readonly more?: readonly TimedRecord[];
    readonly memory?: "dram";
  } = {},
): string[] {
  const notes = [...used(memory && { memory }), ...told(accesses), ...more]
    .sort((x, y) => x.time - y.time);
  return findingsOf(loads, { notes, ...(power && { power }) });
}

const ONE = fill(1), TWO = fill(2), ZERO = fill(0);

describe("C-09: a load of a shared region", () => {
  it("C-09: returns the last store, and zeros before the first", () => {
    const kept: Told[] = [
      { from: 0, to: 5, found: ZERO },
      { from: 10, to: 20, bytes: ONE },
      { from: 30, to: 40, on: "b", found: ONE },
      { from: 50, to: 60, on: "b", bytes: TWO },
      { from: 70, to: 80, found: TWO },
    ];
    assert.deepEqual(found(kept), []);
    const [stale] = found(kept.with(4, { from: 70, to: 80, found: ONE }));
    assert.match(stale!, /^line 0 of s: load 4 of a.*: it found 0101.*, where it may have 0202/);
  });

  it("returns no store that begins later, and none that there never was", () => {
    const early = [{ from: 10, to: 20, found: ONE }, {
      from: 30,
      to: 40,
      on: "b",
      bytes: ONE,
    }] as const;
    assert.equal(found(early).length, 1);
    assert.equal(found([{ from: 10, to: 20, found: fill(9) }]).length, 1);
  });

  it("may return either while a store is under way, and then never goes back", () => {
    const store: Told = { from: 10, to: 100, bytes: ONE };
    const of = (...values: Uint8Array[]) =>
      found([
        store,
        ...values.map((each, i): Told => ({
          from: 20 + i * 10,
          to: 25 + i * 10,
          on: "b",
          found: each,
        })),
      ]);
    assert.deepEqual(of(ZERO, ONE), []);
    assert.deepEqual(of(ZERO, ZERO), []);
    assert.equal(of(ONE, ZERO).length, 1);
  });

  it("of one core comes after what that core has done at the same instant", () => {
    const own: Told[] = [
      { from: 10, to: 20, bytes: ONE },
      { from: 20, to: 30, found: ONE },
    ];
    assert.deepEqual(found(own), []);
    assert.equal(found(own.with(1, { from: 20, to: 30, found: ZERO })).length, 1);
    // Of another host's, the picosecond does not say which was first.
    assert.deepEqual(found(own.with(1, { on: "b", from: 20, to: 30, found: ZERO })), []);
  });

  it("sees a line as a whole: no half of a store", () => {
    const whole: Told = { from: 10, to: 100, bytes: fill(1, 64) };
    const half = fill(0, 64);
    half.fill(1, 0, 32);
    assert.equal(found([whole, { from: 20, to: 30, on: "b", found: half }]).length, 1);
    // Two lines are two accesses.
    const two: Told = { from: 10, to: 100, bytes: fill(1, 128) };
    const first = fill(0, 128);
    first.fill(1, 0, 64);
    assert.deepEqual(found([two, { from: 20, to: 30, on: "b", found: first }]), []);
  });

  it("keeps bytes of one line that different hosts write apart", () => {
    const kept: Told[] = [
      { from: 10, to: 100, bytes: fill(1, 1), at: 0 },
      { from: 10, to: 100, on: "b", bytes: fill(2, 1), at: 1 },
      { from: 110, to: 120, found: Uint8Array.of(1, 2) },
    ];
    assert.deepEqual(found(kept), []);
    assert.equal(found(kept.with(2, { from: 110, to: 120, found: Uint8Array.of(0, 2) })).length, 1);
  });

  it("judges each access at the end of a long history", () => {
    const many = Array.from({ length: 300 }, (_, i): Told[] => [
      { from: i * 100, to: i * 100 + 60, bytes: word(i + 1) },
      { from: i * 100 + 10, to: i * 100 + 70, on: "b", bytes: word(i + 1000) },
      { from: i * 100 + 80, to: i * 100 + 90, found: word(i + 1) },
    ]).flat();
    assert.deepEqual(found(many), []);
    assert.equal(found([...many, { from: 40_000, to: 40_010, found: word(299) }]).length, 1);
  });
});

describe("C-09: atomics of a shared region", () => {
  const add = (from: number, to: number, old: number, on: "a" | "b" = "a"): Told => {
    return { op: "add", from, to, on, bytes: word(1), found: word(old) };
  };

  it("find each count once", () => {
    assert.deepEqual(
      found([add(0, 50, 1), add(0, 50, 0, "b"), { from: 60, to: 70, found: word(2) }]),
      [],
    );
    assert.equal(found([add(0, 50, 0), add(0, 50, 0, "b")]).length, 1);
    assert.equal(found([add(0, 50, 0), add(60, 70, 0, "b")]).length, 1);
    assert.equal(found([add(0, 50, 0), { from: 60, to: 70, found: word(2) }]).length, 1);
  });

  it("carry over eight bytes", () => {
    const full: Told = { from: 0, to: 10, bytes: fill(255) };
    const next: Told = { op: "add", from: 20, to: 30, bytes: word(1), found: fill(255) };
    assert.deepEqual(found([full, next, { from: 40, to: 50, found: ZERO }]), []);
  });

  it("swap where they find what they compare with, and only there", () => {
    const swap = (from: number, old: number, to: number): Told => ({
      ...{ op: "compare-swap", from, to: from + 50, compare: word(0), bytes: word(to) },
      found: word(old),
    });
    assert.deepEqual(
      found([swap(0, 0, 7), swap(10, 7, 8), { from: 90, to: 95, found: word(7) }]),
      [],
    );
    // A lock that two have.
    assert.equal(found([swap(0, 0, 7), swap(10, 0, 8)]).length, 1);
    assert.equal(found([swap(0, 0, 7), { from: 90, to: 95, found: word(0) }]).length, 1);
  });
});

describe("C-10: a load of a shared region after a failure", () => {
  const power = [{ at: 50, action: "kill", node: "b" }] as const;

  it("finds what a host that failed may have stored, or what was there before, for good", () => {
    const dead: Told = { from: 10, on: "b", bytes: ONE };
    const of = (x: Uint8Array, y: Uint8Array) =>
      found([dead, { from: 60, to: 70, found: x }, { from: 80, to: 90, found: y }], { power });
    assert.deepEqual(of(ONE, ONE), []);
    assert.deepEqual(of(ZERO, ONE), []);
    assert.deepEqual(of(ZERO, ZERO), []);
    assert.equal(of(ONE, ZERO).length, 1);
  });

  it("takes a store that was refused as one that has done nothing", () => {
    const refused: Told = { from: 10, to: 60, on: "b", bytes: ONE, result: "refused" };
    assert.deepEqual(found([refused, { from: 70, to: 80, found: ZERO }]), []);
    assert.equal(found([refused, { from: 70, to: 80, found: ONE }]).length, 1);
  });

  it("takes a fenced store as one that may have been done", () => {
    const fenced: Told = { from: 10, to: 60, on: "b", bytes: ONE, result: "fenced" };
    for (const value of [ZERO, ONE]) {
      assert.deepEqual(found([fenced, { from: 70, to: 80, found: value }], { power }), []);
    }
    assert.equal(found([fenced, { from: 70, to: 80, found: TWO }], { power }).length, 1);
    // Half of its bytes may be under another store.
    const over: Told = { from: 70, to: 80, bytes: fill(2, 4) };
    const mixed = Uint8Array.of(2, 2, 2, 2, 1, 1, 1, 1);
    assert.deepEqual(found([fenced, over, { from: 90, to: 95, found: mixed }], { power }), []);
  });

  it("C-10: never finds old data once the loss is reported", () => {
    const lost: Told = { from: 110, to: 120, length: 8, result: "lost" };
    const more = [lostAt(100)];
    const store: Told = { from: 10, to: 20, bytes: ONE };
    assert.deepEqual(found([store, lost], { power, more }), []);
    const old: Told = { from: 110, to: 120, found: ONE };
    assert.equal(found([store, old], { power, more }).length, 1);
    // Before the report, or across it, both may be.
    assert.deepEqual(found([store, { from: 90, to: 120, found: ONE }], { power, more }), []);
    assert.deepEqual(found([store, { from: 60, to: 70, result: "lost" }], { power, more }), []);
    // Once it was told that it is lost, it stays lost.
    const again: Told = { from: 80, to: 90, found: ONE };
    assert.equal(found([store, { from: 60, to: 70, result: "lost" }, again], { power }).length, 1);
    // Of another line nothing is lost.
    assert.deepEqual(found([{ ...store, at: 64 }, { ...old, at: 64 }], { power, more }), []);
  });

  it("C-10: finds the last store, or that it is lost, where a far card reports a loss: home may have it all the same", () => {
    const more = [lostAt(100, 0, 64, "b")];
    const stores: Told[] = [{ from: 10, to: 20, bytes: ONE }, { from: 30, to: 40, bytes: TWO }];
    const told = (load: Partial<Told>) =>
      found([...stores, { from: 110, to: 120, ...load }], { power, more });
    assert.deepEqual(told({ found: TWO }), []);
    assert.deepEqual(told({ length: 8, result: "lost" }), []);
    assert.equal(told({ found: ONE }).length, 1);
  });

  it("finds what was stored to the whole line after the loss", () => {
    const more = [lostAt(100)];
    const whole: Told = { from: 110, to: 120, bytes: fill(3, 64) };
    assert.deepEqual(found([whole, { from: 130, to: 140, found: fill(3) }], { power, more }), []);
    assert.equal(found([whole, { from: 130, to: 140, found: ZERO }], { power, more }).length, 1);
    // A store to a part cannot be done.
    assert.equal(found([{ from: 110, to: 120, bytes: ONE }], { power, more }).length, 1);
  });
});

describe("C-10: a load of a shared region after home's power failure", () => {
  const power = [{ at: 100, action: "kill", node: "a" }, {
    at: 200,
    action: "start",
    node: "a",
  }] as const;
  const store = (from: number, bytes: Uint8Array): Told => ({ from, to: from + 5, on: "b", bytes });
  const flush: Told = { op: "flush", from: 20, to: 30, on: "b", length: 64 };
  const of = (value: Uint8Array, ...before: Told[]) =>
    found([...before, { from: 300, to: 310, on: "b", found: value }], { power });

  it("finds what was flushed, or what was stored later", () => {
    assert.deepEqual(of(ONE, store(10, ONE), flush), []);
    assert.equal(of(ZERO, store(10, ONE), flush).length, 1);
    assert.deepEqual(of(ONE, store(10, ONE), flush, store(40, TWO)), []);
    assert.deepEqual(of(TWO, store(10, ONE), flush, store(40, TWO)), []);
  });

  it("finds the old bytes or the new ones where they were not flushed", () => {
    for (const value of [ZERO, ONE]) assert.deepEqual(of(value, store(10, ONE)), []);
    assert.equal(of(TWO, store(10, ONE)).length, 1);
    // A flush that began before the store was done promises nothing.
    assert.deepEqual(of(ZERO, { ...store(10, ONE), to: 25 }, flush), []);
  });

  it("finds each word of eight bytes old or new by itself, and none torn", () => {
    const wide: Told = { ...store(10, fill(1, 24)), at: 4 };
    // Bytes 0 to 31 of the line: the store begins in the midst of the first word, and ends in that of the last one.
    const words = (...values: number[]) =>
      Uint8Array.from({ length: 32 }, (_, i) => i < 4 || i >= 28 ? 0 : values[i >> 3]!);
    assert.deepEqual(of(words(1, 1, 1, 1), wide), []);
    assert.deepEqual(of(words(0, 1, 0, 1), wide), []);
    assert.deepEqual(of(words(1, 0, 0, 0), wide), []);
    const torn = words(1, 1, 1, 1);
    torn[12] = 0;
    assert.equal(of(torn, wide).length, 1);
    assert.equal(of(words(0, 2, 0, 0), wide).length, 1);
  });

  it("finds the same from then on", () => {
    const twice = (x: Uint8Array, y: Uint8Array) =>
      found([store(10, ONE), { from: 300, to: 310, on: "b", found: x }, {
        ...{ from: 320, to: 330, on: "b", found: y },
      }], { power });
    assert.deepEqual(twice(ONE, ONE), []);
    assert.equal(twice(ONE, ZERO).length, 1);
  });

  it("decision 13: may find a far card's copy while leases last, and what is persistent when home serves again", () => {
    const served = (at: number, value: Uint8Array): Told => ({
      ...{ from: at, to: at + 5, on: "b", found: value },
    });
    // Home is back at 200, and serves nothing before 250.
    const opens = 200 + WAIT_PS;
    const of = (at: number) =>
      found([store(10, ONE), served(at, ONE), served(opens + 10, ZERO)], { power });
    assert.deepEqual([of(150), of(210), of(opens - 6)], [[], [], []]);
    assert.equal(of(opens).length, 1);
  });

  it("C-10: finds nothing old that home reports to be lost as it comes back", () => {
    const more = [lostAt(201)];
    const lost: Told = { from: 300, to: 310, length: 8, result: "lost" };
    const old: Told = { from: 300, to: 310, found: ONE };
    assert.deepEqual(found([store(10, ONE), lost], { power, more }), []);
    assert.equal(found([store(10, ONE), old], { power, more }).length, 1);
  });

  it("C-10: never finds old data once a loss of home's later life is reported", () => {
    const late = [...power, { at: 1_600, action: "kill", node: "b-rnic" }] as const;
    const more = [lostAt(1_700)];
    const of = (...loads: Told[]) => found([store(1_500, ONE), ...loads], { power: late, more });
    const old = (from: number): Told => ({ from, to: from + 10, found: ONE });
    const lost = (from: number): Told => ({ from, to: from + 10, length: 8, result: "lost" });
    assert.deepEqual(of(lost(1_800)), []);
    assert.equal(of(old(1_800)).length, 1);
    // Before the report both may be, and what is told to be lost stays so.
    assert.deepEqual(of(old(1_620), lost(1_640), lost(1_800)), []);
    assert.equal(of(lost(1_620), old(1_640)).length, 1);
    // Of the life before nothing was lost by it.
    const before: Told = { from: 60, to: 70, on: "b", found: fill(9) };
    assert.equal(found([before, lost(1_800)], { power: late, more }).length, 1);
  });

  it("may find anything in DRAM", () => {
    const accesses = [store(10, ONE), { from: 300, to: 310, on: "b", found: fill(7) } as const];
    assert.deepEqual(found(accesses, { power, memory: "dram" }), []);
  });
});

describe("C-09: what is not judged", () => {
  it("is a finding, not silence", () => {
    const many = Array.from(
      { length: 300 },
      (_, i): Told => ({ from: 10, to: 900, bytes: word(i) }),
    );
    const [unchecked] = found(many);
    assert.match(unchecked!, /unchecked from store 256 of .*: more than 256 accesses at a time/);
    const adds = Array.from(
      { length: 20 },
      (_, i): Told => ({ from: 10, op: "add", bytes: word(2 ** i) }),
    );
    const [ways] = found([...adds, { from: 20, to: 30, found: word(2 ** 20) }]);
    assert.match(ways!, /unchecked from load .*: more than 4096 orders of what overlaps/);
  });
});
