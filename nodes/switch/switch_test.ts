import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import type { Frame, Message } from "../../fabric/node.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { createSwitch } from "./switch.ts";
import {
  Bench,
  FRAME_BYTES,
  FRAME_PS,
  frameTo,
  LATENCY_PS,
  macOf,
  planWith,
  PORTS,
} from "./switch_testing.ts";
import { seeded } from "../../fabric/base/property_testing.ts";

describe("createSwitch", () => {
  it("acts on heads only when it cuts through", () => {
    assert.equal(createSwitch("tor", planWith(), { seed: 1 }).actsOnHead, true);
    assert.equal(
      createSwitch("tor", planWith({ mode: "store-and-forward" }), { seed: 1 }).actsOnHead,
      false,
    );
    assert.equal(createSwitch("tor", planWith(), { seed: 1 }).processingPs, LATENCY_PS);
  });

  it("sends a frame on to its addressee's port, unchanged, after its latency", () => {
    const bench = new Bench(planWith());
    const frame = frameTo(macOf(2));
    bench.arrive(1_000, 0, frame);
    assert.equal(bench.sent.length, 1);
    assert.equal(bench.sent[0]!.port, 2);
    assert.equal(bench.sent[0]!.departAt, 1_000 + LATENCY_PS);
    assert.equal(bench.sent[0]!.message, frame);
    assert.equal(bench.node.wakeAt(), NEVER);
  });

  it("floods group addresses to all other ports", () => {
    const bench = new Bench(planWith());
    bench.arrive(0, 1, frameTo(0xffff_ffff_ffff));
    assert.deepEqual(bench.sent.map(({ port }) => port), [0, 2, 3]);
    assert.equal(bench.count("floodedFrames"), 1);
  });

  it("forwards a frame by its head, to one port or to a group: its bytes are not made", () => {
    for (const mac of [macOf(2), 0xffff_ffff_ffff, 0x0100_5e00_0001]) {
      const bench = new Bench(planWith());
      const head = frameTo(mac, 60).bytes;
      head.set([0x08, 0x00, 0x45], 12);
      const frame: Frame = {
        kind: "frame",
        head,
        length: FRAME_BYTES,
        get bytes(): Uint8Array<ArrayBuffer> {
          throw new Error("A switch needs the head of a frame alone");
        },
      };
      // The second one waits in its queue.
      for (const port of [0, 1]) bench.arrive(0, port, frame);
      bench.runBefore(NEVER);
      assert.ok(bench.sent.length >= 2);
    }
  });

  it("drops and counts what it cannot deliver", () => {
    const bench = new Bench(planWith());
    bench.arrive(0, 0, frameTo(0x0200_0000_9999));
    bench.arrive(0, 0, frameTo(macOf(0)));
    bench.arrive(0, 0, frameTo(macOf(1), 13));
    bench.arrive(0, 0, frameTo(0x0180_c200_0001));
    assert.equal(bench.sent.length, 0);
    assert.equal(bench.count("droppedUnknown"), 1);
    assert.equal(bench.count("droppedReturn"), 1);
    assert.equal(bench.count("droppedRunt"), 1);
    assert.equal(bench.count("droppedReserved"), 1);
  });

  it("holds frames while the transmitter is busy and sends them back to back in order", () => {
    const bench = new Bench(planWith());
    const frames = [frameTo(macOf(3)), frameTo(macOf(3)), frameTo(macOf(3))];
    frames.forEach((frame, port) => bench.arrive(0, port, frame));
    assert.equal(bench.sent.length, 1, "the others wait in the switch, not in the cable");
    bench.runBefore(NEVER);
    assert.deepEqual(bench.sent.map(({ message }) => message), frames);
    assert.deepEqual(
      bench.sent.map(({ goneAt }) => goneAt - LATENCY_PS),
      [FRAME_PS, 2 * FRAME_PS, 3 * FRAME_PS],
    );
  });

  it("drops the tail when the buffer is full, and takes frames again when it has drained", () => {
    const bench = new Bench(planWith({ queueBytes: 2 * FRAME_BYTES + 1 }));
    for (let i = 0; i < 5; i++) bench.arrive(0, i % 3, frameTo(macOf(3)));
    assert.equal(bench.count("droppedQueueFull"), 2);
    assert.equal(bench.count("queuePeakBytes"), 2 * FRAME_BYTES);
    bench.arrive(FRAME_PS + 1, 0, frameTo(macOf(3)));
    bench.runBefore(NEVER);
    assert.equal(bench.sent.length, 4);
    assert.equal(bench.count("droppedQueueFull"), 2);
  });

  it("keeps one full port from disturbing another", () => {
    const bench = new Bench(planWith({ queueBytes: 0 }));
    bench.arrive(0, 0, frameTo(macOf(3)));
    bench.arrive(0, 0, frameTo(macOf(3)));
    bench.arrive(0, 0, frameTo(macOf(2)));
    assert.deepEqual(bench.sent.map(({ port }) => port), [3, 2]);
  });

  it("loses what waits for a port whose cable goes down, and serves the port when it is back", () => {
    const bench = new Bench(planWith());
    for (let port = 0; port < 3; port++) bench.arrive(0, port, frameTo(macOf(3)));
    bench.link(10, 3, false);
    bench.arrive(20, 0, frameTo(macOf(3)));
    bench.runBefore(NEVER);
    assert.equal(bench.sent.length, 1);
    assert.equal(bench.count("droppedLinkDown"), 3);
    bench.link(1_000_000, 3, true);
    bench.arrive(1_000_000, 0, frameTo(macOf(3)));
    bench.runBefore(NEVER);
    assert.equal(bench.sent.length, 2);
  });
});

const arrivals = fc.array(
  fc.record({
    gapPs: fc.constantFrom(0, 1, 1_000, FRAME_PS, 3 * FRAME_PS),
    port: fc.nat(PORTS - 1),
    mac: fc.oneof(
      { weight: 6, arbitrary: fc.nat(PORTS - 1).map(macOf) },
      {
        weight: 1,
        arbitrary: fc.constantFrom(0xffff_ffff_ffff, 0x0200_0000_9999, 0x0180_c200_0001),
      },
    ),
    length: fc.integer({ min: 0, max: 1500 }),
  }),
  { maxLength: 60 },
);

describe("createSwitch, whatever arrives", () => {
  it("accounts for every frame and keeps each port's order, rate and buffer", () => {
    fc.assert(
      fc.property(arrivals, fc.integer({ min: 0, max: 6000 }), (list, queueBytes) => {
        const bench = new Bench(planWith({ queueBytes }));
        let now = 0;
        const order = new Map<Message, number>();
        list.forEach(({ gapPs, port, mac, length }, index) => {
          now += gapPs;
          const frame = frameTo(mac, length);
          order.set(frame, index);
          bench.arrive(now, port, frame);
        });
        bench.runBefore(NEVER);
        const count = (name: string) => bench.count(name);
        const copies = count("receivedFrames") + count("floodedFrames") * (PORTS - 2);
        assert.equal(
          copies,
          bench.sent.length + count("droppedQueueFull") + count("droppedUnknown") +
            count("droppedReserved") + count("droppedReturn") + count("droppedRunt"),
        );
        assert.equal(count("sentFrames"), bench.sent.length);
        assert.ok(count("queuePeakBytes") <= queueBytes);
        for (let port = 0; port < PORTS; port++) {
          const of = bench.sent.filter((sent) => sent.port === port);
          assert.equal(count(`port${port}.sentFrames`), of.length);
          assert.equal(count(`port${port}.queuedBytes`), 0);
          const indexes = bench.sent.filter((sent) => sent.port === port)
            .map(({ message }) => order.get(message)!);
          assert.deepEqual(indexes, indexes.toSorted((x, y) => x - y));
        }
      }),
      seeded(),
    );
  });

  it("never throws on any bytes", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 80 })), (list) => {
        const bench = new Bench(planWith());
        for (const bytes of list) {
          bench.arrive(0, 0, { kind: "frame", bytes: Uint8Array.from(bytes) });
        }
        bench.runBefore(NEVER);
        assert.equal(bench.count("receivedFrames"), list.length);
      }),
      seeded(),
    );
  });

  it("never leaves a transmitter idle while a frame waits", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(2 * FRAME_PS), { minLength: 2, maxLength: 40 }), (gaps) => {
        const bench = new Bench(planWith());
        let now = 0, expectedFree = 0;
        const expected: Time[] = [];
        for (const gap of gaps) {
          now += gap;
          bench.arrive(now, 0, frameTo(macOf(1)));
          expectedFree = Math.max(expectedFree, now + LATENCY_PS) + FRAME_PS;
          expected.push(expectedFree);
        }
        bench.runBefore(NEVER);
        assert.deepEqual(bench.sent.map(({ goneAt }) => goneAt), expected);
      }),
      seeded(),
    );
  });
});
