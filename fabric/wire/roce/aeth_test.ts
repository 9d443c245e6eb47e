import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  ackSyndrome,
  CREDITS,
  NAK_SYNDROMES,
  nakText,
  parseSyndrome,
  rnrDelayPs,
  rnrSyndrome,
} from "./aeth.ts";
import { PS_PER_MS } from "../../base/time.ts";

describe("parseSyndrome", () => {
  it("§1.4: sorts all 256 bytes into the table's four types", () => {
    for (let byte = 0; byte < 256; byte++) {
      const { kind } = parseSyndrome(byte);
      const type = byte >> 5;
      const expected = type === 0
        ? "ack"
        : type === 1
        ? "rnr-nak"
        : type === 3 && (byte & 31) <= 4
        ? "nak"
        : "reserved";
      assert.equal(kind, expected, `syndrome ${byte}`);
    }
  });

  it("§1.4: names every NAK code", () => {
    for (const [code, byte] of Object.entries(NAK_SYNDROMES)) {
      assert.deepEqual(parseSyndrome(byte), { kind: "nak", code });
    }
  });

  it("§1.4: gives back an RNR NAK's timer code, whichever of the 32 it is", () => {
    for (let timerCode = 0; timerCode < 32; timerCode++) {
      assert.deepEqual(parseSyndrome(rnrSyndrome(timerCode)), { kind: "rnr-nak", timerCode });
    }
  });
});

describe("nakText", () => {
  it("§1.4: names what refuses, an RNR NAK with its waiting time, and nothing else", () => {
    assert.equal(nakText(0x60), "NAK PSN sequence error");
    assert.equal(nakText(0x62), "NAK remote access error");
    assert.equal(nakText(rnrSyndrome(12)), "RNR NAK timer 640 us");
    assert.equal(nakText(rnrSyndrome(0)), "RNR NAK timer 655.36 ms");
    for (const byte of [0x00, 0x1f, 0x65, 0x80, 0xff]) assert.equal(nakText(byte), undefined);
  });
});

describe("rnrDelayPs", () => {
  // The table of §1.4, in ms as it is printed there.
  // deno-fmt-ignore
  const MS = [
    655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12,
    0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
    2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72,
    40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
  ];

  it("§1.4: every code stands for the time that the table says; code 0 is the longest", () => {
    const delays = MS.map((_, code) => rnrDelayPs(code));
    assert.deepEqual(delays, MS.map((ms) => Math.round(ms * PS_PER_MS)));
    assert.equal(Math.max(...delays), delays[0]);
  });
});

describe("CREDITS", () => {
  // deno-fmt-ignore
  const table = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512,
    768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
  ];

  it("§1.4: has the table's 31 codes", () => {
    assert.deepEqual(CREDITS, table);
  });

  it("§1.4: rounds down, never promising a receive that is not posted", () => {
    for (let receives = 0; receives < 40_000; receives += 7) {
      const code = ackSyndrome(receives);
      assert.ok(table[code]! <= receives);
      assert.ok(code === 30 || table[code + 1]! > receives);
    }
  });
});

describe("ackSyndrome", () => {
  it("§1.4: says 0x1F where the count is not known, else its code", () => {
    assert.deepEqual([undefined, 0, 5, 6, 100_000].map(ackSyndrome), [0x1f, 0, 4, 5, 30]);
  });
});
