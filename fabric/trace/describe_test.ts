import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { GSI_QKEY } from "../wire/roce/deth.ts";
import { makeBth } from "../wire/roce/packet_testing.ts";
import { encodeCm } from "../wire/roce/cm.ts";
import {
  describeFrame,
  describePacket,
  describePcie,
  formatAddress,
  formatMac,
} from "./describe.ts";
import { OPCODE, type OpcodeName } from "../wire/roce/opcode.ts";
import { decodePacket, encodePacket, isRefusal, type RocePacket } from "../wire/roce/packet.ts";
import { anyPcieMessage } from "../wire/host_bus/pcie_testing.ts";
import { PERSIST_ETH } from "../wire/roce/persist_eth.ts";
import type { CoherenceEth } from "../wire/roce/coherence_eth.ts";
import {
  attachHint,
  attachRange,
  encodeHint,
  type HintMessage,
  hintParts,
} from "../wire/roce/hint.ts";
import { DOCUMENT_HINT, OWN_LINE, VENDOR_EXTENSIONS } from "../wire/roce/vendor_testing.ts";
import { seeded } from "../base/property_testing.ts";

function frame(opcode: OpcodeName, change: Partial<RocePacket> = {}): Uint8Array<ArrayBuffer> {
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
    ...change,
    bth: makeBth({ destQpn: 0x22, psn: 7, ...change.bth, opcode: OPCODE[opcode] }),
  });
}
const naming = (address: number) => "?ab"[address & 3]!;

describe("describeFrame", () => {
  const reth = { va: 0x7f00_1234_5000n, rkey: 0x12a5c, length: 13 };
  const payload = new Uint8Array(13);
  const bth = makeBth({ opcode: 0, destQpn: 0x22, psn: 7, ackReq: true });

  it("describes a write in one line", () => {
    assert.equal(
      describeFrame(frame("RC RDMA WRITE ONLY", { reth, payload, bth }), naming),
      "a→b RC RDMA WRITE ONLY qp=0x22 psn=7 va=0x7f0012345000 rkey=0x12a5c len=13 data=13 ack",
    );
  });

  it("P-21 (in part): shows that a write asks for persistence", () => {
    const change = { reth, payload, persistEth: PERSIST_ETH };
    assert.equal(
      describeFrame(frame("VENDOR WRITE PERSISTENCE ONLY", change), naming),
      "a→b VENDOR WRITE PERSISTENCE ONLY qp=0x22 psn=7 va=0x7f0012345000 rkey=0x12a5c len=13 " +
        "persist=v1 data=13",
    );
  });

  it("V-04 (in part), V-09 (in part): shows what is to be checked of a write", () => {
    const change = { reth, payload, ...VENDOR_EXTENSIONS };
    assert.equal(
      describeFrame(frame("VENDOR WRITE VERIFY ONLY", change), naming),
      "a→b VENDOR WRITE VERIFY ONLY qp=0x22 psn=7 va=0x7f0012345000 rkey=0x12a5c len=13 " +
        "verify=verify-crc persist crc=0xcbf43926 data=13",
    );
    const odd = { ...VENDOR_EXTENSIONS.verifyEth, level: 9, persist: false };
    const line = describeFrame(
      frame("VENDOR WRITE VERIFY FIRST", { reth, payload, verifyEth: odd }),
    );
    assert.match(line, / verify=9 data=13$/);
  });

  it("C-02: names the message between cards", () => {
    const line = (opcode: OpcodeName, change: Partial<CoherenceEth>) =>
      describeFrame(frame(opcode, { coherenceEth: { ...OWN_LINE, ...change } }), naming).slice(4);
    const rest = "line=0x7f0000000040 region=0x55aa agent=1 life=2 homeLife=1 transaction=9";
    const plain = { placed: false, remote: false, placementVersion: 0 };
    assert.equal(
      line("VENDOR COHERENCE REQUEST", {}),
      `VENDOR COHERENCE REQUEST qp=0x22 psn=7 GetM state=exclusive remote v3 ${rest}`,
    );
    assert.equal(
      line("VENDOR COHERENCE REQUEST", { command: 5, state: 0, remote: false, change: 2 }),
      `VENDOR COHERENCE REQUEST qp=0x22 psn=7 Write add offset=0 local v3 ${rest}`,
    );
    assert.equal(
      line("VENDOR COHERENCE SNOOP", { ...plain, command: 0, state: 1 }),
      `VENDOR COHERENCE SNOOP qp=0x22 psn=7 Inv state=invalid ${rest}`,
    );
    assert.equal(
      line("VENDOR COHERENCE RESPONSE", { ...plain, command: 0, state: 2, status: 1 }),
      `VENDOR COHERENCE RESPONSE qp=0x22 psn=7 DataS lost state=shared ${rest}`,
    );
    assert.match(
      line("VENDOR COHERENCE RESPONSE", { ...plain, command: 3, state: 0, lines: 4 }),
      / FlushAck line=0x7f0000000040 lines=4 region=/,
    );
    assert.match(
      line("VENDOR COHERENCE RESPONSE", { ...plain, command: 16, state: 0, lines: 0 }),
      / Counts region=/,
    );
    assert.match(
      line("VENDOR COHERENCE RESPONSE", { command: 77, status: 88, state: 7 }),
      / command=77 status=88 state=7 /,
    );
  });

  const HINT_WORDS = "hint announce sequence=5 answer " +
    "[0xe→0x114; prefetch read va=0x1000 rkey=0x1e len=32768 psn=100; " +
    "prefetch read va=0x50000 rkey=0x1e len=4096 psn=132] " +
    "[0x11→0x117; prefetch write va=0x100000 rkey=0x28 len=12288 psn=200] " +
    "[0x17→0x123; atomic fetch-add va=0x60000 rkey=0x32 len=8 psn=300]";

  it("H-31 (in part): shows the document's hint, in a packet of its own and in a group's datagram", () => {
    assert.equal(
      describeFrame(frame("VENDOR HINT", hintParts(DOCUMENT_HINT)), naming),
      `a→b VENDOR HINT qp=0x22 psn=7 data=120 ${HINT_WORDS}`,
    );
    const deth = { qKey: 1, reserved: 0, sourceQpn: 2 };
    const datagram = frame("UD SEND ONLY", { deth, payload: encodeHint(DOCUMENT_HINT) });
    assert.equal(
      describeFrame(datagram, naming),
      `a→b UD SEND ONLY qp=0x22 psn=7 from-qp=0x2 qkey=0x1 data=136 ${HINT_WORDS}`,
    );
    const broken = frame("VENDOR HINT", { hintEth: VENDOR_EXTENSIONS.hintEth, payload });
    assert.match(describeFrame(broken), / data=13 hint malformed$/);
  });

  it("H-22 (in part), H-07 (in part): shows an answer, and a hint that another packet carries", () => {
    const refusal: HintMessage = {
      ...DOCUMENT_HINT,
      type: "refused",
      reason: "quota",
      answer: false,
      groups: [],
    };
    assert.match(
      describeFrame(frame("VENDOR HINT", hintParts(refusal))),
      / hint refused sequence=5 reason=quota prefetch\+atomic$/,
    );
    const packet = decodePacket(frame("RC SEND ONLY", { payload }));
    if (isRefusal(packet)) assert.fail(packet);
    const hinted = attachHint(packet, { form: "payload", message: DOCUMENT_HINT });
    assert.equal(
      describePacket(hinted, naming),
      `a→b RC SEND ONLY qp=0x22 psn=7 data=153 beside=13 ${HINT_WORDS}`,
    );
    const read = decodePacket(frame("RC RDMA READ REQUEST", { reth: { ...reth, length: 0 } }));
    if (isRefusal(read)) assert.fail(read);
    assert.match(
      describePacket(attachRange(read, 5000)),
      / len=0 hint prefetch read va=0x7f0012345000 rkey=0x12a5c len=8192 psn=7$/,
    );
  });

  it("§1.4: names ACK, NAK and RNR NAK, and the second ACK: P-28 (in part)", () => {
    const line = (opcode: OpcodeName, syndrome: number) =>
      describeFrame(frame(opcode, { aeth: { syndrome, msn: 3 } }), naming).slice(4);
    assert.equal(line("RC ACKNOWLEDGE", 0x1f), "RC ACKNOWLEDGE qp=0x22 psn=7 msn=3");
    assert.equal(
      line("RC ACKNOWLEDGE", 0x60),
      "RC NAK PSN sequence error qp=0x22 psn=7 msn=3",
    );
    assert.equal(
      line("RC ACKNOWLEDGE", 0x2c),
      "RC RNR NAK timer 640 us qp=0x22 psn=7 msn=3",
    );
    assert.equal(
      line("RC RDMA READ RESPONSE ONLY", 0x62),
      "RC RDMA READ RESPONSE ONLY qp=0x22 psn=7 NAK remote access error msn=3",
      "what is no ACKNOWLEDGE keeps its name",
    );
    assert.equal(line("RC ACKNOWLEDGE", 0x80), "RC ACKNOWLEDGE qp=0x22 psn=7 syndrome=0x80 msn=3");
    assert.equal(
      line("VENDOR PERSISTENCE ACKNOWLEDGE", 0x1f),
      "VENDOR PERSISTENCE ACKNOWLEDGE qp=0x22 psn=7 msn=3",
    );
  });

  it("names congestion", () => {
    const change = {
      ecn: 3,
      payload: new Uint8Array(16),
      bth: { ...bth, ackReq: false, becn: true },
    };
    assert.equal(
      describeFrame(frame("CNP", change)),
      "10.0.0.1→10.0.0.2 CNP qp=0x22 psn=7 data=16 becn ce",
    );
  });

  it("names the communication manager's message on QP 1", () => {
    const message = encodeCm({
      type: "DREQ",
      transactionId: 1n,
      localCommId: 16,
      remoteCommId: 17,
      remoteQpn: 0x22,
      privateData: new Uint8Array(),
    });
    const deth = { qKey: GSI_QKEY, reserved: 0, sourceQpn: 1 };
    const change = { bth: { ...bth, ackReq: false, destQpn: 1 }, deth, payload: message };
    assert.equal(
      describeFrame(frame("UD SEND ONLY", change), naming),
      "a→b UD SEND ONLY qp=0x1 psn=7 from-qp=0x1 qkey=0x80010000 data=256 cm DREQ id=0x10 to=0x11",
    );
  });

  it("shows why a frame is refused", () => {
    const bytes = frame("RC RDMA WRITE ONLY", { reth, payload });
    bytes[80]! ^= 1;
    assert.equal(
      describeFrame(bytes),
      "02:00:00:00:00:01→02:00:00:00:00:02 90 B refused: bad-icrc",
    );
    assert.equal(describeFrame(new Uint8Array(3)).split(" ").at(-1), "too-short");
  });
});

describe("describePcie", () => {
  it("describes any message in one line", () => {
    fc.assert(
      fc.property(anyPcieMessage, (message) => {
        assert.match(describePcie(message), /^[^\n]{8,}$/);
      }),
      seeded(),
    );
  });

  it("gives addresses, lengths and the NS bit", () => {
    assert.equal(
      describePcie({ kind: "memory-read", tag: 4, address: 4096, length: 1, noSnoop: true }),
      "DMA read 0x1000 1 B tag=4 no-snoop",
    );
    assert.equal(
      describePcie({ kind: "event", event: { type: "CQ_ERR", cqn: 3 } }),
      "event CQ_ERR cq=0x3",
    );
  });
});

describe("formatAddress", () => {
  it("writes addresses as people do", () => {
    assert.equal(formatAddress(0xffff_ff0a), "255.255.255.10");
    assert.equal(formatMac(1), "00:00:00:00:00:01");
  });
});
