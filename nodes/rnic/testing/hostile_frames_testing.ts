/**
 * For tests only: hostile frames at both ends of busy queue pairs of every service, of `fuzz_test.ts` and, in
 * larger numbers, of `tests/seeds/hostile_frames_test.ts`.
 */
import assert from "node:assert/strict";
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import { inGrh, makeBth } from "../../../fabric/wire/roce/packet_testing.ts";
import { CQE_BYTES } from "../../../fabric/wire/host_bus/cqe.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { crc32 } from "../../../fabric/wire/roce/icrc.ts";
import { mutate } from "../../../fabric/wire/roce/mutation_testing.ts";
import { OPCODE_ROWS } from "../../../fabric/wire/roce/opcode.ts";
import { encodePacket, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { SPACE1_BYTES, SPACE2_BYTES } from "../../../fabric/wire/host_bus/default_store_testing.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { VENDOR_EXTENSIONS } from "../../../fabric/wire/roce/vendor_testing.ts";
import { VERIFY_LEVELS } from "../../../fabric/wire/roce/verify_eth.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import { EVERY_ACCESS } from "./pair_testing.ts";
import { CONGESTION } from "./program_rig_testing.ts";
import type { RigMr, RigQp, Side } from "./rig_parts_testing.ts";
import { Rig } from "./rnic_testing.ts";
import { VERIFIED_ACCESS } from "./verify_testing.ts";
import { connectUc, createUd, Q_KEY, sayTo, udAddress } from "./unreliable_testing.ts";
import { wordOf } from "../state/memory.ts";

export const HOSTILE_SEEDS: readonly number[] = [1, 2, 3, 4, 5];
/** Frames of a round; behind each round all queue pairs start anew. */
const ROUND_FRAMES = 60;

type Range = readonly [from: number, end: number];

/** What a side has, and where its RNIC may write. */
interface Home {
  readonly side: Side;
  readonly rc: RigQp;
  readonly uc: RigQp;
  readonly ud: RigQp;
  /** What the peer may do everything with; receives land in its second half. */
  readonly open: RigMr;
  readonly granted: readonly Range[];
}

interface World {
  readonly rig: Rig;
  readonly rng: Rng;
  readonly homes: readonly [Home, Home];
}

const BYTES = 32_768;
const PD = 1, OTHER_PD = 2;
const RC_PATH = {
  accessFlags: VERIFIED_ACCESS,
  pathMtu: 256,
  // Whatever is lost ends soon.
  timeout: 1,
  retryCnt: 1,
  rnrRetry: 1,
} as const;

export function createWorld(seed: number, roce?: "v1"): World {
  const rng = rngFor(seed, "fuzz");
  // Every other one has congestion control, so that it can be told of congestion.
  const plan = { ...(seed % 2 === 0 && { congestion: CONGESTION }), ...(roce && { roce }) };
  const rig = new Rig({ seed, plans: { a: plan, b: plan } });
  const rc = rig.connect({ attributes: RC_PATH });
  const uc = connectUc(rig);
  const ud = { a: createUd(rig, rig.a), b: createUd(rig, rig.b) };
  const homes = ([rig.a, rig.b] as const).map((side): Home => {
    const { name, host } = side;
    const open = rig.register(side, { length: BYTES, access: EVERY_ACCESS, pd: PD });
    // What the peer may not touch: no right, another domain.
    rig.register(side, { length: 4096, va: 0x5_0000_0000, access: ACCESS.localWrite });
    rig.register(side, { length: 4096, va: 0x6_0000_0000, access: EVERY_ACCESS, pd: OTHER_PD });
    const { space1, space2, queues } = host.spaces;
    const qps = { rc: rc[name], uc: uc[name], ud: ud[name] };
    const granted: Range[] = [
      [open.address, open.address + open.length],
      [space1, space1 + queues * SPACE1_BYTES],
      [space2, space2 + queues * SPACE2_BYTES],
    ];
    for (const { sendCq: { address, entries } } of Object.values(qps)) {
      granted.push([address, address + entries * CQE_BYTES]);
    }
    return { side, ...qps, open, granted };
  });
  return { rig, rng, homes: homes as [Home, Home] };
}

/** Takes the queue pairs of all services through RESET to RTS again. */
function restart({ rig, homes }: World): void {
  for (const [home, peer] of [homes, [homes[1], homes[0]]] as const) {
    const { side } = home;
    for (const qp of [home.rc, home.uc, home.ud]) {
      rig.modify(side, qp, { state: "reset" });
      for (const ring of [qp.sq, qp.rq]) {
        ring.write = ring.depth - 1;
        rig.ring(side, ring, "none");
      }
      rig.poll(side, qp.sendCq);
    }
    rig.bringUp(side, home.rc, { qpn: peer.rc.qpn, attributes: RC_PATH });
    const accessFlags = ACCESS.localWrite | ACCESS.remoteWrite;
    const destAddress = peer.side.plan.address;
    const steps = [
      [home.uc, { state: "init", accessFlags }],
      [home.uc, { state: "rtr", destAddress, pathMtu: 256, destQpn: peer.uc.qpn, rqPsn: 0 }],
      [home.uc, { state: "rts", sqPsn: 0 }],
      [home.ud, { state: "init", qKey: Q_KEY }],
      [home.ud, { state: "rtr" }],
      [home.ud, { state: "rts", sqPsn: 0 }],
    ] as const;
    for (const [qp, attributes] of steps) {
      assert.equal(rig.modify(side, qp, attributes).status, "ok");
    }
  }
}

/** Work of every kind and service at both ends; all of it succeeds where nobody interferes. */
export function busy({ rig, rng, homes }: World): void {
  for (const [home, peer] of [homes, [homes[1], homes[0]]] as const) {
    const { side, rc, uc, ud, open } = home;
    const at = 8 * rng.below(1000);
    const remote = { va: BigInt(peer.open.va + at), rkey: peer.open.key };
    const some = (length: number) => [{ address: open.va + at, length, lkey: open.key }];
    const flush = {
      select: FLUSH_SELECT.range,
      placement: FLUSH_PLACEMENT.globalVisibility,
      length: 64,
    };
    const work: (Partial<SendWqe> & Pick<SendWqe, "opcode">)[] = [
      { opcode: "write", remote, sges: some(600) },
      { opcode: "send", sges: some(300) },
      { opcode: "read", remote, sges: some(600) },
      { opcode: "fetch-add", remote, sges: some(8), atomic: { swapAdd: 1n, compare: 0n } },
      { opcode: "compare-swap", remote, sges: some(8), atomic: { swapAdd: 1n, compare: 0n } },
      { opcode: "atomic-write", remote, inline: wordOf(7n) },
      { opcode: "write-immediate", remote, immediate: 5, sges: some(100) },
      { opcode: "flush", remote, flush },
      { opcode: "write-persistence", remote, sges: some(600) },
      { opcode: "send-immediate", immediate: 6, sges: some(20) },
    ];
    for (const level of VERIFY_LEVELS) {
      const verify = { level, persist: rng.below(2) === 0 };
      work.push({ opcode: "write-verify", remote, verify, sges: some(1 + rng.below(600)) });
    }
    for (let i = rng.below(work.length); i > 0; i--) {
      const other = rng.below(work.length);
      [work[i], work[other]] = [work[other]!, work[i]!];
    }
    for (const wqe of work) rig.enqueueSend(side, rc, wqe);
    rig.enqueueSend(side, uc, { opcode: "write", remote, sges: some(600) });
    rig.enqueueSend(side, uc, { opcode: "send", sges: some(300) });
    rig.ring(side, rc.sq);
    rig.ring(side, uc.sq);
    const to = udAddress(peer.side.plan.address, peer.ud.qpn);
    sayTo(rig, { side, qp: ud, mr: open }, { ud: to, length: 100 });
  }
}

export function postReceives({ rig, homes }: World, count: number): void {
  for (const { side, rc, uc, ud, open } of homes) {
    const half = { address: open.va + BYTES / 2, length: 2048, lkey: open.key };
    for (let i = 0; i < count; i++) for (const qp of [rc, uc, ud]) rig.recv(side, qp, [half]);
  }
}

/** A frame of any opcode with plausible, odd or impossible fields. */
function randomFrame({ rng, homes }: World, to: 0 | 1): Uint8Array<ArrayBuffer> {
  const home = homes[to], peer = homes[1 - to]!;
  const row = OPCODE_ROWS[rng.below(OPCODE_ROWS.length)]!;
  const { open: mr } = home;
  const payload = new Uint8Array(rng.below(2) === 0 ? 256 : rng.below(1100)).fill(0xab);
  const qp = row.service === "ud" ? home.ud : row.service === "uc" ? home.uc : home.rc;
  // RoCEv1's card gets a frame of RoCEv2 now and then; the other way round nothing is drawn.
  const isV1 = home.side.plan.roce === "v1" && rng.below(8) > 0;
  const packet: RocePacket = {
    destinationMac: home.side.plan.mac,
    sourceMac: peer.side.plan.mac,
    sourceAddress: peer.side.plan.address,
    destinationAddress: home.side.plan.address,
    dscp: 0,
    ecn: rng.below(4),
    ttl: rng.below(256),
    identification: 1,
    udpSourcePort: 0xc000,
    bth: makeBth({
      opcode: row.code,
      destQpn: qp.qpn,
      psn: (0xff_fffe + rng.below(30)) & 0xff_ffff,
      ackReq: rng.below(2) === 0,
    }),
    reth: {
      va: rng.below(8) === 0 ? 2n ** 64n - 1n : BigInt(mr.va + rng.below(BYTES + 4096)),
      rkey: mr.key + rng.below(2),
      length: rng.below(2) === 0 ? 256 : rng.below(rng.below(2) === 0 ? 2 ** 32 : 1100),
    },
    persistEth: { flags: rng.below(9), reserved: rng.below(9), version: rng.below(9) },
    ...VENDOR_EXTENSIONS,
    verifyEth: {
      version: rng.below(8) === 0 ? 2 : 1,
      algorithm: rng.below(8) === 0 ? 0 : 1,
      level: rng.below(5),
      persist: rng.below(2) === 0,
      reserved: rng.below(9),
    },
    digestEth: { crc: rng.below(2) === 0 ? crc32(payload) : rng.next() },
    aeth: { syndrome: rng.below(256), msn: rng.below(5) },
    deth: { qKey: Q_KEY + rng.below(2), reserved: 0, sourceQpn: rng.below(99) },
    atomicEth: {
      va: BigInt(mr.va + rng.below(BYTES + 100)) & ~(rng.below(4) === 0 ? 0n : 7n),
      rkey: mr.key + (rng.below(4) === 0 ? 1 : 0),
      swapAdd: 1n,
      compare: 2n,
    },
    atomicAckEth: { original: 5n },
    immdt: { immediate: 3 },
    ieth: { rkey: mr.key },
    feth: { reserved: 0, select: rng.below(3), placement: rng.below(4) },
    payload,
  };
  if (!isV1) return encodePacket(packet);
  const priority = rng.below(2) === 0 ? undefined : rng.below(8);
  return encodePacket(inGrh(packet, { flowLabel: rng.below(2 ** 20), priority }));
}

/** Puts hostile frames on the wire, a few at once, while the queue pairs work. */
function attack(world: World, recorded: readonly Uint8Array<ArrayBuffer>[][]): void {
  const { rig, rng, homes } = world;
  for (let i = 0; i < ROUND_FRAMES; i++) {
    const to = rng.below(2) as 0 | 1;
    const isMutated = rng.below(4) > 0;
    const bytes = isMutated ? mutate(rng, recorded[to]!) : randomFrame(world, to);
    rig.inject(homes[to].side, bytes);
    if (rng.below(2) === 0) rig.runFor(rng.below(400_000));
  }
  rig.run();
}

/** No DMA write was anywhere but where somebody was granted it. */
function checkWrites({ homes }: World): void {
  for (const { side, granted } of homes) {
    for (const message of side.host.log) {
      if (message.kind !== "memory-write") continue;
      const { address, data } = message;
      const isInside = granted.some(([from, end]) =>
        address >= from && address + data.length <= end
      );
      assert.ok(isInside, `${data.length} B at ${address} of ${side.name} were written`);
    }
    side.host.log.length = 0;
  }
}

/** What a frame is counted as on arrival: taken as one of these, or dropped for one of these reasons. */
const TAKEN = [
  "requestsIn",
  "acksIn",
  "naksIn",
  "rnrNaksIn",
  "atomicAcksIn",
  "readResponsesIn",
  "persistAcksIn",
  "cnpsIn",
];
const REFUSED = [
  "undecodable",
  "roce-version",
  "foreign-mac",
  "foreign-address",
  "foreign-group",
  "group-qpn",
  "congestion-notification",
  "unknown-qp",
  "wrong-service",
  "wrong-state",
  "vendor-operation",
  "wrong-peer",
  "p-key",
  "q-key",
];

function checkCounters({ homes }: World): void {
  for (const { side } of homes) {
    const counters = side.rnic.statistics();
    let sum = 0;
    for (const name of TAKEN) sum += counters[name] ?? 0;
    for (const reason of REFUSED) sum += counters[`drop-${reason}`] ?? 0;
    assert.equal(sum, counters["framesIn"], `${side.name}: each frame is counted once`);
  }
}

/**
 * Attacks both ends with so many frames of a seed. Throws where a frame crashes an RNIC, changes what was not
 * granted, is not counted, or leaves a queue pair that does not work.
 */
export function checkHostileFrames(seed: number, framesMax: number, roce?: "v1"): void {
  const world = createWorld(seed, roce);
  const { rig, homes } = world;
  for (let frames = 0; frames < framesMax; frames += ROUND_FRAMES) {
    restart(world);
    postReceives(world, 5);
    rig.frames.length = 0;
    busy(world);
    rig.run();
    // Nothing interferes yet, so all that the last round has done is over.
    for (const { side, rc } of homes) {
      for (const { status, opcode } of rig.poll(side, rc.sendCq)) {
        assert.equal(status, "SUCCESS", `${opcode} after ${frames} frames`);
      }
    }
    const recorded = homes.map(({ side: { name } }) =>
      rig.frames.filter(({ from }) => from !== name).map(({ bytes }) => bytes)
    );
    postReceives(world, 1 + world.rng.below(6));
    busy(world);
    attack(world, recorded);
    checkWrites(world);
  }
  checkCounters(world);
  const { requestsIn } = rig.b.rnic.statistics();
  assert.ok(requestsIn! > framesMax / 10, "many frames got as far as the responder");
}
