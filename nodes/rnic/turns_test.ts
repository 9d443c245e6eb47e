import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_S } from "../../fabric/base/time.ts";
import { createDevice } from "./device.ts";
import { createEntry } from "./queues/queue_information.ts";
import { schedule } from "./state/device.ts";
import { createWork } from "./state/outstanding_wqe.ts";
import { applyAttributes, createQueuePair } from "./state/queue_pair.ts";
import { addWork } from "./state/requester_changes.ts";
import { packetOf } from "./testing/pair_testing.ts";
import { type RigMr, rnicPlan } from "./testing/rig_parts_testing.ts";
import { Rig } from "./testing/rnic_testing.ts";
import { runTurns } from "./turns.ts";

/** FCS, preamble and gap. */
const WIRE_OVERHEAD_BYTES = 24;

/** A driver looks at its completions so often, and posts as many again. */
const ROUND_PS = 5_000_000;
/** Until the RNIC has WQEs of all in stock, and for how long it is looked at then. */
const FIRST_ROUNDS = 8, ROUNDS = 30;

interface Sender {
  readonly bytes: number;
  readonly weight?: number;
}

/**
 * Queue pairs that always have messages of one size to send.
 * @returns each one's share of what was sent, and the part of the line that all of it was.
 */
function shares(senders: readonly Sender[], idle = 0, roce?: "v1") {
  const plan = roce === undefined ? {} : { roce };
  const rig = new Rig({ plans: { a: plan, b: plan } });
  const from = rig.register(rig.a, { length: 65_536 });
  const to = rig.register(rig.b, { length: 65_536 });
  const pairs = senders.map(({ weight }) =>
    rig.connect({ depth: 128, ...(weight !== undefined && { weight }) })
  );
  const cq = rig.createCq(rig.a), otherCq = rig.createCq(rig.b);
  for (let i = 0; i < idle; i++) {
    const a = rig.createQp(rig.a, { cq, depth: 16, rqDepth: 16 });
    const b = rig.createQp(rig.b, { cq: otherCq, depth: 16, rqDepth: 16 });
    rig.bringUp(rig.a, a, { qpn: b.qpn });
  }
  const owners = new Map(pairs.flatMap(({ a, b }, i) => [[b.qpn, i], [a.qpn, i]]));
  const sent = senders.map(() => 0);
  const post = (i: number) => {
    const { bytes } = senders[i]!;
    rig.enqueueSend(rig.a, pairs[i]!.a, writeOf(from, to, bytes));
  };
  for (const [i, { a }] of pairs.entries()) {
    for (let count = 0; count < 100; count++) post(i);
    rig.ring(rig.a, a.sq);
  }
  for (let round = 0; round < FIRST_ROUNDS + ROUNDS; round++) {
    if (round === FIRST_ROUNDS) rig.frames.length = 0;
    rig.runFor(ROUND_PS);
    for (const [i, { a }] of pairs.entries()) {
      const done = rig.poll(rig.a, a.sendCq).length;
      for (let count = 0; count < done; count++) post(i);
      if (done > 0) rig.ring(rig.a, a.sq);
    }
  }
  let all = 0;
  for (const { from: side, bytes } of rig.frames) {
    if (side !== "a") continue;
    const line = bytes.length + WIRE_OVERHEAD_BYTES;
    const owner = owners.get(packetOf(bytes).bth.destQpn)!;
    sent[owner]! += line;
    all += line;
  }
  const busy = all * 8 / (100e9 * ROUNDS * ROUND_PS / PS_PER_S);
  return { shares: sent.map((each) => each / all), busy };
}

function writeOf(from: RigMr, to: RigMr, bytes: number) {
  return {
    opcode: "write",
    remote: { va: BigInt(to.va), rkey: to.key },
    sges: [{ address: from.va, length: bytes, lkey: from.key }],
  } as const;
}

function assertShares(
  senders: readonly Sender[],
  expected: readonly number[],
  roce?: "v1",
): void {
  const found = shares(senders, 0, roce);
  const text = found.shares.map((each) => each.toFixed(3)).join(", ");
  for (const [i, share] of expected.entries()) {
    assert.ok(Math.abs(found.shares[i]! - share) < 0.02 * share, `found ${text} at ${i}`);
  }
  assert.ok(found.busy > 0.97, `the line is busy for ${found.busy}`);
}

describe("turns", () => {
  it("Q-11: queue pairs of equal weight have equal shares of the line, whatever their messages' size", () => {
    assertShares([{ bytes: 4096 }, { bytes: 4096 }], [1 / 2, 1 / 2]);
    assertShares([{ bytes: 65_536 }, { bytes: 1500 }], [1 / 2, 1 / 2]);
    assertShares([{ bytes: 65_536 }, { bytes: 4096 }, { bytes: 1000 }], [1 / 3, 1 / 3, 1 / 3]);
  });

  it("C-01 (in part): have them in RoCEv1, too, whose longer headers count", () => {
    assertShares([{ bytes: 128, weight: 1 }, { bytes: 4096, weight: 9 }], [1 / 10, 9 / 10], "v1");
  });

  it("Q-11: one of weight 1 loses nothing beside 64 others that have nothing to send", () => {
    const alone = shares([{ bytes: 4096 }]).busy, beside = shares([{ bytes: 4096 }], 64).busy;
    assert.ok(alone > 0.97);
    assert.ok(Math.abs(beside - alone) < 0.001, `${beside}, not ${alone}`);
  });

  it("Q-11: of unequal weight they have shares by their weight", () => {
    assertShares([{ bytes: 4096, weight: 3 }, { bytes: 4096 }], [3 / 4, 1 / 4]);
    assertShares([{ bytes: 1500, weight: 1 }, { bytes: 65_536, weight: 4 }], [1 / 5, 4 / 5]);
    assertShares([{ bytes: 2000, weight: 2 }, { bytes: 65_536, weight: 2 }, {
      bytes: 5000,
      weight: 6,
    }], [0.2, 0.2, 0.6]);
  });

  it("Q-11: with 4096 queue pairs a turn takes as many looks as with 16", () => {
    const few = turnsOf({ queuePairs: 16, busy: 16, frames: 1024 });
    const some = turnsOf({ queuePairs: 4096, busy: 16, frames: 1024 });
    assert.deepEqual(some, few);
    const many = turnsOf({ queuePairs: 4096, busy: 4096, frames: 3 * 4096 });
    assert.ok(many.most - many.least <= 2, JSON.stringify(many));
    assert.ok(few.looks <= 1024 && many.looks <= 3 * 4096, JSON.stringify([few, many]));
  });
});

/**
 * Some of a device's queue pairs have one endless message each.
 * @returns turns given until so many frames have begun, and how many frames queue pairs began.
 */
function turnsOf({ queuePairs, busy, frames }: {
  readonly queuePairs: number;
  readonly busy: number;
  readonly frames: number;
}) {
  const queueCache = { entries: queuePairs, evict: "oldest", amount: 1 } as const;
  const device = createDevice("a", rnicPlan("a", { queueCache }), { seed: 1 });
  const ring = { address: 0, units: 64 };
  const wqe = {
    opcode: "write",
    index: 0,
    signaled: true,
    solicited: false,
    fence: false,
    immediate: 0,
    remote: { va: 0n, rkey: 0 },
    sges: [],
    inline: new Uint8Array(1 << 20),
  } as const;
  const all = Array.from({ length: queuePairs }, (_, slot) => {
    const qp = createQueuePair({
      qpn: 17 + slot,
      type: "uc",
      pd: 1,
      sqQueue: 2 * slot,
      rqQueue: 2 * slot + 1,
      rqStride: 64,
      srq: undefined,
      rings: { sq: ring, rq: ring },
      sendCq: 0,
      recvCq: 0,
      persistCompletion: "persistence",
      weight: 1,
      slot,
    });
    applyAttributes(qp, { state: "rts", pathMtu: 4096 });
    device.queuePairs.set(qp.qpn, qp);
    const entry = createEntry(device, {
      queue: qp.sqQueue,
      kind: "sq",
      owner: qp.qpn,
      wqeAddress: ring.address,
      indexAddress: 0,
      depth: ring.units,
      unitBytes: 64,
      state: "rts",
      valid: true,
      rnicPointer: 0,
      recycled: false,
    });
    device.cache.insert(entry, 0);
    return qp;
  });
  for (const qp of all.slice(0, busy)) {
    const work = createWork({ ...wqe, qpn: qp.qpn }, 0);
    Object.assign(work, { started: true, packets: 1 << 20 });
    addWork(qp, work);
    schedule(device, qp);
  }
  const begun = () => device.transmitter.data.length;
  while (begun() < frames) {
    // What was begun has left: there is room again.
    device.transmitter.bufferedBytes = 0;
    runTurns(device);
  }
  const counts = new Map(all.slice(0, busy).map(({ qpn }) => [qpn, 0]));
  for (let i = 0; i < frames; i++) {
    const { qp } = device.transmitter.data.at(i)!;
    counts.set(qp.qpn, counts.get(qp.qpn)! + 1);
  }
  const each = [...counts.values()];
  return { looks: device.roundRobin.first, least: Math.min(...each), most: Math.max(...each) };
}
