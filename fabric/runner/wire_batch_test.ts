import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import fc from "fast-check";
import { decode, encode } from "../bus/codec.ts";
import type { Input } from "../node.ts";
import { type Event, EVENT_KINDS } from "../partition/event_queue.ts";
import { batchFromValue, eventToRow } from "./wire_batch.ts";
import { seeded } from "../base/property_testing.ts";
import { hashMessage } from "../partition/message_hash.ts";
import { PacketFrame } from "../wire/roce/packet.ts";
import { anyPacket } from "../wire/roce/packet_testing.ts";

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

describe("a wire batch", () => {
  it("comes back from the bus as it was", () => {
    const events = INPUTS.map(eventOf);
    const value = decode(encode([7, 100, events.map(eventToRow)]));
    const batch = batchFromValue(value);
    assert.equal(batch?.incarnation, 7);
    assert.equal(batch?.first, 100);
    assert.deepEqual(batch?.events, events);
  });

  it("brings the hash of a packet's frame, which its bytes alone do not tell", () => {
    const [packet] = fc.sample(anyPacket, { seed: 7, numRuns: 1 });
    const message = new PacketFrame(packet!);
    const row = eventToRow(eventOf({ kind: "message", port: 1, message, tailPs: 0 }));
    const batch = batchFromValue(decode(encode([0, 0, [row]])));
    const input = batch!.events[0]!.input;
    assert.ok(input.kind === "message" && input.message.kind === "frame");
    assert.deepEqual(input.message.bytes, message.bytes);
    assert.equal(hashMessage(input.message), hashMessage(message));
    const { bytes } = message;
    assert.notEqual(hashMessage({ kind: "frame", bytes }), hashMessage(message));
  });

  it("is refused whole where any event in it is malformed", () => {
    const good = eventToRow(eventOf(INPUTS[0]!));
    for (let i = 0; i < good.length; i++) {
      for (const wrong of [-1, 0.5, "x", null, {}]) {
        // A hash may be any word of 32 bits.
        if (i === 10 && wrong === -1) continue;
        const row = [...good];
        row[i] = wrong;
        assert.equal(
          batchFromValue([0, 0, [good, row]]),
          undefined,
          `${i}: ${JSON.stringify(wrong)}`,
        );
      }
    }
  });

  it("is undefined, never an exception, for any value", () => {
    fc.assert(
      fc.property(fc.anything(), (value) => assert.equal(batchFromValue(value), undefined)),
      seeded({
        seed: 7,
      }),
    );
  });
});
