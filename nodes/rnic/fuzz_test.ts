import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Rng, rngFor } from "../../fabric/time/rng.ts";
import { makeBth } from "../../fabric/wire/bth.ts";
import { CQE_BYTES } from "../../fabric/wire/cqe.ts";
import { OPCODE_ROWS } from "../../fabric/wire/opcode.ts";
import { encodePacket } from "../../fabric/wire/packet.ts";
import { SPACE1_BYTES, SPACE2_BYTES } from "../../fabric/wire/queue_information.ts";
import { ACCESS } from "../../fabric/wire/rnic_command.ts";
import { Rig, type RigMr, type RigQp } from "./rnic_testing.ts";

type Range = readonly [from: number, end: number];

interface Target {
  readonly rig: Rig;
  readonly qp: RigQp;
  readonly ud: RigQp;
  readonly mr: RigMr;
}

/** A frame of any opcode with plausible, odd or impossible fields, half of them damaged. */
function randomFrame(rng: Rng, { rig, qp, ud, mr }: Target): Uint8Array<ArrayBuffer> {
  const row = OPCODE_ROWS[rng.below(OPCODE_ROWS.length)]!;
  const bytes = encodePacket({
    destinationMac: rig.b.plan.mac,
    sourceMac: rig.a.plan.mac,
    sourceAddress: rig.a.plan.address,
    destinationAddress: rig.b.plan.address,
    dscp: 0,
    ecn: rng.below(4),
    ttl: rng.below(256),
    identification: 1,
    udpSourcePort: 0xc000,
    bth: makeBth({
      opcode: row.code,
      destQpn: (row.service === "ud" ? ud : qp).qpn,
      psn: (0xff_fffe + rng.below(3)) & 0xff_ffff,
      ackReq: rng.below(2) === 0,
    }),
    reth: {
      va: rng.below(8) === 0 ? 2n ** 64n - 1n : BigInt(mr.va + rng.below(12_000)),
      rkey: mr.key + rng.below(2),
      length: rng.below(2) === 0 ? 1024 : rng.below(2 ** 32),
    },
    persistEth: { flags: rng.below(9), reserved: rng.below(9), version: rng.below(9) },
    aeth: { syndrome: rng.below(256), msn: rng.below(5) },
    deth: { qKey: rng.below(3), reserved: 0, sourceQpn: rng.below(99) },
    atomicEth: { va: BigInt(mr.va), rkey: mr.key, swapAdd: 1n, compare: 2n },
    atomicAckEth: { original: 5n },
    immdt: { immediate: 3 },
    ieth: { rkey: mr.key },
    feth: { reserved: 0, select: rng.below(3), placement: rng.below(4) },
    payload: new Uint8Array(rng.below(2) === 0 ? 1024 : rng.below(1100)).fill(0xab),
  });
  if (rng.below(4) === 0) bytes[rng.below(bytes.length)]! ^= 1 << rng.below(8);
  return rng.below(4) === 0 ? bytes.slice(0, rng.below(bytes.length + 1)) : bytes;
}

describe("fuzz", () => {
  for (const seed of [1, 2, 3, 4]) {
    it(`no frame crashes the RNIC or changes memory that was not granted (seed ${seed})`, () => {
      const rng = rngFor(seed, "fuzz");
      const flow = seed % 2 === 0 ? 1 : 2;
      const rig = new Rig({ persistence: { b: { flow, noSnoop: false } } });
      const mr = rig.register(rig.b, { length: 8192 });
      rig.register(rig.b, { length: 4096, va: 0x5_0000_0000, access: ACCESS.localWrite });
      const { space1, space2, queues } = rig.b.host.spaces;
      const granted: Range[] = [
        [mr.address, mr.address + mr.length],
        [space1, space1 + queues * SPACE1_BYTES],
        [space2, space2 + queues * SPACE2_BYTES],
      ];
      let taken = 0;
      for (let round = 0; round < 12; round++) {
        const { b: qp } = rig.connect();
        const ud = rig.createQp(rig.b, { type: "ud" });
        for (const { address, entries } of [qp.recvCq, ud.recvCq]) {
          granted.push([address, address + entries * CQE_BYTES]);
        }
        for (let i = 0; i < 9; i++) {
          rig.recv(rig.b, qp, [{ address: mr.va, length: 2048, lkey: mr.key }]);
        }
        for (let i = 0; i < 25; i++) rig.inject(rig.b, randomFrame(rng, { rig, qp, ud, mr }));
        rig.run();
        taken += rig.b.rnic.statistics()["requestsIn"]!;
        for (const each of [qp, ud]) rig.command(rig.b, { op: "destroy-qp", qpn: each.qpn });
      }
      for (const message of rig.b.host.log) {
        if (message.kind !== "memory-write") continue;
        const { address, data } = message;
        const inside = granted.some(([from, end]) =>
          address >= from && address + data.length <= end
        );
        assert.ok(inside, `${data.length} B at ${address} were written`);
      }
      assert.ok(taken > 20, "some frames got as far as the responder");
    });
  }
});
