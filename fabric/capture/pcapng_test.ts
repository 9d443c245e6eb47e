import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { interfaceBlock, packetBlock, sectionBlock } from "./pcapng.ts";

/** Hexadecimal with blanks, as the format's description lays it out. */
function bytes(text: string): string {
  return text.replaceAll(/\s/g, "");
}

describe("pcapng", () => {
  it("begins a section of unknown length", () => {
    const block = sectionBlock({ application: "rackmesh", comment: "pair" });
    assert.equal(
      block.toHex(),
      bytes(`
        0a0d0d0a 34000000  4d3c2b1a 0100 0000 ffffffffffffffff
        0100 0400 70616972  0400 0800 7261636b6d657368  0000 0000
        34000000`),
    );
  });

  it("describes an Ethernet interface with its name, speed and nanoseconds", () => {
    const block = interfaceBlock({ name: "a:1", description: "b", bitsPerSecond: 100e9 });
    assert.equal(
      block.toHex(),
      bytes(`
        01000000 3c000000  0100 0000 00000000
        0200 0300 613a3100  0300 0100 62000000  0800 0800 00e8764817000000  0900 0100 09000000
        0000 0000
        3c000000`),
    );
  });

  it("pads a packet and its comment, and gives the direction", () => {
    const packet = packetBlock({
      interface: 2,
      // 2^32 ns and a little more than 3 of them.
      time: (2 ** 32 + 3) * 1000 + 999,
      direction: "out",
      bytes: Uint8Array.of(1, 2, 3, 4, 5),
      comment: "S903",
    });
    assert.equal(
      packet.toHex(),
      bytes(`
        06000000 3c000000  02000000 01000000 03000000 05000000 05000000
        0102030405 000000
        0100 0400 53393033  0200 0400 02000000  0000 0000
        3c000000`),
    );
    const plain = packetBlock({
      interface: 0,
      time: 0,
      direction: "in",
      bytes: Uint8Array.of(1, 2, 3, 4),
      comment: "",
    });
    assert.equal(
      plain.toHex(),
      bytes(`
        06000000 30000000  00000000 00000000 00000000 04000000 04000000
        01020304  0200 0400 01000000  0000 0000
        30000000`),
    );
  });

  it("refuses a frame from before the beginning", () => {
    const frame = {
      interface: 0,
      time: -1,
      direction: "in" as const,
      bytes: new Uint8Array(),
      comment: "",
    };
    assert.throws(() => packetBlock(frame), /before the run begins/);
  });
});
