import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { inGrh, makeBth } from "../wire/roce/packet_testing.ts";
import { encodeCardMessage } from "../wire/roce/card_message.ts";
import { OPCODE, OPCODE_ROWS, opcodeFor } from "../wire/roce/opcode.ts";
import { EXTENSION_ROWS } from "../wire/roce/extension_headers.ts";
import { encodePacket, type RocePacket } from "../wire/roce/packet.ts";
import { PERSIST_ETH } from "../wire/roce/persist_eth.ts";
import { seeded } from "../base/property_testing.ts";
import { type FrameField, frameFields } from "./frame_fields.ts";

function packet(change: Partial<RocePacket>): Uint8Array<ArrayBuffer> {
  return encodePacket({
    destinationMac: 0x0200_0000_0002,
    sourceMac: 0x0200_0000_0001,
    sourceAddress: 0x0a00_0001,
    destinationAddress: 0x0a00_0002,
    dscp: 0,
    ecn: 2,
    ttl: 64,
    identification: 1,
    udpSourcePort: 0xc242,
    payload: new Uint8Array(),
    bth: makeBth({ opcode: OPCODE["RC RDMA WRITE ONLY"], destQpn: 0x22, psn: 7 }),
    ...change,
  });
}

function persistentWrite(): Uint8Array<ArrayBuffer> {
  return packet({
    bth: makeBth({ opcode: 0xca, destQpn: 0x22, psn: 7, ackReq: true }),
    reth: { va: 0x7f00_1234_5000n, rkey: 0x12a5c, length: 13 },
    persistEth: PERSIST_ETH,
    payload: new Uint8Array(13),
  });
}

const RETH = { va: 0x7f00_1234_5000n, rkey: 0x12a5c, length: 13 };
const IN_GRH = inGrh({} as RocePacket, { priority: 3, flowLabel: 0xabcde });

function priorityWrite(): Uint8Array<ArrayBuffer> {
  return packet({ ...IN_GRH, reth: RETH, payload: new Uint8Array(13) });
}

function field(fields: readonly FrameField[], header: string, name: string): FrameField {
  const found = fields.find((each) => each.header === header && each.name === name);
  assert.ok(found, `${header} ${name}`);
  return found;
}

/** Whether each field begins where the one before it ends, and the last with the frame. */
function assertGapless(fields: readonly FrameField[], bytes: Uint8Array): void {
  let bit = 0;
  for (const each of fields) {
    assert.equal(each.bit, bit, `${each.header} ${each.name}`);
    bit += each.bits;
  }
  assert.equal(bit, bytes.length * 8);
}

describe("frameFields", () => {
  it("gives every field of a persistent write with its place, value and meaning", () => {
    const naming = (address: number) => "?ab"[address & 3]!;
    const bytes = persistentWrite();
    const fields = frameFields(bytes, naming);
    assertGapless(fields, bytes);
    const at = (header: string, name: string) => field(fields, header, name);
    assert.deepEqual(at("Ethernet", "source").value, "02:00:00:00:00:01");
    assert.deepEqual(at("IPv4", "destination"), {
      header: "IPv4",
      name: "destination",
      bit: 30 * 8,
      bits: 32,
      value: "10.0.0.2",
      meaning: "b",
    });
    assert.equal(at("IPv4", "checksum").meaning, "holds");
    assert.equal(at("BTH", "opcode").value, "0xca");
    assert.match(at("BTH", "opcode").meaning, /WRITE PERSISTENCE ONLY/);
    assert.equal(at("BTH", "psn").value, "7");
    assert.equal(at("RETH", "va").value, "0x7f0012345000");
    assert.equal(at("RETH", "rkey").value, "0x00012a5c");
    assert.equal(at("PersistETH", "version").meaning, "asks for persistence (P-21)");
    assert.equal(at("Frame", "payload").value, "13 B");
    assert.equal(at("Frame", "pad").value, "0x000000");
    assert.equal(at("Frame", "ICRC").meaning, "holds");
  });

  it("says of an acknowledgement what its syndrome means", () => {
    const bth = makeBth({ opcode: OPCODE["RC ACKNOWLEDGE"], destQpn: 0x22, psn: 7 });
    const meaning = (syndrome: number) =>
      field(frameFields(packet({ bth, aeth: { syndrome, msn: 3 } })), "AETH", "syndrome").meaning;
    assert.equal(meaning(0x1f), "ACK");
    assert.equal(meaning(0x05), "ACK, 6 credits");
    assert.equal(meaning(0x60), "NAK PSN sequence error");
  });

  it("C-02, C-05: names message, state, change and place of a coherent card's Write, and shows its mask", () => {
    const change = { kind: "write", mask: 0xff00n, bytes: new Uint8Array(64) };
    const placement = { place: "local", version: 3 } as const;
    const { operation, header, payload } = encodeCardMessage(
      { kind: "Write", line: 5, agent: 1, life: 2, homeLife: 1, placement, change },
      { region: 7, transaction: 9 },
    );
    const { code } = opcodeFor({ service: "rc", operation }, "only");
    const bth = makeBth({ opcode: code, destQpn: 0x22, psn: 7 });
    const bytes = packet({ bth, coherenceEth: header, payload });
    const fields = frameFields(bytes);
    assertGapless(fields, bytes);
    const at = (name: string) => field(fields, "CoherenceETH", name);
    assert.match(at("command").meaning, /^Write write local v3 line=0x140 /);
    assert.equal(at("state").meaning, "none");
    assert.equal(at("change").meaning, "write");
    assert.equal(at("remote").meaning, "in the local cache");
    assert.equal(at("address").value, "0x00000140");
    assert.equal(field(fields, "Mask", "mask").value, "0x0000ff00");
    assert.equal(field(fields, "Frame", "payload").bits, 64 * 8);
    // A mask that the payload has no room for is no mask.
    const cut = packet({ bth, coherenceEth: header, payload: payload.slice(0, 4) });
    assertGapless(frameFields(cut), cut);
    assert.ok(!frameFields(cut).some((each) => each.header === "Mask"));
  });

  it("says that a damaged frame's ICRC does not hold", () => {
    const bytes = persistentWrite();
    bytes[70]! ^= 1;
    assert.match(field(frameFields(bytes), "Frame", "ICRC").meaning, /^does not hold/);
  });

  it("reads the headers of a frame of which only the first bytes were kept", () => {
    const whole = persistentWrite();
    const fields = frameFields(whole.subarray(0, 74), undefined, whole.length);
    assertGapless(fields, whole);
    assert.equal(field(fields, "PersistETH", "version").value, "1");
    assert.equal(field(fields, "Frame", "payload").value, "13 B");
    assert.deepEqual(
      [field(fields, "Frame", "ICRC")].map(({ value, meaning }) => [value, meaning]),
      [
        ["4 B", ""],
      ],
    );
  });

  it("has the headers of every opcode, without gaps", () => {
    for (const row of OPCODE_ROWS) {
      const extensions = Object.fromEntries(row.headers.map((name) => {
        const { bytes, read } = EXTENSION_ROWS[name];
        return [name, read(new DataView(new ArrayBuffer(bytes)), 0)];
      }));
      const payload = new Uint8Array(typeof row.payload === "number" ? row.payload : 5);
      const bth = makeBth({ opcode: row.code, destQpn: 0x22, psn: 7 });
      const bytes = packet({ bth, payload, ...extensions });
      const fields = frameFields(bytes);
      assertGapless(fields, bytes);
      const headers = new Set(fields.map(({ header }) => header));
      assert.equal(headers.size - (headers.has("Frame") ? 1 : 0), 4 + row.headers.length, row.name);
    }
  });

  it("C-01 (in part): gives tag and global route header of RoCEv1 with their places and meanings", () => {
    const naming = (address: number) => "?ab"[address & 3]!;
    const bytes = priorityWrite(), fields = frameFields(bytes, naming);
    assertGapless(fields, bytes);
    const at = (header: string, name: string) => {
      const { bit, value, meaning } = field(fields, header, name);
      return [bit / 8, value, meaning];
    };
    assert.deepEqual(at("Ethernet", "etherType"), [12, "0x8100", "802.1Q tag"]);
    assert.deepEqual(at("802.1Q", "priority"), [14, "3", ""]);
    assert.deepEqual(at("802.1Q", "etherType"), [16, "0x8915", "RoCEv1"]);
    assert.deepEqual(at("GRH", "nextHeader"), [24, "27", "InfiniBand's transport"]);
    assert.deepEqual(at("GRH", "sourceGid"), [26, "::ffff:10.0.0.1", "a"]);
    assert.deepEqual(at("GRH", "destinationGid"), [42, "::ffff:10.0.0.2", "b"]);
    assert.deepEqual(at("BTH", "opcode")[0], 58);
    assert.deepEqual(at("Frame", "ICRC").slice(2), ["holds"]);
    const group = frameFields(packet({ ...IN_GRH, destinationAddress: 0xef01_0203, reth: RETH }));
    assert.equal(field(group, "GRH", "destinationGid").value, "ff0e::ffff:239.1.2.3");
    bytes[80]! ^= 1;
    assert.match(field(frameFields(bytes), "Frame", "ICRC").meaning, /^does not hold/);
  });

  it("takes any bytes, cut anywhere, and leaves no gap", () => {
    const any = fc.uint8Array({ maxLength: 120 });
    const writes = fc.constantFrom(persistentWrite(), priorityWrite());
    fc.assert(
      fc.property(writes, fc.nat(120), any, (write, cut, tail) => {
        const bytes = new Uint8Array([...write.subarray(0, cut), ...tail]);
        assertGapless(frameFields(bytes), bytes);
      }),
      seeded(),
    );
  });
});
