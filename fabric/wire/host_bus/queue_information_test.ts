import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import {
  type CqArm,
  decodeCqArm,
  decodeDoorbell,
  type Doorbell,
  encodeCqArm,
  encodeDoorbell,
  filledUnits,
  type QueueKind,
  type QueueState,
  ringDistance,
  type StampedPointer,
} from "./queue_information.ts";
import {
  decodeSpace1,
  decodeSpace2,
  decodeSpace3,
  encodeSpace1,
  encodeSpace2,
  encodeSpace3,
  type Space1,
  SPACE1_BYTES,
  type Space2,
  SPACE2_BYTES,
  SPACE3_BYTES,
} from "./default_store_testing.ts";
import { seeded } from "../../base/property_testing.ts";

function record<T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  return fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>;
}
const u32 = fc.nat(0xffff_ffff), address = fc.maxSafeNat();

const anyStamped = record<StampedPointer>({ pointer: u32, stamp: fc.maxSafeNat() });
const anySpace1 = record<Space1>({
  wqeAddress: address,
  indexAddress: address,
  kind: fc.constantFrom<QueueKind>("sq", "rq", "cq"),
  state: fc.constantFrom<QueueState>("reset", "init", "rtr", "rts", "sqd", "sqe", "err"),
  valid: fc.boolean(),
  owner: u32,
  pointer: u32,
});

describe("decodeSpace1", () => {
  it("Q-03 (in part), Q-05 (in part): gives back what the RNIC keeps of a queue", () => {
    fc.assert(
      fc.property(anySpace1, (info) => {
        const bytes = encodeSpace1(info);
        assert.equal(bytes.length, SPACE1_BYTES);
        assert.deepEqual(decodeSpace1(bytes), info);
      }),
      seeded(),
    );
  });

  it("Q-05 (in part): reads memory that was never written as an invalid queue", () => {
    assert.equal(decodeSpace1(new Uint8Array(SPACE1_BYTES)).valid, false);
  });
});

describe("decodeSpace2", () => {
  it("Q-04 (in part): gives back depth and unit", () => {
    fc.assert(
      fc.property(record<Space2>({ depth: u32, unitBytes: u32 }), (info) => {
        const bytes = encodeSpace2(info);
        assert.equal(bytes.length, SPACE2_BYTES);
        assert.deepEqual(decodeSpace2(bytes), info);
      }),
      seeded(),
    );
  });
});

describe("decodeSpace3", () => {
  it("Q-08: gives back the pointer with its time", () => {
    fc.assert(
      fc.property(anyStamped, (info) => {
        const bytes = encodeSpace3(info);
        assert.equal(bytes.length, SPACE3_BYTES);
        assert.deepEqual(decodeSpace3(bytes), info);
      }),
      seeded(),
    );
  });
});

describe("decodeDoorbell", () => {
  it("Q-06 (in part), Q-08: gives back both forms", () => {
    const anyDoorbell: fc.Arbitrary<Doorbell> = fc.oneof(
      record<Doorbell>({ queue: u32 } as never),
      record<Doorbell>({ queue: u32, write: anyStamped }),
    );
    fc.assert(
      fc.property(anyDoorbell, (doorbell) => {
        assert.deepEqual(decodeDoorbell(encodeDoorbell(doorbell)), doorbell);
      }),
      seeded(),
    );
  });

  it("Q-06 (in part): gives undefined for any other length", () => {
    for (let length = 0; length < 70; length++) {
      const known = length === 4 || length === 16;
      assert.equal(decodeDoorbell(new Uint8Array(length)) !== undefined, known, `${length} bytes`);
    }
  });
});

describe("decodeCqArm", () => {
  it("§5.2: gives back queue, position and solicited-only", () => {
    const anyArm = record<CqArm>({
      cqn: u32,
      position: fc.nat(0xff_ffff),
      solicitedOnly: fc.boolean(),
    });
    fc.assert(
      fc.property(anyArm, (arm) => {
        assert.deepEqual(decodeCqArm(encodeCqArm(arm)), arm);
      }),
      seeded(),
    );
    assert.equal(decodeCqArm(new Uint8Array(4)), undefined);
  });
});

describe("filledUnits", () => {
  it("Q-05 (in part): counts what was filled and not taken, from none to all but one", () => {
    const place = fc.tuple(fc.nat(10), fc.nat(), fc.nat()).map(([log, at, count]) => {
      const depth = 2 ** (log + 1);
      return { depth, read: at % depth, filled: count % depth };
    });
    fc.assert(
      fc.property(place, ({ depth, read, filled }) => {
        // The last unit filled is the one before the next to fill.
        const write = (read + filled - 1 + depth) % depth;
        assert.equal(filledUnits(read, write, depth), filled);
      }),
      seeded(),
    );
  });

  it("Q-05 (in part): goes forward round the ring's end", () => {
    assert.equal(ringDistance(6, 1, 8), 3);
    assert.equal(ringDistance(1, 6, 8), 5);
    assert.equal(ringDistance(5, 5, 8), 0);
  });
});
