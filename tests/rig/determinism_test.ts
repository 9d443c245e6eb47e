/**
 * The same scenario and the same seed give the same digest (DESIGN §3), however the rack is packed
 * into processes, and whatever happens to them, to the broker and to the machine meanwhile.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { writeCaptures } from "../../console/captures/captures.ts";
import { deviceFaultRows } from "../../console/reports/device_fault_report.ts";
import { faultRows } from "../../console/reports/fault_report.ts";
import { lifeLine, RackBench, type Ran, type RunOf } from "../support/process_rack.ts";

const SCENARIOS = new URL("../../scripts/scenarios/", import.meta.url);
const PAIR: RunOf = {
  scenario: new URL("persist_pair.yaml", SCENARIOS),
  method: "persist-opcode",
  inputBytes: 16 * 1024,
  size: 1024,
  depth: 4,
};
/** `b` dies in the middle of the transfer, at 240 us. */
const PAIR_KILL: RunOf = {
  ...PAIR,
  scenario: new URL("persist_pair_kill.yaml", SCENARIOS),
  inputBytes: 512 * 1024,
  size: 4096,
  depth: 8,
};

/**
 * All that draws, counts or orders at once: two writers that congest a fabric of several paths, cables
 * that do wrong, a card that damages what it verifies, and captures of it.
 */
const FAULTY: RunOf = {
  scenario: `
name: faulty
seed: 3
fabric:
  topology: leaf-spine
  leaves: 2
  spines: 2
  cables: 1
  pfc: { xoff: 16KiB, xon: 8KiB }
  ecn: { kmin: 4KiB, kmax: 16KiB, pmax: 0.5 }
  dcqcn: on
hosts:
  a: { leaf: 1 }
  b: { leaf: 2, ddio: off, scm: { size: 1MiB }, verifyHistory: { samples: 4, sample: 2 } }
  c: { leaf: 1 }
programs:
  - { on: a, run: put, to: b, name: x, bytes: 48KiB, size: 4KiB, depth: 8, method: verify-persist, rewrites: 20 }
  - { on: c, run: put, to: b, name: y, bytes: 128KiB, size: 8KiB, depth: 16, method: verify-persist, rewrites: 20 }
faults:
  - { rnic: b, flip: 5%, where: buffer }
  - { rnic: b, flip: 5%, where: checked, until: 300us }
  - { link: a, corrupt: 5%, past: icrc, only: "VENDOR WRITE VERIFY" }
  - { link: b, loss: 2%, from: 200us }
  - { link: b, duplicate: 2%, from: 200us }
  - { link: c, corrupt: 2%, from: 200us }
  - { link: b, delay: 3us, jitter: 1us, share: 10%, from: 205us }
  - { link: c, reorder: 3%, by: 2, hold: 20us, from: 200us }
  - { at: 230us, cut: leaf2->b-rnic }
  - { at: 236us, heal: leaf2->b-rnic }
`,
  observe: "frames",
};

/**
 * Fabrics of several tiers: frames that are stored for faster ports, routes that are withdrawn hop by hop, and
 * congestion between cables of different rates. A tree of k 2, and cables as listed, with loops.
 */
const FABRICS: Readonly<Record<string, RunOf>> = {
  "a fat tree of two rates": {
    scenario: `
name: tree
seed: 5
fabric: { topology: fat-tree, k: 2, uplinks: { rate: 400Gbps, latency: 100ns }, pfc: on, ecn: on }
hosts: { a: {}, b: { ddio: off, scm: { size: 1MiB } } }
programs:
  - { on: a, run: put, to: b, name: x, bytes: 48KiB, size: 4KiB, depth: 8, method: persist-opcode }
faults:
  - { at: 205us, cut: agg1/core1 }
  - { at: 600us, heal: agg1/core1 }
`,
  },
  "cables as listed": {
    scenario: `
name: listed
seed: 5
fabric:
  topology: explicit
  switches: s1..s3
  cables:
    - a/s1:5
    - { ends: b/s2, rate: 40Gbps }
    - c/s3
    - { ends: s1/s2, count: 2, rate: 200Gbps }
    - { ends: s1..s2/s3, rate: 40Gbps, latency: 1us }
  pfc: { xoff: 16KiB, xon: 8KiB }
hosts: { a: {}, b: { ddio: off, scm: { size: 1MiB } }, c: {} }
programs:
  - { on: a, run: put, to: b, name: x, bytes: 48KiB, size: 4KiB, depth: 8, method: persist-opcode }
  - { on: c, run: put, to: b, name: y, bytes: 48KiB, size: 4KiB, depth: 8, method: write-read }
faults:
  - { at: 205us, cut: s1/s2#1 }
  - { at: 210us, cut: s1/s2#2 }
  - { at: 600us, heal: s1/s2#1 }
`,
  },
};

const DDIO = ["off", "on"] as const;

describe("Determinism: the same scenario and seed give the same digest", () => {
  let bench: RackBench;
  const references = new Map<string, string>();

  /** The digest of the same run in this process, without a bus. */
  function reference(run: RunOf): string {
    return references.get(key(run))!;
  }

  async function agrees(run: RunOf): Promise<Ran> {
    const ran = await bench.run(run);
    for (const put of ran.puts) assert.equal(put.status, "done", put.error);
    assert.equal(ran.outcome.digest, reference(run));
    return ran;
  }

  beforeAll(async () => {
    bench = await RackBench.open();
    for (const pair of [PAIR, PAIR_KILL]) {
      for (const ddio of DDIO) {
        const { outcome } = await bench.run({ ...pair, ddio, packing: "all" });
        references.set(key({ ...pair, ddio }), outcome.digest);
      }
    }
  });

  afterAll(() => bench.close());

  for (const [packing, ddio, processes] of [["node", "on", 6], ["machine", "off", 4]] as const) {
    it(`as a process per ${packing}, DDIO ${ddio}`, async () => {
      const { outcome } = await agrees({ ...PAIR, ddio, packing });
      assert.equal(outcome.processes, processes);
    });
  }

  it("with a random delay in every process before each of its spans", async () => {
    const { outcome } = await agrees({ ...PAIR, ddio: "on", delayMsMax: 5 });
    assert.ok(outcome.wallMs > 1_000, "the delays were there");
  });

  it("with other programs busy on every core of the machine", async () => {
    const others = Array.from(
      { length: navigator.hardwareConcurrency },
      () => new Deno.Command("sh", { args: ["-c", "while :; do :; done"] }).spawn(),
    );
    try {
      await agrees({ ...PAIR, ddio: "off" });
    } finally {
      for (const other of others) other.kill("SIGKILL");
      await Promise.all(others.map(({ status }) => status));
    }
  });

  it("with the timekeeper and nats-server killed, one after the other, more than once", async () => {
    const ran = await agrees({
      ...PAIR,
      ddio: "off",
      delayMsMax: 4,
      midway: {
        share: 0.1,
        act: async (rack) => {
          rack.kill("timekeeper");
          await bench.server.restart();
          rack.kill("timekeeper");
          await bench.server.restart();
        },
      },
    });
    assert.ok(lifeLine(ran).filter((each) => each === "timekeeper died").length >= 1);
  });

  for (const [packing, ddio] of [["node", "off"], ["machine", "on"]] as const) {
    it(`with a power failure and return by the scenario, a process per ${packing}, DDIO ${ddio}`, async () => {
      const ran = await bench.run({ ...PAIR_KILL, ddio, packing });
      const [put] = ran.puts;
      assert.equal(put?.status, "failed");
      assert.ok(put.confirmedMessages > 0 && put.confirmedMessages < put.messages);
      assert.equal(ran.outcome.digest, reference({ ...PAIR_KILL, ddio }));
      const b = lifeLine(ran).filter((each) => each.startsWith("b "));
      // A machine's nodes lose power one by one inside its process.
      assert.deepEqual(b, packing === "node" ? ["b died", "b started"] : []);
    });
  }

  it("V-08: under congestion and faults of cables and cards, with reports and captures the same", async () => {
    const one = await bench.run({ ...FAULTY, packing: "all" });
    const rows = ({ prepared: { plan }, outcome: { finals } }: Ran) => [
      ...faultRows("", { plan, finals }),
      ...deviceFaultRows("", { plan, finals }),
    ];
    for (const { terms, hit } of rows(one)) assert.ok(hit === null || hit > 0, terms);
    const capture = await captureOf(one);
    const ran = await bench.run({ ...FAULTY, packing: "node", delayMsMax: 2 });
    assert.equal(ran.outcome.digest, one.outcome.digest);
    assert.deepEqual(rows(ran), rows(one));
    assert.deepEqual(ran.puts, one.puts);
    assert.deepEqual(await captureOf(ran), capture);
    assert.deepEqual(one.puts.map(({ status }) => status), ["done", "done"]);
    assert.ok(one.puts.some(({ verified }) => (verified?.rewrites ?? 0) > 0), "damage was seen");
    const counters = Object.values(one.outcome.finals[0]!.statistics);
    for (const counter of ["ecnMarked", "rateCuts", "pausesOut", "retransmissions"]) {
      assert.ok(counters.some((of) => (of[counter] ?? 0) > 0), counter);
    }
  });

  it("with two RNICs a host, of which one fails, as devices, as machines and packed", async () => {
    const run: RunOf = { scenario: new URL("two_rails.yaml", SCENARIOS) };
    const one = await bench.run({ ...run, packing: "all" });
    for (const packing of ["machine", "node"] as const) {
      const many = await bench.run({ ...run, packing });
      assert.equal(many.outcome.digest, one.outcome.digest, packing);
    }
    const byName = new Map(one.rows.map((row, i) => [one.puts[i]!.object.name, row]));
    const told = [...byName].map((
      [name, { rnic, toRnic, messages, confirmed }],
    ) => [name, rnic, toRnic, confirmed === messages]);
    assert.deepEqual(told.sort(), [
      ["again", "a-rnic2", "b-rnic2", true],
      ["rail1", undefined, undefined, true],
      ["rail2", "a-rnic2", "b-rnic2", false],
    ]);
    assert.ok(byName.get("rail2")!.confirmed > 0, "it failed in the middle");
  });

  for (const [name, run] of Object.entries(FABRICS)) {
    it(`in ${name}, a process for each switch`, async () => {
      const one = await bench.run({ ...run, packing: "all" });
      const many = await bench.run({ ...run, packing: "node" });
      assert.equal(many.outcome.digest, one.outcome.digest);
      const inOrder = ({ puts }: Ran) => puts.toSorted((x, y) => x.startPs - y.startPs);
      assert.deepEqual(inOrder(many), inOrder(one));
      assert.ok(one.puts.every(({ status }) => status === "done"));
      const updates = Object.values(one.outcome.finals[0]!.statistics)
        .filter((counters) => (counters["routeUpdates"] ?? 0) > 0);
      assert.ok(updates.length > 0, "routes were withdrawn");
    });
  }

  async function captureOf({ prepared: { plan, label }, outcome: { directory } }: Ran) {
    const [path] = await writeCaptures([{ label, plan, directory }], { pcap: `${directory}/pcap` });
    return Deno.readFileSync(path!);
  }

  it("and another seed, another digest", async () => {
    const { outcome } = await bench.run({ ...PAIR, ddio: "off", packing: "all", seed: 8 });
    assert.notEqual(outcome.digest, reference({ ...PAIR, ddio: "off" }));
  });
});

function key({ scenario, ddio }: RunOf): string {
  return `${scenario} ${ddio}`;
}
