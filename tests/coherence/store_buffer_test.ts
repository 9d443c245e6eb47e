/** Store buffers of cores (`memory: tso`) beside the rest of a host: private memory, other cores, the card, power. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { runRack } from "../../console/explore/rerun.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import type { Region, Steps } from "../../nodes/host/cpu/program.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { CHECKS, recordOfShared, sharedRack, sharedScenario } from "./shared_rack.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { ExploredRack } from "../../console/explore/types.ts";

interface Of {
  readonly drain?: string;
  readonly cores?: number;
  readonly faults?: readonly string[];
  readonly memory?: "sc" | "tso";
  readonly more?: string;
  readonly hosts?: readonly string[];
}

function rackOf(program: Program, of: Of = {}): ExploredRack {
  const { drain = "5us", faults = [], memory = "tso", more = "", hosts = ["a", "b"] } = of;
  const { cores = 4 } = of;
  const text = sharedScenario({ faults, more, hosts }).replace(
    "services: none",
    `services: none, cores: ${cores}, memory: ${memory}, timing: { host: { storeBuffer: ${drain} } }`,
  );
  const [variant] = variants(parseScenario(text, "shared.yaml"));
  return { ...sharedRack({ program, hosts }), plan: makePlan(variant!) };
}

function recorded(program: Program, of: Of = {}): RunRecord {
  return recordOfShared(rackOf(program, of));
}

/** No program has failed, and all checks hold. */
function assertRight(record: RunRecord): void {
  assert.deepEqual(record.reports.filter(({ topic }) => topic === "program-failed"), []);
  assert.deepEqual(CHECKS.flatMap((check) => check.check(record)), []);
}

function values<Value>({ reports }: RunRecord, topic: string): Value[] {
  return reports.filter((report) => report.topic === topic).map(({ value }) => value as Value);
}

const word = (value: number) => new Uint8Array(new BigUint64Array([BigInt(value)]).buffer);

function* look(region: Region, offset: number): Steps<number> {
  return (yield* region.load(offset, 8))[0]!;
}

const LATER_PS = 400 * PS_PER_US;

describe("a core's store buffer", () => {
  it("keeps a store from others for the modelled time, and lets it go without a fence", () => {
    const record = recorded(function* ({ cpu }) {
      const region = yield* cpu.region("s");
      yield* look(region, 0);
      yield* cpu.sleep(LATER_PS - cpu.now);
      if (cpu.host === "b") {
        yield* region.store(0, word(7));
        cpu.report("stored", cpu.now);
        return;
      }
      while ((yield* look(region, 0)) !== 7) yield* cpu.sleep(PS_PER_US / 10);
      cpu.report("seen", cpu.now);
    });
    assertRight(record);
    const [stored] = values<number>(record, "stored"), [seen] = values<number>(record, "seen");
    assert.ok(stored! < LATER_PS + PS_PER_US / 10, `the store took ${stored! - LATER_PS} ps`);
    assert.ok(seen! >= LATER_PS + 5 * PS_PER_US && seen! < LATER_PS + 9 * PS_PER_US, `${seen}`);
  });

  it("counts stores, loads that it answers, waits, and the most that it had", () => {
    const text = sharedScenario({ hosts: ["a", "b"] }).replace(
      "services: none",
      "services: none, memory: tso, timing: { host: { storeBuffer: 5us, storeBufferEntries: 3 } }",
    );
    const rack = new SimulatedRack(text, {
      programs: {
        "./shared.ts": function* ({ cpu }) {
          const region = yield* cpu.region("s");
          if (cpu.host === "a") return;
          for (let i = 0; i < 4; i++) yield* region.store(8 * i, word(i));
          yield* look(region, 24);
          yield* look(region, 40);
          yield* region.fence();
          yield* region.fence();
        },
      },
    });
    rack.run();
    const { storeBufferStores, storeBufferForwards, storeBufferWaits, storeBufferMost } = rack
      .simulator.statistics()["b"]!;
    // One wait for room, one at a fence.
    assert.deepEqual(
      [storeBufferStores, storeBufferForwards, storeBufferWaits, storeBufferMost],
      [4, 1, 2, 3],
    );
    assert.equal(rack.simulator.statistics()["a"]!["storeBufferStores"], 0);
  });

  it("makes a store wait where it is full", () => {
    const rack = rackOf(function* ({ cpu }) {
      if (cpu.host !== "b") return;
      const region = yield* cpu.region("s");
      yield* cpu.sleep(LATER_PS - cpu.now);
      for (let i = 0; i < 10; i++) yield* region.store(8 * (i % 8), word(i));
      cpu.report("stored", cpu.now);
      cpu.report("found", yield* look(region, 8));
      yield* region.fence();
      cpu.report("fenced", cpu.now);
    });
    const plan = {
      ...rack.plan,
      nodes: rack.plan.nodes.map((node) =>
        node.kind !== "host" ? node : {
          ...node,
          config: {
            ...node.config,
            timing: { ...node.config.timing, storeBufferEntries: 4 },
          },
        }
      ),
    };
    const record = recordOfShared(rack, plan);
    assertRight(record);
    const [stored] = values<number>(record, "stored");
    assert.ok(stored! > LATER_PS + 5 * PS_PER_US, "the fifth store has not waited");
    assert.deepEqual(values(record, "found"), [9]);
    const [fenced] = values<number>(record, "fenced");
    assert.ok(fenced! >= stored! + 5 * PS_PER_US);
  });

  it("has a load wait whose bytes are partly in its newest store, and not one whose bytes are all there", () => {
    const record = recorded(function* ({ cpu }) {
      if (cpu.host !== "b") return;
      const region = yield* cpu.region("s");
      yield* region.store(0, new Uint8Array(8).fill(1));
      yield* region.fence();
      yield* cpu.sleep(LATER_PS - cpu.now);
      yield* region.store(0, new Uint8Array(8).fill(2));
      yield* region.store(4, new Uint8Array(2).fill(3));
      cpu.report("part", [...yield* region.load(4, 2)]);
      cpu.report("at", cpu.now);
      cpu.report("whole", [...yield* region.load(0, 8)]);
      cpu.report("at", cpu.now);
    });
    assertRight(record);
    assert.deepEqual(values(record, "part"), [[3, 3]]);
    assert.deepEqual(values(record, "whole"), [[2, 2, 2, 2, 3, 3, 2, 2]]);
    const [part, whole] = values<number>(record, "at");
    assert.ok(part! < LATER_PS + PS_PER_US && whole! >= LATER_PS + 5 * PS_PER_US);
  });

  it("keeps private stores behind stores to regions: other cores of the host see neither alone", () => {
    for (const drain of ["0ps", "5us"]) {
      const record = recorded(function* ({ cpu }) {
        if (cpu.host !== "b") return;
        const region = yield* cpu.region("s");
        const flag = cpu.allocate(64);
        yield* look(region, 0);
        cpu.spawn("other", function* ({ cpu: own }) {
          while (own.load(flag.address, 8)[0] === 0) yield* own.sleep(PS_PER_US / 20);
          own.report("other", { at: own.now, found: yield* look(region, 0) });
        });
        yield* cpu.sleep(LATER_PS - cpu.now);
        yield* region.store(0, word(1));
        cpu.store(flag.address, word(2));
        cpu.store(flag.address + 4, new Uint8Array([3]));
        cpu.report("own", [...cpu.load(flag.address, 8)]);
      }, { drain });
      assertRight(record);
      assert.deepEqual(values(record, "own"), [[2, 0, 0, 0, 3, 0, 0, 0]]);
      const [{ at, found } = { at: 0, found: 0 }] = values<{ at: number; found: number }>(
        record,
        "other",
      );
      assert.equal(found, 1);
      if (drain === "5us") assert.ok(at > LATER_PS + 5 * PS_PER_US, `seen at ${at}`);
    }
  });

  it("empties before a flush of its lines, and before private memory is persistent", () => {
    const record = recorded(function* ({ cpu }) {
      if (cpu.host !== "a") return;
      const region = yield* cpu.region("s");
      yield* cpu.sleep(LATER_PS - cpu.now);
      yield* region.store(0, word(1));
      yield* region.flush(64, 64);
      cpu.report("other line", cpu.now);
      yield* region.flush(0, 64);
      cpu.report("its line", cpu.now);
      yield* region.store(64, word(2));
      const { address } = cpu.scm;
      cpu.store(address + 4096, word(3));
      cpu.ntstore(address + 4104, word(4));
      yield* cpu.sfence();
      cpu.report("persistent", cpu.now);
    });
    assertRight(record);
    const at = (topic: string) => values<number>(record, topic)[0]! - LATER_PS;
    assert.ok(at("other line") < 5 * PS_PER_US && at("its line") >= 5 * PS_PER_US);
    assert.ok(at("persistent") >= at("its line") + 5 * PS_PER_US);
    const scm = record.scm("a")!;
    assert.deepEqual([...scm.read(4096, 4112)], [...word(3), ...word(4)]);
  });

  it("is lost when the power fails, and what had left it is not", () => {
    const rack = rackOf(function* ({ cpu }) {
      const region = yield* cpu.region("s");
      yield* cpu.sleep(LATER_PS - cpu.now);
      if (cpu.host === "b") {
        yield* region.store(0, word(1));
        yield* region.fence();
        yield* region.store(64, word(2));
        cpu.report("stored", [yield* look(region, 0), yield* look(region, 64)]);
        return;
      }
      yield* cpu.sleep(60 * PS_PER_US);
      cpu.report("left", yield* look(region, 64));
    }, { drain: "20us", faults: ["{ at: 430us, kill: b }"] });
    const record = recordOfShared(rack);
    assertRight(record);
    assert.deepEqual(values(record, "stored"), [[1, 2]]);
    assert.deepEqual(values(record, "left"), [0]);
  });

  it("tells the next call of a store that its card has lost", () => {
    const record = recorded(function* ({ cpu }) {
      if (cpu.host !== "b") return;
      const region = yield* cpu.region("s");
      yield* cpu.sleep(LATER_PS - cpu.now);
      yield* region.store(0, word(1));
      yield* region.store(64, word(2));
      try {
        yield* region.fence();
        cpu.report("told", "nothing");
      } catch (error) {
        const { name, ranges } = error as Error & { ranges?: unknown };
        cpu.report("told", { name, ranges });
      }
      yield* cpu.sleep(100 * PS_PER_US);
      yield* region.store(0, word(3));
      yield* region.fence();
      cpu.report("again", yield* look(region, 0));
    }, { faults: ["{ at: 402us, kill: b-rnic }", "{ at: 440us, start: b-rnic }"] });
    assertRight(record);
    assert.deepEqual(values(record, "told"), [{
      name: "RegionFenced",
      ranges: [{ offset: 0, length: 8 }, { offset: 64, length: 8 }],
    }]);
    assert.deepEqual(values(record, "again"), [3]);
  });

  for (const cores of [1, 4]) {
    it(`registers the region again for a store whose card has begun anew, and goes on: cores: ${cores}`, () => {
      const record = recorded(function* ({ cpu }) {
        const region = yield* cpu.region("s");
        yield* cpu.sleep(LATER_PS - cpu.now);
        if (cpu.host === "b") {
          yield* region.store(0, word(1));
          cpu.report("stored", cpu.now);
          // The driver needs the core that waits here, where there is no other.
          yield* region.fence();
          cpu.report("own", yield* look(region, 0));
          return;
        }
        yield* cpu.sleep(300 * PS_PER_US);
        cpu.report("left", yield* look(region, 0));
      }, {
        cores,
        drain: "50us",
        faults: ["{ at: 402us, kill: b-rnic }", "{ at: 405us, start: b-rnic }"],
      });
      assertRight(record);
      assert.deepEqual([...values(record, "own"), ...values(record, "left")], [1, 1]);
    });
  }

  it("empties before a doorbell: who gets the message sees the store", () => {
    const record = recorded(function* ({ cpu, device }) {
      if (cpu.host !== "b") return;
      const region = yield* cpu.region("s");
      yield* cpu.sleep(LATER_PS - cpu.now);
      yield* region.store(0, word(1));
      yield* cpu.registerWrite(0, new Uint8Array(0));
      cpu.report("rung", { at: cpu.now, device: device !== undefined });
    });
    const [{ at } = { at: 0 }] = values<{ at: number }>(record, "rung");
    assert.ok(at >= LATER_PS + 5 * PS_PER_US, `${at}`);
  });

  it("is given back at an orderly shutdown", () => {
    const record = recorded(function* ({ cpu }) {
      const region = yield* cpu.region("s");
      yield* cpu.sleep(LATER_PS - cpu.now);
      if (cpu.host === "b") {
        yield* region.store(0, word(5));
        return;
      }
      yield* cpu.sleep(300 * PS_PER_US);
      cpu.report("left", yield* look(region, 0));
    }, { drain: "30us", faults: ["{ at: 401us, shutdown: b }"] });
    assertRight(record);
    assert.deepEqual(values(record, "left"), [5]);
  });

  it("wakes a wait for a change behind a load that it has answered", () => {
    const record = recorded(function* ({ cpu }) {
      const region = yield* cpu.region("s");
      yield* cpu.sleep(LATER_PS - cpu.now);
      if (cpu.host === "b") {
        yield* region.store(0, word(1));
        cpu.report("own", yield* look(region, 0));
        yield* cpu.sleep(40 * PS_PER_US);
        const told = yield* region.waitChange(0, 8, cpu.now + 50 * PS_PER_US);
        cpu.report("told", [told, yield* look(region, 0)]);
        return;
      }
      yield* cpu.sleep(20 * PS_PER_US);
      yield* region.store(0, word(2));
    });
    assertRight(record);
    assert.deepEqual(values(record, "own"), [1]);
    assert.deepEqual(values(record, "told"), [["changed", 2]]);
  });

  it("is not there with `memory: sc`: each store is visible when it returns", () => {
    const rack = rackOf(function* ({ cpu }) {
      if (cpu.host !== "b") return;
      const region = yield* cpu.region("s");
      yield* region.store(0, word(1));
    }, { memory: "sc" });
    const { notes } = runRack(rack);
    assert.ok(!notes.some(({ note }) => note.kind === "buffered" || note.kind === "store-fence"));
    assert.ok(!notes.some(({ note }) => note.kind === "access" && note.core !== undefined));
  });
});
