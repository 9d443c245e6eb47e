/** The table of vendor errors: each code means one thing, and is told apart from a success. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { decodeCqe, encodeCqe, PLAIN_CQE, WC_STATUS } from "./cqe.ts";
import { faultFields, VENDOR_ERRORS, type VendorError, vendorErrorText } from "./vendor_error.ts";

const NAMES = Object.keys(VENDOR_ERRORS) as VendorError[];

describe("VENDOR_ERRORS", () => {
  it("has a code of one byte for each, none twice, and a text that says more than the status", () => {
    const codes = NAMES.map((name) => VENDOR_ERRORS[name].code as number);
    assert.equal(new Set(codes).size, codes.length);
    assert.ok(codes.every((code) => code > 0 && code < 256));
    for (const name of NAMES) {
      const { code, status, text } = VENDOR_ERRORS[name];
      assert.ok(status in WC_STATUS, name);
      assert.equal(vendorErrorText(code), text);
      assert.ok(text.length > 20, name);
    }
    assert.equal(new Set(NAMES.map((name) => VENDOR_ERRORS[name].text)).size, NAMES.length);
    assert.equal(vendorErrorText(0), undefined, "a success has none");
    assert.equal(vendorErrorText(1), undefined, "nor has a code that is not in the table");
  });

  it("has ConnectX's number where that is known for the same", () => {
    const code = (name: VendorError) => VENDOR_ERRORS[name].code;
    const known = (["retry-exceeded", "rnr-retry-exceeded", "nak-remote-access"] as const).map(
      code,
    );
    assert.deepEqual(known, [129, 135, 136]);
    assert.deepEqual([code("nak-invalid-request"), code("flushed")], [138, 249]);
  });

  it("is carried by a CQE, beside its status", () => {
    for (const name of NAMES) {
      const fields = faultFields(name);
      const cqe = decodeCqe(
        encodeCqe({
          ...PLAIN_CQE,
          opcode: "requester-error",
          qpn: 17,
          wqeIndex: 3,
          ...fields,
        }, 0),
        0,
        8,
      )!;
      assert.deepEqual([cqe.status, cqe.vendorError], [
        VENDOR_ERRORS[name].status,
        fields.vendorError,
      ]);
    }
  });
});
