/** Frames of any kind to UC and UD queue pairs and to groups: nothing is written that was not granted. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import { MULTICAST_QPN } from "../../../fabric/wire/roce/bth.ts";
import { makeBth } from "../../../fabric/wire/roce/packet_testing.ts";
import { CQE_BYTES } from "../../../fabric/wire/host_bus/cqe.ts";
import { macOfAddress } from "../../../fabric/wire/roce/neighbour.ts";
import { OPCODE_ROWS } from "../../../fabric/wire/roce/opcode.ts";
import { encodePacket } from "../../../fabric/wire/roce/packet.ts";
import { VENDOR_EXTENSIONS } from "../../../fabric/wire/roce/vendor_testing.ts";
import { SPACE1_BYTES, SPACE2_BYTES } from "../../../fabric/wire/host_bus/default_store_testing.ts";
import type { RigMr, RigQp } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { connectUc, createUd, Q_KEY } from "../testing/unreliable_testing.ts";

const GROUP = 0xef01_0203, FRAMES = 1200, RECEIVES = 8;
const ROWS = OPCODE_ROWS.filter(({ service }) => service !== "rc");

interface Target {
  readonly rig: Rig;
  readonly uc: RigQp;
  readonly ud: RigQp;
  readonly mr: RigMr;
}

function oneOf<T>(rng: Rng, values: readonly T[]): T {
  return values[rng.below(values.length)]!;
}

/** Headers that fit, nearly fit or do not; a quarter is damaged, another one cut. */
function randomFrame(rng: Rng, { rig, uc, ud, mr }: Target): Uint8Array<ArrayBuffer> {
  const row = oneOf(rng, ROWS);
  const own = row.service === "ud" ? ud.qpn : uc.qpn;
  const address = oneOf(rng, [rig.b.plan.address, rig.b.plan.address, GROUP, GROUP + 1]);
  const bytes = encodePacket({
    destinationMac: oneOf(rng, [macOfAddress(address), macOfAddress(address), rig.b.plan.mac]),
    sourceMac: rig.a.plan.mac,
    sourceAddress: rig.a.plan.address + (rng.below(8) === 0 ? 1 : 0),
    destinationAddress: address,
    dscp: rng.below(64),
    ecn: rng.below(4),
    ttl: rng.below(256),
    identification: 1,
    udpSourcePort: 0xc000,
    bth: makeBth({
      opcode: row.code,
      destQpn: oneOf(rng, [own, own, MULTICAST_QPN, rng.below(30)]),
      psn: (0xff_fffe + rng.below(4)) & 0xff_ffff,
      ackReq: rng.below(2) === 0,
    }),
    reth: {
      va: rng.below(8) === 0 ? 2n ** 64n - 1n : BigInt(mr.va + rng.below(12_000)),
      rkey: mr.key + (rng.below(4) === 0 ? 1 : 0),
      length: oneOf(rng, [0, 256, 512, 600, 2 ** 31, 2 ** 32 - 1]),
    },
    deth: { qKey: oneOf(rng, [Q_KEY, Q_KEY, 1]), reserved: 0, sourceQpn: rng.below(99) },
    immdt: { immediate: 3 },
    hintEth: VENDOR_EXTENSIONS.hintEth,
    payload: new Uint8Array(oneOf(rng, [0, 88, 256, 256, 300])).fill(0xab),
  });
  if (rng.below(4) === 0) bytes[rng.below(bytes.length)]! ^= 1 << rng.below(8);
  return rng.below(4) === 0 ? bytes.slice(0, rng.below(bytes.length + 1)) : bytes;
}

describe("fuzz of unreliable services", () => {
  for (const seed of [1, 2, 3]) {
    it(`answers nothing and writes only where it may (seed ${seed})`, () => {
      const rng = rngFor(seed, "unreliable-fuzz");
      const rig = new Rig();
      const mr = rig.register(rig.b, { length: 8192 });
      const { b: uc } = connectUc(rig);
      const ud = createUd(rig, rig.b);
      rig.command(rig.b, { op: "attach-mcast", qpn: ud.qpn, group: GROUP });
      rig.run();
      const { space1, space2, queues } = rig.b.host.spaces;
      const granted = [
        [mr.address, mr.length],
        [space1, queues * SPACE1_BYTES],
        [space2, queues * SPACE2_BYTES],
        ...[uc, ud].map(({ recvCq }) => [recvCq.address, recvCq.entries * CQE_BYTES] as const),
      ] as const;
      rig.frames.length = 0;
      rig.b.host.log.length = 0;
      const post = (qp: RigQp) =>
        rig.recv(rig.b, qp, [{ address: mr.va, length: 512, lkey: mr.key }]);
      for (const qp of [uc, ud]) for (let i = 0; i < RECEIVES; i++) post(qp);
      let received = 0;
      for (let i = 0; i < FRAMES; i++) {
        rig.inject(rig.b, randomFrame(rng, { rig, uc, ud, mr }));
        rig.run();
        for (const qp of [uc, ud]) {
          for (const { status } of rig.poll(rig.b, qp.recvCq)) {
            assert.equal(status, "SUCCESS");
            received++;
            post(qp);
          }
        }
      }
      assert.deepEqual(rig.frames, [], "nothing is answered");
      for (const message of rig.b.host.log) {
        if (message.kind !== "memory-write") continue;
        const { address, data } = message;
        const inside = granted.some(([from, length]) =>
          address >= from && address + data.length <= from + length
        );
        assert.ok(inside, `${data.length} B at ${address} were written`);
      }
      assert.ok(received > 20, `${received} messages were good`);
    });
  }
});
