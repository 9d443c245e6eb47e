import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { pattern } from "../testing/host_testing.ts";
import { DRAM_PAGE_BYTES as PAGE } from "./address_map.ts";
import { type ForeignMemory, ForeignPages } from "./foreign_pages.ts";

const BASE = 0x7000_0000;

/** A process with memory from {@link BASE} on. */
class Process implements ForeignMemory {
  readonly bytes: Uint8Array;
  readonly accesses: string[] = [];
  isWatched = false;

  constructor(pages: number) {
    this.bytes = pattern(pages * PAGE);
  }

  read(address: number, length: number): Uint8Array | undefined {
    this.accesses.push(`read ${address - BASE} +${length}`);
    const at = address - BASE;
    return at + length > this.bytes.length ? undefined : this.bytes.slice(at, at + length);
  }

  write(address: number, bytes: Uint8Array): void {
    this.accesses.push(`write ${address - BASE} +${bytes.length}`);
    this.bytes.set(bytes, address - BASE);
  }
}

/** Frames 8 and 3 of the host are the process's first two pages, in this order. */
function twoPages() {
  const pages = new ForeignPages(), process = new Process(2);
  pages.map(8 * PAGE, process, BASE);
  pages.map(3 * PAGE, process, BASE + PAGE);
  return { pages, process };
}

function filled(length: number): Uint8Array {
  return new Uint8Array(length).fill(0xee);
}

describe("ForeignPages", () => {
  it("reads the process's bytes from its pages, and leaves what lies beside them", () => {
    const { pages, process } = twoPages();
    const target = filled(32);
    // The last 20 bytes of frame 2, and the first 12 of frame 3.
    pages.read(3 * PAGE - 20, target);
    assert.deepEqual(target.subarray(0, 20), filled(20));
    assert.deepEqual(target.subarray(20), process.bytes.subarray(PAGE, PAGE + 12));
    assert.deepEqual(process.accesses, [`read ${PAGE} +12`]);
  });

  it("writes a range over several pages by parts, each where its page is", () => {
    const pages = new ForeignPages(), process = new Process(3);
    const places = [2, 0, 1].map((place) => place * PAGE);
    places.forEach((at, i) => pages.map((5 + i) * PAGE, process, BASE + at));
    const bytes = pattern(PAGE + 30, 9);
    pages.write(6 * PAGE - 10, bytes);
    assert.deepEqual(process.accesses, [
      `write ${3 * PAGE - 10} +10`,
      `write 0 +${PAGE}`,
      `write ${PAGE} +20`,
    ]);
    assert.deepEqual(process.bytes.subarray(0, PAGE), bytes.subarray(10, PAGE + 10));
    const back = filled(bytes.length);
    pages.read(6 * PAGE - 10, back);
    assert.deepEqual(back, bytes);
  });

  it("reads 0 where the process has its memory no more", () => {
    const { pages } = twoPages();
    const gone = new Process(0);
    pages.map(3 * PAGE, gone, BASE);
    const target = filled(8);
    pages.read(3 * PAGE, target);
    assert.deepEqual(target, new Uint8Array(8));
  });

  it("ends with the mapping: the frame's next owner neither writes to the process nor reads it", () => {
    const { pages, process } = twoPages();
    pages.unmap(8 * PAGE);
    pages.write(8 * PAGE, filled(4));
    const target = filled(4);
    pages.read(8 * PAGE, target);
    assert.deepEqual(target, filled(4));
    assert.deepEqual(process.accesses, []);
    pages.write(3 * PAGE, filled(4));
    assert.deepEqual(process.accesses, [`write ${PAGE} +4`], "the other page is as before");
  });

  it("a mirror takes writes, and answers no read: the host's memory is the truth", () => {
    const pages = new ForeignPages(), process = new Process(1);
    pages.mirror(8 * PAGE, process, BASE);
    pages.write(8 * PAGE + 16, filled(4));
    assert.deepEqual(process.bytes.subarray(16, 20), filled(4));
    const target = filled(4);
    pages.read(8 * PAGE, target);
    assert.deepEqual(target, filled(4));
    assert.deepEqual(process.accesses, ["write 16 +4"]);
  });

  it("a page of SCM has several mirrors, of one process or more, and each ends alone", () => {
    const pages = new ForeignPages(), one = new Process(2), other = new Process(1);
    pages.mirror(8 * PAGE, one, BASE);
    pages.mirror(8 * PAGE, one, BASE + PAGE);
    pages.mirror(8 * PAGE, other, BASE);
    pages.write(8 * PAGE, filled(4));
    assert.deepEqual(one.accesses, ["write 0 +4", `write ${PAGE} +4`]);
    assert.deepEqual(other.accesses, ["write 0 +4"]);
    pages.unmirror(8 * PAGE, one, BASE);
    pages.write(8 * PAGE, filled(4));
    assert.deepEqual(one.accesses.slice(2), [`write ${PAGE} +4`]);
    other.isWatched = true;
    assert.equal(pages.isWatched(8 * PAGE, 4), true);
    pages.unmirror(8 * PAGE, other, BASE);
    pages.write(8 * PAGE, filled(4));
    assert.equal(other.accesses.length, 2);
    assert.equal(pages.isWatched(8 * PAGE, 4), false);
  });

  it("ends a mirror or a mapping alone: what is left of the other kind goes on", () => {
    for (const isMirrorFirst of [true, false]) {
      const pages = new ForeignPages(), process = new Process(2);
      assert.equal(pages.isEmpty, true);
      pages.map(8 * PAGE, process, BASE);
      pages.mirror(9 * PAGE, process, BASE + PAGE);
      if (isMirrorFirst) pages.unmirror(9 * PAGE, process, BASE + PAGE);
      else pages.unmap(8 * PAGE);
      const [left, gone] = isMirrorFirst ? [8, 9] : [9, 8];
      assert.deepEqual([pages.isEmpty, pages.has(8 * PAGE)], [false, isMirrorFirst]);
      pages.write(gone * PAGE, filled(4));
      assert.deepEqual(process.accesses, []);
      pages.write(left * PAGE, filled(4));
      assert.deepEqual(process.accesses, [`write ${isMirrorFirst ? 0 : PAGE} +4`]);
      if (isMirrorFirst) pages.unmap(8 * PAGE);
      else pages.unmirror(9 * PAGE, process, BASE + PAGE);
      assert.equal(pages.isEmpty, true);
    }
  });

  it("is watched where a process that waits has a part of the range", () => {
    const { pages, process } = twoPages();
    const isWatched = () => pages.isWatched(3 * PAGE - 4, 8);
    assert.equal(isWatched(), false);
    process.isWatched = true;
    assert.equal(isWatched(), true, "its last bytes");
    assert.equal(pages.isWatched(9 * PAGE - 4, 8), true, "its first bytes");
    assert.equal(pages.isWatched(3 * PAGE - 8, 8), false, "beside it");
    assert.equal(pages.isWatched(4 * PAGE, 8), false, "behind it");
    pages.unmap(3 * PAGE);
    assert.equal(isWatched(), false);
  });
});
