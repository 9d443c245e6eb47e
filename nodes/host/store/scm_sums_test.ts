import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type ByteStore, isWritten, ScmSums } from "./scm_sums.ts";

const PAGE = 4096;
/** Three pages, and the beginning of a fourth. */
const BYTES = 3 * PAGE + 100;

function memory(bytes: number): ByteStore & { readonly bytes: Uint8Array<ArrayBuffer> } {
  const all = new Uint8Array(bytes);
  return {
    bytes: all,
    read: (offset, length) => all.slice(offset, offset + length),
    write: (offset, bytes) => all.set(bytes, offset),
  };
}

/** Sums of a content in which these bytes were written. */
function bench(...writes: readonly { readonly offset: number; readonly length: number }[]) {
  const content = memory(BYTES), file = memory(ScmSums.size(BYTES));
  const sums = new ScmSums(file, BYTES);
  sums.markAtRest();
  const done = writes.map(({ offset, length }) => ({
    offset,
    data: new Uint8Array(length).fill(7),
  }));
  for (const { offset, data } of done) content.write(offset, data);
  sums.update(content, done);
  const pages = [0, 1, 2, 3].filter((page) =>
    isWritten(file.bytes, { from: page * PAGE, to: Math.min(BYTES, (page + 1) * PAGE) })
  );
  return { content, file, sums, pages };
}

describe("ScmSums", () => {
  it("knows which pages were written: all that a write touches, and none beside them", () => {
    assert.deepEqual(bench({ offset: PAGE, length: PAGE }).pages, [1]);
    assert.deepEqual(bench({ offset: PAGE - 1, length: 2 }).pages, [0, 1]);
    assert.deepEqual(bench({ offset: 2 * PAGE - 1, length: 1 }).pages, [1]);
    assert.deepEqual(bench({ offset: 2 * PAGE, length: PAGE + 1 }).pages, [2, 3]);
    assert.deepEqual(bench({ offset: BYTES - 1, length: 1 }).pages, [3]);
    assert.deepEqual(bench({ offset: PAGE, length: 0 }).pages, []);
  });

  it("says of any range whether a page of it was written, and of what it has no sums of that it may have been", () => {
    const { file } = bench({ offset: PAGE, length: 8 });
    const of = (from: number, to: number) => isWritten(file.bytes, { from, to });
    assert.deepEqual([of(0, PAGE), of(0, PAGE + 1), of(2 * PAGE - 1, 2 * PAGE)], [
      false,
      true,
      true,
    ]);
    assert.deepEqual([of(2 * PAGE, BYTES), of(BYTES, 5 * PAGE)], [false, true]);
    const last = bench({ offset: BYTES - 1, length: 1 }).file.bytes;
    assert.equal(isWritten(last, { from: 3 * PAGE + 10, to: 3 * PAGE + 20 }), true);
  });

  it("finds the first page that is not what was written, also where none was, but of a merge", () => {
    const { content, sums } = bench({ offset: PAGE, length: 8 }, { offset: BYTES - 8, length: 8 });
    const damage = (offsets: readonly number[], merging: readonly number[] = []) => {
      for (const at of offsets) content.bytes[at]! ^= 1;
      const options = {
        blocks: null,
        merging: merging.map((offset) => ({ offset, data: Uint8Array.of(1) })),
      };
      const found = sums.firstDamage(content, options);
      for (const at of offsets) content.bytes[at]! ^= 1;
      return found;
    };
    assert.equal(damage([]), undefined);
    assert.equal(damage([2 * PAGE - 1]), PAGE);
    assert.equal(damage([2 * PAGE, BYTES - 1]), 2 * PAGE, "it was never written");
    assert.equal(damage([BYTES - 1]), 3 * PAGE);
    assert.equal(damage([PAGE + 3, BYTES - 1], [PAGE + 100]), 3 * PAGE);
  });

  it("opens again as it was marked, and not with a byte of its head changed, or for another size", () => {
    const { file, sums } = bench();
    sums.mark({ pending: 7, logBytes: 99, merging: true });
    const again = () => new ScmSums(file, BYTES);
    const opened = again();
    assert.equal(opened.open(), true);
    assert.deepEqual(opened.state, { pending: 7, logBytes: 99, merging: true });
    assert.equal(new ScmSums(file, BYTES + 1).open(), false);
    for (let at = 0; at < 40; at++) {
      file.bytes[at]! ^= 1;
      assert.equal(again().open(), false, `byte ${at}`);
      file.bytes[at]! ^= 1;
    }
  });
});
