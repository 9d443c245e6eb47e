/** The table of vendor errors: each code means one thing, and is told apart from a success. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { decodeCqe, encodeCqe, PLAIN_CQE, WC_STATUS } from "./cqe.ts";
import { faultFields, VENDOR_ERRORS, type VendorError, vendorErrorText } from "./vendor_error.ts";

const NAMES = Object.keys(VENDOR_ERRORS) as VendorError[];

/**
 * What each error comes from in the model: the places that report it, and of a NAK or RNR NAK all that a responder has
 * for it (`responder.ts`, `execute.ts`, `atomic.ts`, `memory_gate.ts`). Its text has a word for each of them.
 */
const CAUSES: Readonly<Record<VendorError, readonly RegExp[]>> = {
  "service": [/has no such operation/, /cannot be decoded/],
  "no-rd-atomic": [/max_rd_atomic, which is 0/],
  "malformed": [/lacks/, /has what it cannot have/],
  "no-persistent-write": [/this PSN/],
  "message-length": [/2\^31 B/],
  "verify-length": [/verification level/],
  "psn-window": [/2\^23 packets/],
  "receive-length": [/the message/, /names for the CPU to flush/],
  "lkey-unknown": [/no region/],
  "lkey-domain": [/protection domain/],
  "lkey-right": [/no local write/],
  "lkey-range": [/beyond its region/],
  "region-gone": [/deregistered/],
  "dma-refused": [/host refused/],
  "bind": [/key/, /domain/, /rights/, /range/],
  "invalidate": [/no type 2 window/],
  "peer-invalidate": [/the peer's SEND WITH INVALIDATE/, /no type 2 window/],
  "response-kind": [/not of the request's operation/],
  "response-length": [/length/],
  "retry-exceeded": [/no acknowledgement of it came/],
  "retry-lost-answers": [/answers of the responder were lost/],
  "retry-sequence": [/PSN sequence error/],
  "retry-psns-apart": [/rq_psn/, /sq_psn/],
  "retry-persistence": [/has received it/, /no persistence acknowledgement/],
  "rnr-retry-exceeded": [/no receive posted/, /page of its memory was not there/],
  "nak-remote-access": [/key/, /protection domain/, /right/, /range/, /persistence of memory/],
  "nak-remote-operational": [
    /memory of its receive/,
    /region deregistered/,
    /lost line/,
    /DMA read that its host refused/,
  ],
  "nak-invalid-request": [
    ...[/order of packets/, /rq_psn/, /path MTU/, /rights of the queue pair/],
    ...[/max_dest_rd_atomic/, /length/, /alignment/, /form/],
  ],
  "nak-invalid-rd-request": [/RD request/],
  "verify": [/came damaged/, /memory does not hold it/, /cannot be read/],
  "flushed": [/request here/, /one of the peer's/, /disconnect/, /modify to ERR/],
};

describe("VENDOR_ERRORS", () => {
  it("has a text that names everything that the error can come from, and no other error's cause alone", () => {
    for (const name of NAMES) {
      for (const cause of CAUSES[name]) assert.match(VENDOR_ERRORS[name].text, cause, name);
    }
  });

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
