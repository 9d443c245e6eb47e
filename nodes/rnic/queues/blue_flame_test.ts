import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  BUFFER_BYTES,
  encodeBlueFlame,
  placeOfRegister,
} from "../../../fabric/wire/host_bus/blue_flame.ts";
import {
  DOORBELL_OFFSET,
  encodeDoorbell,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  decodeSendWqe,
  MAX_WQE_UNITS,
  WQE_UNIT_BYTES,
  wqeBytes,
} from "../../../fabric/wire/host_bus/wqe.ts";
import { rngFor } from "../../../fabric/base/rng.ts";
import { counter, type Pair, pair, post, recvs, statuses } from "../testing/pair_testing.ts";
import type { RigQp } from "../testing/rig_parts_testing.ts";

/** A store on its way to the RNIC. */
interface Store {
  readonly offset: number;
  readonly data: Uint8Array<ArrayBuffer>;
}

/** What a driver stores for the WQE at `position`, which was posted last: lines, in order. */
function lines({ rig }: Pair, { sq }: RigQp, position: number, buffer: 0 | 1): Store[] {
  const ring = rig.a.host.memory.subarray(sq.address, sq.address + sq.depth * WQE_UNIT_BYTES);
  const units = new Uint8Array(MAX_WQE_UNITS * WQE_UNIT_BYTES);
  for (let at = 0; at < units.length; at += WQE_UNIT_BYTES) {
    const from = ((position + at / WQE_UNIT_BYTES) % sq.depth) * WQE_UNIT_BYTES;
    units.set(ring.subarray(from, from + WQE_UNIT_BYTES), at);
  }
  const wqe = units.subarray(0, wqeBytes(decodeSendWqe(units)!));
  const write = rig.a.host.tellPointer(sq, rig.now);
  const { offset, bytes } = encodeBlueFlame({ queue: sq.queue, write }, wqe, buffer);
  const stores: Store[] = [];
  for (let at = 0; at < bytes.length; at += 64) {
    stores.push({ offset: offset + at, data: bytes.slice(at, at + 64) });
  }
  return stores;
}

function send({ rig }: Pair, { offset, data }: Store): void {
  rig.toRnic(rig.a, { kind: "register-write", offset, data });
}

function taken(p: Pair): [taken: number, fetched: number, wqeReads: number] {
  return [
    counter(p, "a", "blueFlameTaken"),
    counter(p, "a", "blueFlameFetched"),
    counter(p, "a", "wqeReads"),
  ];
}

const bytesOf = (length: number, value: number) => new Uint8Array(length).fill(value);

describe("BlueFlame", () => {
  it("a WQE that comes with its doorbell is not fetched, whether its data is in it or not", () => {
    const p = pair();
    for (const [i, wqe] of [{ inline: bytesOf(64, 7) }, { at: 512, length: 64 }].entries()) {
      const position = post(p, "write", wqe);
      for (const store of lines(p, p.a, position, i === 0 ? 0 : 1)) send(p, store);
      p.rig.run();
    }
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.deepEqual(taken(p), [2, 0, 0]);
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 64), bytesOf(64, 7));
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 512, 64), p.rig.bytes(p.rig.a, p.from, 512, 64));
  });

  it("one without data is taken as well, of whatever opcode", () => {
    const p = pair();
    recvs(p, 1);
    for (const [i, opcode] of (["write", "send", "nop"] as const).entries()) {
      const position = post(p, opcode);
      for (const store of lines(p, p.a, position, i === 1 ? 1 : 0)) send(p, store);
      p.rig.run();
    }
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
    assert.deepEqual(taken(p), [3, 0, 0]);
  });

  it("one that wraps around the ring's end is taken, too", () => {
    const p = pair({}, { depth: 8 });
    for (let i = 0; i < 9; i++) {
      const position = post(p, "write", { at: 256 * i, inline: bytesOf(200, i + 1) });
      for (const store of lines(p, p.a, position, i % 2 === 0 ? 0 : 1)) send(p, store);
      p.rig.run();
      assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 256 * i, 200), bytesOf(200, i + 1));
    }
    assert.deepEqual(taken(p), [9, 0, 0]);
  });

  it("with others in front of it in the ring it is fetched, and all of them in order", () => {
    const p = pair();
    post(p, "write", { at: 0, inline: bytesOf(8, 1) });
    post(p, "write", { at: 0, inline: bytesOf(8, 2) });
    const position = post(p, "write", { at: 0, inline: bytesOf(8, 3) });
    for (const store of lines(p, p.a, position, 0)) send(p, store);
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 8), bytesOf(8, 3));
    assert.deepEqual(taken(p).slice(0, 2), [0, 1]);
  });

  it("one that is not whole when its doorbell is, is fetched; what is late is not part of the next", () => {
    const p = pair();
    const [head, tail] = lines(p, p.a, post(p, "write", { inline: bytesOf(64, 1) }), 0);
    send(p, tail!);
    p.rig.run();
    assert.deepEqual(taken(p), [0, 0, 1]);
    send(p, head!);
    // The same buffer, and a doorbell that comes before the rest: what was late does not complete it.
    const [head2, tail2] = lines(p, p.a, post(p, "write", { inline: bytesOf(64, 2) }), 0);
    send(p, tail2!);
    p.rig.run();
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 64), bytesOf(64, 2));
    send(p, head2!);
    p.rig.run();
    for (const store of lines(p, p.a, post(p, "write", { inline: bytesOf(64, 3) }), 0)) {
      send(p, store);
    }
    p.rig.run();
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 64), bytesOf(64, 3));
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
    assert.deepEqual(taken(p), [1, 0, 2]);
  });

  it("one whose doorbell is lost is fetched with the next; what came of it is not part of a later one", () => {
    const p = pair();
    const [head] = lines(p, p.a, post(p, "write", { inline: bytesOf(64, 1) }), 0);
    send(p, head!);
    for (const store of lines(p, p.a, post(p, "write", { inline: bytesOf(64, 2) }), 1)) {
      send(p, store);
    }
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    const [head3, tail3] = lines(p, p.a, post(p, "write", { inline: bytesOf(64, 3) }), 0);
    send(p, tail3!);
    p.rig.run();
    send(p, head3!);
    p.rig.run();
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 64), bytesOf(64, 3));
    assert.deepEqual(taken(p).slice(0, 2), [0, 1]);
    // An ordinary doorbell says as much as one of the other buffer.
    const [head4] = lines(p, p.a, post(p, "write", { inline: bytesOf(64, 4) }), 1);
    send(p, head4!);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run();
    const [, tail5] = lines(p, p.a, post(p, "write", { inline: bytesOf(64, 5) }), 1);
    send(p, tail5!);
    p.rig.run();
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 64), bytesOf(64, 5));
  });

  it("one that comes again, or behind a newer doorbell, changes nothing", () => {
    const p = pair({}, { depth: 4 });
    const stores = lines(p, p.a, post(p, "write", { inline: bytesOf(8, 1) }), 0);
    for (let round = 0; round < 5; round++) {
      // A pass of the ring later its units hold other WQEs.
      for (const store of stores) send(p, store);
      p.rig.run();
      post(p, "write", { at: 64, inline: bytesOf(8, 9) });
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.run();
    }
    assert.equal(statuses(p).length, 6);
    assert.deepEqual(taken(p).slice(0, 2), [1, 4]);
  });

  it("stores that are none of a buffer, or of another queue's doorbell, are counted and change nothing", () => {
    const p = pair();
    const [store] = lines(p, p.a, post(p, "write", { length: 8 }), 0);
    const { offset, data } = store!;
    const wrong: Store[] = [
      { offset: offset + 4, data: data.subarray(4) },
      { offset, data: data.slice(0, 12) },
      { offset: offset + 512 - BUFFER_BYTES, data },
      { offset: offset + 1024, data },
      { offset: offset + 2 ** 40, data },
      { offset: DOORBELL_OFFSET - 64, data },
    ];
    for (const each of wrong) send(p, each);
    p.rig.run();
    assert.equal(counter(p, "a", "doorbellsRefused"), wrong.length);
    assert.equal(statuses(p).length, 0);
    assert.equal(placeOfRegister(offset)!.buffer, 2 * p.a.sq.queue);
  });

  /** Cuts lines into pieces of whole words, in any order. */
  function scattered(stores: readonly Store[], below: (bound: number) => number): Store[] {
    const pieces: Store[] = [];
    for (const { offset, data } of stores) {
      for (let from = 0; from < data.length;) {
        const to = Math.min(data.length, from + 8 * (1 + below(8)));
        pieces.splice(below(pieces.length + 1), 0, {
          offset: offset + from,
          data: data.slice(from, to),
        });
        from = to;
      }
    }
    return pieces;
  }

  it("gives no wrong WQE, however buffers are flushed and whatever is lost: seeds 1 to 60", () => {
    const sums = [0, 0];
    // Seed 53: an ordinary doorbell left parts of a WQE behind, which became part of a later one.
    for (let seed = 1; seed <= 60; seed++) {
      const { below } = rngFor(seed, "blue-flame");
      const entries = 2 + below(6);
      const p = pair({ plans: { a: { queueCache: { entries, evict: "random", amount: 1 } } } }, {
        depth: 8 << below(2),
      });
      const lanes = [p.a, p.rig.connect({ depth: 8 }).a].map((qp, i) => ({
        qp: { ...p, a: qp },
        at: i * 4096,
        posts: 0,
        done: 0,
        expected: [] as number[],
        stores: [] as Store[],
      }));
      for (let step = 0; step < 60; step++) {
        const lane = lanes[below(2)]!;
        const { qp } = lane;
        // Its stores come in their order, between those of the other queue, at any time.
        const store = lane.stores.shift();
        if (store !== undefined) {
          send(p, store);
          if (below(3) === 0) p.rig.runFor(below(400_000));
          continue;
        }
        if (lane.posts - lane.done >= 1 + below(2)) {
          p.rig.run();
          // What was lost is recovered by any doorbell of the queue.
          p.rig.ring(p.rig.a, qp.a.sq);
          p.rig.run();
          lane.done += statuses(qp).length;
          assert.equal(lane.done, lane.posts, `seed ${seed}: WQEs without a completion`);
        }
        const value = 1 + below(255), length = 1 + below(150);
        const at = lane.at + 256 * (lane.posts % 16);
        const position = post(qp, "write", { at, inline: bytesOf(length, value) });
        lane.expected[lane.posts % 16] = value;
        const whole = lines(p, qp.a, position, lane.posts++ % 2 === 0 ? 0 : 1);
        const kind = below(8);
        if (kind === 0) {
          const { queue, write: pointer, stamp } = qp.a.sq;
          const data = encodeDoorbell({ queue, write: { pointer, stamp } });
          lane.stores = [{ offset: DOORBELL_OFFSET, data }];
        } else if (kind === 1) {
          lane.stores = whole.filter(() => below(3) > 0);
        } else {
          lane.stores = kind < 5 ? whole : scattered(whole, below);
        }
      }
      for (const lane of lanes) {
        for (const store of lane.stores) send(p, store);
        p.rig.run();
        p.rig.ring(p.rig.a, lane.qp.a.sq);
        p.rig.run();
        assert.equal(lane.done + statuses(lane.qp).length, lane.posts, `seed ${seed}`);
        for (const [i, value] of lane.expected.entries()) {
          const [first] = p.rig.bytes(p.rig.b, p.to, lane.at + 256 * i, 1);
          assert.equal(first, value, `seed ${seed}: a WRITE of another WQE at ${i}`);
        }
      }
      sums[0]! += counter(p, "a", "blueFlameTaken");
      sums[1]! += counter(p, "a", "blueFlameFetched") + counter(p, "a", "wqeReads");
    }
    assert.ok(sums[0]! > 200 && sums[1]! > 200, `${sums} taken and fetched`);
  });
});
