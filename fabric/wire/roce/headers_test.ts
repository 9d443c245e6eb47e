import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { AETH_FIELDS, readAeth, writeAeth } from "./aeth.ts";
import {
  ATOMIC_ACK_ETH_FIELDS,
  ATOMIC_ETH_FIELDS,
  readAtomicAckEth,
  readAtomicEth,
  writeAtomicAckEth,
  writeAtomicEth,
} from "./atomic_eth.ts";
import { BTH_FIELDS, makeBth, readBth, writeBth } from "./bth.ts";
import { COHERENCE_ETH_FIELDS, readCoherenceEth, writeCoherenceEth } from "./coherence_eth.ts";
import { DETH_FIELDS, readDeth, writeDeth } from "./deth.ts";
import {
  ETHERNET_FIELDS,
  isGroupMac,
  multicastMac,
  readEthernet,
  writeEthernet,
} from "./ethernet.ts";
import { FETH_FIELDS, readFeth, writeFeth } from "./feth.ts";
import { type Field, readFields, sizeOf, writeFields } from "../../base/fields.ts";
import { HINT_ETH_FIELDS, readHintEth, writeHintEth } from "./hint_eth.ts";
import { IETH_FIELDS, readIeth, writeIeth } from "./ieth.ts";
import { IMMDT_FIELDS, readImmDt, writeImmDt } from "./immdt.ts";
import { IPV4_FIELDS, ipv4Checksum, readIpv4, writeIpv4 } from "./ipv4.ts";
import { PERSIST_ETH_FIELDS, readPersistEth, writePersistEth } from "./persist_eth.ts";
import { readReth, RETH_FIELDS, writeReth } from "./reth.ts";
import {
  flowLabel,
  readUdp,
  sourcePortOfFlow,
  UDP_FIELDS,
  udpSourcePort,
  writeUdp,
} from "./udp.ts";
import {
  DIGEST_ETH_FIELDS,
  readDigestEth,
  readVerifyEth,
  VERIFY_ETH_FIELDS,
  writeDigestEth,
  writeVerifyEth,
} from "./verify_eth.ts";
import { seeded } from "../../base/property_testing.ts";

interface Codec {
  readonly bytes: number;
  readonly fields: readonly Field[];
  readonly read: (view: DataView, at: number) => object;
  readonly write: (view: DataView, at: number, header: never) => void;
}

/** Sizes are those of rocev2.md §1.1 to §1.3. */
const CODECS: Readonly<Record<string, Codec>> = {
  Ethernet: { bytes: 14, fields: ETHERNET_FIELDS, read: readEthernet, write: writeEthernet },
  IPv4: { bytes: 20, fields: IPV4_FIELDS, read: readIpv4, write: writeIpv4 },
  UDP: { bytes: 8, fields: UDP_FIELDS, read: readUdp, write: writeUdp },
  BTH: { bytes: 12, fields: BTH_FIELDS, read: readBth, write: writeBth },
  RETH: { bytes: 16, fields: RETH_FIELDS, read: readReth, write: writeReth },
  AETH: { bytes: 4, fields: AETH_FIELDS, read: readAeth, write: writeAeth },
  DETH: { bytes: 8, fields: DETH_FIELDS, read: readDeth, write: writeDeth },
  AtomicETH: {
    bytes: 28,
    fields: ATOMIC_ETH_FIELDS,
    read: readAtomicEth,
    write: writeAtomicEth,
  },
  AtomicAckETH: {
    bytes: 8,
    fields: ATOMIC_ACK_ETH_FIELDS,
    read: readAtomicAckEth,
    write: writeAtomicAckEth,
  },
  ImmDt: { bytes: 4, fields: IMMDT_FIELDS, read: readImmDt, write: writeImmDt },
  IETH: { bytes: 4, fields: IETH_FIELDS, read: readIeth, write: writeIeth },
  FETH: { bytes: 4, fields: FETH_FIELDS, read: readFeth, write: writeFeth },
  "P-21 (in part): PersistETH": {
    bytes: 4,
    fields: PERSIST_ETH_FIELDS,
    read: readPersistEth,
    write: writePersistEth,
  },
  "V-04 (in part): VerifyETH": {
    bytes: 4,
    fields: VERIFY_ETH_FIELDS,
    read: readVerifyEth,
    write: writeVerifyEth,
  },
  "V-02 (in part): DigestETH": {
    bytes: 4,
    fields: DIGEST_ETH_FIELDS,
    read: readDigestEth,
    write: writeDigestEth,
  },
  "H-03 (in part): HintETH": {
    bytes: 16,
    fields: HINT_ETH_FIELDS,
    read: readHintEth,
    write: writeHintEth,
  },
  "C-02 (in part): CoherenceETH": {
    bytes: 24,
    fields: COHERENCE_ETH_FIELDS,
    read: readCoherenceEth,
    write: writeCoherenceEth,
  },
};

for (const [name, codec] of Object.entries(CODECS)) {
  describe(`${name} against its table`, () => {
    const content = fc.uint8Array({ minLength: codec.bytes, maxLength: codec.bytes });

    it("has the size of the specification", () => {
      assert.equal(sizeOf(codec.fields), codec.bytes);
    });

    it("reads by hand what the table reads, at any offset", () => {
      fc.assert(
        fc.property(content, fc.nat(9), (bytes, at) => {
          const view = viewAt(bytes, at);
          assert.deepEqual(codec.read(view, at), readFields(codec.fields, { view, at }));
        }),
        seeded(),
      );
    });

    it("writes by hand what the table writes, and nothing beyond it", () => {
      fc.assert(
        fc.property(content, fc.nat(9), (bytes, at) => {
          const source = viewAt(bytes, at);
          const header = codec.read(source, at);
          const byHand = viewAt(new Uint8Array(codec.bytes), at);
          codec.write(byHand, at, header as never);
          assert.deepEqual(byHand, source);
          const byTable = viewAt(new Uint8Array(codec.bytes), at);
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

describe("sizeOf", () => {
  it("refuses a table that ends inside a byte", () => {
    assert.throws(() => sizeOf([["flag", 1]]), /not 1 bits/);
  });
});

describe("makeBth", () => {
  it("§1.2: fills in what an ordinary sender writes", () => {
    assert.deepEqual(makeBth({ opcode: 4, destQpn: 0x22, psn: 7, ackReq: true }), {
      opcode: 4,
      solicited: false,
      migReq: true,
      padCount: 0,
      tver: 0,
      pKey: 0xffff,
      fecn: false,
      becn: false,
      reserved6: 0,
      destQpn: 0x22,
      ackReq: true,
      reserved7: 0,
      psn: 7,
    });
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

describe("multicastMac", () => {
  it("§1.1: is 01:00:5e and the low 23 bits of the group", () => {
    assert.equal(multicastMac(0xef81_0203), 0x0100_5e01_0203);
    assert.ok(isGroupMac(multicastMac(0xef01_0203)));
    assert.ok(isGroupMac(0xffff_ffff_ffff));
    assert.ok(!isGroupMac(0x0200_0000_0001));
  });
});
