import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { describeFrame } from "../../trace/describe.ts";
import { decodePfc, describePfc, encodePfc, priorityOfDscp } from "./pfc.ts";
import { seeded } from "../../base/property_testing.ts";

const MAC = 0x0200_0000_0007;

function hexOf(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

describe("encodePfc", () => {
  it("writes a pause of priority 3 as Wireshark reads it (§3.9)", () => {
    const bytes = encodePfc({ sourceMac: MAC, priorities: 1 << 3, quanta: 0xffff });
    const expected = "0180c2000001" + "020000000007" + "8808" + "0101" + "0008" +
      "0000".repeat(3) + "ffff" + "0000".repeat(4);
    assert.equal(hexOf(bytes), expected + "00".repeat(26));
  });
});

describe("decodePfc", () => {
  it("gives back what was encoded, for every set of priorities", () => {
    for (let priorities = 0; priorities < 256; priorities++) {
      for (const quanta of [0, 1, 0xffff]) {
        const pfc = decodePfc(encodePfc({ sourceMac: MAC, priorities, quanta }));
        assert.equal(pfc?.sourceMac, MAC);
        const expected = Array.from(
          { length: 8 },
          (_, i) => (priorities >> i) & 1 ? quanta : undefined,
        );
        assert.deepEqual(pfc.quanta, expected);
      }
    }
  });

  it("takes a time whose priority is not enabled for nothing", () => {
    const bytes = encodePfc({ sourceMac: MAC, priorities: 0b11, quanta: 5 });
    bytes[17] = 0b01;
    assert.deepEqual(decodePfc(bytes)?.quanta.slice(0, 2), [5, undefined]);
  });

  it("leaves the pause of a whole link (opcode 1), other addresses and short frames alone", () => {
    const bytes = encodePfc({ sourceMac: MAC, priorities: 1, quanta: 5 });
    assert.equal(decodePfc(bytes.slice(0, 33)), undefined);
    for (const [at, value] of [[14, 0], [5, 2], [12, 8]] as const) {
      const other = bytes.slice();
      other[at] = value;
      assert.equal(decodePfc(other), undefined);
    }
  });

  it("never throws", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
        const frame = Uint8Array.from(bytes);
        if (frame.length > 15) frame.set([0x88, 0x08, 1, 1], 12);
        decodePfc(frame);
      }),
      seeded(),
    );
  });
});

describe("describePfc", () => {
  it("names pauses and their end", () => {
    const quanta = [undefined, undefined, undefined, 65535, undefined, undefined, 0, undefined];
    assert.equal(describePfc({ sourceMac: MAC, quanta }), "PFC 3: pause 65535, 6: go on");
  });

  it("is the line of the frame", () => {
    const bytes = encodePfc({ sourceMac: MAC, priorities: 2, quanta: 7 });
    assert.equal(
      describeFrame(bytes),
      "02:00:00:00:00:07→01:80:c2:00:00:01 PFC 1: pause 7",
    );
  });
});

describe("priorityOfDscp", () => {
  it("is the class selector: 26 is 3, 48 is 6", () => {
    assert.deepEqual([0, 7, 8, 26, 46, 48, 63].map(priorityOfDscp), [0, 0, 1, 3, 5, 6, 7]);
  });
});
