import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import {
  type Cqe,
  CQE_BYTES,
  CQE_INVALID,
  CQE_OPCODES,
  type CqeOpcode,
  decodeCqe,
  encodeCqe,
  ownerBit,
  WC_STATUS,
  type WcStatus,
} from "./cqe.ts";
import { seeded } from "../../base/property_testing.ts";

const u32 = fc.nat(0xffff_ffff), u24 = fc.nat(0xff_ffff);

const anyCqe = fc.record({
  opcode: fc.constantFrom(...Object.keys(CQE_OPCODES) as CqeOpcode[]),
  status: fc.constantFrom(...Object.keys(WC_STATUS) as WcStatus[]),
  vendorError: fc.nat(255),
  qpn: u24,
  wqeIndex: fc.nat(0xffff),
  byteCount: u32,
  immediate: u32,
  wqeOpcode: fc.nat(255),
  psn: u24,
  va: fc.bigInt(0n, (1n << 64n) - 1n),
  sourceQpn: u24,
  verify: fc.nat(0xffff),
  solicited: fc.boolean(),
}, { noNullPrototype: true }) as fc.Arbitrary<Cqe>;

const anyPlace = fc.tuple(fc.nat(2 ** 24), fc.nat(10)).map(([position, log]) => ({
  position,
  entries: 2 ** log,
}));

describe("decodeCqe", () => {
  it("P-25 (in part), P-26 (in part), V-01 (in part): gives back every entry in the pass in which it was written", () => {
    fc.assert(
      fc.property(anyCqe, anyPlace, (cqe, { position, entries }) => {
        const bytes = encodeCqe(cqe, ownerBit(position, entries));
        assert.equal(bytes.length, CQE_BYTES);
        assert.deepEqual(decodeCqe(bytes, position, entries), cqe);
      }),
      seeded(),
    );
  });

  it("§5.3: gives nothing a pass earlier or later", () => {
    fc.assert(
      fc.property(anyCqe, anyPlace, (cqe, { position, entries }) => {
        const bytes = encodeCqe(cqe, ownerBit(position, entries));
        assert.equal(decodeCqe(bytes, position + entries, entries), undefined);
      }),
      seeded(),
    );
  });

  it("§5.3: gives nothing where the ring is as the driver filled it", () => {
    const bytes = new Uint8Array(CQE_BYTES).fill(CQE_INVALID);
    for (const position of [0, 1, 8, 9]) assert.equal(decodeCqe(bytes, position, 8), undefined);
  });

  it("reads an unknown status as GENERAL_ERR", () => {
    fc.assert(
      fc.property(anyCqe, (cqe) => {
        const bytes = encodeCqe(cqe, 0).with(55, 200);
        assert.equal(decodeCqe(bytes, 0, 8)?.status, "GENERAL_ERR");
      }),
      seeded(),
    );
  });
});

describe("ownerBit", () => {
  it("§5.3: turns over with each pass of the ring", () => {
    assert.deepEqual([0, 3, 4, 7, 8].map((position) => ownerBit(position, 4)), [0, 0, 1, 1, 0]);
  });
});
