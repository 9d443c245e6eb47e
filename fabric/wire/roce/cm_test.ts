import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import {
  addressOfGid,
  CM_MESSAGES,
  type CmMessage,
  type CmReq,
  type CmType,
  decodeCm,
  encodeCm,
  gidOfAddress,
  MAD_BYTES,
  MAD_FIELDS,
  mtuCode,
  mtuOfCode,
  privateDataBytes,
  REJECT_REASON,
  REP_DEFAULTS,
  REQ_DEFAULTS,
} from "./cm.ts";
import { type Field, sizeOf } from "../../base/fields.ts";
import { seeded } from "../../base/property_testing.ts";

const REQ: CmReq = {
  ...REQ_DEFAULTS,
  type: "REQ",
  transactionId: 0x1122_3344_5566_7788n,
  localCommId: 0xa1a2_a3a4,
  serviceId: 0x0102_0304_0506_0708n,
  localCaGuid: 0x0200_00ff_fe00_0001n,
  localQpn: 0x11,
  responderResources: 16,
  initiatorDepth: 15,
  remoteCmResponseTimeout: 20,
  startingPsn: 0xfffffe,
  localCmResponseTimeout: 19,
  retryCount: 7,
  pathMtu: mtuCode(4096),
  rnrRetryCount: 6,
  maxCmRetries: 15,
  primaryLocalGid: gidOfAddress(0x0a00_0001),
  primaryRemoteGid: gidOfAddress(0x0a00_0002),
  primaryLocalAckTimeout: 14,
  privateData: new Uint8Array([9, 8, 7]),
};

describe("CM_MESSAGES", () => {
  it("§12.6 of the architecture: leave the private data that each message has", () => {
    assert.equal(sizeOf(MAD_FIELDS), 24);
    const rooms = Object.keys(CM_MESSAGES).map((type) => [type, privateDataBytes(type as CmType)]);
    assert.deepEqual(rooms, [
      ["REQ", 92],
      ["MRA", 222],
      ["REJ", 148],
      ["REP", 196],
      ["RTU", 224],
      ["DREQ", 220],
      ["DREP", 224],
      ["SIDR_REQ", 216],
      ["SIDR_REP", 136],
    ]);
  });
});

describe("encodeCm", () => {
  it("§12.6.5: lays a REQ out at its offsets", () => {
    const bytes = encodeCm(REQ);
    const hexAt = (at: number, length: number) => bytes.subarray(at, at + length).toHex();
    assert.equal(bytes.length, MAD_BYTES);
    assert.equal(hexAt(0, 24), "010702030000000011223344556677880010000000000000");
    assert.equal(hexAt(24, 4), "a1a2a3a4");
    assert.equal(hexAt(24 + 8, 8), "0102030405060708");
    assert.equal(hexAt(24 + 16, 8), "020000fffe000001");
    assert.equal(hexAt(24 + 32, 4), "00001110");
    assert.equal(hexAt(24 + 36, 4), "0000000f");
    // Time-out 20 in five bits, RC, end-to-end flow control.
    assert.equal(hexAt(24 + 40, 4), "000000a1");
    assert.equal(hexAt(24 + 44, 4), "fffffe9f");
    // P_Key; MTU code 5, RNR retry 6; 15 retries.
    assert.equal(hexAt(24 + 48, 4), "ffff56f0");
    assert.equal(
      hexAt(24 + 56, 32),
      "00000000000000000000ffff0a000001" + "00000000000000000000ffff0a000002",
    );
    // Flow label, rate; traffic class, hop limit, service level, ACK time-out.
    assert.equal(hexAt(24 + 88, 8), "0000001000400070");
    assert.equal(hexAt(24 + 140, 4), "09080700");
  });

  it("§12.11.1: lays SIDR_REQ and SIDR_REP out at their offsets", () => {
    const ids = { transactionId: 1n, requestId: 0xa1a2_a3a4, serviceId: 0x0111_1c06n };
    const privateData = new Uint8Array([9, 8]);
    const req = encodeCm({ ...ids, type: "SIDR_REQ", pKey: 0xffff, privateData });
    assert.equal(req.subarray(16, 18).toHex(), "0017");
    assert.equal(
      req.subarray(24, 42).toHex(),
      "a1a2a3a4" + "ffff0000" + "0000000001111c06" + "0908",
    );
    const answer = { status: 2, infoLength: 0, qpn: 0x112233, qKey: 0x0123_4567 };
    const rep = encodeCm({ ...ids, ...answer, type: "SIDR_REP", privateData });
    assert.equal(rep.subarray(16, 18).toHex(), "0018");
    assert.equal(
      rep.subarray(24, 48).toHex(),
      "a1a2a3a4" + "02000000" + "11223300" + "0000000001111c06" + "01234567",
    );
    assert.equal(rep.subarray(120, 122).toHex(), "0908");
  });

  it("asserts that the private data fits", () => {
    assert.throws(() => encodeCm({ ...REQ, privateData: new Uint8Array(93) }), /room for 92 B/);
  });
});

describe("decodeCm", () => {
  it("gives back every message, private data filled up with zeros", () => {
    fc.assert(
      fc.property(anyCm, (message) => {
        const bytes = encodeCm(message);
        const privateData = new Uint8Array(privateDataBytes(message.type));
        privateData.set(message.privateData);
        assert.deepEqual(decodeCm(bytes), { ...message, privateData });
      }),
      seeded({ numRuns: 300 }),
    );
  });

  it("gives undefined for other datagrams", () => {
    const good = encodeCm(REQ);
    for (const [at, value] of [[0, 2], [1, 1], [2, 1], [3, 0x81], [17, 0x19], [16, 1]] as const) {
      assert.equal(decodeCm(good.with(at, value)), undefined, `byte ${at} = ${value}`);
    }
    assert.equal(decodeCm(good.slice(1)), undefined);
    assert.equal(decodeCm(new Uint8Array()), undefined);
  });

  it("never throws, whatever the bytes", () => {
    const body = fc.uint8Array({ minLength: 232, maxLength: 232 });
    fc.assert(
      fc.property(body, fc.constantFrom(...Object.values(CM_MESSAGES)), (rest, kind) => {
        const bytes = encodeCm(REQ);
        bytes.set(rest, 24);
        bytes[17] = kind.attributeId;
        assert.notEqual(decodeCm(bytes), undefined);
      }),
      seeded(),
    );
  });
});

describe("REP_DEFAULTS", () => {
  it("complete a REP, as REJECT_REASON does a REJ", () => {
    const privateData = new Uint8Array();
    const ids = { transactionId: 5n, localCommId: 1, remoteCommId: 2, privateData };
    const rep: CmMessage = {
      ...REP_DEFAULTS,
      ...ids,
      type: "REP",
      localQpn: 0x22,
      startingPsn: 7,
      responderResources: 16,
      initiatorDepth: 16,
      rnrRetryCount: 7,
      localCaGuid: 3n,
    };
    assert.equal(
      encodeCm(rep).subarray(24, 64).toHex(),
      "00000001000000020000000000002200" +
        "0000000000000700" + "101001e00000000000000003" + "00000000",
    );
    const rej: CmMessage = {
      ...ids,
      type: "REJ",
      rejected: 0,
      infoLength: 0,
      reason: REJECT_REASON.consumer,
    };
    assert.equal(encodeCm(rej).subarray(24, 40).toHex(), "0000000100000002" + "0000001c00000000");
    const mra: CmMessage = { ...ids, type: "MRA", received: 1, serviceTimeout: 10 };
    assert.equal(
      encodeCm(mra).subarray(16, 36).toHex(),
      "0011" + "000000000000" + "0000000100000002" + "40500000",
    );
  });
});

describe("gidOfAddress", () => {
  it("§1.1: is the IPv4-mapped address, and comes back", () => {
    assert.equal(gidOfAddress(0x0a00_0001).toString(16), "ffff0a000001");
    assert.equal(addressOfGid(gidOfAddress(0xffff_ffff)), 0xffff_ffff);
    assert.equal(addressOfGid(0xfe80n << 112n), undefined);
  });
});

describe("mtuCode", () => {
  it("§3.1: counts 256 … 4096 as 1 … 5", () => {
    for (const [i, bytes] of ([256, 512, 1024, 2048, 4096] as const).entries()) {
      assert.equal(mtuCode(bytes), i + 1);
      assert.equal(mtuOfCode(i + 1), bytes);
    }
    assert.equal(mtuOfCode(0), undefined);
    assert.equal(mtuOfCode(6), undefined);
  });
});

/** Any message of any type, its fields anywhere in their range. */
const anyCm: fc.Arbitrary<CmMessage> = fc.constantFrom(
  ...Object.entries(CM_MESSAGES),
).chain(([type, { fields }]) =>
  fc.record({
    type: fc.constant(type),
    transactionId: fc.bigInt(0n, (1n << 64n) - 1n),
    privateData: fc.uint8Array({ maxLength: privateDataBytes(type as CmType) })
      .map((bytes) => new Uint8Array(bytes)),
    ...Object.fromEntries(
      (fields as readonly Field[]).filter(([name]) => name !== "").map(([name, bits]) => [
        name,
        bits === 1
          ? fc.boolean()
          : bits >= 64
          ? fc.bigInt(0n, (1n << BigInt(bits)) - 1n)
          : fc.maxSafeNat().map((n) => n % 2 ** bits),
      ]),
    ),
  }, { noNullPrototype: true }) as unknown as fc.Arbitrary<CmMessage>
);
