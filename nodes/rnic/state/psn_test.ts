import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { packetsOf, psnAdd, psnDistance } from "./psn.ts";

describe("psn", () => {
  it("psnDistance is signed and crosses the wrap", () => {
    assert.equal(psnDistance(5, 7), 2);
    assert.equal(psnDistance(7, 5), -2);
    assert.equal(psnDistance(0xff_ffff, 1), 2);
    assert.equal(psnDistance(1, 0xff_ffff), -2);
    assert.equal(psnDistance(0, 0x7f_ffff), 0x7f_ffff);
    assert.equal(psnDistance(0, 0x80_0000), -0x80_0000);
  });

  it("psnAdd wraps both ways", () => {
    assert.equal(psnAdd(0xff_ffff, 2), 1);
    assert.equal(psnAdd(0, -1), 0xff_ffff);
  });

  it("packetsOf is at least one", () => {
    assert.deepEqual([0, 1, 1024, 1025, 4096].map((bytes) => packetsOf(bytes, 1024)), [
      1,
      1,
      1,
      2,
      4,
    ]);
  });
});
