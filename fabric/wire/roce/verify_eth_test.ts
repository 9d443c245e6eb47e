import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { EXTENSION_HEADERS } from "./extension_headers.ts";
import {
  algorithmOf,
  checksOf,
  decodeVerdict,
  decodeVerifyResult,
  encodeVerdict,
  encodeVerifyResult,
  isVerifiable,
  makeVerifyEth,
  readsBack,
  VERIFY_ALGORITHM,
  VERIFY_BYTES_MAX,
  VERIFY_CHECKS,
  VERIFY_LEVELS,
  VERIFY_RESULT_BYTES,
  VERIFY_STATUS,
  VERIFY_VERSION,
  type VerifyResult,
} from "./verify_eth.ts";
import { seeded } from "../../base/property_testing.ts";

const RESULT: VerifyResult = {
  version: VERIFY_VERSION,
  status: VERIFY_STATUS["read-back-differs"],
  checks: VERIFY_CHECKS["crc-before"] | VERIFY_CHECKS["crc-after"],
  reserved: 0,
  crc: 0xcbf4_3926,
};

describe("makeVerifyEth", () => {
  it("V-04 (in part), V-09 (in part): has a code for each level, and persistence beside it", () => {
    const bytesOf = (index: number, persist: boolean) => {
      const view = new DataView(new ArrayBuffer(4));
      EXTENSION_HEADERS.verifyEth.write(
        view,
        0,
        makeVerifyEth({ level: VERIFY_LEVELS[index]!, persist }),
      );
      return view.getUint32(0).toString(16).padStart(8, "0");
    };
    assert.deepEqual(
      VERIFY_LEVELS.map((_, index) => bytesOf(index, false)),
      ["01000000", "01010100", "01010200", "01010300", "01000400", "01010500"],
    );
    assert.equal(bytesOf(3, true), "01010380");
  });

  it("V-02 (in part): names no algorithm where nothing is checked", () => {
    const { algorithm } = makeVerifyEth({ level: "none", persist: false });
    assert.equal(algorithm, VERIFY_ALGORITHM.none);
  });
});

describe("encodeVerifyResult", () => {
  it("V-01 (in part), V-05 (in part): says what became of the write and what was checked, in 8 bytes", () => {
    assert.equal(encodeVerifyResult(RESULT).toHex(), "01020500cbf43926");
    const skipped = { ...RESULT, status: VERIFY_STATUS.written, checks: VERIFY_CHECKS.skipped };
    assert.equal(encodeVerifyResult(skipped).toHex(), "01001000cbf43926");
  });

  it("is read back by decodeVerifyResult", () => {
    assert.deepEqual(decodeVerifyResult(encodeVerifyResult(RESULT)), RESULT);
  });
});

describe("decodeVerifyResult", () => {
  it("refuses another size, version or status", () => {
    const bytes = encodeVerifyResult(RESULT);
    assert.equal(decodeVerifyResult(bytes.subarray(0, 7)), undefined);
    assert.equal(decodeVerifyResult(new Uint8Array([...bytes, 0])), undefined);
    assert.equal(decodeVerifyResult(new Uint8Array([2, ...bytes.subarray(1)])), undefined);
    assert.equal(decodeVerifyResult(new Uint8Array([1, 4, ...bytes.subarray(2)])), undefined);
  });

  it("never throws, and what it takes is the same bytes again", () => {
    const size = VERIFY_RESULT_BYTES;
    const tail = fc.uint8Array({ minLength: size - 2, maxLength: size - 2 });
    fc.assert(
      fc.property(tail, fc.nat(2), fc.nat(5), (rest, version, status) => {
        const bytes = new Uint8Array([version, status, ...rest]);
        const result = decodeVerifyResult(bytes);
        assert.equal(result !== undefined, version === 1 && status <= 3);
        if (result !== undefined) {
          assert.deepEqual(new Uint8Array(encodeVerifyResult(result)), bytes);
        }
      }),
      seeded(),
    );
  });
});

describe("isVerifiable", () => {
  it("V-02 (in part): sets a limit to what waits on the card until all of it is there, and to nothing else", () => {
    const longest = VERIFY_LEVELS.map((level) => [
      isVerifiable(level, VERIFY_BYTES_MAX),
      isVerifiable(level, VERIFY_BYTES_MAX + 1),
    ]);
    assert.deepEqual(longest, [[true, true], ...Array(5).fill([true, false])]);
  });
});

describe("readsBack", () => {
  it("V-03 (in part), V-04 (in part): is of the levels that look at memory", () => {
    assert.deepEqual(VERIFY_LEVELS.filter(readsBack), [
      "verify",
      "verify-crc",
      "read-back",
      "crc-after",
    ]);
  });
});

describe("checksOf", () => {
  it("V-04: claim 2 has no CRC at all, claim 3 none before the data is written", () => {
    assert.deepEqual(checksOf("read-back"), { before: false, readBack: "compare" });
    assert.deepEqual(checksOf("crc-after"), { before: false, readBack: "crc" });
    const without = VERIFY_LEVELS.filter((level) => algorithmOf(level) === VERIFY_ALGORITHM.none);
    assert.deepEqual(without, ["none", "read-back"]);
  });
});

describe("decodeVerdict", () => {
  it("V-01 (in part), V-05 (in part): says in words what an answer's status and checks are, never by 0", () => {
    const words = Object.values(VERIFY_STATUS).map((status) => {
      const bits = encodeVerdict({ status, checks: 0 });
      assert.ok(bits > 0);
      return decodeVerdict(bits);
    });
    assert.deepEqual(
      words.map((verdict) => verdict?.status),
      ["written", "crc-mismatch", "read-back-differs", "read-failed"],
    );
    const checks = Object.values(VERIFY_CHECKS).map((bit) =>
      decodeVerdict(encodeVerdict({ status: 0, checks: bit }))?.checks
    );
    assert.deepEqual(
      checks,
      [["crc-before"], ["compared"], ["crc-after"], ["persisted"], ["skipped"]],
    );
    assert.deepEqual(decodeVerdict(encodeVerdict(RESULT))?.checks, ["crc-before", "crc-after"]);
  });

  it("finds no answer in 0, nor in a status that is not known", () => {
    assert.equal(decodeVerdict(0), undefined);
    assert.equal(decodeVerdict(0x1f00), undefined);
    assert.equal(decodeVerdict(0x84), undefined);
  });
});
