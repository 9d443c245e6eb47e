/** `ScmFile` over several lives of its process: output commit. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { pattern } from "../../nodes/host/testing/host_testing.ts";
import { ScmFile } from "../../nodes/host/store/scm_file.ts";
import { seeded } from "../../fabric/base/property_testing.ts";
import { copyAfterKill, newPath, PLAN, reopenAfterKill } from "../support/scm_files.ts";
import { SUITE_BYTES } from "../support/scm_size.ts";

function create(): ScmFile {
  return ScmFile.open(newPath(), PLAN);
}

function content(store: ScmFile): Uint8Array {
  return store.readImage(0, SUITE_BYTES);
}

/** An image with the given pieces in it. */
function image(...pieces: [offset: number, data: Uint8Array][]): Uint8Array {
  const bytes = new Uint8Array(SUITE_BYTES);
  for (const [offset, data] of pieces) bytes.set(data, offset);
  return bytes;
}

function fresh(): ScmFile {
  const store = create();
  store.settle("unknown");
  return store;
}

describe("ScmFile, over several lives", () => {
  const x = pattern(100, 1), y = pattern(64, 2);

  it("P-05 (in part): begins with zeros, and keeps over a close what was committed", () => {
    const store = fresh();
    assert.equal(store.bytes, SUITE_BYTES);
    assert.deepEqual(content(store), image());
    store.commit(1, [{ offset: 4000, data: x }]);
    store.close();
    const next = reopenAfterKill(store);
    next.settle("unknown");
    assert.deepEqual(content(next), image([4000, x]));
    next.close();
  });

  it("P-05: reads back what was committed, for a host that returns within the same process", () => {
    const store = fresh();
    store.commit(1, [{ offset: 0, data: x }]);
    assert.deepEqual(content(store), image([0, x]));
    store.commit(2, [{ offset: 60, data: y }]);
    assert.deepEqual(content(store), image([0, x], [60, y]));
    assert.deepEqual(store.readImage(50, 20), image([0, x], [60, y]).slice(50, 70));
    assert.deepEqual(store.readImage(120, 8), image([60, y]).slice(120, 128));
    store.close();
  });

  it("keeps a span that was reported, whenever the process dies after it", () => {
    const store = fresh();
    store.commit(5, [{ offset: 0, data: x }]);
    const next = reopenAfterKill(store);
    next.settle(5);
    assert.deepEqual(content(next), image([0, x]));
    store.close();
    next.close();
  });

  it("undoes the one span that was not reported, and no other", () => {
    const store = fresh();
    store.commit(5, [{ offset: 0, data: x }]);
    store.commit(6, [{ offset: 10, data: y }]);
    const next = reopenAfterKill(store);
    next.settle(5);
    assert.deepEqual(content(next), image([0, x]));
    next.commit(6, [{ offset: 20, data: y }]);
    const third = reopenAfterKill(next);
    third.settle(6);
    assert.deepEqual(content(third), image([0, x], [20, y]), "the undone span stays undone");
    for (const open of [store, next, third]) open.close();
  });

  it("keeps a whole record where the reported span is unknown", () => {
    const store = fresh();
    store.commit(5, [{ offset: 0, data: x }]);
    const next = reopenAfterKill(store);
    next.settle("unknown");
    assert.deepEqual(content(next), image([0, x]));
    store.close();
    next.close();
  });

  it("says what it decided about the last span, and that there was nothing to decide", () => {
    const store = create();
    assert.equal(store.settle("unknown"), "none");
    store.commit(5, [{ offset: 0, data: x }]);
    const lives = [store];
    for (
      const [reported, fate] of [[5, "kept"], [6, "undone"], ["unknown", "assumed"]] as const
    ) {
      const next = reopenAfterKill(lives.at(-1)!);
      assert.equal(next.settle(reported), fate);
      next.commit(7, [{ offset: 0, data: y }]);
      lives.push(next);
    }
    for (const open of lives) open.close();
  });

  it("applies writes in their order, contiguous or over each other", () => {
    const store = fresh();
    store.commit(1, [
      { offset: 0, data: x },
      { offset: 100, data: y },
      { offset: 164, data: new Uint8Array(0) },
      { offset: 90, data: y },
      { offset: SUITE_BYTES - 64, data: y },
    ]);
    store.commit(2, []);
    store.close();
    const next = reopenAfterKill(store);
    next.settle("unknown");
    assert.deepEqual(content(next), image([0, x], [100, y], [90, y], [SUITE_BYTES - 64, y]));
    next.close();
  });

  it("refuses spans that do not ascend", () => {
    const store = fresh();
    store.commit(2, [{ offset: 0, data: y }]);
    assert.throws(() => store.commit(2, []), /Span 2 is committed after span 2/);
    store.close();
  });

  it("P-05: killed between any two changes of its files, holds the spans before it whole, and no damage", () => {
    const { prototype } = Deno.FsFile;
    const { writeSync, truncateSync } = prototype;
    const store = fresh(), copies: string[] = [];
    const noted = <Args extends unknown[], Result>(change: (...args: Args) => Result) =>
      function (this: Deno.FsFile, ...args: Args): Result {
        copies.push(copyAfterKill(store.path));
        return change.apply(this, args);
      };
    const first = image([10, x], [9000, y]), second = image([10, x], [9000, y], [50, y], [5000, x]);
    try {
      prototype.writeSync = noted(writeSync);
      prototype.truncateSync = noted(truncateSync);
      store.commit(1, [{ offset: 10, data: x }, { offset: 9000, data: y }]);
      store.commit(2, [{ offset: 50, data: y }, { offset: 5000, data: x }]);
      store.close();
    } finally {
      Object.assign(prototype, { writeSync, truncateSync });
    }
    const none = new Uint8Array(SUITE_BYTES), seen = new Set<number>();
    for (const [i, copy] of copies.entries()) {
      const next = ScmFile.open(copy, PLAN);
      next.settle("unknown");
      const found = content(next);
      next.close();
      const spans = [none, first, second].findIndex((each) =>
        each.every((byte, at) => byte === found[at])
      );
      assert.ok(spans >= Math.max(0, ...seen), `${spans} spans at change ${i} of ${copies.length}`);
      seen.add(spans);
    }
    assert.deepEqual([...seen], [0, 1, 2]);
  });

  it("keeps its last span where it is closed before it is settled", () => {
    const store = fresh();
    store.commit(1, [{ offset: 10, data: x }]);
    const copy = copyAfterKill(store.path);
    ScmFile.open(copy, PLAN).close();
    const again = ScmFile.open(copy, PLAN);
    assert.equal(again.settle("unknown"), "assumed");
    assert.deepEqual(content(again), image([10, x]));
    again.close();
    store.close();
  });

  it("P-05, P-41: after any kill holds exactly the spans that were reported", () => {
    const span = fc.array(
      fc.record({ offset: fc.nat(SUITE_BYTES - 300), length: fc.integer({ min: 1, max: 300 }) }),
      { maxLength: 4 },
    );
    const life = fc.record({
      spans: fc.array(span, { maxLength: 5 }),
      reportedLast: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(life, { minLength: 1, maxLength: 4 }), (lives) => {
        const expected = image();
        let store = create();
        let reported = 0;
        const opened = [store];
        for (const { spans, reportedLast } of lives) {
          store.settle(reported);
          assert.deepEqual(content(store), expected);
          for (const [i, places] of spans.entries()) {
            const span = reported + 1;
            const writes = places.map(({ offset, length }, k) => ({
              offset,
              data: pattern(length, 16 * i + k),
            }));
            store.commit(span, writes);
            if (i === spans.length - 1 && !reportedLast) break;
            for (const { offset, data } of writes) expected.set(data, offset);
            reported = span;
          }
          store = reopenAfterKill(store);
          opened.push(store);
        }
        store.settle(reported);
        assert.deepEqual(content(store), expected);
        for (const open of opened) open.close();
      }),
      seeded({ numRuns: 60 }),
    );
  });
});
