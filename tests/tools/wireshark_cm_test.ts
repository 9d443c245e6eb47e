/**
 * The connection manager's messages of librdmacm's ids as Wireshark reads them: the port and the addresses of
 * annex A11 in a REQ, and the datagrams of service ID resolution, whose bodies Wireshark does not read.
 */
import assert from "node:assert/strict";
import { describe } from "@std/testing/bdd";
import { decodePacket, isRefusal } from "../../fabric/wire/roce/packet.ts";
import { decodeCm } from "../../fabric/wire/roce/cm.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { writePcap } from "../support/pcap_writer.ts";
import {
  expectEvent,
  listenOn,
  PORT,
  type RdmaSide,
  routeTo,
  runRdma,
} from "../support/rdma_programs.ts";
import { itUnless } from "../support/skipping.ts";
import { complaints, tsharkFields, tsharkMissing } from "../support/tshark.ts";

const withTshark = itUnless(tsharkMissing(), "what Wireshark reads");
const TEXT = new TextEncoder().encode("what the program has to say");

function* server(side: RdmaSide, ps: "tcp" | "udp"): Steps<void> {
  const { v, pd, qp } = side;
  listenOn(side, ps);
  const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
  v.must(yield* v.rdmaCreateQp(id, pd, qp));
  v.must(yield* v.rdmaAccept(id, { privateData: TEXT }));
  if (ps === "tcp") {
    for (const each of ["ESTABLISHED", "DISCONNECTED"]) yield* expectEvent(side, each);
  }
}

function* client(side: RdmaSide, ps: "tcp" | "udp"): Steps<void> {
  const { v, pd, qp } = side;
  const id = yield* routeTo(side, "b", { ps });
  v.must(yield* v.rdmaCreateQp(id, pd, qp));
  v.must(yield* v.rdmaConnect(id, { privateData: TEXT }));
  yield* expectEvent(side, "ESTABLISHED");
  if (ps === "tcp") v.must(yield* v.rdmaDisconnect(id));
}

/** Frames of the CM of a connection and of a resolution, in a capture. */
function captured(folder: string) {
  const runs = (["tcp", "udp"] as const).map((ps) =>
    runRdma((side) => server(side, ps), (side) => client(side, ps))
  );
  const frames = runs.flatMap(({ frames }) => frames);
  const path = `${folder}/cm.pcap`;
  writePcap(path, frames);
  return { path, frames };
}

const FIELDS = [
  "infiniband.mad.mgmtclass",
  "infiniband.mad.method",
  "infiniband.mad.attributeid",
  "infiniband.mad.transactionid",
  "infiniband.cm.req.serviceid.protocol",
  "infiniband.cm.req.serviceid.dport",
  "infiniband.cm.req.ip_cm.majv",
  "infiniband.cm.req.ip_cm.ipv",
  "infiniband.cm.req.ip_cm.sport",
  "infiniband.cm.req.ip_cm.sip4",
  "infiniband.cm.req.ip_cm.dip4",
  "infiniband.cm.req.ip_cm.private",
] as const;

/** Attribute numbers of the messages, in their order. */
const ATTRIBUTES = [0x10, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];

describe("The CM's messages of librdmacm", () => {
  withTshark("are read by tshark as we mean them", async () => {
    const folder = Deno.makeTempDirSync();
    try {
      const { path, frames } = captured(folder);
      assert.deepEqual(await complaints(path), []);
      const rows = await tsharkFields(path, { fields: FIELDS });
      assert.deepEqual(rows.map((row) => Number(row["infiniband.mad.attributeid"])), ATTRIBUTES);
      for (const [i, row] of rows.entries()) {
        const packet = decodePacket(frames[i]!);
        const message = isRefusal(packet) ? undefined : decodeCm(packet.payload);
        assert.equal(Number(row["infiniband.mad.mgmtclass"]), 7);
        assert.equal(Number(row["infiniband.mad.method"]), 3);
        assert.equal(BigInt(row["infiniband.mad.transactionid"]), message?.transactionId);
      }
      const [req] = rows;
      const read = FIELDS.slice(4).map((field) => req![field]);
      const sport = Number(req!["infiniband.cm.req.ip_cm.sport"]);
      assert.ok(sport >= 32_768 && sport <= 60_999, "an ephemeral port");
      const own = new Uint8Array(56);
      own.set(TEXT);
      assert.deepEqual(read.map((text) => text.toLowerCase()), [
        "0x06",
        `0x${PORT.toString(16)}`,
        "0x00",
        "0x04",
        `0x${sport.toString(16)}`,
        "10.0.0.1",
        "10.0.0.2",
        own.toHex(),
      ]);
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  });
});
