import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import fc from "fast-check";
import { decodeSealed, encodeSealed } from "../bus/codec.ts";
import type { Input } from "../node.ts";
import { type Event, EVENT_KINDS } from "../partition/event_queue.ts";
import { hashMessage } from "../partition/message_hash.ts";
import { batchFromBytes, batchToBytes } from "./wire_batch.ts";
import { PacketFrame } from "../wire/roce/packet.ts";
import { anyPacket } from "../wire/roce/packet_testing.ts";
import { seeded } from "../base/property_testing.ts";

const BYTES = new Uint8Array([1, 2, 3]);
const INPUTS: readonly Input[] = [
  { kind: "message", port: 1, message: { kind: "frame", bytes: BYTES }, tailPs: 12 },
  {
    kind: "message",
    port: 0,
    message: { kind: "memory-write", address: 2 ** 40, data: BYTES, noSnoop: true },
    tailPs: 0,
  },
  { kind: "link", port: 2, up: false },
];

function eventOf(input: Input): Event {
  const kind = input.kind === "link" ? EVENT_KINDS.link : EVENT_KINDS.message;
  return {
    time: 2 ** 45,
    kind,
    source: 1,
    counter: 2,
    target: 3,
    sourceLife: 4,
    targetLife: 5,
    input,
  };
}

/** A row of the batch of one event. */
function rowOf(event: Event): unknown[] {
  const bytes = batchToBytes({ incarnation: 0, first: 0, events: [event] });
  const [, , [row]] = decodeSealed(bytes) as [number, number, [unknown[]]];
  return row;
}

describe("a wire batch", () => {
  it("comes back from the bus as it was", () => {
    const batch = { incarnation: 7, first: 100, events: INPUTS.map(eventOf) };
    assert.deepEqual(batchFromBytes(batchToBytes(batch)), batch);
  });

  it("stands on the bus as a row for each event, the bytes of a frame as they are", () => {
    assert.deepEqual(INPUTS.map((input) => rowOf(eventOf(input)).slice(7)), [
      [1, 12, BYTES, hashMessage({ kind: "frame", bytes: BYTES })],
      [0, 0, [0, 2 ** 40, BYTES, true], null],
      [2, false, null, null],
    ]);
    assert.deepEqual(rowOf(eventOf(INPUTS[0]!)).slice(0, 7), [
      ...[2 ** 45, EVENT_KINDS.message, 1, 2, 3, 4, 5],
    ]);
  });

  it("brings the hash of a packet's frame, which its bytes alone do not tell", () => {
    const [packet] = fc.sample(anyPacket, { seed: 7, numRuns: 1 });
    const message = new PacketFrame(packet!);
    const event = eventOf({ kind: "message", port: 1, message, tailPs: 0 });
    const batch = batchFromBytes(batchToBytes({ incarnation: 0, first: 0, events: [event] }));
    const input = batch!.events[0]!.input;
    assert.ok(input.kind === "message" && input.message.kind === "frame");
    assert.deepEqual(input.message.bytes, message.bytes);
    assert.equal(hashMessage(input.message), hashMessage(message));
    const { bytes } = message;
    assert.notEqual(hashMessage({ kind: "frame", bytes }), hashMessage(message));
  });

  it("is refused whole where any event in it is malformed", () => {
    for (const input of INPUTS) {
      const good = rowOf(eventOf(input));
      assert.notEqual(batchFromBytes(encodeSealed([0, 0, [good, good]])), undefined);
      for (let i = 0; i < good.length; i++) {
        for (const wrong of [-1, 0.5, "x", null, {}]) {
          // A hash may be any word of 32 bits.
          if (wrong === good[i] || (i === 10 && wrong === -1 && good[i] !== null)) continue;
          assert.equal(
            batchFromBytes(encodeSealed([0, 0, [good, good.with(i, wrong)]])),
            undefined,
            `${i}: ${JSON.stringify(wrong)}`,
          );
        }
      }
      for (const kind of Object.values(EVENT_KINDS)) {
        const isOwn = kind === good[1];
        const batch = batchFromBytes(encodeSealed([0, 0, [good.with(1, kind)]]));
        assert.equal(batch !== undefined, isOwn, `kind ${kind}`);
      }
      for (const row of [good.slice(1), [...good, 0]]) {
        assert.equal(batchFromBytes(encodeSealed([0, 0, [row]])), undefined);
      }
    }
  });

  it("is undefined, never an exception, for any value and any bytes", () => {
    const plain = fc.anything({ values: [fc.integer(), fc.string(), fc.boolean(), fc.double()] });
    fc.assert(
      fc.property(plain, fc.uint8Array(), (value, bytes) => {
        if (value !== undefined) assert.equal(batchFromBytes(encodeSealed(value)), undefined);
        assert.equal(batchFromBytes(bytes), undefined);
      }),
      seeded({
        seed: 7,
      }),
    );
  });
});
