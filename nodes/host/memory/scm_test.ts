import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { stickTo } from "./scm.ts";

describe("stickTo", () => {
  it("V-08: holds each broken cell of the bytes, the first and the last of them too, and no other", () => {
    const stick = stickTo([
      { offset: 13, bit: 0, value: 1 },
      { offset: 10, bit: 7, value: 0 },
      { offset: 12, bit: 3, value: 1 },
    ])!;
    const ones = () => new Uint8Array(3).fill(0xff), zeros = () => new Uint8Array(3);
    assert.deepEqual([...stick(10, ones())], [0x7f, 0xff, 0xff]);
    assert.deepEqual([...stick(10, zeros())], [0, 0, 8]);
    assert.deepEqual([...stick(11, zeros())], [0, 8, 1]);
    assert.deepEqual([...stick(13, zeros())], [1, 0, 0]);
    assert.deepEqual([...stick(7, zeros())], [0, 0, 0]);
    assert.deepEqual([...stick(14, zeros())], [0, 0, 0]);
  });

  it("changes no bytes of its caller's, and gives them back where no cell has an effect", () => {
    const stick = stickTo([{ offset: 1, bit: 0, value: 1 }])!;
    const given = new Uint8Array(2), held = Uint8Array.of(0, 1);
    assert.notEqual(stick(0, given), given);
    assert.deepEqual([...given], [0, 0]);
    assert.equal(stick(0, held), held);
    assert.equal(stickTo([]), undefined);
  });
});
