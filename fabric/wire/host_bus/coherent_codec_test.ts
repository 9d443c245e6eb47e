import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { hashMessage } from "../../partition/message_hash.ts";
import { describePcie } from "../../trace/describe.ts";
import { COHERENT_MESSAGES } from "./coherent_testing.ts";
import { pcieFromArray, pcieToArray } from "./pcie_codec.ts";

describe("coherentFromArray", () => {
  it("C-01: gives back every message that coherentToArray is given", () => {
    for (const message of COHERENT_MESSAGES) {
      const array = structuredClone(pcieToArray(message));
      assert.deepEqual(pcieFromArray(array), message, message.op);
    }
  });

  it("refuses each of them with a field that is missing, too many or of another type", () => {
    for (const message of COHERENT_MESSAGES) {
      const array = pcieToArray(message);
      assert.equal(pcieFromArray([...array, 1, 2, 3]), undefined, `${message.op} and more`);
      for (let at = 1; at < array.length; at++) {
        for (const bad of ["x", -1, 1.5, {}, undefined]) {
          const damaged = array.with(at, bad);
          assert.equal(pcieFromArray(damaged), undefined, `${message.op}: ${at} is ${bad}`);
        }
      }
    }
  });

  it("refuses lines that are none, or that no message may be about", () => {
    const refused: readonly unknown[][] = [
      [12, 0, 1, 0x1001, 1], // within a line
      [12, 0, 1, 0x1000, 0],
      [12, 0, 1, 0x1000, 9],
      [12, 0, 1, 0x1040, 8], // across 512 B
      [12, 3, 1, 0x1000, false, new Uint8Array(63)],
      [12, 4, 1, 0x11ff, new Uint8Array(2), false],
      [12, 2, 1, 0x1000, 1, true], // of the medium: RdCur alone
      [12, 13, 0, new Uint8Array(65)],
      [12, 15, 1],
    ];
    for (const array of refused) assert.equal(pcieFromArray(array), undefined, `${array}`);
  });
});

describe("a message of the coherent bus", () => {
  it("has a hash and a line of its own", () => {
    const hashes = COHERENT_MESSAGES.map((message) => hashMessage(message));
    const lines = COHERENT_MESSAGES.map((message) => describePcie(message));
    // A doorbell's note for observers is in no digest, as on PCIe.
    assert.equal(new Set(hashes).size, hashes.length);
    assert.equal(new Set(lines).size, lines.length);
  });
});
