import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { EXTENSION_HEADERS } from "./extension_headers.ts";
import {
  OPCODE,
  OPCODE_ROWS,
  opcodeFor,
  type OpcodeRow,
  opcodeRow,
  payloadFits,
  positionOf,
} from "./opcode.ts";

function row(code: number): OpcodeRow {
  const found = opcodeRow(code);
  assert.ok(found, `opcode ${code} has a row`);
  return found;
}

describe("OPCODE_ROWS", () => {
  it("stand in the order of their codes, each once", () => {
    for (let i = 1; i < OPCODE_ROWS.length; i++) {
      assert.ok(OPCODE_ROWS[i]!.code > OPCODE_ROWS[i - 1]!.code, OPCODE_ROWS[i]!.name);
    }
    assert.equal(new Set(OPCODE_ROWS.map(({ name }) => name)).size, OPCODE_ROWS.length);
  });

  it("§2.1: have the service that the top three bits say", () => {
    const services = ["rc", "uc", "rd", "ud", "any", "xrc", "rc", "uc"];
    for (const { code, name, service, vendor } of OPCODE_ROWS) {
      assert.equal(service, services[code >> 5], name);
      assert.equal(vendor, code >= 0xc0, name);
    }
  });

  it("§2.2: UC is RC's first twelve rows again, 0x20 higher", () => {
    for (let code = 0; code < 12; code++) {
      const { name, service: _, ...rest } = row(code);
      const uc = row(code + 0x20);
      assert.deepEqual(
        { ...uc },
        { ...rest, code: code + 0x20, service: "uc", name: name.replace("RC", "UC") },
      );
    }
  });

  it("P-21 (in part): persistent writes are RC's writes, with the vendor word behind each RETH", () => {
    for (let low = 6; low <= 0xb; low++) {
      const plain = row(low), persistent = row(0xc0 | low);
      const headers = plain.headers.flatMap((h) => h === "reth" ? [h, "persistEth" as const] : [h]);
      assert.deepEqual(persistent, {
        ...plain,
        code: 0xc0 | low,
        name: plain.name.replace("RC RDMA WRITE", "VENDOR WRITE PERSISTENCE"),
        headers,
        headerBytes: plain.headerBytes + (headers.length - plain.headers.length) * 4,
        persistence: true,
        vendor: true,
      });
    }
  });

  it("P-28: a persistence ACK is laid out as an ACK is, and is told apart by its opcode", () => {
    const ack = row(0x11), second = row(0xd1);
    assert.deepEqual(second.headers, ack.headers);
    assert.equal(second.direction, "response");
    assert.notEqual(second.operation, ack.operation);
  });

  it("V-06: verified writes are RC's writes without immediate, a word and a CRC more", () => {
    const positions = ["first", "middle", "last", "only"] as const;
    for (const [i, position] of positions.entries()) {
      const plain = opcodeFor({ service: "rc", operation: "write" }, position);
      const verified = row(0xcc + i);
      const word = position === "first" || position === "only" ? ["verifyEth" as const] : [];
      const crc = position === "last" || position === "only" ? ["digestEth" as const] : [];
      assert.deepEqual(verified, {
        ...plain,
        code: 0xcc + i,
        name: plain.name.replace("RC RDMA WRITE", "VENDOR WRITE VERIFY"),
        operation: "write-verify",
        headers: [...plain.headers, ...word, ...crc],
        headerBytes: plain.headerBytes + 4 * (word.length + crc.length),
        vendor: true,
      });
    }
  });

  it("H-07 (in part), C-02 (in part): hints and coherence are requests of one packet, and no SENDs", () => {
    for (const code of [0xc4, 0xd0, 0xd2, 0xd3, 0xe4]) {
      const { direction, position, vendor, persistence, headers } = row(code);
      assert.deepEqual({ direction, position, vendor, persistence }, {
        direction: "request",
        position: "only",
        vendor: true,
        persistence: false,
      });
      assert.deepEqual(headers, [(code & 0x1f) === 4 ? "hintEth" : "coherenceEth"]);
    }
    assert.deepEqual([0, 1].map((bytes) => payloadFits(row(0xd2), { bytes, pathMtu: 256 })), [
      true,
      false,
    ]);
  });

  it("§1.3: AETH is in the answers, except a middle read response", () => {
    for (const { direction, position, headers, name } of OPCODE_ROWS) {
      assert.equal(
        headers.includes("aeth"),
        direction === "response" && position !== "middle",
        name,
      );
    }
  });

  it("§1.3: FLUSH has FETH before RETH, and ATOMIC WRITE eight bytes", () => {
    assert.deepEqual(row(0x1c).headers, ["feth", "reth"]);
    assert.deepEqual(row(0x1d).headers, ["reth"]);
    assert.equal(row(0x1d).payload, 8);
  });

  it("count the bytes of their headers", () => {
    for (const { headers, headerBytes, name } of OPCODE_ROWS) {
      let sum = 0;
      for (const header of headers) sum += EXTENSION_HEADERS[header].bytes;
      assert.equal(headerBytes, sum, name);
    }
    assert.equal(row(0xcb).headerBytes, 16 + 4 + 4);
  });
});

describe("opcodeRow", () => {
  it("§2.3: knows none of the reserved codes", () => {
    for (
      const code of [
        0x15,
        0x18,
        0x1b,
        0x1e,
        0x1f,
        0x2c,
        0x40,
        0x66,
        0x82,
        0xa0,
        0xc0,
        0xd4,
        0xff,
        256,
        -1,
      ]
    ) {
      assert.equal(opcodeRow(code), undefined, `opcode ${code}`);
    }
  });
});

describe("opcodeFor", () => {
  it("finds every row again by what it is", () => {
    for (const found of OPCODE_ROWS) {
      const code = opcodeFor(found, found.position).code;
      assert.equal(code, found.code === OPCODE["CNP (IBA)"] ? OPCODE["CNP"] : found.code);
    }
  });

  it("§3.2: gives an immediate to the last packet only", () => {
    const shape = { service: "rc", operation: "write", immediate: true } as const;
    assert.equal(opcodeFor(shape, "first").code, OPCODE["RC RDMA WRITE FIRST"]);
    assert.equal(opcodeFor(shape, "middle").code, OPCODE["RC RDMA WRITE MIDDLE"]);
    assert.equal(opcodeFor(shape, "last").code, OPCODE["RC RDMA WRITE LAST IMM"]);
    assert.equal(opcodeFor(shape, "only").code, OPCODE["RC RDMA WRITE ONLY IMM"]);
  });

  it("P-21 (in part): differs for a persistent write in the flag alone", () => {
    const shape = { service: "rc", operation: "write", persistence: true } as const;
    assert.equal(opcodeFor(shape, "only").code, 0xca);
    assert.equal(opcodeFor({ ...shape, persistence: false }, "only").code, 0x0a);
  });

  it("asserts where there is no such opcode", () => {
    assert.throws(() => opcodeFor({ service: "ud", operation: "write" }, "only"), /No opcode/);
  });
});

describe("positionOf", () => {
  it("§3.2: numbers the packets of a message", () => {
    assert.equal(positionOf(0, 1), "only");
    assert.deepEqual([0, 1, 2].map((i) => positionOf(i, 3)), ["first", "middle", "last"]);
  });
});

describe("payloadFits", () => {
  const pathMtu = 1024;
  const fits = (code: number, bytes: number) => payloadFits(row(code), { bytes, pathMtu });

  it("§2.2: holds first and middle packets to the whole MTU", () => {
    assert.deepEqual([1023, 1024, 1025].map((n) => fits(0x06, n)), [false, true, false]);
    assert.deepEqual([1023, 1024, 1025].map((n) => fits(0x0e, n)), [false, true, false]);
  });

  it("§2.2: lets a last packet be short but not empty, an only packet be empty", () => {
    assert.deepEqual([0, 1, 1024, 1025].map((n) => fits(0x08, n)), [false, true, true, false]);
    assert.deepEqual([0, 1, 1024, 1025].map((n) => fits(0x0a, n)), [true, true, true, false]);
  });

  it("§2.2: allows exactly what a fixed rule says", () => {
    assert.deepEqual([0, 1].map((n) => fits(0x0c, n)), [true, false]);
    assert.deepEqual([0, 7, 8, 9].map((n) => fits(0x1d, n)), [false, false, true, false]);
  });
});
