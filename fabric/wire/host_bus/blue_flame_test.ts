import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  BLUE_FLAME_WQE_BYTES,
  BUFFER_BYTES,
  decodeBlueFlameDoorbell,
  encodeBlueFlame,
  placeOfRegister,
} from "./blue_flame.ts";
import { CQ_ARM_OFFSET, DOORBELL_OFFSET } from "./queue_information.ts";

describe("encodeBlueFlame", () => {
  const write = { pointer: 0x3f_ffff, stamp: 2 ** 53 - 1 };

  it("puts a WQE of any size in front of its doorbell, in whole lines up to a buffer's end", () => {
    for (let length = 16; length <= BLUE_FLAME_WQE_BYTES; length += 16) {
      const wqe = Uint8Array.from({ length }, (_, i) => i + 1);
      const queue = length === 16 ? 2 ** 18 : length;
      const { offset, bytes } = encodeBlueFlame({ queue, write }, wqe, 1);
      assert.equal(bytes.length % 64, 0);
      const { buffer, at } = placeOfRegister(offset)!;
      assert.deepEqual([buffer, at + bytes.length], [2 * queue + 1, BUFFER_BYTES]);
      const whole = new Uint8Array(BUFFER_BYTES);
      whole.set(bytes, at);
      const doorbell = decodeBlueFlameDoorbell(whole)!;
      assert.deepEqual([doorbell.queue, doorbell.write, doorbell.start], [queue, write, at]);
      const { wqeStart, wqeBytes } = doorbell;
      assert.deepEqual(whole.slice(wqeStart, wqeStart + wqeBytes), wqe);
    }
  });

  it("a plain WRITE of one element takes one line, one of 64 B inline two, as with mlx5", () => {
    const lines = (length: number) =>
      encodeBlueFlame({ queue: 1, write }, new Uint8Array(length), 0).bytes.length / 64;
    assert.deepEqual([lines(48), lines(112), lines(256)], [1, 2, 5]);
  });
});

describe("decodeBlueFlameDoorbell", () => {
  it("refuses a doorbell without a WQE, or with one that is too long", () => {
    const buffer = new Uint8Array(BUFFER_BYTES);
    assert.equal(decodeBlueFlameDoorbell(buffer), undefined);
    buffer[BUFFER_BYTES - 16] = 17;
    assert.equal(decodeBlueFlameDoorbell(buffer), undefined);
  });
});

describe("placeOfRegister", () => {
  it("leaves the other registers alone", () => {
    for (const offset of [CQ_ARM_OFFSET, DOORBELL_OFFSET]) {
      assert.equal(placeOfRegister(offset), undefined);
    }
  });
});
