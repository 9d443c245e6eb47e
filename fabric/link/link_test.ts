import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import type { Message } from "../node.ts";
import { transferTime } from "../base/time.ts";
import { createLink, leastDelay, type LinkOptions, transmit, wireBytes } from "./link.ts";
import { seeded } from "../base/property_testing.ts";

const NETWORK: LinkOptions = {
  latencyPs: 25_000,
  bitsPerSecond: 100e9,
  kind: "network",
  headOnly: false,
};
const BUS: LinkOptions = { latencyPs: 150_000, bitsPerSecond: 126e9, kind: "bus", headOnly: false };

function frame(length: number): Message {
  return { kind: "frame", bytes: new Uint8Array(length) };
}

const frames = fc.integer({ min: 0, max: 4200 }).map(frame);
const busMessages: fc.Arbitrary<Message> = fc.oneof(
  fc.record({
    kind: fc.constant("memory-write" as const),
    address: fc.constant(0),
    data: fc.integer({ min: 0, max: 4096 }).map((length) => new Uint8Array(length)),
    noSnoop: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant("memory-read" as const),
    tag: fc.nat(255),
    address: fc.constant(0),
    length: fc.integer({ min: 1, max: 4096 }),
    noSnoop: fc.boolean(),
  }),
  fc.record({ kind: fc.constant("interrupt" as const), vector: fc.nat(31) }),
);

/** A cable and what is sent over it: departures wanted, in any order that a node may ask for. */
const traffic = fc.boolean().chain((bus) =>
  fc.record({
    options: fc.record({
      latencyPs: fc.integer({ min: 1, max: 1_000_000 }),
      bitsPerSecond: fc.constantFrom(1e9, 10e9, 33e9, 100e9, 400e9),
      kind: fc.constant(bus ? "bus" as const : "network" as const),
      headOnly: bus ? fc.constant(false) : fc.boolean(),
    }),
    sends: fc.array(fc.tuple(fc.nat(500_000), bus ? busMessages : frames), { minLength: 1 }),
  })
);

describe("wireBytes", () => {
  it("counts FCS, preamble and gap, and pads to Ethernet's shortest frame", () => {
    assert.equal(wireBytes(frame(0)), 84);
    assert.equal(wireBytes(frame(60)), 84);
    assert.equal(wireBytes(frame(61)), 85);
    // CALIBRATION: a first packet carries 98 B beside its payload, 74 of them captured bytes.
    assert.equal(wireBytes(frame(74 + 4096)), 98 + 4096);
  });
});

describe("transmit", () => {
  it("delivers the last bit after serialisation and latency", () => {
    const link = transmit(createLink(NETWORK), 1_000, frame(1226));
    assert.equal(link.freeAt, 1_000 + 100_000);
    assert.equal(link.arrival, 1_000 + 100_000 + 25_000);
    assert.equal(link.tailPs, 0);
  });

  it("delivers the head to a cut-through receiver, with the time to the tail", () => {
    const link = transmit(createLink({ ...NETWORK, headOnly: true }), 1_000, frame(1226));
    assert.equal(link.arrival, 1_000 + 5_120 + 25_000);
    assert.equal(link.arrival + link.tailPs, 1_000 + 100_000 + 25_000);
    assert.equal(link.freeAt, 1_000 + 100_000);
  });

  it("delivers a frame that is sent more slowly as a whole, also to a cut-through receiver", () => {
    for (const headOnly of [false, true]) {
      const link = transmit(createLink({ ...NETWORK, headOnly }), 1_000, frame(1226), 10e9);
      assert.equal(link.startPs, 1_000);
      assert.equal(link.freeAt, 1_000 + 1_000_000);
      assert.deepEqual([link.arrival, link.tailPs], [link.freeAt + 25_000, 0]);
      const next = transmit(link, 1_000, frame(1226));
      assert.equal(next.startPs, 1_000 + 1_000_000);
      assert.equal(next.freeAt, next.startPs + 100_000, "at the cable's own rate again");
    }
  });

  it("keeps FIFO order, its rate and its least delay, whatever is sent", () => {
    fc.assert(
      fc.property(traffic, ({ options, sends }) => {
        const link = createLink(options);
        let bytes = 0, previousArrival = 0, previousTail = 0;
        const firstDeparture = sends[0]![0];
        for (const [departAt, message] of sends) {
          transmit(link, departAt, message);
          bytes += wireBytes(message);
          const tail = link.arrival + link.tailPs;
          assert.ok(Number.isSafeInteger(link.arrival) && Number.isSafeInteger(link.tailPs));
          assert.ok(link.arrival > previousArrival && tail > previousTail, "FIFO order");
          assert.ok(link.arrival >= departAt + leastDelay(options), "least delay");
          assert.ok(
            link.freeAt - firstDeparture >= transferTime(bytes, options.bitsPerSecond),
            "rate",
          );
          assert.equal(tail, link.freeAt + options.latencyPs);
          previousArrival = link.arrival;
          previousTail = tail;
        }
      }),
      seeded(),
    );
  });
});

describe("leastDelay", () => {
  it("is reached by the shortest message, so it cannot be larger", () => {
    for (const headOnly of [false, true]) {
      const options = { ...NETWORK, headOnly };
      assert.equal(transmit(createLink(options), 0, frame(14)).arrival, leastDelay(options));
    }
    const read: Message = {
      kind: "memory-read",
      tag: 0,
      address: 0,
      length: 1,
      noSnoop: true,
    };
    assert.equal(transmit(createLink(BUS), 0, read).arrival, leastDelay(BUS));
  });
});

describe("createLink", () => {
  it("refuses a latency of 0: it is the lookahead of the clock", () => {
    assert.throws(() => createLink({ ...NETWORK, latencyPs: 0 }), /latency must be/);
    assert.throws(() => createLink({ ...NETWORK, bitsPerSecond: 0 }), /rate must be/);
  });
});
