import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { leastDelay } from "../../link/link.ts";
import { crossings, lookaheadPs } from "../plan/lookahead.ts";
import { delaysTo, Distances } from "../plan/distances.ts";
import type { NodePlan, RackPlan } from "../plan/plan.ts";
import { hostProcessingPs, processingPs, rnicProcessingPs } from "../plan/processing.ts";
import { makePlan, type PartitionPlan, partitionsOf } from "./topology.ts";
import { variants } from "../scenario/variants.ts";
import { parseScenario } from "../scenario/parse_scenario.ts";
import { seeded } from "../../base/property_testing.ts";

function planOf(text: string): RackPlan {
  return makePlan(variants(parseScenario(text, "x.yaml"))[0]!);
}

function star(hosts: number, more = ""): RackPlan {
  const names = Array.from({ length: hosts }, (_, i) => `h${i + 1}: {}`);
  return planOf(`name: x\nhosts: { ${names.join(", ")} }\n${more}`);
}

function node<K extends NodePlan["kind"]>(plan: RackPlan, name: string, kind: K) {
  const found = plan.nodes.find((each) => each.name === name);
  assert.ok(found?.kind === kind, `${name} is a ${kind}`);
  return found as Extract<NodePlan, { kind: K }>;
}

const DIRECT = planOf("name: x\nfabric: { topology: direct }\nhosts: { a: {}, b: {} }");

describe("makePlan", () => {
  it("C-01: builds cards of RoCEv1 for a rack, or for a host, and says nothing of RoCEv2's", () => {
    const builds = (more: string, b = "") => {
      const plan = planOf(`name: x\n${more}\nhosts: { a: {}, b: {${b}}, c: {} }`);
      return ["a", "b", "c"].map((host) => node(plan, `${host}-rnic`, "rnic").config.roce);
    };
    assert.deepEqual(builds("fabric: { roce: v1 }"), ["v1", "v1", "v1"]);
    assert.deepEqual(builds("", " roce: v1 "), [undefined, "v1", undefined]);
    assert.deepEqual(builds("fabric: { roce: v1 }", " roce: v2 "), ["v1", undefined, "v1"]);
    assert.deepEqual(builds("defaults: { roce: v1 }", " roce: v2 "), ["v1", undefined, "v1"]);
    for (
      const v2 of [star(2), planOf("name: x\nfabric: { roce: v2 }\nhosts: { h1: {}, h2: {} }")]
    ) {
      assert.ok(!("roce" in node(v2, "h1-rnic", "rnic").config));
    }
  });

  it("makes a host, an RNIC and a bus each, and a switch with a cable to every RNIC", () => {
    const plan = star(3);
    assert.deepEqual(plan.nodes.map(({ name, kind }) => `${kind} ${name}`), [
      "host h1",
      "rnic h1-rnic",
      "host h2",
      "rnic h2-rnic",
      "host h3",
      "rnic h3-rnic",
      "switch tor",
    ]);
    const cables = plan.cables.map(({ kind, a, b }) =>
      [kind, a.node, a.port, b.node, b.port].join(" ")
    );
    assert.deepEqual(cables, [
      "bus h1 0 h1-rnic 0",
      "bus h2 0 h2-rnic 0",
      "bus h3 0 h3-rnic 0",
      "network h1-rnic 1 tor 0",
      "network h2-rnic 1 tor 1",
      "network h3-rnic 1 tor 2",
    ]);
  });

  it("gives each RNIC of a host a bus, a cable and an address of its own", () => {
    const plan = planOf("name: x\nhosts: { a: { nics: 2 }, b: { domain: wsp, nics: 3 }, c: {} }");
    const one = planOf("name: x\nhosts: { a: {}, b: { domain: wsp }, c: {} }");
    const names = ["a-rnic", "b-rnic", "c-rnic", "a-rnic2", "b-rnic2", "b-rnic3"];
    assert.deepEqual(node(plan, "b", "host").config.rnics, ["b-rnic", "b-rnic2", "b-rnic3"]);
    const buses = plan.cables.filter(({ kind }) => kind === "bus");
    assert.deepEqual(buses.map(({ a, b }) => `${a.node} ${a.port} ${b.node}`), [
      ...["a 0 a-rnic", "b 0 b-rnic", "c 0 c-rnic"],
      ...["a 1 a-rnic2", "b 1 b-rnic2", "b 2 b-rnic3"],
    ]);
    const { a, b, c, ...further } = plan.addresses;
    assert.deepEqual({ a, b, c }, one.addresses);
    assert.deepEqual(Object.keys(further), ["a-rnic2", "b-rnic2", "b-rnic3"]);
    const addresses = names.map((name) => node(plan, name, "rnic").config.address);
    assert.deepEqual(addresses, [a, b, c, ...Object.values(further)]);
    assert.equal(new Set(names.map((name) => node(plan, name, "rnic").config.mac)).size, 6);
    for (const name of ["a-rnic", "b-rnic", "c-rnic"]) {
      assert.deepEqual(node(plan, name, "rnic"), node(one, name, "rnic"));
    }
    const { flushOnFail } = node(plan, "b-rnic", "rnic").config;
    assert.deepEqual(node(plan, "b-rnic3", "rnic").config.flushOnFail, flushOnFail);
  });

  it("says which RNIC a program's device is, unless it is the first", () => {
    const programs =
      "[{ on: a, run: list, from: b-rnic2, nic: 2 }, { on: a, run: list, from: b, nic: 1 }]";
    const plan = planOf(
      `name: x\ndefaults: { nics: 2 }\nhosts: { a: {}, b: {} }\nprograms: ${programs}`,
    );
    const { programs: all } = node(plan, "a", "host").config;
    assert.deepEqual(all.map(({ run, rnic }) => [run, rnic]), [
      ...[["persistd", undefined], ["persistd", 1]],
      ...[["list", 1], ["list", undefined]],
    ]);
  });

  it("joins two RNICs by one cable where the topology is direct", () => {
    assert.deepEqual(
      DIRECT.cables.filter(({ kind }) => kind === "network").map(({ a, b }) => [a, b]),
      [
        [{ node: "a-rnic", port: 1 }, { node: "b-rnic", port: 1 }],
      ],
    );
    assert.ok(DIRECT.nodes.every(({ kind }) => kind !== "switch"));
  });

  it("gives a card its cable's rate, in PFC and DCQCN too, and a switch those of its ports", () => {
    const plan = planOf(
      "name: x\nhosts: { a: {}, b: {}, c: {} }\nfabric:\n" +
        "  { topology: explicit, switches: [s1, s2], uplinks: { rate: 400Gbps }, pfc: on, dcqcn: on,\n" +
        "    cables: [a/s1, { ends: b/s1:3, rate: 40Gbps }, c/s2, { ends: s1/s2, rate: 100Gbps }] }",
    );
    const rates = ["a-rnic", "b-rnic", "c-rnic"].map((name) => {
      const { bitsPerSecond, congestion } = node(plan, name, "rnic").config;
      return [bitsPerSecond, congestion!.bitsPerSecond];
    });
    assert.deepEqual(rates, [[100e9, 100e9], [40e9, 40e9], [100e9, 100e9]]);
    const s1 = node(plan, "s1", "switch").config;
    assert.deepEqual(s1.portRates, [100e9, 100e9, 0, 40e9], "port 2 has no cable");
    const its = s1.congestion!.pfc!.ports;
    assert.deepEqual(its.map((port) => port.bitsPerSecond), [100e9, 100e9, 1, 40e9]);
    assert.ok(its[3]!.headroomBytes < its[0]!.headroomBytes, "a slower cable holds less");
    assert.equal(node(plan, "s2", "switch").config.portRates, undefined, "all have one rate");
  });

  it("numbers addresses and MACs by sorted host names, and the switch forwards to them", () => {
    const plan = planOf("name: x\nhosts: { z: {}, a: {} }");
    assert.deepEqual(plan.addresses, { a: 0x0a00_0001, z: 0x0a00_0002 });
    const rnic = node(plan, "z-rnic", "rnic").config;
    assert.deepEqual([rnic.address, rnic.mac, rnic.host], [0x0a00_0002, 0x0200_0000_0002, "z"]);
    const { forwarding, ports } = node(plan, "tor", "switch").config;
    assert.deepEqual([forwarding, ports], [[[0x0200_0000_0001, 0], [0x0200_0000_0002, 1]], 2]);
  });

  it("starts persistd on every host as a service, before the host's programs", () => {
    const plan = planOf(
      "name: x\nhosts: { a: {}, b: {}, c: { services: none } }\n" +
        "programs: [{ on: a, run: put, at: 2us, to: b, file: f, size: 128, pause: 3us, weight: 3, privileged: true }]",
    );
    assert.deepEqual(node(plan, "a", "host").config.programs, [
      { run: "persistd", at: 0, service: true, serves: true, options: {} },
      {
        run: "put",
        at: 2_000_000,
        service: false,
        privileged: true,
        weight: 3,
        options: { to: "b", file: "f", size: 128, pauseUs: 3 },
      },
    ]);
    assert.deepEqual(node(plan, "c", "host").config.programs, []);
  });

  it("P-01 (in part): gives cards under whole-system persistence their bus latency, and the delay after which they detect a failure", () => {
    const plan = planOf("name: x\nhosts: { a: {}, b: { domain: wsp }, c: { domain: eadr } }");
    const bus = plan.cables.find(({ kind, a }) => kind === "bus" && a.node === "b")!;
    const noticePs = lookaheadPs(plan, bus, { near: bus.a, far: bus.b });
    const flushOnFail = { busLatencyPs: bus.latencyPs, noticePs };
    const found = ["a", "b", "c"].map((host) => {
      return node(plan, `${host}-rnic`, "rnic").config.flushOnFail;
    });
    assert.deepEqual(found, [undefined, flushOnFail, undefined]);
  });

  it("P-04 (in part): sets an LLC's eviction in its host's plan, and nothing where it is pseudo-LRU", () => {
    const hosts =
      "{ a: {}, b: { llc: { evict: plru } }, c: { llc: { size: 8KiB, ways: 4, evict: random } } }";
    const plan = planOf(`name: x\nhosts: ${hosts}`);
    const [a, b, c] = ["a", "b", "c"].map((host) => node(plan, host, "host").config.llc);
    assert.deepEqual(a, b);
    assert.equal(JSON.stringify(a).includes("evict"), false);
    assert.deepEqual(c, { bytes: 8192, ways: 4, ddioWays: 2, evict: "random" });
  });

  it("gives programs the regions of their host's SCM", () => {
    const plan = planOf(
      "name: x\nhosts: { a: { scm: { regions: { log: { at: 1MiB, size: 4KiB } } } } }\n" +
        "programs: [{ on: a, run: ./mine.ts, size: 5 }]",
    );
    const regions = { log: { at: 2 ** 20, bytes: 4096 } };
    assert.deepEqual(node(plan, "a", "host").config.programs.map(({ options }) => options), [
      { regions },
      { regions, size: 5 },
    ]);
  });

  it("cuts a host's power as the death of its process would: the host's alone", () => {
    const plan = star(2, "faults: [{ at: 1us, kill: h2 }, { at: 2us, start: h2 }]");
    assert.deepEqual(plan.faults.map(({ at, action, node }) => `${at} ${action} ${node}`), [
      "1000000 kill h2",
      "2000000 start h2",
    ]);
  });

  it("is plain data: it survives JSON, and the same text gives the same plan", () => {
    const plan = star(3, "until: 1ms\nseed: 3");
    assert.deepEqual(JSON.parse(JSON.stringify(plan)), plan);
    assert.equal(JSON.stringify(star(3, "until: 1ms\nseed: 3")), JSON.stringify(plan));
    assert.deepEqual([plan.until, plan.seed, plan.scenario], [1_000_000_000, 3, "x"]);
  });
});

describe("faults inside machines", () => {
  const FAULTS = `faults:
  - { scm: b, stuck: 64KiB, bit: 3, value: 0 }
  - { rnic: b, flip: 1%, where: bus, from: 1us, until: 2us, count: 4 }
  - { at: 5us, kill: a }
  - { rnic: b, flip: all, nth: 3 }
  - { scm: b, stuck: 9 }
  - { link: a, corrupt: 1%, past: icrc }
`;
  const plan = planOf(`name: x\nhosts: { a: {}, b: {} }\n${FAULTS}`);

  it("V-08 (in part): are part of their machine's plan alone, numbered by their places among each other", () => {
    assert.deepEqual(node(plan, "b-rnic", "rnic").config.flips, [
      { id: 1, where: "bus", at: 1e6, until: 2e6, share: 0.01, count: 4 },
      { id: 2, where: "buffer", at: 0, nth: 3 },
    ]);
    assert.deepEqual(node(plan, "b", "host").config.stuckBits, [
      { offset: 65_536, bit: 3, value: 0 },
      { offset: 9, bit: 0, value: 1 },
    ]);
    assert.ok(!("flips" in node(plan, "a-rnic", "rnic").config));
    assert.ok(!("stuckBits" in node(plan, "a", "host").config));
  });

  it("V-08 (in part): leave the faults of cables and power as they are", () => {
    assert.deepEqual(plan.linkFaults?.map(({ id, action, sealed }) => [id, action, sealed]), [
      [0, "corrupt", true],
    ]);
    assert.deepEqual(plan.faults.map(({ action, node }) => [action, node]), [["kill", "a"]]);
  });

  it("V-05 (in part): a host's history is its card's, on, off or in the scenario's words", () => {
    const history = (own: string, defaults = "{}") => {
      const text = `name: x\ndefaults: ${defaults}\nhosts: { a: {}, b: ${own} }\n`;
      return node(planOf(text), "b-rnic", "rnic").config.verifyHistory;
    };
    const usual = { thresholdPpm: 999_000, samples: 64, sampleOneIn: 16 };
    assert.equal(history("{}"), undefined);
    assert.deepEqual(history("{ verifyHistory: on }"), usual);
    assert.deepEqual(history("{ verifyHistory: { threshold: 99.95%, sample: 4 } }"), {
      ...usual,
      thresholdPpm: 999_500,
      sampleOneIn: 4,
    });
    assert.deepEqual(history("{}", "{ verifyHistory: on }"), usual);
    assert.equal(history("{ verifyHistory: off }", "{ verifyHistory: on }"), undefined);
  });
});

describe("faults inside RNICs", () => {
  it("V-08 (in part): are the first one's by a host's name, else of the one that is named", () => {
    const faults =
      "[{ rnic: b, flip: 1% }, { rnic: b-rnic2, flip: 2% }, { rnic: b-rnic, flip: 3% }]";
    const plan = planOf(`name: x\nhosts: { a: {}, b: { nics: 2 } }\nfaults: ${faults}`);
    const ids = (name: string) => node(plan, name, "rnic").config.flips?.map(({ id }) => id);
    assert.deepEqual([ids("b-rnic"), ids("b-rnic2"), ids("a-rnic")], [[0, 2], [1], undefined]);
  });
});

describe("partitionsOf", () => {
  it("packs a machine with all its RNICs", () => {
    const plan = planOf("name: x\nhosts: { a: { nics: 2 }, b: {} }");
    const machines = partitionsOf(plan, "machine").map(({ nodes }) => nodes.join(" "));
    assert.deepEqual(machines, ["a a-rnic a-rnic2", "b b-rnic", "tor"]);
  });

  const plan = star(2);
  it("packs each node, each machine, or all", () => {
    assert.deepEqual(partitionsOf(plan, "node").map(({ nodes }) => nodes), [
      ["h1"],
      ["h1-rnic"],
      ["h2"],
      ["h2-rnic"],
      ["tor"],
    ]);
    assert.deepEqual(partitionsOf(plan, "machine"), [
      { name: "h1", nodes: ["h1", "h1-rnic"] },
      { name: "h2", nodes: ["h2", "h2-rnic"] },
      { name: "tor", nodes: ["tor"] },
    ]);
    assert.deepEqual(partitionsOf(plan, "all"), [
      { name: "all", nodes: ["h1", "h1-rnic", "h2", "h2-rnic", "tor"] },
    ]);
  });
});

/** Delay of every cable direction, by `from>to`. */
function hops(plan: RackPlan): Map<string, number> {
  const nodes = new Map(plan.nodes.map((each) => [each.name, each]));
  const delays = new Map<string, number>();
  for (const cable of plan.cables) {
    for (const [near, far] of [[cable.a, cable.b], [cable.b, cable.a]] as const) {
      const target = nodes.get(far.node)!;
      const headOnly = target.kind === "switch" && target.config.mode === "cut-through";
      const delay = processingPs(nodes.get(near.node)!) + leastDelay({ ...cable, headOnly });
      delays.set(`${near.node}>${far.node}`, delay);
    }
  }
  return delays;
}

/** Least delay by trying every path between partitions, node by node; crossings only cost. */
function bruteForce(plan: RackPlan, partitions: readonly PartitionPlan[]): number[][] {
  const place = new Map(partitions.flatMap(({ nodes }, i) => nodes.map((name) => [name, i])));
  const edges = [...hops(plan)].map(([key, delay]) => {
    const [from, to] = key.split(">").map((name) => place.get(name)!) as [number, number];
    return { from, to, delay };
  }).filter(({ from, to }) => from !== to);
  return partitions.map((_, source) => {
    const best = partitions.map((_, i) => i === source ? 0 : Infinity);
    const open = [{ at: source, sum: 0, seen: new Set<number>() }];
    for (let walk = open.pop(); walk !== undefined; walk = open.pop()) {
      for (const { from, to, delay } of edges) {
        if (from !== walk.at || walk.seen.has(to)) continue;
        const sum = walk.sum + delay;
        best[to] = Math.min(best[to]!, sum);
        if (to !== source) open.push({ at: to, sum, seen: new Set([...walk.seen, to]) });
      }
    }
    return best;
  });
}

describe("delays between partitions", () => {
  it("are what every path through the rack adds up to, whatever the packing", () => {
    const racks = fc.record({
      hosts: fc.integer({ min: 1, max: 4 }),
      latency: fc.integer({ min: 1, max: 500 }),
      bus: fc.integer({ min: 1, max: 500 }),
      mode: fc.constantFrom("cut-through", "store-and-forward"),
      packing: fc.constantFrom("node" as const, "machine" as const, "all" as const),
    });
    fc.assert(
      fc.property(racks, ({ hosts, latency, bus, mode, packing }) => {
        const plan = star(
          hosts,
          `fabric: { latency: ${latency}ns, bus: { latency: ${bus}ns }, switch: { mode: ${mode} } }`,
        );
        const partitions = partitionsOf(plan, packing);
        const distances = new Distances(partitions.length, crossings(plan, partitions));
        for (const [from, row] of bruteForce(plan, partitions).entries()) {
          assert.deepEqual(row, row.map((_, to) => distances.between(from, to)));
        }
        const [{ name }] = partitions as [PartitionPlan];
        const delays = delaysTo(name, { plan, partitions });
        for (const [from, each] of partitions.entries()) {
          assert.equal(delays(each.name), distances.between(from, 0));
        }
      }),
      seeded({ numRuns: 40 }),
    );
  });
});

describe("processingPs", () => {
  it("is the fastest way a node can answer", () => {
    const plan = star(1, "fabric: { switch: { latency: 7ns } }");
    const { timing } = node(plan, "h1", "host").config;
    assert.equal(hostProcessingPs({ ...timing, mmioPs: 9, dmaReadLlcPs: 5 }), 5);
    assert.equal(hostProcessingPs({ ...timing, mmioPs: 3, dmaReadLlcPs: 5 }), 3);
    const rnic = node(plan, "h1-rnic", "rnic").config.timing;
    for (const part of ["receivePs", "schedulePs", "sendPs", "persistPs", "commandPs"] as const) {
      assert.equal(rnicProcessingPs({ ...rnic, [part]: 1 }), 1, part);
    }
    assert.equal(processingPs(node(plan, "tor", "switch")), 7_000);
  });
});
