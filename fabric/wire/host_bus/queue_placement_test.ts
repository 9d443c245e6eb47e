import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../base/property_testing.ts";
import {
  decodeEntry,
  encodeEntry,
  fieldAddress,
  fieldBytes,
  layOut,
  PLACEABLE,
  type Placement,
  PLACEMENTS,
  QUEUE_FIELDS,
  type QueueFields,
  SPACES,
} from "./queue_placement.ts";

const FIELDS: QueueFields = {
  wqeAddress: 2 ** 41 + 64,
  indexAddress: 2 ** 40 + 8,
  kind: "srq",
  state: "sqd",
  valid: true,
  owner: 0xfedc_ba98,
  rnicPointer: 17,
  depth: 1 << 16,
  unitBytes: 64,
  hostPointer: 16,
  stamp: 2 ** 50 + 1,
};

/** Every placement that a rule of one's own may be. */
function allPlacements(): Placement[] {
  return QUEUE_FIELDS.reduce<Partial<Placement>[]>(
    (rules, field) =>
      rules.flatMap((rule) => PLACEABLE[field].map((space) => ({ ...rule, [field]: space }))),
    [{}],
  ) as Placement[];
}

describe("layOut", () => {
  it("Q-05: the shipped rules place each field where it may lie", () => {
    for (const placement of Object.values(PLACEMENTS)) {
      for (const field of QUEUE_FIELDS) assert.ok(PLACEABLE[field].includes(placement[field]));
    }
    assert.equal(PLACEMENTS.default.hostPointer, 3);
    assert.equal(PLACEMENTS.default.depth, 2, "a change disturbs the RNIC");
    assert.equal(PLACEMENTS.default.rnicPointer, 1, "the host may not change it");
    assert.deepEqual(PLACEMENTS["pointer-in-3"], PLACEMENTS.default);
    assert.deepEqual(PLACEMENTS["both-in-3"], { ...PLACEMENTS.default, rnicPointer: 3 });
  });

  it("Q-04, Q-05: no two fields of any of the 32 placements share a byte, in either layout", () => {
    const placements = allPlacements();
    assert.equal(placements.length, 32);
    for (const layout of ["areas", "record"] as const) {
      for (const placement of placements) {
        const store = layOut(placement, layout);
        const record = store.bytes[1] + store.bytes[2] + store.bytes[3];
        const bases = layout === "record"
          ? { space1: 0, space2: store.bytes[1], space3: store.bytes[1] + store.bytes[2] }
          : {
            space1: 0,
            space2: 8 * store.bytes[1],
            space3: 8 * (store.bytes[1] + store.bytes[2]),
          };
        const taken = new Uint8Array(8 * record);
        for (let queue = 0; queue < 8; queue++) {
          for (const field of QUEUE_FIELDS) {
            const at = fieldAddress(store, bases, { queue, field });
            assert.equal(at % fieldBytes(field), 0, `${field} is aligned`);
            for (let i = at; i < at + fieldBytes(field); i++) assert.equal(taken[i]!++, 0);
          }
        }
      }
    }
  });

  it("Q-03: what is encoded in three entries is decoded again, whatever lies where", () => {
    const placement = fc.constantFrom(...allPlacements());
    const pointers = fc.record({
      rnicPointer: fc.nat(),
      hostPointer: fc.nat(),
      valid: fc.boolean(),
    });
    fc.assert(
      fc.property(placement, pointers, (rule, changes) => {
        const store = layOut(rule, "areas"), fields = { ...FIELDS, ...changes };
        const found = SPACES.map((space) =>
          decodeEntry(store, space, encodeEntry(store, space, fields))
        );
        assert.deepEqual(Object.assign({}, ...found), fields);
      }),
      seeded(),
    );
  });

  it("Q-07: a queue's record by the default rule is 64 B, a line of memory", () => {
    const { bytes, stride } = layOut(PLACEMENTS.default, "record");
    assert.deepEqual(bytes, { 1: 32, 2: 16, 3: 16 });
    assert.deepEqual(stride, { 1: 64, 2: 64, 3: 64 });
  });
});
