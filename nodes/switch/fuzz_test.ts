/**
 * Hostile frames at all ports of a switch: random bytes, and damaged packets, membership reports and pause
 * frames. Nothing crashes, no frame is made up or changed beyond what a switch may change, and what became
 * of each is counted.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { type Rng, rngFor } from "../../fabric/base/rng.ts";
import type { Time } from "../../fabric/base/time.ts";
import { inGrh, makeBth } from "../../fabric/wire/roce/packet_testing.ts";
import { encodeReport } from "../../fabric/wire/roce/igmp.ts";
import { ECN } from "../../fabric/wire/roce/ipv4.ts";
import { mutate } from "../../fabric/wire/roce/mutation_testing.ts";
import { OPCODE } from "../../fabric/wire/roce/opcode.ts";
import { decodePacket, encodePacket, isRefusal } from "../../fabric/wire/roce/packet.ts";
import { decodePfc, encodePfc } from "../../fabric/wire/roce/pfc.ts";
import { Bench, FRAME_PS, macOf, planWith, PORTS, RATE } from "./switch_testing.ts";

const FRAMES = 20_000;

type Bytes = Uint8Array<ArrayBuffer>;

/** What a switch has to do with: packets to ports and to groups, reports, pauses. */
function realFrames(): Bytes[] {
  const frames: Bytes[] = [];
  for (let port = 0; port < PORTS; port++) {
    for (const [dscp, payload] of [[0, 64], [26, 1024], [48, 8]] as const) {
      frames.push(packetTo({ mac: macOf(port), address: 0x0a00_0001 + port, dscp, payload }));
    }
    const v1 = packetTo({ mac: macOf(port), address: 0x0a00_0001 + port, dscp: 0, payload: 64 });
    const packet = decodePacket(v1);
    if (isRefusal(packet)) throw new Error(packet);
    for (const priority of [undefined, 3]) frames.push(encodePacket(inGrh(packet, { priority })));
    frames.push(encodePfc({ sourceMac: macOf(port), priorities: 1 << 3, quanta: port * 100 }));
  }
  const group = 0xef01_0203;
  frames.push(packetTo({ mac: 0x0100_5e01_0203, address: group, dscp: 0, payload: 64 }));
  for (const member of [true, false]) {
    frames.push(encodeReport({ mac: macOf(1), address: 0x0a00_0002 }, [{ group, member }]));
  }
  return frames;
}

function packetTo(
  to: { mac: number; address: number; dscp: number; payload: number },
): Bytes {
  return encodePacket({
    destinationMac: to.mac,
    sourceMac: macOf(9),
    sourceAddress: 0x0a00_0009,
    destinationAddress: to.address,
    dscp: to.dscp,
    ecn: ECN.capable0,
    ttl: 64,
    identification: 1,
    udpSourcePort: 0xc000,
    bth: makeBth({ opcode: OPCODE["RC RDMA WRITE MIDDLE"], destQpn: 17, psn: 5, ackReq: false }),
    payload: new Uint8Array(to.payload),
  });
}

function hostile(rng: Rng, real: readonly Bytes[]): Bytes {
  const kind = rng.below(8);
  if (kind > 1) {
    const bytes = mutate(rng, real);
    // Groups and pauses are known by their addresses, which few changes leave alone.
    if (rng.below(2) === 0) {
      bytes.set(real[rng.below(real.length)]!.subarray(0, Math.min(14, bytes.length)));
    }
    return bytes;
  }
  if (kind === 1) return real[rng.below(real.length)]!;
  const bytes = new Uint8Array(rng.below(200));
  for (let i = 0; i < bytes.length; i++) bytes[i] = rng.below(256);
  return bytes;
}

const PLANS: Readonly<Record<string, Partial<SwitchPlan>>> = {
  "plain": {},
  "with ECN and PFC": {
    congestion: {
      ecn: { kminBytes: 2000, kmaxBytes: 8000, pmax: 0.5 },
      pfc: {
        lossless: 1 << 3,
        threshold: { kind: "static", xoffBytes: 6000, xonBytes: 3000 },
        mac: 0x0200_ff00_0001,
        ports: Array.from(
          { length: PORTS },
          () => ({ bitsPerSecond: RATE, headroomBytes: 1 << 30 }),
        ),
      },
    },
  },
  "in a fabric of several": {
    flood: [0, 1, 2],
    forwarding: [[macOf(0), 0], [macOf(1), 1]],
    multipath: [[[macOf(2), macOf(3)], [2, 3]]],
  },
};

/** Without what a switch may change: ECN with the header's checksum (§1.5). */
function signature(bytes: Bytes): string {
  if (bytes.length < 34) return bytes.join();
  const copy = bytes.slice();
  copy[15]! &= 0xfc;
  copy.fill(0, 24, 26);
  return copy.join();
}

describe("hostile frames", () => {
  for (const [name, plan] of Object.entries(PLANS)) {
    it(`crash no switch ${name}, are passed on as they are or counted as dropped`, () => {
      const rng = rngFor(1, name);
      const bench = new Bench(planWith({ queueBytes: 1 << 30, ...plan }));
      const real = realFrames();
      const came = new Set<string>();
      let time: Time = 0, obeyed = 0;
      for (let i = 0; i < FRAMES; i++) {
        const bytes = hostile(rng, real);
        came.add(signature(bytes));
        if (plan.congestion !== undefined && decodePfc(bytes) !== undefined) obeyed++;
        time += rng.below(FRAME_PS / 4);
        bench.arrive(time, rng.below(PORTS), { kind: "frame", bytes });
      }
      bench.runBefore(time + 10_000_000_000);
      const passed = bench.sent.flatMap(({ message }) =>
        message.kind === "frame" && !isOwn(message.bytes) ? [message.bytes] : []
      );
      for (const bytes of passed) assert.ok(came.has(signature(bytes)), "no frame is made up");
      const unicast = passed.filter((bytes) => (bytes[0]! & 1) === 0).length;
      const dropped = [
        "Unknown",
        "Reserved",
        "Return",
        "Runt",
        "LinkDown",
        "QueueFull",
        "Headroom",
      ];
      let sum = unicast + obeyed + bench.count("snoopedReports") + bench.count("floodedFrames");
      for (const reason of dropped) sum += bench.count(`dropped${reason}`);
      assert.equal(sum, bench.count("receivedFrames"), "each frame is counted once");
      assert.ok(unicast > FRAMES / 20 && bench.count("floodedFrames") > FRAMES / 20);
    });
  }
});

/** What the switch says itself: reports from 0.0.0.0, and pauses. */
function isOwn(bytes: Bytes): boolean {
  const isProxy = bytes[6] === 0x02 && bytes[7] === 0xff &&
    bytes.subarray(8, 12).every((b) => b === 0xff);
  return isProxy || decodePfc(bytes)?.sourceMac === 0x0200_ff00_0001;
}
