import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { AuditRecord, TimedRecord } from "../../fabric/audit.ts";
import { persistence } from "../../console/checks/persistence.ts";
import { fill, findingsOf, imageOf, noted, recordOf } from "../../console/checks/record_testing.ts";
import { seeded } from "../../fabric/base/property_testing.ts";

const X = fill(0x11), Y = fill(0x22), Z = fill(0x33);

function writes(id: number, at: number, bytes: Uint8Array, after?: number[]): AuditRecord {
  return { kind: "writes", id, on: "b", at, bytes, ...(after && { after }) };
}

function persistent(id: number, promised = true): AuditRecord {
  return { kind: "persistent", id, promised };
}

const visible = (id: number): AuditRecord => ({ kind: "visible", id });

/** Notes one after the other, each at its own instant. */
function inTurn(...notes: readonly AuditRecord[]): TimedRecord[] {
  return notes.map((note, i) => noted(10 * (i + 1), note));
}

function find(
  notes: readonly TimedRecord[],
  bytes: Readonly<Record<number, Uint8Array>>,
): string[] {
  return findingsOf(persistence, { notes, b: imageOf(bytes) });
}

describe("P-41: what is found in SCM after a power failure", () => {
  it("is what was promised, and of the rest all or nothing of each eight bytes", () => {
    const notes = inTurn(
      writes(0, 64, X),
      writes(1, 128, fill(7, 24)),
      visible(0),
      persistent(0),
      persistent(1, false),
    );
    assert.deepEqual(find(notes, { 64: X }), []);
    assert.deepEqual(find(notes, { 64: X, 136: fill(7) }), []);
    assert.deepEqual(find(notes, { 64: X, 128: fill(7, 24) }), []);
  });

  it("is lost where it was promised and is not there", () => {
    const [text, ...more] = find(inTurn(writes(0, 64, X), persistent(0)), {});
    assert.match(text!, /b: SCM at 0x40 is lost: write 0 of a\/0\/put#0 .* at 20 ps/);
    assert.deepEqual(more, []);
  });

  it("is told by the notes of a requester that is dead and reports nothing", () => {
    const notes = inTurn(writes(0, 64, X), persistent(0));
    const power = [{ at: 25, action: "kill", node: "a" } as const];
    assert.equal(findingsOf(persistence, { notes, power }).length, 1);
  });

  it("is lost where the promise was only claimed, once claims count", () => {
    const notes = inTurn(writes(0, 64, X), persistent(0, false));
    assert.deepEqual(find(notes, {}), []);
    assert.equal(findingsOf(persistence, { notes, claims: true }).length, 1);
  });

  it("is torn where eight bytes are neither old nor new", () => {
    const half = Uint8Array.of(0x11, 0x11, 0x11, 0x11, 0, 0, 0, 0);
    assert.match(find(inTurn(writes(0, 64, X)), { 64: half })[0]!, /0x40 is torn: 0x1111111100/);
  });

  it("is from nowhere where no program wrote it", () => {
    assert.match(find(inTurn(writes(0, 64, X)), { 64: Y })[0]!, /is from nowhere: 0x2222/);
  });

  it("says once where a stretch is broken, and how long it is", () => {
    const notes = inTurn(writes(0, 64, fill(1, 64)), persistent(0));
    const findings = persistence.check(recordOf({ notes }));
    assert.deepEqual(findings.map(({ scm }) => scm), [{ host: "b", from: 64, to: 128 }]);
  });
});

describe("P-41: of several writes of the same bytes", () => {
  it("the last promised one is there, not one that it is known to be on top of", () => {
    const notes = inTurn(
      writes(0, 64, X),
      persistent(0),
      writes(1, 64, Y),
      persistent(1),
    );
    assert.deepEqual(find(notes, { 64: Y }), []);
    assert.match(find(notes, { 64: X })[0]!, /is lost: write 1/);
  });

  it("the later one counts also where the earlier one's promise came last", () => {
    const notes = inTurn(
      writes(0, 64, X),
      visible(0),
      writes(1, 64, Y),
      persistent(1),
      persistent(0),
    );
    assert.deepEqual(find(notes, { 64: Y }), []);
    assert.equal(find(notes, { 64: X }).length, 1);
  });

  it("either is there where both were under way, but nothing older", () => {
    const notes = inTurn(
      writes(0, 64, X),
      persistent(0),
      writes(1, 64, Y),
      writes(2, 64, Z),
      persistent(1),
      persistent(2),
    );
    for (const bytes of [Y, Z]) assert.deepEqual(find(notes, { 64: bytes }), []);
    assert.equal(find(notes, { 64: X }).length, 1);
  });

  it("one that was never told of may come on top of a promise made meanwhile", () => {
    const notes = inTurn(writes(0, 64, X), writes(1, 64, Y), persistent(1));
    assert.deepEqual(find(notes, { 64: X }), []);
    const told = inTurn(writes(0, 64, X), visible(0), writes(1, 64, Y), persistent(1));
    assert.equal(find(told, { 64: X }).length, 1);
  });

  it("one is below another of its line that was posted later, and no other", () => {
    const inLine = (id: number, bytes: Uint8Array, line: number) =>
      ({ ...writes(id, 64, bytes), line }) as AuditRecord;
    const of = (line: number) => inTurn(inLine(0, X, 1), inLine(1, Y, line), persistent(1));
    assert.equal(find(of(1), { 64: X }).length, 1);
    assert.deepEqual(find(of(1), { 64: Y }), []);
    assert.deepEqual(find(of(2), { 64: X }), []);
    const later = inTurn(inLine(0, X, 1), inLine(1, Y, 1), persistent(0));
    for (const bytes of [X, Y]) assert.deepEqual(find(later, { 64: bytes }), []);
    const elsewhere = of(1).with(1, noted(20, inLine(1, Y, 1), { by: "a/1/put#0" }));
    assert.deepEqual(find(elsewhere.slice(0, 2), { 64: X }), []);
    assert.deepEqual(
      find([...elsewhere.slice(0, 2), noted(30, persistent(1), { by: "a/1/put#0" })], { 64: X }),
      [],
      "another life's line is another",
    );
  });

  it("of two hosts, one is later only if it was posted at a later instant", () => {
    const of = (time: number) => [
      noted(10, writes(0, 64, X)),
      noted(20, visible(0)),
      noted(time, writes(0, 64, Y), { node: "b" }),
      noted(30, persistent(0), { node: "b" }),
    ];
    assert.deepEqual(find(of(20), { 64: X }), []);
    assert.equal(find(of(21), { 64: X }).length, 1);
  });

  it("each one's part of eight bytes is there on top of what was allowed before", () => {
    const whole = inTurn(writes(0, 64, X), persistent(0), writes(1, 68, fill(0x22, 4)));
    const both = Uint8Array.of(0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x22, 0x22);
    const onlyPart = Uint8Array.of(0, 0, 0, 0, 0x22, 0x22, 0x22, 0x22);
    for (const bytes of [X, both]) assert.deepEqual(find(whole, { 64: bytes }), []);
    assert.match(find(whole, { 64: onlyPart })[0]!, /is lost: write 0/);
    assert.equal(find([...whole, noted(99, persistent(1))], { 64: X }).length, 1);
  });
});

describe("P-41: a write that comes after another (compound updates)", () => {
  const RECORD = fill(5, 16);
  const notes = inTurn(writes(0, 64, RECORD), writes(1, 128, X, [0]), persistent(1, false));

  it("is found only with it, promised or not", () => {
    assert.deepEqual(find(notes, {}), []);
    assert.deepEqual(find(notes, { 64: RECORD }), []);
    assert.deepEqual(find(notes, { 64: RECORD, 128: X }), []);
    const [text] = find(notes, { 64: fill(5), 128: X });
    assert.match(text!, /0x48 is lost: write 1 .* is there, and write 0 .*, which it comes after/);
  });

  it("is found only with what that comes after, too, though it is overwritten", () => {
    const chain = inTurn(
      writes(0, 64, X),
      writes(1, 128, Y, [0]),
      writes(2, 128, Z, [1]),
    );
    assert.deepEqual(find(chain, { 64: X, 128: Z }), []);
    assert.equal(find(chain, { 128: Z }).length, 1);
    assert.equal(find(chain, { 128: Y }).length, 1);
  });

  it("is held to that order only once claims count, where the method has nothing to promise it (P-04)", () => {
    const claimed = { ...writes(1, 128, X, [0]), isOrderClaimed: true } as AuditRecord;
    const unordered = inTurn(writes(0, 64, RECORD), claimed);
    const b = imageOf({ 128: X });
    assert.deepEqual(findingsOf(persistence, { notes: unordered, b }), []);
    assert.equal(findingsOf(persistence, { notes: unordered, b, claims: true }).length, 1);
  });

  it("is not found where other writes explain the bytes", () => {
    const same = inTurn(writes(0, 64, RECORD), writes(1, 128, X, [0]), writes(2, 128, X));
    assert.deepEqual(find(same, { 128: X }), []);
  });
});

describe("P-41: where caches may have evicted or not", () => {
  const notes = inTurn(writes(0, 64, X), persistent(0));
  const open = (...alternatives: Uint8Array[]) => ({
    ...imageOf({ 64: X }),
    possible: (unit: number) => unit === 64 ? alternatives : undefined,
  });

  it("each alternative keeps the promise", () => {
    assert.deepEqual(findingsOf(persistence, { notes, b: open(X, X) }), []);
    assert.equal(findingsOf(persistence, { notes, b: open(X, fill(0)) }).length, 1);
  });
});

/** A step of a made-up memory: writes reach the cache, lines reach SCM, programs are told. */
type Step = {
  readonly act: number;
  readonly which: number;
  readonly at: number;
  readonly length: number;
};

/** Steps over so many bytes of memory: the fewer, the more writes meet. */
function stepsIn(bytes: number) {
  const step = fc.record({
    act: fc.integer({ min: 0, max: 8 }),
    which: fc.nat(7),
    at: fc.nat(bytes - 20),
    length: fc.integer({ min: 1, max: 20 }),
  });
  return fc.array(step, { minLength: 8, maxLength: 40, size: "max" });
}

interface Written {
  readonly id: number;
  readonly at: number;
  readonly bytes: Uint8Array;
  reached: boolean;
  promised: boolean;
}

/** A memory that keeps its promises, and what it told. */
function play(steps: readonly Step[]) {
  const cache = new Uint8Array(1024), scm = new Uint8Array(1024);
  const notes: AuditRecord[] = [];
  const all: Written[] = [];
  const evict = (unit: number) => scm.set(cache.subarray(unit, unit + 8), unit);
  for (const { act, which, at, length } of steps) {
    const write = all.at(-1 - which % Math.max(1, all.length));
    if (act <= 1 || write === undefined) {
      const id = all.length;
      const bytes = fill(id + 1, length);
      all.push({ id, at, bytes, reached: false, promised: false });
      notes.push(writes(id, at, bytes));
    } else if (act <= 3 && !write.reached) {
      cache.set(write.bytes, write.at);
      write.reached = true;
    } else if (act === 4 && write.reached) notes.push(visible(write.id));
    else if (act >= 6 && write.reached && !write.promised) {
      const end = write.at + write.bytes.length;
      for (let unit = write.at - write.at % 8; unit < end; unit += 8) evict(unit);
      write.promised = true;
      notes.push(persistent(write.id));
    } else if (act === 5) evict(8 * which);
  }
  return { scm, notes, all };
}

describe("P-41: the persistence checker", () => {
  it("finds nothing wrong with any memory that keeps its promises", () => {
    fc.assert(
      fc.property(stepsIn(64), (steps) => {
        const { scm, notes } = play(steps);
        assert.deepEqual(find(inTurn(...notes), { 0: scm }), []);
      }),
      seeded({ numRuns: 2_000, seed: 41 }),
    );
  });

  it("finds a promised byte that is not there, wherever no other write may have come", () => {
    let broken = 0;
    fc.assert(
      fc.property(stepsIn(1024), fc.nat(), (steps, choice) => {
        const { scm, notes, all } = play(steps);
        const sure = all.filter((write) =>
          write.promised &&
          all.every((other) =>
            other === write || other.at >= write.at + write.bytes.length ||
            other.at + other.bytes.length <= write.at
          )
        );
        const write = sure[choice % Math.max(1, sure.length)];
        if (write === undefined) return;
        broken++;
        scm[write.at + choice % write.bytes.length]! ^= 0x80;
        assert.notDeepEqual(find(inTurn(...notes), { 0: scm }), []);
      }),
      seeded({ numRuns: 500, seed: 41 }),
    );
    assert.ok(broken > 100, `only ${broken} runs had something to break`);
  });
});
