import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { parseScenario } from "../rack/scenario/parse_scenario.ts";
import { makePlan } from "../rack/assembly/topology.ts";
import { variants } from "../rack/scenario/variants.ts";
import { GSI_QPN } from "../wire/roce/bth.ts";
import { makeBth } from "../wire/roce/packet_testing.ts";
import { encodeCm, gidOfAddress, mtuCode, REQ_DEFAULTS } from "../wire/roce/cm.ts";
import { GSI_QKEY } from "../wire/roce/deth.ts";
import { OPCODE, type OpcodeName } from "../wire/roce/opcode.ts";
import { encodePacket, type RocePacket } from "../wire/roce/packet.ts";
import { remarkText } from "./cable_effects.ts";
import { Retransmissions } from "./retransmissions.ts";

const SCENARIO = `
name: two
fabric: { topology: direct, mtu: 1024 }
hosts: { x: {}, y: {} }
`;
const PLAN = makePlan(variants(parseScenario(SCENARIO, "two.yaml"))[0]!);
/** Places of the RNICs of x and y in the plan, and their addresses. */
const X = 1, Y = 3;
const ADDRESS = { [X]: 0x0a00_0001, [Y]: 0x0a00_0002 };
const RETH = { va: 0x1000n, rkey: 5, length: 100 };
const AETH = { syndrome: 0x1f, msn: 1 };

interface Given extends Partial<Omit<RocePacket, "bth">> {
  readonly psn: number;
  readonly qpn?: number;
  readonly from?: typeof X | typeof Y;
}

describe("Retransmissions", () => {
  /** Remarks on frames, which are numbered as they leave. */
  function sender() {
    const retransmissions = new Retransmissions(PLAN);
    let number = 0;
    return (opcode: OpcodeName, { psn, qpn = 0x22, from = X, ...change }: Given) => {
      const frame = encodePacket({
        destinationMac: 0x0200_0000_0002,
        sourceMac: 0x0200_0000_0001,
        sourceAddress: ADDRESS[from],
        destinationAddress: ADDRESS[from === X ? Y : X],
        dscp: 0,
        ecn: 2,
        ttl: 64,
        identification: 1,
        udpSourcePort: 0xc242,
        payload: new Uint8Array(),
        bth: makeBth({ opcode: OPCODE[opcode], destQpn: qpn, psn }),
        ...change,
      });
      const remark = retransmissions.remarkOn({ node: from, frame, mark: { number: ++number } });
      return remark && remarkText(remark);
    };
  }
  const payload = new Uint8Array(16);

  it("names the first frame that had the PSN, each time", () => {
    const send = sender();
    assert.equal(send("RC SEND ONLY", { psn: 0xff_ffff, payload }), undefined);
    assert.equal(send("RC SEND ONLY", { psn: 0, payload }), undefined);
    assert.equal(send("RC SEND ONLY", { psn: 0xff_ffff, payload }), "retransmission of frame 1");
    assert.equal(send("RC SEND ONLY", { psn: 0, payload }), "retransmission of frame 2");
    assert.equal(send("RC SEND ONLY", { psn: 0xff_ffff, payload }), "retransmission of frame 1");
    assert.equal(send("RC SEND ONLY", { psn: 1, payload }), undefined);
  });

  it("keeps queue pairs, addresses and directions apart", () => {
    const send = sender();
    send("RC SEND ONLY", { psn: 7, payload });
    assert.equal(send("RC SEND ONLY", { psn: 7, payload, qpn: 0x23 }), undefined);
    assert.equal(send("RC SEND ONLY", { psn: 7, payload, from: Y }), undefined);
    const answer = { psn: 7, aeth: AETH };
    assert.equal(send("RC RDMA READ RESPONSE ONLY", answer), undefined);
    assert.equal(send("RC RDMA READ RESPONSE ONLY", answer), "retransmission of frame 4");
  });

  it("has no remark on ACKs, datagrams and unreliable connections", () => {
    const send = sender();
    const deth = { qKey: 1, reserved: 0, sourceQpn: 2 };
    for (let i = 0; i < 2; i++) {
      assert.equal(send("RC ACKNOWLEDGE", { psn: 7, aeth: AETH }), undefined);
      assert.equal(send("UD SEND ONLY", { psn: 7, payload, deth }), undefined);
      assert.equal(send("UC SEND ONLY", { psn: 7, payload }), undefined);
    }
  });

  it("§3.3: knows a READ that asks for the rest of one that was asked for", () => {
    const send = sender();
    const reth = { ...RETH, length: 4_000 };
    send("RC RDMA READ REQUEST", { psn: 10, reth });
    // The four packets of its answer have the PSNs 10 to 13.
    const rest = { ...reth, va: reth.va + 2_048n, length: 4_000 - 2_048 };
    assert.equal(
      send("RC RDMA READ REQUEST", { psn: 12, reth: rest }),
      "retransmission from PSN 12 on of frame 1",
    );
    const other = { ...rest, rkey: 6 }, shorter = { ...rest, length: 100 };
    assert.equal(send("RC RDMA READ REQUEST", { psn: 11, reth: other }), undefined);
    assert.equal(send("RC RDMA READ REQUEST", { psn: 13, reth: shorter }), undefined);
    assert.equal(send("RC RDMA READ REQUEST", { psn: 14, reth: rest }), undefined, "a new one");
    assert.equal(send("RC RDMA READ REQUEST", { psn: 10, reth }), "retransmission of frame 1");
  });

  it("begins anew with a queue pair that a REQ names, as its number may have been another's", () => {
    const send = sender();
    send("RC SEND ONLY", { psn: 7, payload, from: Y });
    send("RC SEND ONLY", { psn: 7, payload, from: X });
    const request = encodeCm({
      ...REQ_DEFAULTS,
      type: "REQ",
      transactionId: 1n,
      localCommId: 1,
      serviceId: 1n,
      localCaGuid: 1n,
      localQpn: 0x22,
      responderResources: 16,
      initiatorDepth: 15,
      remoteCmResponseTimeout: 20,
      startingPsn: 7,
      localCmResponseTimeout: 19,
      retryCount: 7,
      pathMtu: mtuCode(1024),
      rnrRetryCount: 6,
      maxCmRetries: 15,
      primaryLocalGid: gidOfAddress(ADDRESS[X]),
      primaryRemoteGid: gidOfAddress(ADDRESS[Y]),
      primaryLocalAckTimeout: 14,
      privateData: new Uint8Array(),
    });
    const deth = { qKey: GSI_QKEY, reserved: 0, sourceQpn: GSI_QPN };
    send("UD SEND ONLY", { psn: 0, qpn: GSI_QPN, payload: request, deth });
    assert.equal(send("RC SEND ONLY", { psn: 7, payload, from: Y }), undefined);
    assert.equal(send("RC SEND ONLY", { psn: 7, payload, from: X }), "retransmission of frame 2");
  });
});
