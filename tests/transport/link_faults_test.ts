/**
 * Cables that lose, damage, double, reorder and delay frames, and cuts that heal: what was reported is
 * there, a file is whole in the end by every method, and a record of orders replays them. That the digest
 * of such a run knows nothing of packing: `tests/rig/determinism_test.ts`.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import type { Supervisor } from "../../console/rack/supervisor.ts";
import type { Bus } from "../../fabric/bus/bus.ts";
import { decode, encode } from "../../fabric/bus/codec.ts";
import { USERS } from "../../fabric/bus/access.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { subjectOf } from "../../fabric/bus/subjects.ts";
import type { LinkFaultRequest } from "../../fabric/rack/plan/link_plan.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import type { PutResult } from "../../console/checks/survival.ts";
import { firstLoss, isPutResult } from "../../console/checks/survival.ts";
import { faultRows } from "../../console/reports/fault_report.ts";
import { recordedIn } from "../../console/rack/fault_lines.ts";
import { CommandRig } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { contentOf, RackBench, type RunOf, type RunPlace } from "../support/process_rack.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SCENARIOS = new URL("../../scripts/scenarios/", import.meta.url);
const FILE_BYTES = 128 * 1024;

interface Put {
  readonly method: string;
  readonly faults: readonly string[];
  readonly ddio?: "on" | "off";
  readonly fabric?: string;
  /** Of the two hosts, in a network with leaves. */
  readonly leaves?: readonly [number, number];
  readonly seed?: number;
}

function scenarioOf(
  { method, faults, ddio = "off", fabric = "{}", leaves, seed = 7 }: Put,
): string {
  const [a, b] = (leaves ?? []).map((leaf) => `leaf: ${leaf}, `);
  return `name: faulty
seed: ${seed}
fabric: ${fabric}
hosts: { a: { ${a ?? ""} }, b: { ${b ?? ""}ddio: ${ddio}, scm: { size: 1MiB } } }
programs: [{ on: a, run: put, to: b, method: ${method}, file: data, depth: 8, size: 2KiB }]
faults: [${faults.join(", ")}]
`;
}

interface Done {
  readonly rack: SimulatedRack;
  readonly put: PutResult;
  readonly survived: Uint8Array;
  /** Frames that each fault took. */
  readonly hits: readonly number[];
}

const FILE = contentOf(FILE_BYTES);

/** Runs to the end and cuts the power: what is in the SCM then. */
function run(of: Put): Done {
  const rack = new SimulatedRack(scenarioOf(of), { inputs: { data: FILE } }).run();
  const [put] = rack.reported("result", "a") as readonly unknown[];
  assert.ok(isPutResult(put), "put reports a result");
  const { scmOffset, length } = put.object;
  const survived = rack.scm.get("b")!.slice(scmOffset, scmOffset + length);
  const finals = [{ linkFaults: rack.simulator.linkFaultCounts() }];
  const hits = faultRows("", { plan: rack.plan, finals }).map(({ hit }) => hit);
  return { rack, put, survived, hits };
}

/** All went well: nothing that was reported is missing, and what promises persistence is whole. */
function isWell({ put, survived }: Done): void {
  assert.equal(put.status, "done", put.error);
  if (put.promises) assert.equal(put.confirmedMessages, put.messages);
  assert.equal(firstLoss(put, FILE, survived), undefined);
  if (put.promises) assert.deepEqual(survived, FILE);
}

/** From when the first message is posted, in every method. */
const FROM = "from: 205us";
const MIX = [
  `{ link: a, loss: 2%, ${FROM} }`,
  `{ link: b, corrupt: 3%, ${FROM} }`,
  `{ link: a, duplicate: 2%, ${FROM} }`,
  `{ link: b, reorder: 2%, by: 2, hold: 20us, ${FROM} }`,
  `{ link: a, delay: 2us, jitter: 1us, share: 10%, ${FROM} }`,
];
const KINDS = ["loss", "corrupt", "duplicate", "reorder", "delay"];

describe("a put over a cable that does wrong", () => {
  for (const method of METHODS) {
    for (const ddio of ["off", "on"] as const) {
      it(`ends whole by ${method}, DDIO ${ddio}, whatever the cable does to frames`, () => {
        const sum = KINDS.map(() => 0);
        for (let seed = 1; seed <= 4; seed++) {
          const done = run({ method, ddio, faults: MIX, seed });
          isWell(done);
          done.hits.forEach((hit, i) => sum[i]! += hit);
        }
        KINDS.forEach((kind, i) => assert.ok(sum[i]! > 0, `no ${kind}`));
      });

      // Over a cut a method only waits until RC sends again: a WRITE that persists and a SEND do for all.
      if (method !== "persist-opcode" && method !== "send-flush") continue;
      it(`ends whole by ${method}, DDIO ${ddio}, over a cut that heals`, () => {
        const faults = ["{ at: 208us, cut: a-rnic/tor }", "{ at: 250us, heal: a-rnic/tor }"];
        const done = run({ method, ddio, faults });
        isWell(done);
        assert.ok(done.put.endPs > 250_000_000, "the cut was in its way");
      });

      it(`ends whole by ${method}, DDIO ${ddio}, over a cut of one way that nobody notices`, () => {
        const faults = ["{ at: 206us, cut: tor->b-rnic }", "{ at: 250us, heal: tor->b-rnic }"];
        const done = run({ method, ddio, faults });
        isWell(done);
        assert.ok(done.hits[0]! > 0, "frames were lost");
        assert.ok(done.put.endPs > 250_000_000);
      });
    }
  }

  it("loses the one acknowledgement that was asked for", () => {
    const faults = ['{ link: b-rnic->tor, loss: all, nth: 3, only: "RC ACKNOWLEDGE" }'];
    const done = run({ method: "persist-opcode", faults });
    isWell(done);
    assert.deepEqual(done.hits, [1]);
  });

  it("fails where the cable is never healed, and has lost nothing that it reported", () => {
    const done = run({ method: "persist-opcode", faults: ["{ at: 212us, cut: a }"] });
    assert.equal(done.put.status, "failed");
    assert.ok(done.put.confirmedMessages < done.put.messages);
    assert.equal(firstLoss(done.put, FILE, done.survived), undefined);
  });
});

describe("a leaf–spine fabric", () => {
  const fabric = "{ topology: leaf-spine, leaves: 2, spines: 2, cables: 2 }";
  const trunks = ["leaf1/spine1#1", "leaf1/spine1#2", "leaf1/spine2#1", "leaf1/spine2#2"];

  it("reaches everybody over any cable that is left to each spine", () => {
    for (const left of [[0, 2], [0, 3], [1, 2], [1, 3]]) {
      const cuts = trunks.filter((_, i) => !left.includes(i));
      const faults = cuts.map((trunk) => `{ at: 1us, cut: ${trunk} }`);
      isWell(run({ method: "persist-opcode", fabric, faults }));
    }
  });

  it("goes around a spine that has lost a leaf, near or far, before and in the middle", () => {
    const single = "{ topology: leaf-spine, leaves: 2, spines: 2 }";
    for (const trunk of ["leaf1/spine1", "leaf1/spine2", "leaf2/spine1", "leaf2/spine2"]) {
      for (const at of ["1us", "208us"]) {
        const faults = [`{ at: ${at}, cut: ${trunk} }`];
        isWell(run({ method: "write-send", fabric: single, faults }));
      }
      const faults = [`{ at: 208us, cut: ${trunk} }`, `{ at: 240us, heal: ${trunk} }`];
      isWell(run({ method: "persist-opcode", fabric: single, faults }));
    }
  });

  it("goes around a spine without power, also from a leaf that comes back while it is off", () => {
    const single = "{ topology: leaf-spine, leaves: 2, spines: 2 }";
    for (const spine of ["spine1", "spine2"]) {
      const faults = [
        `{ at: 1us, kill: ${spine} }`,
        "{ at: 2us, kill: leaf1 }",
        "{ at: 50us, start: leaf1 }",
      ];
      isWell(run({ method: "write-send", fabric: single, faults }));
    }
  });

  it("goes on when a cable of a spine is cut in the middle, whichever it is", () => {
    const whole = run({ method: "write-send", fabric, faults: [] }), { startPs, endPs } = whole.put;
    let longest = 0;
    for (const trunk of trunks) {
      for (const share of [0.05, 0.25, 0.6]) {
        const at = Math.round(startPs + share * (endPs - startPs));
        const done = run({
          method: "write-send",
          fabric,
          faults: [`{ at: ${at}ps, cut: ${trunk} }`],
        });
        isWell(done);
        longest = Math.max(longest, done.put.endPs);
      }
    }
    assert.ok(longest > whole.put.endPs, "one of them was in use");
  });
});

describe("a fat tree", () => {
  const fabric = "{ topology: fat-tree, k: 4, uplinks: { rate: 400Gbps, latency: 100ns } }";
  const tree = { method: "write-send", fabric, leaves: [1, 3] } as const;
  /** Of the four ways from a to b. */
  const trunks = [
    ...["edge1/agg1", "edge1/agg2", "edge3/agg3", "edge3/agg4"],
    ...["agg1/core1", "agg1/core2", "agg2/core3", "agg2/core4"],
    ...["agg3/core1", "agg3/core2", "agg4/core3", "agg4/core4"],
  ];
  const cutOf = (trunk: string, at = "1us") => `{ at: ${at}, cut: ${trunk} }`;

  it("goes around any cable that is cut, near or far, before and in the middle", () => {
    let longest = 0;
    for (const trunk of trunks) {
      for (const at of ["1us", "208us"]) {
        const done = run({ ...tree, faults: [cutOf(trunk, at)] });
        isWell(done);
        longest = Math.max(longest, done.put.endPs);
      }
    }
    const whole = run({ ...tree, faults: [] });
    assert.ok(longest > whole.put.endPs, "one of them was in use");
  });

  it("goes the one way that is left, whichever it is", () => {
    const [near, far] = [trunks.slice(0, 2), trunks.slice(2, 4)];
    for (let core = 1; core <= 4; core++) {
      const place = core <= 2 ? 0 : 1;
      const used = [
        near[place]!,
        far[place]!,
        `agg${1 + place}/core${core}`,
        `agg${3 + place}/core${core}`,
      ];
      const faults = trunks.filter((trunk) => !used.includes(trunk)).map((each) => cutOf(each));
      isWell(run({ ...tree, faults }));
    }
  });

  it("goes around a core and an aggregation switch without power", () => {
    for (const node of ["core1", "agg2", "agg3"]) {
      isWell(run({ ...tree, faults: [`{ at: 208us, kill: ${node} }`] }));
    }
  });

  it("has no way where the last cable is cut, and comes back with it", () => {
    const faults = trunks.slice(2, 4).map((each) => cutOf(each, "208us"));
    const lost = run({ ...tree, faults });
    assert.equal(lost.put.status, "failed");
    const heals = trunks.slice(2, 3).map((each) => `{ at: 1ms, heal: ${each} }`);
    isWell(run({ ...tree, faults: [...faults, ...heals] }));
  });
});

describe("faults of cables, over processes", () => {
  let bench: RackBench;
  beforeAll(async () => {
    bench = await RackBench.open();
  });
  afterAll(() => bench.close());

  it("ordered in the middle of a run are replayed by its record to the same digest", async () => {
    const run: RunOf = {
      scenario: new URL("persist_pair.yaml", SCENARIOS),
      method: "write-send",
      ddio: "on",
      inputBytes: 256 * 1024,
    };
    const act = async (rack: Supervisor, place: RunPlace) => {
      const bus = await connectNats({
        ...bench.server.address,
        run: place.run,
        name: "orders",
        onError: () => {},
      });
      const order = (fault: LinkFaultRequest) => ordered(bus, { run: place.run, fault });
      const { cables } = LOSSY_CABLES;
      const control = (verb: string) => {
        const subject = subjectOf({ kind: "control", run: place.run, verb });
        return eventually(verb, () =>
          bus.request(subject, encode({}), PATIENCE).then(
            () => true,
            () => false,
          ));
      };
      // Virtual time is faster than orders: a cut would outlast what RC tries again.
      await control("pause");
      await order({ action: "loss", ...cables.a, share: 0.05 });
      const at = await order({ action: "cut", ...cables.b });
      await order({ action: "heal", ...cables.b, at: at + 40 * PS_PER_US });
      rack.kill("timekeeper");
      await control("resume");
      await bus.close();
    };
    const ran = await bench.run({ ...run, delayMsMax: 2, midway: { share: 0.1, act } });
    for (const put of ran.puts) assert.equal(put.status, "done", put.error);
    const { linkFaults } = recordedIn(ran.outcome.directory);
    assert.deepEqual(linkFaults.map(({ action }) => action), ["loss", "cut", "heal"]);
    const replayed = await bench.run({ ...run, linkFaults, packing: "all" });
    assert.equal(replayed.outcome.digest, ran.outcome.digest);
    const healthy = await bench.run({ ...run, packing: "all" });
    assert.notEqual(healthy.outcome.digest, ran.outcome.digest);
  });
});

describe("rack link on a rack that is up", () => {
  let rig: CommandRig;
  beforeAll(async () => {
    rig = await CommandRig.open();
  });
  afterAll(() => rig.closeDown());

  const PAIR = new URL("persist_pair.yaml", SCENARIOS).pathname;
  const WRITES = ["--only", "VENDOR WRITE VERIFY", "--nth", "3"];

  const said = (...args: string[]) => rig.must(args, { cwd: rig.cache });

  async function refusal(...args: string[]): Promise<string> {
    const { code, stderr } = await rig.run(args, { cwd: rig.cache });
    assert.equal(code, 64, stderr);
    return stderr;
  }

  /** Puts the file under a name by a verified write that persists: what its check has caught. */
  async function caughtOf(name: string): Promise<Record<string, number>> {
    const args = ["put", "--to", "b", "data", "--as", name, "--method", "verify-persist", "--json"];
    const put = JSON.parse(await said(...args)) as PutResult;
    assert.equal(put.confirmedMessages, put.messages);
    await said("get", "--from", "b", name, "copy");
    assert.deepEqual(await Deno.readFile(`${rig.cache}/copy`), FILE, "it is whole in the end");
    return { ...put.verified!.caught, rewrites: put.verified!.rewrites };
  }

  it("V-08: corrupt --past icrc is damage that the ICRC does not show, and a verified write does", async () => {
    await rig.file("data", FILE);
    await said("up", PAIR, "--ddio", "off");
    const corrupt = ["link", "corrupt", "a-rnic->tor", "all", ...WRITES];
    assert.match(await refusal(...corrupt, "--past", "fcs"), /--past is "fcs": expected icrc/);
    assert.match(await refusal("link", "loss", "a", "1%", "--past", "icrc"), /unknown option/);

    const nothing = { "crc-mismatch": 0, "read-back-differs": 0, "read-failed": 0, rewrites: 0 };
    await said(...corrupt);
    assert.deepEqual(await caughtOf("stale"), nothing, "its frame is dropped, and sent again");
    await said("link", "heal", "a-rnic->tor");
    await said(...corrupt, "--past", "icrc");
    assert.deepEqual(await caughtOf("sealed"), { ...nothing, "crc-mismatch": 1, rewrites: 1 });

    const rows = JSON.parse(await said("link", "ls", "--json")) as ReturnType<typeof faultRows>;
    assert.deepEqual(rows.map(({ hit }) => hit), [1, 1]);
    assert.deepEqual(rows.map(({ terms }) => /past icrc/.test(terms)), [false, true]);
  });
});

/** Cables of a star of two: their RNICs' to the switch, after the two buses. */
const LOSSY_CABLES = {
  cables: { a: { cable: 2, direction: "both" }, b: { cable: 3, direction: "both" } },
} as const;

const PATIENCE = { by: USERS.timekeeper, timeoutMs: 500 };

/** Orders as the command does: again, until it is told when the fault takes effect. */
async function ordered(bus: Bus, of: { run: string; fault: LinkFaultRequest }): Promise<Time> {
  const token = crypto.randomUUID();
  const subject = subjectOf({ kind: "control", run: of.run, verb: "link" });
  let at: unknown;
  await eventually("the order is carried out", async () => {
    const request = bus.request(subject, encode({ token, fault: of.fault }), PATIENCE);
    const answer = await request.then(decode, () => ({})) as Readonly<Record<string, unknown>>;
    assert.equal(answer["error"], undefined);
    at = answer["at"];
    return typeof at === "number";
  });
  return Number(at);
}
