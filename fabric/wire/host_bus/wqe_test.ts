import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { viewOf } from "../../base/slab.ts";
import { VERIFY_LEVELS } from "../roce/verify_eth.ts";
import {
  decodeRecvWqe,
  decodeSendWqe,
  encodeRecvWqe,
  encodeSendWqe,
  MAX_INLINE_BYTES,
  MAX_OBJECTS,
  MAX_SGE,
  MAX_WQE_UNITS,
  type SendWqe,
  type Sge,
  unitsOfWqe,
  type VerifyOperands,
  WQE_UNIT_BYTES,
  wqeUnits,
} from "./wqe.ts";
import { WQE_OPCODES, type WqeOpcode } from "./wqe_opcode.ts";
import { seeded } from "../../base/property_testing.ts";

const u32 = fc.nat(0xffff_ffff), u24 = fc.nat(0xff_ffff), u64 = fc.bigInt(0n, (1n << 64n) - 1n);

function record<T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  return fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>;
}

const anySge = record<Sge>({ address: fc.maxSafeNat(), length: fc.nat(2 ** 31), lkey: u32 });

const REMOTE: readonly WqeOpcode[] = [
  "write",
  "write-immediate",
  "read",
  "compare-swap",
  "fetch-add",
  "write-persistence",
  "write-persist-address",
  "flush",
  "atomic-write",
  "write-verify",
];

const anyVerify: fc.Arbitrary<VerifyOperands> = fc.tuple(
  fc.constantFrom(...VERIFY_LEVELS),
  fc.boolean(),
  fc.option(u32, { nil: undefined }),
).map(([level, persist, crc]) => crc === undefined ? { level, persist } : { level, persist, crc });

/** Any WQE that a driver may write, with inline data or with elements. */
const anySendWqe: fc.Arbitrary<SendWqe> = fc.tuple(
  fc.constantFrom(...Object.keys(WQE_OPCODES) as WqeOpcode[]),
  fc.boolean(),
  fc.boolean(),
).chain(([opcode, inline, objects]) => {
  const atomic = opcode === "compare-swap" || opcode === "fetch-add";
  const payload = fc.uint8Array({ maxLength: MAX_INLINE_BYTES }).map((from) =>
    new Uint8Array(from)
  );
  return fc.tuple(
    record({
      opcode: fc.constant(opcode),
      index: fc.nat(0xffff),
      qpn: u24,
      signaled: fc.boolean(),
      solicited: fc.boolean(),
      fence: fc.boolean(),
      immediate: u32,
      sges: inline ? fc.constant([]) : fc.array(anySge, { maxLength: MAX_SGE }),
      ...(REMOTE.includes(opcode) && { remote: record({ va: u64, rkey: u32 }) }),
      ...(atomic && { atomic: record({ swapAdd: u64, compare: u64 }) }),
      ...(opcode === "flush" && {
        flush: record({ select: fc.nat(3), placement: fc.nat(15), length: fc.nat(2 ** 31) }),
      }),
      ...(opcode === "write-verify" && { verify: anyVerify }),
      ...(opcode === "bind-mw" && {
        bind: record({ rkey: u32, lkey: u32, va: u64, length: fc.maxSafeNat(), access: u32 }),
      }),
      ...(inline && { inline: payload }),
      ...(!inline && objects && {
        objects: fc.array(u64, { minLength: 1, maxLength: MAX_OBJECTS }),
        ...(opcode === "write" && {
          parts: fc.array(record({ offset: u32, length: u32 }), {
            minLength: 1,
            maxLength: MAX_OBJECTS,
          }),
        }),
      }),
    }),
    fc.option(
      record({
        qKey: u32,
        qpn: u24,
        address: u32,
        trafficClass: fc.nat(0xff),
        hopLimit: fc.nat(0xff),
        udpSourcePort: fc.nat(0xffff),
      }),
      { nil: undefined },
    ),
  ).map(([wqe, ud]): SendWqe => opcode === "send" && ud ? { ...wqe, ud } : wqe);
});

describe("encodeSendWqe", () => {
  it("Q-01 (in part): gives whole units, as many as wqeUnits counts, whatever the request", () => {
    fc.assert(
      fc.property(anySendWqe, (wqe) => {
        const bytes = encodeSendWqe(wqe);
        assert.equal(bytes.length, wqeUnits(wqe) * WQE_UNIT_BYTES);
        assert.ok(wqeUnits(wqe) <= MAX_WQE_UNITS);
      }),
      seeded(),
    );
  });
});

describe("unitsOfWqe", () => {
  it("Q-01 (in part): tells from the first unit alone how many there are", () => {
    fc.assert(
      fc.property(anySendWqe, (wqe) => {
        assert.equal(
          unitsOfWqe(viewOf(encodeSendWqe(wqe).subarray(0, WQE_UNIT_BYTES))),
          wqeUnits(wqe),
        );
      }),
      seeded(),
    );
  });

  it("gives undefined where the opcode is none or the elements are too many", () => {
    const unit = new Uint8Array(WQE_UNIT_BYTES);
    assert.equal(unitsOfWqe(viewOf(unit)), 1);
    assert.equal(unitsOfWqe(viewOf(unit.with(3, 0x7f))), undefined);
    assert.equal(unitsOfWqe(viewOf(unit.with(7, MAX_SGE + 1))), undefined);
  });
});

describe("decodeSendWqe", () => {
  it("P-20 (in part), P-22 (in part), P-26 (in part): gives back every request that was written", () => {
    fc.assert(
      fc.property(anySendWqe, (wqe) => {
        assert.deepEqual(decodeSendWqe(encodeSendWqe(wqe)), wqe);
      }),
      seeded({ numRuns: 500 }),
    );
  });

  it("V-04 (in part): gives undefined where the level of a verified write is none that is known", () => {
    const bytes = encodeSendWqe({
      opcode: "write-verify",
      index: 3,
      qpn: 17,
      signaled: true,
      solicited: false,
      fence: false,
      immediate: 0,
      remote: { va: 4096n, rkey: 5 },
      verify: { level: "verify-crc", persist: true, crc: 0x1234_5678 },
      sges: [{ address: 0, length: 64, lkey: 1 }],
    });
    assert.equal(bytes[32], VERIFY_LEVELS.indexOf("verify-crc"));
    assert.deepEqual(decodeSendWqe(bytes)?.verify?.crc, 0x1234_5678);
    assert.equal(decodeSendWqe(bytes.with(32, VERIFY_LEVELS.length)), undefined);
  });

  it("gives undefined where a unit is missing", () => {
    fc.assert(
      fc.property(anySendWqe, (wqe) => {
        const bytes = encodeSendWqe(wqe);
        const missing = bytes.subarray(0, bytes.length - WQE_UNIT_BYTES);
        if (missing.length > 0) assert.equal(decodeSendWqe(missing), undefined);
      }),
      seeded(),
    );
  });

  it("never throws, whatever the units hold", () => {
    const size = MAX_WQE_UNITS * WQE_UNIT_BYTES;
    const anything = fc.uint8Array({ minLength: size, maxLength: size });
    const opcodes = fc.constantFrom(...Object.values(WQE_OPCODES).map(({ code }) => code));
    fc.assert(
      fc.property(anything, opcodes, fc.nat(6), (bytes, opcode, segments) => {
        bytes[3] = opcode;
        bytes[7] = segments;
        const wqe = decodeSendWqe(bytes);
        if (segments > MAX_SGE) assert.equal(wqe, undefined);
        if (wqe !== undefined) {
          assert.equal(wqe.sges.length, segments);
          assert.ok(wqe.inline === undefined || wqe.inline.length < size);
        }
      }),
      seeded({ numRuns: 1000 }),
    );
  });
});

describe("decodeRecvWqe", () => {
  it("§5.2: gives back the elements, also where the list ends before the stride", () => {
    fc.assert(
      fc.property(fc.array(anySge, { maxLength: MAX_SGE }), fc.nat(3), (sges, more) => {
        const stride = 16 * Math.max(1, sges.length + more);
        const bytes = encodeRecvWqe(sges, stride);
        assert.equal(bytes.length, stride);
        assert.deepEqual(decodeRecvWqe(bytes), sges.filter(({ length }) => length > 0));
      }),
      seeded(),
    );
  });

  it("leaves an element of no bytes out, which would end the list", () => {
    const sge = { address: 4096, length: 8, lkey: 0x301 };
    const none = { address: 0, length: 0, lkey: 0x100 };
    assert.deepEqual(decodeRecvWqe(encodeRecvWqe([sge, none, sge], 64)), [sge, sge]);
  });

  it("asserts that the elements fit the stride", () => {
    const sge = { address: 0, length: 1, lkey: 1 };
    assert.throws(() => encodeRecvWqe([sge, sge], 16), /do not fit/);
  });
});
