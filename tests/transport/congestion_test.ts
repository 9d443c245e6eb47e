/**
 * Eight hosts write to one (`rocev2.md` §3.9), with congestion control off and on, in all four ways:
 * what each mechanism is for shows in what happens to the flows, to one that goes elsewhere, and to
 * the switch's buffer. Then: lossless is lossless, whatever the cables are like. That a congested rack has
 * one digest in every packing: `tests/rig/determinism_test.ts`.
 */
import assert from "node:assert/strict";
import { beforeAll, describe, it } from "@std/testing/bdd";
import { interfaceBlock, packetBlock, sectionBlock } from "../../fabric/capture/pcapng.ts";
import { PORTS } from "../../fabric/node.ts";
import { withCongestion } from "../../fabric/rack/assembly/congestion.ts";
import type { NodePlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { encodePfc } from "../../fabric/wire/roce/pfc.ts";
import { type RackOptions, SimulatedRack } from "../support/simulated_rack.ts";
import { itUnless } from "../support/skipping.ts";
import { complaints, tsharkFields, tsharkMissing } from "../support/tshark.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { hostOfRnic } from "../../fabric/rack/plan/names.ts";
import { trafficOf } from "../../console/rack/live/counters.ts";

const INCAST = Deno.readTextFileSync(
  new URL("../../scripts/scenarios/incast.yaml", import.meta.url),
);

/** The shipped scenario without what is not named: for half of its time where no rates have to settle. */
function scenario(on: { readonly pfc: boolean; readonly ecn: boolean }): string {
  let text = on.ecn ? INCAST : INCAST.replaceAll("time: 6ms", "time: 3ms");
  if (!on.pfc) text = text.replace(/^ {2}pfc: .*\n/m, "");
  if (!on.ecn) text = text.replace(/^ {2}ecn: .*\n/m, "").replace(/^ {2}dcqcn:\n( {4}.*\n)+/m, "");
  return text;
}

interface Flow {
  readonly to: string;
  readonly status: string;
  readonly throughputBps: number;
  readonly partsBps: readonly number[];
}

interface Seen {
  readonly flows: readonly Flow[];
  /** The one that goes where nobody else writes to. */
  readonly victim: Flow;
  readonly plan: RackPlan;
  /** What the switch says. */
  readonly warnings: readonly string[];
  /** What the card of the host says to which eight write. */
  readonly cardWarnings: readonly string[];
  readonly statistics: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** A counter over all nodes. */
  readonly total: (counter: string) => number;
}

function run(text: string, change?: RackOptions["change"]): Seen {
  const rack = new SimulatedRack(text, change && { change }).run();
  const all = rack.reports.filter(({ topic }) => topic === "result")
    .map(({ value }) => value as unknown as Flow);
  const statistics = rack.simulator.statistics();
  const warningsOf = (of: string) =>
    rack.reports.filter(({ topic, node }) => topic === "warning" && node === of)
      .map(({ value }) => (value as { readonly message: string }).message);
  return {
    flows: all.filter(({ to }) => to === "r"),
    victim: all.find(({ to }) => to === "v")!,
    plan: rack.plan,
    warnings: warningsOf("tor"),
    cardWarnings: warningsOf("r-rnic"),
    statistics,
    total: (counter) =>
      Object.values(statistics).reduce((sum, node) => sum + (node[counter] ?? 0), 0),
  };
}

const DROPS = ["droppedQueueFull", "droppedHeadroom", "drop-receive-overrun"] as const;

function drops({ total }: Seen): number {
  return DROPS.reduce((sum, counter) => sum + total(counter), 0);
}

/** What has arrived at a card, or at a switch between switches, is what its cables' counters say. */
function assertCounted({ plan, statistics }: Seen): void {
  const traffic = trafficOf(plan, statistics);
  for (const { name, kind } of plan.nodes) {
    if (kind === "host") continue;
    const to = traffic.filter(({ cable, from }) => {
      const { a, b } = plan.cables[cable]!;
      return from !== name && (a.node === name || b.node === name);
    });
    // A card does not count its own pauses as frames that it has sent.
    if (kind === "switch" && to.some(({ from }) => hostOfRnic(from) !== undefined)) continue;
    const { framesIn, receivedFrames = framesIn, bytesIn, receivedBytes = bytesIn } =
      statistics[name]!;
    assert.equal(to.reduce((sum, { frames }) => sum + frames, 0), receivedFrames, name);
    assert.equal(to.reduce((sum, { bytes }) => sum + bytes, 0), receivedBytes, name);
  }
}

/** Jain's index over the flows' second half: 1 where all have the same, 1/n where one has it all. */
function fairness({ flows }: Seen): number {
  const rates = flows.map(({ partsBps }) =>
    partsBps.slice(partsBps.length / 2).reduce((sum, rate) => sum + rate, 0)
  );
  const sum = rates.reduce((x, y) => x + y, 0);
  return sum ** 2 / (rates.length * rates.reduce((x, y) => x + y * y, 0));
}

/** What the flows have together in their second half. */
function sumBps({ flows }: Seen): number {
  return flows.reduce((sum, { partsBps }) => {
    const late = partsBps.slice(partsBps.length / 2);
    return sum + late.reduce((x, y) => x + y, 0) / late.length;
  }, 0);
}

describe("eight to one", () => {
  let off: Seen, pfc: Seen, ecn: Seen, both: Seen;

  beforeAll(() => {
    off = run(scenario({ pfc: false, ecn: false }));
    pfc = run(scenario({ pfc: true, ecn: false }));
    ecn = run(scenario({ pfc: false, ecn: true }));
    both = run(scenario({ pfc: true, ecn: true }));
  });

  it("writes what it writes, whatever is on", () => {
    for (const seen of [off, pfc, ecn, both]) {
      assert.equal(seen.flows.length, 8);
      for (const { status } of [...seen.flows, seen.victim]) assert.equal(status, "done");
    }
  });

  it("with nothing on: the queue is full, frames are dropped and sent again", () => {
    assert.ok(off.total("droppedQueueFull") > 1_000);
    assert.ok(off.total("retransmissions") > 1_000);
    assert.ok(off.statistics["tor"]!["queuePeakBytes"]! > 1_000_000);
    assert.ok(fairness(off) < 0.9, `${fairness(off)}`);
    assert.ok(off.flows.some(({ partsBps }) => partsBps.includes(0)), "one waits for a time-out");
    for (const counter of ["ecnMarked", "cnpsOut", "cnpsIn", "pausesOut", "pausesIn", "pausedPs"]) {
      assert.equal(off.total(counter), 0, counter);
    }
  });

  it("with PFC: nothing is dropped, the cable is full, senders are paused", () => {
    assert.equal(drops(pfc), 0);
    assert.equal(pfc.total("retransmissions"), 0);
    assert.ok(sumBps(pfc) > 95e9, `${sumBps(pfc)}`);
    assert.ok(fairness(pfc) > 0.99, `${fairness(pfc)}`);
    const tor = pfc.statistics["tor"]!;
    assert.ok(tor["pausesOut"]! > 500);
    for (let i = 1; i <= 8; i++) {
      const rnic = pfc.statistics[`s${i}-rnic`]!;
      assert.ok(rnic["pausesIn"]! > 50 && rnic["pausedPs"]! > 1e9, `s${i}`);
    }
  });

  it("with PFC: who writes elsewhere suffers with those who are paused", () => {
    const late = (seen: Seen) => seen.victim.partsBps.slice(5).reduce((x, y) => x + y) / 5;
    assert.ok(late(pfc) < 0.3 * late(off), `${late(pfc)} against ${late(off)}`);
    assert.ok(late(both) > 3 * late(pfc), "DCQCN slows down those who cause it instead");
  });

  it("with ECN and DCQCN: few frames are dropped, and the queue stays between the thresholds", () => {
    // Those of the first moments, before the first notification is back.
    assert.ok(drops(ecn) < off.total("droppedQueueFull") / 10, `${drops(ecn)} drops`);
    const { ecnMarked, queueMeanBytes } = ecn.statistics["tor"]!;
    assert.ok(ecnMarked! > 100);
    assert.ok(queueMeanBytes! > 100 * 1_024 && queueMeanBytes! < 400 * 1_024, `${queueMeanBytes}`);
    assert.equal(ecn.statistics["r-rnic"]!["cnpsOut"], ecn.total("cnpsIn"));
    assert.ok(ecn.total("rateCuts") > 50);
    assert.equal(ecn.total("pausesOut"), 0);
  });

  it("with ECN and DCQCN: rates converge to fair shares", () => {
    for (const seen of [ecn, both]) {
      // Four other seeds have 0.97 to 0.99; in this one a flow without PFC is still behind: 0.94.
      assert.ok(fairness(seen) > 0.93, `${fairness(seen)}`);
      assert.ok(sumBps(seen) > 90e9, "and the cable is full");
    }
  });

  it("with both: nothing is dropped, and hardly anybody is paused", () => {
    assert.equal(drops(both), 0);
    assert.equal(both.total("retransmissions"), 0);
    assert.ok(both.total("pausesOut") < pfc.total("pausesOut") / 10);
    assert.ok(both.total("pausedPs") < pfc.total("pausedPs") / 5);
  });
});

/** Three to one for a moment, lossless, over cables of all kinds. */
function lossless(fabric: string, rest = ""): string {
  return `
name: lossless
fabric: { pfc: { xoff: 16KiB, xon: 8KiB }, ${fabric} }
defaults: { services: none, scm: { size: 4KiB }, dram: 64MiB ${rest} }
hosts: { s1: {}, s2: {}, s3: {}, r: {} }
programs:
  - { on: r, run: sink }
  - { on: [s1, s2, s3], run: bulk, to: r, at: 100us, time: 300us, size: 64KiB, depth: 16 }
`;
}

describe("eight to one in RoCEv1", () => {
  it("C-01: with PFC, by the priority of tags: nothing is dropped, the cable is full", () => {
    const v1 = scenario({ pfc: true, ecn: false }).replace("fabric:\n", "fabric:\n  roce: v1\n");
    const seen = run(v1.replaceAll("time: 3ms", "time: 1500us"));
    for (const { status } of [...seen.flows, seen.victim]) assert.equal(status, "done");
    assert.equal(drops(seen), 0);
    assert.equal(seen.total("retransmissions"), 0);
    assert.ok(seen.statistics["tor"]!["pausesOut"]! > 200);
    assert.ok(sumBps(seen) > 94e9, `${sumBps(seen)}`);
  });
});

describe("lossless means that nothing is dropped for lack of room", () => {
  const fabrics = [
    "rate: 100Gbps, latency: 25ns",
    "rate: 100Gbps, latency: 3us",
    "rate: 25Gbps, latency: 500ns, mtu: 1024",
    "rate: 400Gbps, latency: 1us",
    "rate: 100Gbps, switch: { mode: store-and-forward, latency: 1us, queue: 16KiB }",
    "rate: 100Gbps, mtu: 256",
    "rate: 100Gbps, ecn: { kmin: 4KiB, kmax: 8KiB, pmax: 1 }, dcqcn: on",
    "rate: 100Gbps, priorities: { dscp: 0, lossless: [0, 1] }",
    "rate: 100Gbps, topology: leaf-spine, leaves: 2, spines: 1",
  ];
  for (const fabric of fabrics) {
    it(fabric, () => {
      const seen = run(lossless(fabric));
      assert.equal(drops(seen), 0);
      assert.equal(seen.total("retransmissions"), 0);
      assert.ok(seen.total("pausesOut") > 0, "it was needed");
      for (const { status } of seen.flows) assert.equal(status, "done");
      assertCounted(seen);
    });
  }

  it("also at a receiver whose bus is slower than its cable", () => {
    const bus = "rate: 100Gbps, bus: { rate: 40Gbps, latency: 150ns }";
    const seen = run(lossless(bus));
    assert.equal(drops(seen), 0);
    assert.ok(seen.statistics["r-rnic"]!["pausesOut"]! > 0);
    assert.ok(seen.statistics["tor"]!["pausesIn"]! > 0);
    const lossy = run(lossless(bus).replace(/pfc: \{.*?\}/, "pfc: off"));
    assert.ok(lossy.total("drop-receive-overrun") > 1);
    // The first one, as of all that is lost without a sign to its sender.
    const said = lossy.cardWarnings.filter((text) => text.includes("the receive buffer is full"));
    assert.equal(said.length, 1);
    assert.match(
      said[0]!,
      /^a frame \(RC RDMA WRITE .*\) of 10\..* to queue pair \d+ is dropped without an answer, and comes again: /,
    );
    assert.deepEqual(seen.cardWarnings, []);
  });

  it("thanks to the headroom: with a quarter of it, frames are dropped, and the switch says why", () => {
    const far = "rate: 100Gbps, latency: 1us";
    const needed = headroomOf(run(lossless(far)));
    for (const headroom of [`${Math.floor(needed / 4)}B`, "5m"]) {
      const seen = run(lossless(far).replace("xon: 8KiB", `xon: 8KiB, headroom: ${headroom}`));
      assert.ok(seen.total("droppedHeadroom") > 0, headroom);
      assert.ok(headroomOf(seen) < needed);
      assert.equal(seen.statistics["tor"]!["headroomPeakBytes"]! <= headroomOf(seen), true);
      const said = new RegExp(
        `^a lossless frame of s\\d-rnic, priority 3, is dropped: the headroom of ${
          headroomOf(seen)
        } B is full; the cable needs ${needed} B$`,
      );
      assert.ok(seen.warnings.length > 0 && seen.warnings.length <= 3, "once for each sender");
      for (const message of seen.warnings) assert.match(message, said);
    }
  });

  it("with headroom that the ports share, as long as few of them need it", () => {
    const shared = (pool: string) =>
      run(
        lossless("rate: 100Gbps, latency: 1us").replace("xon: 8KiB", `$&, headroomPool: ${pool}`),
      );
    const enough = shared("160KiB");
    assert.equal(drops(enough), 0);
    assert.ok(enough.total("pausesOut") > 0);
    const short = shared("20KiB");
    assert.ok(short.total("droppedHeadroom") > 0);
    assert.match(
      short.warnings[0]!,
      /is dropped: .* or all ports' of 20480 B is full; several ports/,
    );
  });
});

/** The headroom at the switch's first port. */
function headroomOf({ plan }: Seen): number {
  const tor = plan.nodes.find(({ kind }) => kind === "switch");
  assert.ok(tor?.kind === "switch");
  return tor.config.congestion!.pfc!.ports[0]!.headroomBytes;
}

describe("a buffer that all ports share", () => {
  const withBuffer = (bytes: string, pfc = "on") =>
    run(
      lossless(`rate: 100Gbps, switch: { buffer: ${bytes} }`).replace(
        /pfc: \{.*?\}/,
        `pfc: ${pfc}`,
      ),
    );

  it("keeps its size, whatever stands: the less of it, the sooner senders are paused", () => {
    const peaks = ["2MiB", "512KiB", "256KiB"].map((bytes) => {
      const seen = withBuffer(bytes);
      assert.equal(drops(seen), 0, bytes);
      for (const { status } of seen.flows) assert.equal(status, "done");
      assert.ok(seen.total("pausesOut") > 0, "it was needed");
      return seen.statistics["tor"]!["bufferPeakBytes"]!;
    });
    assert.ok(peaks[0]! > peaks[1]! && peaks[1]! > peaks[2]!, `${peaks}`);
    assert.ok(peaks[0]! <= 2 << 20 && peaks[1]! <= 512 << 10 && peaks[2]! <= 256 << 10, `${peaks}`);
  });

  it("gives a sender more with a larger alpha", () => {
    const peaks = ["1/64", "1/8", "1"].map((alpha) => {
      const seen = withBuffer("1MiB", `{ alpha: ${alpha} }`);
      assert.equal(drops(seen), 0);
      return seen.statistics["tor"]!["bufferPeakBytes"]!;
    });
    assert.ok(peaks[0]! < peaks[1]! && peaks[1]! < peaks[2]!, `${peaks}`);
  });

  it("says where PFC is on for no priority that is used", () => {
    const fabric =
      "rate: 100Gbps, priorities: { dscp: 26, lossless: [5] }, switch: { buffer: 256KiB }";
    const seen = run(lossless(fabric).replace(/pfc: \{.*?\}/, "pfc: on"));
    assert.ok(seen.total("droppedQueueFull") > 0);
    assert.deepEqual(seen.warnings, [
      "a frame of priority 3 is dropped as the shared buffer is full, though the queue is not: PFC is on for priority 5 only",
    ]);
  });

  it("says whether the queue is full, or alpha's share", () => {
    for (
      const [own, where] of [
        ["queue: 64KiB", "at a full queue"],
        ["buffer: 256KiB, queue: 1MiB, alpha: 1/8", "beyond alpha's share of the free buffer"],
      ] as const
    ) {
      const fabric = `rate: 100Gbps, priorities: { dscp: 26, lossless: [5] }, switch: { ${own} }`;
      const seen = run(lossless(fabric).replace(/pfc: \{.*?\}/, "pfc: on"));
      const said = `a frame of priority 3 is dropped ${where}: PFC is on for priority 5 only`;
      assert.deepEqual(seen.warnings, [said]);
    }
  });
});

/** Three hosts, each behind a switch of its own in a ring: everybody writes two switches further. */
function ring(fabric: string): SimulatedRack {
  const text = `
name: ring
fabric: { pfc: { xoff: 128KiB, xon: 64KiB } ${fabric} }
defaults: { services: none, scm: { size: 4KiB }, dram: 64MiB }
hosts: { h1: {}, h2: {}, h3: {} }
programs:
  - { on: all, run: sink }
  - { on: h1, run: bulk, to: h3, begin: 300us, time: 1ms, size: 64KiB, depth: 8 }
  - { on: h2, run: bulk, to: h1, begin: 300us, time: 1ms, size: 64KiB, depth: 8 }
  - { on: h3, run: bulk, to: h2, begin: 300us, time: 1ms, size: 64KiB, depth: 8 }
`;
  const { congestion } = parseScenario(text, "ring.yaml").fabric;
  return new SimulatedRack(text, { change: (plan) => withCongestion(asRing(plan), congestion) });
}

/** All that is not for the switch's own host goes on clockwise. */
function asRing(plan: RackPlan): RackPlan {
  const tor = plan.nodes.find((node) => node.kind === "switch");
  const cable = plan.cables.find(({ kind }) => kind === "network");
  assert.ok(tor?.kind === "switch" && cable !== undefined);
  const { forwarding } = tor.config;
  const switches = [0, 1, 2].map((i): NodePlan => ({
    name: `w${i + 1}`,
    kind: "switch",
    config: {
      ...tor.config,
      ports: 3,
      forwarding: forwarding.map(([mac], host) => [mac, host === i ? 0 : 1] as const),
    },
  }));
  const cables = [0, 1, 2].flatMap((i) => [
    {
      ...cable,
      a: { node: `h${i + 1}-rnic`, port: PORTS.rnicNetwork },
      b: { node: `w${i + 1}`, port: 0 },
    },
    { ...cable, a: { node: `w${i + 1}`, port: 1 }, b: { node: `w${(i + 1) % 3 + 1}`, port: 2 } },
  ]);
  return {
    ...plan,
    nodes: [...plan.nodes.filter((node) => node !== tor), ...switches],
    cables: [...plan.cables.filter(({ kind }) => kind === "bus"), ...cables],
  };
}

describe("a ring of lossless switches", () => {
  /** Frames that the switches sent between two instants. */
  function sentBetween(rack: SimulatedRack, from: number, to: number): number {
    const sent = () => {
      const all = rack.simulator.statistics();
      return ["w1", "w2", "w3"].reduce((sum, name) => sum + all[name]!["sentFrames"]!, 0);
    };
    rack.run(from);
    const before = sent();
    rack.run(to);
    return sent() - before;
  }

  it("comes to a deadlock: everybody waits for the next one, and nothing is dropped", () => {
    const rack = ring("");
    assert.ok(sentBetween(rack, PS_PER_US, 400 * PS_PER_US) > 100, "it began well");
    assert.equal(sentBetween(rack, 600 * PS_PER_US, 1_200 * PS_PER_US), 0);
    const statistics = rack.simulator.statistics();
    for (const name of ["w1", "w2", "w3"]) {
      assert.ok(statistics[name]!["pausesIn"]! > 1, "the pause is kept up");
      assert.equal(statistics[name]!["droppedHeadroom"], 0);
    }
  });

  it("does not where DCQCN keeps the queues below XOFF", () => {
    const rack = ring(", ecn: { kmin: 2KiB, kmax: 8KiB, pmax: 1 }, dcqcn: { cnpInterval: 4us }");
    assert.ok(sentBetween(rack, 500 * PS_PER_US, 1_200 * PS_PER_US) > 1_000);
  });
});

describe("pause frames", () => {
  const withTshark = itUnless(tsharkMissing(), "what Wireshark reads");

  withTshark("are read by Wireshark: priority and time (§3.9)", async () => {
    const path = await Deno.makeTempFile({ suffix: ".pcapng" });
    const port = { name: "a-rnic:1", description: "", bitsPerSecond: 100e9 };
    const frames = [0xffff, 0].map((quanta) =>
      encodePfc({ sourceMac: 0x0200_0000_0001, priorities: 1 << 3, quanta })
    );
    const blocks = [
      sectionBlock({ application: "rackmesh", comment: "" }),
      interfaceBlock(port),
      ...frames.map((bytes, i) =>
        packetBlock({ interface: 0, time: 1000 * i, direction: "out", bytes, comment: "" })
      ),
    ];
    try {
      await Deno.writeFile(path, new Uint8Array(blocks.flatMap((block) => [...block])));
      const fields = ["macc.opcode", "macc.cbfc.enbv", "macc.cbfc.pause_time.c3"] as const;
      const rows = await tsharkFields(path, { fields });
      assert.deepEqual(rows.map((row) => Object.values(row)), [
        ["0x0101", "0x0008", "65535"],
        ["0x0101", "0x0008", "0"],
      ]);
      assert.deepEqual(await complaints(path), []);
    } finally {
      await Deno.remove(path);
    }
  });
});
