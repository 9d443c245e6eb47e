import type { Frame } from "../../fabric/node.ts";
import type { CreateNode } from "../../fabric/partition/partition.ts";
import { PROFILES } from "../../fabric/rack/plan/profile.ts";
import { PS_PER_S } from "../../fabric/base/time.ts";
import { wireBytes } from "../../fabric/link/link.ts";
import { computeIcrc, ICRC_BYTES } from "../../fabric/wire/roce/icrc.ts";
import {
  decodePacket,
  encodePacket,
  isRefusal,
  type RocePacket,
} from "../../fabric/wire/roce/packet.ts";
import { viewOf } from "../../fabric/base/slab.ts";
import { ETHERNET_BYTES } from "../../fabric/wire/roce/ethernet.ts";
import { type Figure, type Measured, median, repeat } from "./figure.ts";
import { cpuMs, runTraffic, type TrafficRack, type TrafficRun } from "./traffic_rack.ts";

const KIB = 1024;

/** Every host writes to the next one through one switch, with 256 KiB outstanding. */
function ring(bytes: number, { seed, quick }: Measured): TrafficRack {
  const messages = (quick ? 4 : 10) * 1024 * KIB / bytes;
  const depth = Math.max(2, 256 * KIB / bytes);
  return { hosts: 8, writers: 8, seed, load: { qps: 1, bytes, messages, depth, pathMtu: 1024 } };
}

export function measurePackets(options: Measured): Figure[] {
  const { quick } = options;
  const long = ring(64 * KIB, options), short = ring(KIB, options);
  const times = quick ? 3 : 7;
  const runs = repeat(times, () => runTraffic(long));
  const shortRuns = repeat(times, () => runTraffic(short));
  return [
    {
      ...rate("8 hosts, packets of 1 KiB, WRITEs of 64 KiB", runs),
      target: { is: "at least", value: 500_000 },
    },
    rate("8 hosts, packets of 1 KiB, WRITEs of 1 KiB: every other is an ACK", shortRuns),
    {
      group: "e",
      what: "events for a packet, WRITEs of 64 KiB",
      unit: "",
      values: [runs[0]!.events / runs[0]!.packets],
    },
    ...codecShares(long, median(runs.map(nsPerPacket))),
  ];
}

function rate(what: string, runs: readonly TrafficRun[]): Figure {
  const values = runs.map(({ packets, cpuMs }) => 1_000 * packets / cpuMs);
  return { group: "e", what, unit: "/s", values };
}

function nsPerPacket({ packets, cpuMs }: TrafficRun): number {
  return 1e6 * cpuMs / packets;
}

/** Few enough to stay in the CPU's cache, as in the run. */
const SAMPLE = 512;

/** (f) The same packets through the codec alone, relative to the total cost of a packet. */
function codecShares(rack: TrafficRack, packetNs: number): Figure[] {
  const frames: Frame[] = [];
  const run = runTraffic(rack, (create) => collecting(create, frames));
  if (run.packets === 0 || frames.length < SAMPLE) throw new Error("The run had too few frames");
  const packets = frames.map(({ bytes }) => decodePacket(bytes)).filter((packet) =>
    !isRefusal(packet)
  ) as RocePacket[];
  const views = frames.map(({ bytes }) => viewOf(bytes));
  const measures: readonly (readonly [what: string, one: (i: number) => unknown])[] = [
    ["encode, its ICRC included", (i) => encodePacket(packets[i]!)],
    [
      "decode, its ICRC checked, as another process does (this one knows what it has encoded)",
      (i) => decodePacket(frames[i]!.bytes),
    ],
    ["the ICRC alone, once", (i) => icrcOf(views[i]!)],
  ];
  return measures.map(([what, one]): Figure => ({
    group: "f",
    what: `of a packet: ${what}`,
    unit: "%",
    values: Array.from({ length: 5 }, () => 100 * nsOfEach(one) / packetNs),
  }));
}

/** Only for frames without padding, which end with their ICRC. */
function icrcOf(view: DataView): number {
  return computeIcrc(view, { from: ETHERNET_BYTES, end: view.byteLength - ICRC_BYTES });
}

const ROUNDS = 40;

function nsOfEach(one: (i: number) => unknown): number {
  for (let i = 0; i < SAMPLE; i++) one(i);
  const before = cpuMs();
  for (let round = 0; round < ROUNDS; round++) for (let i = 0; i < SAMPLE; i++) one(i);
  return 1e6 * (cpuMs() - before) / (ROUNDS * SAMPLE);
}

function collecting(create: CreateNode, frames: Frame[]): CreateNode {
  let seen = 0;
  return (name, life, unsaved) => {
    const node = create(name, life, unsaved);
    if (node.kind !== "rnic") return node;
    const { step } = node;
    return Object.assign(node, {
      step(...[now, input, out]: Parameters<typeof step>) {
        if (input.kind === "message" && input.message.kind === "frame") {
          frames[seen++ % SAMPLE] = input.message;
        }
        step.call(node, now, input, out);
      },
    });
  };
}

export function measureLine(options: Measured): Figure[] {
  const { seed, quick } = options;
  const bytes = 1024 * KIB, { mtu, network } = PROFILES["clx-optane-cx5"];
  const messages = quick ? 20 : 100;
  const share = (pathMtu: 1024 | 4096, depth: number) => {
    const load = { qps: 1, bytes, messages, depth, pathMtu };
    const { virtualPs } = runTraffic({ hosts: 2, writers: 1, seed, load });
    return 100 * (8 * bytes * messages * PS_PER_S / virtualPs) / payloadRate(pathMtu, network);
  };
  const target = { is: "at least", value: 97 } as const;
  return [
    figure(`WRITEs of 1 MiB, path MTU ${mtu}, of the line's payload`, share(4096, 16), target),
    figure("the same, path MTU 1024", share(1024, 16), target),
    figure("the same, one after the other: post to completion", share(4096, 1)),
  ];
}

function figure(what: string, value: number, target?: Figure["target"]): Figure {
  return { group: "g", what, unit: "%", values: [value], ...(target && { target }) };
}

/** In bit/s, of a line that carries only WRITE packets of this size. */
function payloadRate(pathMtu: number, { bitsPerSecond }: { bitsPerSecond: number }): number {
  const headers = 14 + 20 + 8 + 12;
  const bytes = new Uint8Array(headers + pathMtu + ICRC_BYTES);
  return bitsPerSecond * pathMtu / wireBytes({ kind: "frame", bytes });
}

export function measureQueuePairs({ seed, quick }: Measured): Figure[] {
  const counts = quick ? [1, 64] : [1, 64, 4096];
  const rack = (qps: number): TrafficRack => ({
    hosts: 2,
    writers: 1,
    seed,
    load: { qps, bytes: 4 * KIB, messages: 8_192, depth: 64, pathMtu: 1024 },
  });
  return counts.flatMap((qps): Figure[] => {
    const runs = repeat(quick ? 2 : 5, () => runTraffic(rack(qps)));
    const [{ events, packets }] = runs as [TrafficRun];
    return [
      {
        group: "h",
        what: `2 hosts, ${qps} queue pairs in turn: a packet`,
        unit: "ns",
        values: runs.map(nsPerPacket),
      },
      { group: "h", what: "the same: events for a packet", unit: "", values: [events / packets] },
    ];
  });
}
