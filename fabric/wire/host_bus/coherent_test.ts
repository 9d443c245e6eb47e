import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  COHERENT_CONTROL_BYTES,
  coherentWireBytes,
  LEAST_COHERENT_BYTES,
  linesOf,
} from "./coherent.ts";
import { COHERENT_MESSAGES } from "./coherent_testing.ts";

describe("coherentWireBytes", () => {
  it("C-01: a flit of 10 B a line for requests and answers, nine of them for a line of content", () => {
    const bytes = COHERENT_MESSAGES.map((message) => `${message.op} ${coherentWireBytes(message)}`);
    assert.deepEqual(bytes, [
      "RdCur 80",
      "RdCur 10",
      "RdCode 10",
      "InvItoE 70",
      "DataC 720",
      "DataC 90",
      "WbMtoI 630",
      "WbMtoE 110",
      "GntE 70",
      "Cmp 70",
      "FailedCmp 10",
      "RspI 10",
      "SnpInv 10",
      "NcRd 30",
      "DataNc 90",
      "NcWr 110",
      "NcWr 90",
      "NcWr 110",
      "IntPhysical 110",
    ]);
  });

  it("masks the ends of a write that are parts of lines", () => {
    const write = (address: number, length: number) =>
      coherentWireBytes({
        kind: "coherent",
        op: "WbMtoI",
        tag: 0,
        address,
        data: new Uint8Array(length),
        toMemory: false,
      });
    assert.equal(write(0, 128), 180);
    assert.equal(write(0, 65), 90 + 110);
    assert.equal(write(63, 66), 110 + 90 + 110);
    assert.equal(write(1, 62), 110);
  });

  it("is nowhere less than the least, which the lookahead counts on", () => {
    for (const message of COHERENT_MESSAGES) {
      assert.ok(coherentWireBytes(message) >= LEAST_COHERENT_BYTES, message.op);
    }
    assert.ok(COHERENT_CONTROL_BYTES >= LEAST_COHERENT_BYTES);
  });
});

describe("linesOf", () => {
  it("counts the lines that hold a range", () => {
    assert.deepEqual([linesOf(0, 0), linesOf(0, 64), linesOf(63, 2), linesOf(64, 1)], [0, 1, 2, 1]);
  });
});
