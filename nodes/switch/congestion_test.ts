import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import type { Frame } from "../../fabric/node.ts";
import type {
  EcnParameters,
  SwitchCongestionPlan,
  SwitchPlan,
} from "../../fabric/rack/plan/plan.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { NEVER } from "../../fabric/base/time.ts";
import { ECN } from "../../fabric/wire/roce/ipv4.ts";
import { OPCODE } from "../../fabric/wire/roce/opcode.ts";
import {
  decodePacket,
  encodePacket,
  isRefusal,
  type RocePacket,
} from "../../fabric/wire/roce/packet.ts";
import { decodePfc, encodePfc } from "../../fabric/wire/roce/pfc.ts";
import { isMarked, markThreshold } from "./marking.ts";
import { Bench, FRAME_PS, LATENCY_PS, macOf, planWith, PORTS, RATE } from "./switch_testing.ts";
import { seeded } from "../../fabric/base/property_testing.ts";

/** DSCP 26 is priority 3, 48 is 6. */
const DATA = 26, URGENT = 48, LOSSLESS = 3;
/** 54 B of headers and 4 B of ICRC make 1226 B with it. */
const PAYLOAD = 1168;
const FRAME = PAYLOAD + 58;

function packetTo(port: number, given: Partial<RocePacket> = {}): Frame {
  const packet: RocePacket = {
    destinationMac: macOf(port),
    sourceMac: macOf(9),
    sourceAddress: 0x0a00_0009,
    destinationAddress: 0x0a00_0001 + port,
    dscp: DATA,
    ecn: ECN.capable0,
    ttl: 64,
    identification: 1,
    udpSourcePort: 0xc000,
    bth: {
      opcode: OPCODE["RC RDMA WRITE MIDDLE"],
      solicited: false,
      migReq: true,
      padCount: 0,
      tver: 0,
      pKey: 0xffff,
      fecn: false,
      becn: false,
      reserved6: 0,
      destQpn: 17,
      ackReq: false,
      reserved7: 0,
      psn: 5,
    },
    payload: new Uint8Array(PAYLOAD),
    ...given,
  };
  return { kind: "frame", bytes: encodePacket(packet) };
}

const HEADROOM = 4 * FRAME;

function planOf(congestion: Partial<SwitchCongestionPlan>, rest: Partial<SwitchPlan> = {}) {
  return planWith({ congestion: { ecn: null, pfc: null, ...congestion }, ...rest });
}

function pfcPlan(frames: { xoff: number; xon: number }): Partial<SwitchCongestionPlan> {
  return {
    pfc: {
      lossless: 1 << LOSSLESS,
      threshold: {
        kind: "static",
        xoffBytes: frames.xoff * FRAME,
        xonBytes: frames.xon * FRAME,
      },
      mac: 0x0200_ff00_0001,
      ports: Array.from({ length: PORTS }, () => ({
        bitsPerSecond: RATE,
        headroomBytes: HEADROOM,
      })),
    },
  };
}

/** Pauses (quanta > 0) and resumes (0) of the lossless priority that the switch sent, by port. */
function asked(bench: Bench): [port: number, quanta: number][] {
  return bench.sent.flatMap(({ port, message }) => {
    const pfc = message.kind === "frame" ? decodePfc(message.bytes) : undefined;
    const quanta = pfc?.quanta[LOSSLESS];
    return quanta === undefined ? [] : [[port, quanta] as [number, number]];
  });
}

function pause(quanta: number, priority = LOSSLESS): Frame {
  const bytes = encodePfc({ sourceMac: macOf(3), priorities: 1 << priority, quanta });
  return { kind: "frame", bytes };
}

describe("markThreshold", () => {
  const ecn: EcnParameters = { kminBytes: 100, kmaxBytes: 300, pmax: 0.5 };
  const rows = [
    [0, 0],
    [99, 0],
    [100, 0],
    [200, 0.25],
    [299, 0.4975],
    [300, 1],
    [9_999, 1],
  ] as const;
  for (const [bytes, probability] of rows) {
    it(`${bytes} B waiting: ${probability}`, () => {
      assert.equal(markThreshold(ecn, bytes), Math.floor(probability * 2 ** 32));
    });
  }

  it("is how often isMarked says yes", () => {
    const rng = rngFor(7, "test");
    let marked = 0;
    for (let i = 0; i < 10_000; i++) if (isMarked(ecn, 200, rng)) marked++;
    assert.ok(marked > 2_350 && marked < 2_650, `${marked}`);
  });
});

describe("a switch that marks", () => {
  const always = planOf({ ecn: { kminBytes: FRAME, kmaxBytes: FRAME, pmax: 1 } });

  it("marks what finds kmax waiting: sound IPv4 checksum, untouched ICRC (§3.9)", () => {
    const bench = new Bench(always);
    for (let i = 0; i < 4; i++) bench.arrive(0, 0, packetTo(3));
    bench.runBefore(NEVER);
    const ecns = bench.sent.map(({ message }) => {
      assert.equal(message.kind, "frame");
      const packet = decodePacket((message as Frame).bytes);
      assert.ok(!isRefusal(packet), "checksum and ICRC hold");
      return packet.ecn;
    });
    assert.deepEqual(ecns, [ECN.capable0, ECN.capable0, ECN.congestion, ECN.congestion]);
    assert.equal(bench.count("ecnMarked"), 2);
  });

  it("leaves frames alone that are not ECN-capable", () => {
    const bench = new Bench(always);
    for (let i = 0; i < 4; i++) bench.arrive(0, 0, packetTo(3, { ecn: ECN.notCapable }));
    assert.equal(bench.count("ecnMarked"), 0);
  });

  it("draws from the run's seed", () => {
    const plan = planOf({ ecn: { kminBytes: 0, kmaxBytes: 100 * FRAME, pmax: 1 } });
    const marks = (seed: number) => {
      const bench = new Bench(plan, seed);
      for (let i = 0; i < 60; i++) bench.arrive(0, 0, packetTo(3));
      bench.runBefore(NEVER);
      return bench.sent.map(({ message }) => (message as Frame).bytes[15]! & 3);
    };
    assert.deepEqual(marks(1), marks(1));
    assert.notDeepEqual(marks(1), marks(2));
  });

  it("looks at the queue of the frame's own port and priority", () => {
    const bench = new Bench(always);
    for (let i = 0; i < 3; i++) bench.arrive(0, 0, packetTo(3));
    const before = bench.count("ecnMarked");
    bench.arrive(0, 0, packetTo(2));
    bench.arrive(0, 0, packetTo(3, { dscp: URGENT }));
    assert.equal(bench.count("ecnMarked"), before);
  });
});

describe("a switch with priorities", () => {
  it("lets the higher priority go first", () => {
    const bench = new Bench(planOf({}));
    const frames = [DATA, DATA, URGENT, 0].map((dscp) => packetTo(3, { dscp }));
    for (const frame of frames) bench.arrive(0, 0, frame);
    bench.runBefore(NEVER);
    const order = bench.sent.map(({ message }) => frames.indexOf(message as Frame));
    assert.deepEqual(order, [0, 2, 1, 3]);
  });

  it("has one queue for all where nothing is configured", () => {
    const bench = new Bench(planWith());
    const frames = [DATA, DATA, URGENT].map((dscp) => packetTo(3, { dscp }));
    for (const frame of frames) bench.arrive(0, 0, frame);
    bench.runBefore(NEVER);
    assert.deepEqual(bench.sent.map(({ message }) => message), frames);
  });

  it("drops lossy frames where the buffer of all ports is full", () => {
    const bench = new Bench(planWith({ bufferBytes: 2 * FRAME }));
    for (const to of [3, 3, 2, 2, 3]) bench.arrive(0, 0, packetTo(to));
    assert.equal(bench.count("droppedQueueFull"), 1);
  });
});

describe("a switch that asks for pauses", () => {
  it("asks the port whose frames are above XOFF, and takes it back at XON", () => {
    const bench = new Bench(planOf(pfcPlan({ xoff: 2, xon: 1 })));
    bench.arrive(0, 1, packetTo(3));
    for (let i = 0; i < 3; i++) bench.arrive(0, 0, packetTo(3));
    assert.deepEqual(asked(bench), [[0, 0xffff]], "port 1 has nothing waiting");
    assert.equal(bench.count("pausesOut"), 1);
    // Two frames leave: one is at XON.
    bench.runBefore(2 * FRAME_PS + 1);
    assert.deepEqual(asked(bench), [[0, 0xffff], [0, 0]]);
    bench.runBefore(NEVER);
    assert.equal(bench.count("resumesOut"), 1);
  });

  it("asks for each priority of a port by itself, and takes each back by itself", () => {
    const { pfc } = pfcPlan({ xoff: 1, xon: 0 });
    const lossless = 1 << LOSSLESS | 1 << (URGENT >> 3);
    const bench = new Bench(planOf({ pfc: { ...pfc!, lossless } }));
    for (const dscp of [DATA, DATA, DATA, URGENT, URGENT]) {
      bench.arrive(0, 0, packetTo(3, { dscp }));
    }
    bench.runBefore(NEVER);
    const own = bench.sent.flatMap(({ port, message }) => {
      const pfc = message.kind === "frame" ? decodePfc(message.bytes) : undefined;
      const said = pfc?.quanta.flatMap((quanta, priority) =>
        quanta === undefined ? [] : [`${priority} ${quanta > 0 ? "pause" : "resume"}`]
      );
      return said === undefined ? [] : [`${port}: ${said.join(", ")}`];
    });
    assert.deepEqual(own, [
      "0: 3 pause",
      "0: 3 pause, 6 pause",
      "0: 6 resume",
      "0: 3 resume",
    ]);
  });

  it("asks as soon as it can: its own latency after the frame", () => {
    const bench = new Bench(planOf(pfcPlan({ xoff: 0, xon: 0 })));
    bench.arrive(0, 1, packetTo(3));
    bench.arrive(10, 0, packetTo(3));
    const frame = bench.sent.find(({ port }) => port === 0);
    assert.equal(frame?.departAt, 10 + LATENCY_PS);
  });

  it("asks again before a pause expires", () => {
    const bench = new Bench(planOf(pfcPlan({ xoff: 0, xon: 0 })));
    bench.arrive(0, 3, pause(0xffff));
    bench.arrive(0, 0, packetTo(3));
    bench.arrive(300_000_000, 3, pause(0xffff));
    bench.runBefore(400_000_000);
    assert.deepEqual(asked(bench).map(([, quanta]) => quanta), [0xffff, 0xffff, 0xffff]);
    assert.equal(bench.count("pausesOut"), 3);
  });

  it("never drops a lossless frame within the headroom, whatever the output's own limit", () => {
    const bench = new Bench(planOf(pfcPlan({ xoff: 2, xon: 1 }), { queueBytes: FRAME }));
    for (let i = 0; i < 1 + 2 + 4; i++) bench.arrive(0, 0, packetTo(3));
    assert.equal(bench.count("droppedQueueFull") + bench.count("droppedHeadroom"), 0);
    bench.arrive(0, 0, packetTo(3));
    assert.equal(
      bench.count("droppedHeadroom"),
      1,
      "a sender that ignores pauses loses its own frames",
    );
    bench.arrive(0, 1, packetTo(3));
    assert.equal(bench.count("droppedHeadroom"), 1, "and no other sender's");
  });

  it("drops frames of other priorities as before", () => {
    const bench = new Bench(planOf(pfcPlan({ xoff: 9, xon: 1 }), { queueBytes: FRAME }));
    for (let i = 0; i < 3; i++) bench.arrive(0, 0, packetTo(3, { dscp: 0 }));
    assert.equal(bench.count("droppedQueueFull"), 1);
    assert.deepEqual(asked(bench), []);
  });

  it("lets senders go on when the cable that they wait for is gone", () => {
    const bench = new Bench(planOf(pfcPlan({ xoff: 1, xon: 0 })));
    for (let i = 0; i < 3; i++) bench.arrive(0, 0, packetTo(3));
    bench.link(10, 3, false);
    assert.deepEqual(asked(bench).map(([, quanta]) => quanta), [0xffff, 0]);
    assert.equal(bench.count("droppedLinkDown"), 2);
  });
});

describe("a switch that is asked to pause", () => {
  const plan = planOf(pfcPlan({ xoff: 100, xon: 50 }));

  it("holds the priority back until the pause expires, and lets others pass", () => {
    const bench = new Bench(plan);
    bench.arrive(0, 3, pause(1_000));
    bench.arrive(100, 0, packetTo(3));
    const urgent = packetTo(3, { dscp: URGENT });
    bench.arrive(200, 0, urgent);
    bench.runBefore(NEVER);
    // 1000 quanta of 512 bits at 100 Gb/s.
    const departs = bench.sent.map(({ departAt }) => departAt);
    assert.deepEqual(departs, [200 + LATENCY_PS, 5_120_000 + LATENCY_PS]);
    assert.equal(bench.sent[0]!.message, urgent);
    assert.equal(bench.count("pausedPs"), 5_120_000);
    assert.equal(bench.count("pausesIn"), 1);
  });

  it("resumes at once at a resume frame", () => {
    const bench = new Bench(plan);
    bench.arrive(0, 3, pause(0xffff));
    bench.arrive(100, 0, packetTo(3));
    bench.arrive(1_000_000, 3, pause(0));
    assert.equal(bench.sent[0]?.departAt, 1_000_000 + LATENCY_PS);
    assert.equal(bench.count("pausedPs"), 1_000_000);
  });

  it("forgets the pause with the cable", () => {
    const bench = new Bench(plan);
    bench.arrive(0, 3, pause(0xffff));
    bench.link(1_000, 3, false);
    bench.link(2_000, 3, true);
    bench.arrive(3_000, 0, packetTo(3));
    assert.equal(bench.sent.length, 1);
  });

  it("propagates a pause storm to the senders to that port, and to no others (head-of-line blocking)", () => {
    const bench = new Bench(planOf(pfcPlan({ xoff: 2, xon: 1 })));
    bench.arrive(0, 3, pause(0xffff));
    for (let i = 0; i < 3; i++) bench.arrive(100, 0, packetTo(3));
    bench.arrive(200, 1, packetTo(2));
    assert.deepEqual(asked(bench), [[0, 0xffff]]);
    assert.equal(bench.sent.filter(({ port }) => port === 2).length, 1);
  });

  it("drops pause frames where PFC is off, as any frame of its group", () => {
    const bench = new Bench(planWith());
    bench.arrive(0, 3, pause(0xffff));
    bench.arrive(0, 0, packetTo(3));
    assert.equal(bench.sent.length, 1);
    assert.equal(bench.count("droppedReserved"), 1);
  });

  it("sends what a pause has held back in its order", () => {
    const bench = new Bench(plan);
    bench.arrive(0, 3, pause(0xffff));
    const frames = Array.from({ length: 5 }, () => packetTo(3));
    for (const frame of frames) bench.arrive(100, 0, frame);
    assert.equal(bench.sent.length, 0);
    bench.arrive(200, 3, pause(0));
    frames.push(packetTo(3));
    bench.arrive(300, 0, frames[5]!);
    bench.runBefore(NEVER);
    assert.deepEqual(bench.sent.map(({ message }) => frames.indexOf(message as Frame)), [
      ...frames.keys(),
    ]);
  });

  it("sends all frames in each priority's order, whatever pauses come", () => {
    const event = fc.record({
      gapPs: fc.constantFrom(0, 1_000, FRAME_PS),
      port: fc.nat(PORTS - 2),
      dscp: fc.constantFrom(0, DATA, URGENT),
      quanta: fc.option(fc.constantFrom(0, 1, 50)),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        const bench = new Bench(plan);
        const frames: { frame: Frame; dscp: number }[] = [];
        let now = 0;
        for (const { gapPs, port, dscp, quanta } of events) {
          now += gapPs;
          if (quanta !== null) {
            bench.arrive(now, 3, pause(quanta, dscp >> 3));
            continue;
          }
          const frame = packetTo(3, { dscp });
          frames.push({ frame, dscp });
          bench.arrive(now, port, frame);
        }
        bench.runBefore(NEVER);
        // The frames of a priority are alike: which is which is told by identity.
        const sent = bench.sent.map(({ message }) =>
          frames.findIndex(({ frame }) => frame === message)
        );
        for (const dscp of [0, DATA, URGENT]) {
          const expected = [...frames.keys()].filter((i) => frames[i]!.dscp === dscp);
          assert.deepEqual(sent.filter((i) => frames[i]?.dscp === dscp), expected);
        }
      }),
      seeded({ seed: 20_012 }),
    );
  });
});
