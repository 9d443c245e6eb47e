import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { decodeSrqWqe, encodeSrqWqe } from "./srq_wqe.ts";

describe("receive WQE of a shared receive queue", () => {
  const sge = { address: 2 ** 40 + 7, length: 100, lkey: 0x1234_5601 };

  it("brings slot and elements back, for any number of elements that fit", () => {
    for (const slot of [0, 1, 0xffff]) {
      for (const count of [0, 1, 3, 4]) {
        const wqe = { slot, sges: new Array(count).fill(sge) };
        const bytes = encodeSrqWqe(wqe, 80);
        assert.equal(bytes.length, 80);
        assert.deepEqual(decodeSrqWqe(bytes), wqe);
      }
    }
  });

  it("has its elements behind 16 bytes, as mlx5 has them behind the next segment", () => {
    const bytes = encodeSrqWqe({ slot: 0x1234, sges: [sge] }, 32);
    assert.deepEqual([...bytes.subarray(0, 20)], [
      ...[0, 0, 0x12, 0x34, 0, 0, 0, 0],
      ...[0, 0, 0, 0, 0, 0, 0, 0],
      ...[0, 0, 0, 100],
    ]);
  });
});
