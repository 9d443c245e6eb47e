import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { type Field, readFields, sizeOf, writeFields } from "../../base/fields.ts";
import { AETH_FIELDS } from "./aeth.ts";
import { BTH_FIELDS, readBth, writeBth } from "./bth.ts";
import { ETHERNET_FIELDS } from "./ethernet.ts";
import { EXTENSION_HEADERS } from "./extension_headers.ts";
import { GRH_FIELDS, VLAN_FIELDS } from "./grh.ts";
import { IPV4_FIELDS, ipv4Checksum } from "./ipv4.ts";
import { macOfAddress } from "./neighbour.ts";
import { flowLabel, sourcePortOfFlow, UDP_FIELDS, udpSourcePort } from "./udp.ts";
import { seeded } from "../../base/property_testing.ts";

interface Codec {
  readonly fields: readonly Field[];
  readonly read: (view: DataView, at: number) => object;
  readonly write: (view: DataView, at: number, header: never) => void;
}

/** Sizes in bytes, those of rocev2.md §1.1 to §1.3. */
const SIZES: Readonly<Record<string, readonly [fields: readonly Field[], bytes: number]>> = {
  "Ethernet": [ETHERNET_FIELDS, 14],
  "IPv4": [IPV4_FIELDS, 20],
  "UDP": [UDP_FIELDS, 8],
  "C-01 (in part): 802.1Q tag": [VLAN_FIELDS, 4],
  "C-01 (in part): GRH": [GRH_FIELDS, 40],
  "BTH": [BTH_FIELDS, 12],
  "RETH": [EXTENSION_HEADERS.reth.fields, 16],
  "AETH": [EXTENSION_HEADERS.aeth.fields, 4],
  "DETH": [EXTENSION_HEADERS.deth.fields, 8],
  "AtomicETH": [EXTENSION_HEADERS.atomicEth.fields, 28],
  "AtomicAckETH": [EXTENSION_HEADERS.atomicAckEth.fields, 8],
  "ImmDt": [EXTENSION_HEADERS.immdt.fields, 4],
  "IETH": [EXTENSION_HEADERS.ieth.fields, 4],
  "FETH": [EXTENSION_HEADERS.feth.fields, 4],
  "P-21 (in part): PersistETH": [EXTENSION_HEADERS.persistEth.fields, 4],
  "V-04 (in part): VerifyETH": [EXTENSION_HEADERS.verifyEth.fields, 4],
  "V-02 (in part): DigestETH": [EXTENSION_HEADERS.digestEth.fields, 4],
  "H-03 (in part): HintETH": [EXTENSION_HEADERS.hintEth.fields, 16],
  "C-02 (in part): CoherenceETH": [EXTENSION_HEADERS.coherenceEth.fields, 44],
};

describe("sizeOf", () => {
  for (const [name, [fields, bytes]] of Object.entries(SIZES)) {
    it(`${name} has the size of the specification`, () => {
      assert.equal(sizeOf(fields), bytes);
    });
  }

  it("refuses a table that ends inside a byte", () => {
    assert.throws(() => sizeOf([["flag", 1]]), /not 1 bits/);
  });
});

/** Headers that are read and written by hand, and two that are not, with fields of many widths. */
const CODECS: Readonly<Record<string, Codec>> = {
  BTH: { fields: BTH_FIELDS, read: readBth, write: writeBth },
  RETH: EXTENSION_HEADERS.reth,
  AETH: EXTENSION_HEADERS.aeth,
  DETH: EXTENSION_HEADERS.deth,
  PersistETH: EXTENSION_HEADERS.persistEth,
  FETH: EXTENSION_HEADERS.feth,
  HintETH: EXTENSION_HEADERS.hintEth,
  CoherenceETH: EXTENSION_HEADERS.coherenceEth,
};

for (const [name, codec] of Object.entries(CODECS)) {
  describe(`${name} against its table`, () => {
    const size = sizeOf(codec.fields);
    const content = fc.uint8Array({ minLength: size, maxLength: size });

    it("reads what the table reads, at any offset", () => {
      fc.assert(
        fc.property(content, fc.nat(9), (bytes, at) => {
          const view = viewAt(bytes, at);
          assert.deepEqual(codec.read(view, at), readFields(codec.fields, { view, at }));
        }),
        seeded(),
      );
    });

    it("writes what the table writes, and nothing beyond it", () => {
      fc.assert(
        fc.property(content, fc.nat(9), (bytes, at) => {
          const source = viewAt(bytes, at);
          const header = codec.read(source, at);
          const byHand = viewAt(new Uint8Array(size), at);
          codec.write(byHand, at, header as never);
          assert.deepEqual(byHand, source);
          const byTable = viewAt(new Uint8Array(size), at);
          writeFields(codec.fields, header as never, { view: byTable, at });
          assert.deepEqual(byTable, source);
        }),
        seeded(),
      );
    });
  });
}

/** `bytes` at `at` of a larger buffer of zeros. */
function viewAt(bytes: Uint8Array, at: number): DataView {
  const buffer = new Uint8Array(at + bytes.length + 3);
  buffer.set(bytes, at);
  return new DataView(buffer.buffer);
}

describe("writeFields", () => {
  it("refuses a value that does not fit its field", () => {
    const view = new DataView(new ArrayBuffer(4));
    assert.throws(
      () => writeFields(AETH_FIELDS, { syndrome: 256, msn: 0 }, { view, at: 0 }),
      /syndrome = 256 exceeds/,
    );
  });
});

describe("udpSourcePort", () => {
  it("§1.1: gives the worked values", () => {
    assert.equal(udpSourcePort(0x11, 0x22), 49730);
    assert.equal(udpSourcePort(0x22, 0x11), 49730);
    assert.equal(flowLabel(0x1234, 0xabcdef), 0x061fa);
    assert.equal(udpSourcePort(0x1234, 0xabcdef), 57851);
    assert.equal(flowLabel(0xffffff, 0xffffff), 0xfff1e);
    assert.equal(udpSourcePort(0xffffff, 0xffffff), 65313);
    assert.equal(sourcePortOfFlow(0x1face), 0xfac9);
  });

  it("§1.1: folds as the formula over 64 bits does, and alike in both directions", () => {
    const qpn = fc.nat(0xff_ffff);
    fc.assert(
      fc.property(qpn, qpn, (x, y) => {
        let v = BigInt(x) * BigInt(y);
        v ^= v >> 20n;
        v ^= v >> 40n;
        assert.equal(flowLabel(x, y), Number(v & 0xf_ffffn));
        assert.equal(udpSourcePort(x, y), udpSourcePort(y, x));
      }),
      seeded(),
    );
  });
});

describe("ipv4Checksum", () => {
  it("§1.6: is 0 over the captured header of vector 1", () => {
    const hex = "45c2003c718c4000401191610a0011010a001201";
    const bytes = Uint8Array.from(hex.match(/../g)!, (pair) => parseInt(pair, 16));
    assert.equal(ipv4Checksum(new DataView(bytes.buffer), 0), 0);
    bytes[10] = bytes[11] = 0;
    assert.equal(ipv4Checksum(new DataView(bytes.buffer), 0), 0x9161);
  });
});

describe("macOfAddress", () => {
  it("§1.1: is 01:00:5e and the low 23 bits of the group", () => {
    assert.equal(macOfAddress(0xef81_0203), 0x0100_5e01_0203);
  });
});
