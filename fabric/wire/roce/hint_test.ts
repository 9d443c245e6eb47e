import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { MULTICAST_QPN } from "./bth.ts";
import { makeBth } from "./packet_testing.ts";
import {
  attachHint,
  attachRange,
  decodeHint,
  detachHint,
  encodeHint,
  type HintEntry,
  type HintGroup,
  type HintMessage,
  hintOf,
  hintParts,
} from "./hint.ts";
import {
  HINT_ATOMICS,
  HINT_KINDS,
  HINT_OPERATIONS,
  HINT_REASONS,
  HINT_TYPES,
  type HintOperands,
  type HintPart,
} from "./hint_eth.ts";
import { OPCODE, type OpcodeName, opcodeRow } from "./opcode.ts";
import { decodePacket, encodePacket, isRefusal, type RocePacket } from "./packet.ts";
import { DOCUMENT_HINT } from "./vendor_testing.ts";
import { seeded } from "../../base/property_testing.ts";

const DATA = new TextEncoder().encode("what the packet is for");

function packetOf(opcode: OpcodeName, change: Partial<RocePacket> = {}): RocePacket {
  const payload = change.payload ?? new Uint8Array();
  return {
    destinationMac: 0x0200_0000_0002,
    sourceMac: 0x0200_0000_0001,
    sourceAddress: 0x0a00_0001,
    destinationAddress: 0x0a00_0002,
    dscp: 0,
    ecn: 2,
    ttl: 64,
    identification: 1,
    udpSourcePort: 0xc242,
    ...change,
    payload,
    bth: makeBth({
      destQpn: 0x22,
      psn: 7,
      ...change.bth,
      padCount: -payload.length & 3,
      opcode: OPCODE[opcode],
    }),
  };
}

/** Through a frame and back. */
function carried(packet: RocePacket): RocePacket {
  const answer = decodePacket(encodePacket(packet));
  if (isRefusal(answer)) assert.fail(answer);
  return answer;
}

const u = (bits: number) => fc.oneof(fc.nat(2 ** bits - 1), fc.constant(2 ** bits - 1));
const u32 = u(31).map((n) => (2 * n + 1) % 2 ** 32);
const u64 = fc.bigInt(0n, (1n << 64n) - 1n);
const record = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>;
const plainEntry = {
  kinds: u(8),
  messages: u(16),
  sequence: u(24),
  rkey: u32,
  length: u32,
  va: u64,
  objects: fc.array(u64, { maxLength: 3 }),
};
const anyEntry = fc.oneof(
  record<HintEntry>({ ...plainEntry, operation: fc.constantFrom(...HINT_OPERATIONS) }),
  record<HintEntry>({
    ...plainEntry,
    operation: fc.constantFrom(...HINT_ATOMICS),
    operands: record<HintOperands>({ swapAdd: u64, compare: u64 }),
  }),
  fc.tuple(
    record<HintEntry>({ ...plainEntry, operation: fc.constantFrom("read", "write") }),
    fc.array(record<HintPart>({ offset: u32, length: u32 }), { minLength: 3, maxLength: 3 }),
  ).map(([entry, parts]) => ({ ...entry, parts: parts.slice(0, entry.objects.length) })),
);
const anyGroup = record<HintGroup>({
  destQpn: u(24),
  sourceQpn: u(24),
  entries: fc.array(anyEntry, { maxLength: 5 }),
});
const anyHint = record<HintMessage>({
  type: fc.constantFrom(...HINT_TYPES),
  kinds: u(8),
  reason: fc.constantFrom(...HINT_REASONS),
  sequence: u32,
  answer: fc.boolean(),
  groups: fc.array(anyGroup, { maxLength: 4 }),
});

describe("encodeHint", () => {
  it("H-31 (in part): groups the document's four work elements by queue pair, byte for byte", () => {
    const entry = (kindsToObjects: string, ...rest: string[]) => [kindsToObjects, ...rest].join("");
    assert.equal(
      encodeHint(DOCUMENT_HINT).toHex(),
      [
        // "hint", version 1, announce, prefetch and atomic; 5; answer, three groups, 136 bytes.
        "68696e74" + "01" + "00" + "05" + "00" + "00000005" + "80" + "03" + "0088",
        "000114" + "02" + "00000e" + "00",
        entry("01000001", "00", "000064", "0000001e", "00008000", "0000000000001000"),
        entry("01000001", "00", "000084", "0000001e", "00001000", "0000000000050000"),
        "000117" + "01" + "000011" + "00",
        entry("01010001", "00", "0000c8", "00000028", "00003000", "0000000000100000"),
        "000123" + "01" + "000017" + "00",
        entry("04030001", "00", "00012c", "00000032", "00000008", "0000000000060000"),
      ].join(""),
    );
  });

  it("H-03 (in part): has a count of untagged messages, and the objects by name", () => {
    const send: HintEntry = {
      kinds: HINT_KINDS.receive,
      operation: "send",
      messages: 12,
      sequence: 1,
      rkey: 0,
      length: 0,
      va: 0n,
      objects: [0xabcdn],
    };
    const groups = [{ destQpn: 1, sourceQpn: 2, entries: [send] }];
    const bytes = encodeHint({ ...DOCUMENT_HINT, groups });
    assert.equal(
      bytes.subarray(24).toHex(),
      "0802000c01000001" + "00".repeat(16) + "000000000000abcd",
    );
  });

  it("H-03 [0086]: an atomic's operands are behind its entry, ahead of its objects", () => {
    const [, , { entries: [atomic], ...ends }] = DOCUMENT_HINT.groups as readonly [
      HintGroup,
      HintGroup,
      HintGroup & { readonly entries: readonly [HintEntry] },
    ];
    const operands = { swapAdd: 0x11n, compare: 0x22n };
    const groups = [{ ...ends, entries: [{ ...atomic, operands, objects: [0xabcdn] }] }];
    const bytes = encodeHint({ ...DOCUMENT_HINT, groups });
    assert.equal(
      bytes.subarray(24).toHex(),
      "0483000101" + "00012c" + "00000032" + "00000008" + "0000000000060000" +
        "0000000000000011" + "0000000000000022" + "000000000000abcd",
    );
    // A SEND has none.
    bytes[25] = 0x82;
    assert.equal(decodeHint(bytes), undefined);
  });

  it("H-03 [0086]: a part of an object, where it is told, is behind its name", () => {
    const [{ entries: [read], ...ends }] = DOCUMENT_HINT.groups as readonly [
      HintGroup & { readonly entries: readonly [HintEntry] },
    ];
    const parts = [{ offset: 0x10, length: 0x20 }, { offset: 0, length: 1 }];
    const groups = [{ ...ends, entries: [{ ...read, objects: [7n, 9n], parts }] }];
    const bytes = encodeHint({ ...DOCUMENT_HINT, groups });
    assert.equal(
      bytes.subarray(24).toHex(),
      "0180000102" + "000064" + "0000001e" + "00008000" + "0000000000001000" +
        "0000000000000007" + "00000010" + "00000020" + "0000000000000009" + "00000000" + "00000001",
    );
  });

  it("asserts that its counts can say how much there is", () => {
    const group = { destQpn: 1, sourceQpn: 2, entries: [] };
    const groups = new Array<HintGroup>(256).fill(group);
    assert.throws(() => encodeHint({ ...DOCUMENT_HINT, groups }), /256 queue pairs/);
  });
});

describe("decodeHint", () => {
  it("gives back every message", () => {
    fc.assert(
      fc.property(anyHint, (hint) => {
        assert.deepEqual(decodeHint(encodeHint(hint)), hint);
      }),
      seeded(),
    );
  });

  it("H-24 (in part): understands no other magic, version, type, reason, operation, nor length", () => {
    const whole = encodeHint(DOCUMENT_HINT);
    const changed = (at: number, value: number) => {
      const bytes = whole.slice();
      bytes[at] = value;
      return decodeHint(bytes);
    };
    assert.deepEqual(changed(6, 5), DOCUMENT_HINT);
    assert.equal(changed(0, 0x48), undefined, "magic");
    assert.equal(changed(4, 2), undefined, "version");
    assert.equal(changed(5, HINT_TYPES.length), undefined, "type");
    assert.equal(changed(7, HINT_REASONS.length), undefined, "reason");
    assert.equal(changed(13, 2), undefined, "fewer groups than bytes");
    assert.equal(changed(13, 4), undefined, "more groups than bytes");
    assert.equal(changed(15, 0x87), undefined, "bytes");
    assert.equal(changed(19, 200), undefined, "entries");
    assert.equal(changed(24 + 1, HINT_OPERATIONS.length), undefined, "operation");
    assert.equal(changed(24 + 4, 1), undefined, "objects");
    for (let length = 0; length < whole.length; length++) {
      assert.equal(decodeHint(whole.slice(0, length)), undefined, `${length} bytes`);
    }
  });

  it("H-24 (in part): never throws, whatever the bytes", () => {
    const whole = encodeHint(DOCUMENT_HINT);
    const change = fc.tuple(fc.nat(whole.length - 1), fc.nat(255));
    fc.assert(
      fc.property(fc.array(change, { maxLength: 6 }), fc.nat(200), (changes, cut) => {
        const bytes = whole.slice(0, cut);
        for (const [at, value] of changes) bytes[at] = value;
        const hint = decodeHint(bytes);
        if (hint !== undefined) assert.deepEqual(decodeHint(encodeHint(hint)), hint);
      }),
      seeded(),
    );
  });
});

describe("hintOf", () => {
  it("H-07 (in part), H-08 (in part): finds it in a VENDOR HINT and in a group's datagram", () => {
    const hint = packetOf("VENDOR HINT", hintParts(DOCUMENT_HINT));
    assert.deepEqual(hintOf(carried(hint)), DOCUMENT_HINT);
    const deth = { qKey: 0x1111, reserved: 0, sourceQpn: 0x33 };
    const bth = makeBth({ opcode: 0, destQpn: MULTICAST_QPN, psn: 1 });
    const payload = encodeHint(DOCUMENT_HINT);
    assert.deepEqual(
      hintOf(carried(packetOf("UD SEND ONLY", { bth, deth, payload }))),
      DOCUMENT_HINT,
    );
  });

  it("finds none in other datagrams and in other packets", () => {
    const deth = { qKey: 0x1111, reserved: 0, sourceQpn: 0x33 };
    assert.equal(hintOf(packetOf("UD SEND ONLY", { deth, payload: DATA })), undefined);
    const payload = encodeHint(DOCUMENT_HINT);
    assert.equal(hintOf(packetOf("RC SEND ONLY", { payload })), undefined);
    const { hintEth } = hintParts(DOCUMENT_HINT);
    assert.equal(hintOf(packetOf("VENDOR HINT", { hintEth, payload: DATA })), undefined);
  });
});

describe("detachHint", () => {
  const send = packetOf("RC SEND ONLY", { payload: DATA });
  const reth = { va: 0x7f00_1234_5000n, rkey: 0x12a5c, length: 0 };

  it("H-07 (in part): takes a header or an extra payload off again, and leaves the packet as it was", () => {
    fc.assert(
      fc.property(anyHint, fc.uint8Array({ maxLength: 90 }), fc.boolean(), (hint, data, front) => {
        const packet = packetOf("RC SEND ONLY", { payload: new Uint8Array(data) });
        const form = front ? "header" : "payload";
        const hinted = carried(attachHint(packet, { form, message: hint }));
        assert.deepEqual(detachHint(hinted), { packet, message: hint, range: undefined });
      }),
      seeded(),
    );
  });

  it("H-07 (in part): puts a header before the payload, and an extra payload with its size behind it", () => {
    const hint = encodeHint(DOCUMENT_HINT).toHex(), data = DATA.toHex();
    const bytesOf = (form: "header" | "payload") =>
      attachHint(send, { form, message: DOCUMENT_HINT }).payload.toHex();
    assert.equal(bytesOf("header"), hint + data);
    assert.equal(bytesOf("payload"), data + hint + "00880000");
  });

  it("H-07 (in part): reads a READ or WRITE of no bytes as a hint at a range, rounded up", () => {
    const lengths = [1, 2, 3, 4096, 4097, 2 ** 31 - 1, 2 ** 31];
    for (const opcode of ["RC RDMA READ REQUEST", "RC RDMA WRITE ONLY"] as const) {
      const plain = packetOf(opcode, { reth });
      for (const length of lengths) {
        const { packet, message, range } = detachHint(carried(attachRange(plain, length)))!;
        assert.deepEqual(packet, plain);
        assert.equal(message, undefined);
        assert.deepEqual(range, {
          kinds: HINT_KINDS.prefetch,
          operation: opcodeRow(plain.bth.opcode)!.operation === "write" ? "write" : "read",
          messages: 1,
          sequence: 7,
          rkey: reth.rkey,
          length: 2 ** Math.ceil(Math.log2(length)),
          va: reth.va,
          objects: [],
        });
      }
    }
    assert.throws(() => attachRange(send, 4096), /of no bytes/);
    assert.throws(() => attachRange(packetOf("RC RDMA READ REQUEST", { reth }), 0), /length is 0/);
  });

  it("finds nothing in a packet without a hint", () => {
    assert.deepEqual(detachHint(send), { packet: send, message: undefined, range: undefined });
  });

  it("H-24 (in part): refuses what says that it has a hint and has none", () => {
    const flagged = (packet: RocePacket, reserved7: number) =>
      detachHint({ ...packet, bth: { ...packet.bth, reserved7 } });
    const empty = packetOf("RC SEND ONLY");
    for (const form of [1, 2, 3]) {
      assert.equal(flagged(send, form), undefined, `form ${form}`);
      assert.equal(flagged(empty, form), undefined, `form ${form}, no payload`);
    }
    const write = packetOf("RC RDMA WRITE ONLY", { reth: { ...reth, length: 4 } });
    assert.equal(flagged(write, 3), undefined, "of some bytes");
  });

  it("H-24 (in part): never throws, whatever the payload", () => {
    const inside = attachHint(send, { form: "payload", message: DOCUMENT_HINT }).payload;
    const anyPayload = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.tuple(fc.nat(inside.length - 1), fc.nat(255)).map(([at, value]) => inside.with(at, value)),
    );
    fc.assert(
      fc.property(anyPayload, fc.nat(127), (bytes, reserved7) => {
        const packet = packetOf("RC SEND ONLY", { payload: new Uint8Array(bytes) });
        detachHint({ ...packet, bth: { ...packet.bth, reserved7 } });
      }),
      seeded(),
    );
  });
});
