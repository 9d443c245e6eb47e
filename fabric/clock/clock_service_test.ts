import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { PATIENCE_MS } from "../base/patience.ts";
import { USERS } from "../bus/access.ts";
import type { Bus } from "../bus/bus.ts";
import { until } from "../bus/bus_contract.ts";
import { decode, decodeSealed, encode, encodeSealed } from "../bus/codec.ts";
import { createMemoryBroker, type MemoryBroker } from "../bus/memory_bus_testing.ts";
import { subjectOf } from "../bus/subjects.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import type { Recorded, RecordedFault } from "./record.ts";
import { ClockService, type ClockServiceOptions } from "./clock_service.ts";

/** A rack without nodes: it is quiet from the first. */
const EMPTY: RackPlan = {
  scenario: "empty",
  seed: 1,
  nodes: [],
  cables: [],
  faults: [],
  until: null,
  addresses: {},
};

const onError = (error: Error) => assert.fail(error);

/** A restarted timekeeper of one partition. */
function restarted(broker: MemoryBroker, options: Partial<ClockServiceOptions>): ClockService {
  return new ClockService({
    run: "r",
    bus: broker.connect({ onError }),
    plan: EMPTY,
    partitions: [{ name: "a", nodes: [] }],
    crossings: [],
    term: 1,
    recorded: [],
    inexact: false,
    stayUp: false,
    livenessMs: 0,
    wallMs: () => 0,
    ...options,
  });
}
const ASK = { by: USERS.timekeeper, timeoutMs: PATIENCE_MS };

describe("ClockService", () => {
  let broker: MemoryBroker;
  let bus: Bus;
  let service: ClockService;

  beforeEach(() => {
    broker = createMemoryBroker({ seed: 1 });
    bus = broker.connect({ onError });
    service = restarted(broker, { partitions: [], crossings: [], term: 0 });
  });

  afterEach(async () => {
    service.stop();
    await bus.close();
  });

  async function ask(verb: string, value: unknown): Promise<unknown> {
    const subject = subjectOf({ kind: "control", run: "r", verb });
    return decode(await bus.request(subject, encode(value), ASK));
  }

  it("goes on saying that the run has ended, as the bus may have lost it", async () => {
    await ask("resume", {});
    assert.ok(service.timekeeper.finished);
    const heard: unknown[] = [];
    const subject = subjectOf({ kind: "control", run: "r", verb: "finished" });
    bus.subscribe(subject, (payload) => heard.push(decodeSealed(payload)));
    await until(() => heard.length === 2);
    assert.deepEqual(heard[0], heard[1]);
  });

  it("refuses requests that are no maps, and counts them", async () => {
    for (const value of [null, 1, "b", [], [1], new Uint8Array(3)]) {
      for (const verb of ["status", "pause", "resume", "step", "pace", "death", "run"]) {
        assert.deepEqual(await ask(verb, value), { error: `Cannot ${verb}: malformed request` });
      }
    }
    assert.equal(service.status().refused, 42);
    assert.equal(service.timekeeper.paused, false);
    assert.equal(service.timekeeper.finished, false);
  });

  it("runs at the pace that was ordered last, also after a pause, a step and up to a time", async () => {
    service.stop();
    let ms = 0;
    service = restarted(broker, { term: 0, stayUp: true, wallMs: () => ms });
    service.timekeeper.join({ partition: "a", instance: "a-1" });
    const { timekeeper } = service;
    /** How far time may run, when it has been let run for 100 ms. */
    const limitLater = async () => {
      ms += 100;
      await until(() => timekeeper.limit > 0);
      return timekeeper.limit;
    };
    await ask("pace", { psPerSecond: 10_000 });
    await until(() => timekeeper.limit < Infinity);
    assert.deepEqual([service.status().limit, service.status().pace], [Infinity, 10_000]);
    assert.equal(await limitLater(), 1_000);
    await ask("pause", {});
    assert.equal(service.status().pace, 10_000);
    await ask("resume", {});
    assert.equal(timekeeper.limit, timekeeper.now, "it begins anew where time stands");
    assert.equal(await limitLater(), 1_000);
    await ask("step", { ps: 5 });
    await ask("resume", { until: 700 });
    assert.equal(service.status().limit, 700);
    assert.equal(await limitLater(), 700, "and not beyond the time that was named");
    await ask("pause", {});
    await ask("pace", { psPerSecond: 0 });
    assert.equal(service.status().paused, true, "a pace lets no time run that stands");
    await ask("resume", {});
    assert.equal(timekeeper.limit, Infinity);
  });

  it("answers with the processes that have power", async () => {
    service.stop();
    service = restarted(broker, { term: 0 });
    assert.partialDeepStrictEqual(await ask("faults", { from: 0 }), { powered: {} });
    service.timekeeper.join({ partition: "a", instance: "a-1" });
    assert.partialDeepStrictEqual(await ask("faults", { from: 0 }), { powered: { a: "a-1" } });
    const of = ["a", "a-1"];
    assert.partialDeepStrictEqual(await ask("faults", { from: 0, of }), { isOver: false });
    service.timekeeper.died("a", "a-1");
    assert.partialDeepStrictEqual(await ask("faults", { from: 0, of }), {
      powered: {},
      isOver: true,
    });
  });

  it("takes the word of a container's parent for its own process alone", async () => {
    await assert.rejects(ask("death-a", { partition: "a", instance: "a-1" }), /No subscriber/);
    service.stop();
    service = restarted(broker, {
      term: 0,
      livenessMs: 60_000,
      partitions: ["a", "b"].map((name) => ({ name, nodes: [] })),
      crossings: [{ from: 0, to: 1, delayPs: 1 }, { from: 1, to: 0, delayPs: 1 }],
    });
    for (const name of ["a", "b"]) {
      service.timekeeper.join({ partition: name, instance: `${name}-1` });
    }
    const forged = await ask("death-a", { partition: "b", instance: "b-1" });
    assert.deepEqual(forged, { error: "Cannot death-a: malformed request" });
    assert.equal(service.status().refused, 1);
    const own = await ask("death-a", { partition: "a", instance: "a-1" });
    assert.partialDeepStrictEqual(own, { ok: true, awaited: false });
    assert.deepEqual(service.timekeeper.powered, { b: "b-1" });
  });

  it("tells of a power failure and return as it is on record, by its number there", async () => {
    service.stop();
    const written: Recorded[] = [];
    const heard: unknown[] = [];
    const subject = subjectOf({ kind: "control", run: "r", verb: "power" });
    bus.subscribe(subject, (payload) => heard.push([written.length, decodeSealed(payload)]));
    const onRecord = (line: Recorded) => written.push(line);
    service = restarted(broker, { term: 0, stayUp: true, onRecord });
    service.timekeeper.join({ partition: "a", instance: "a-1" });
    service.timekeeper.died("a", "a-1");
    service.timekeeper.join({ partition: "a", instance: "a-2" });
    await until(() => heard.length === 2);
    const common = { partition: "a", nodes: [] };
    assert.deepEqual(heard, [
      [2, { number: 0, at: 0, action: "kill", ...common }],
      [2, { number: 1, at: 1, action: "start", ...common }],
    ]);
  });

  it("answers with the record of power failures and returns, from a number on", async () => {
    assert.deepEqual(await ask("faults", { from: 0 }), {
      ok: true,
      count: 0,
      faults: [],
      powered: {},
    });
    broker = createMemoryBroker({ seed: 1 });
    const config = { ports: 1, mode: "cut-through", latencyPs: 1, queueBytes: 1, forwarding: [] };
    const node = { name: "a", kind: "switch", config } as const;
    const common = { partition: "p", nodes: ["a"], settledSpan: 0, digests: [], sent: [] };
    const recorded: RecordedFault[] = [
      { ...common, at: 5, action: "kill", instance: "p-1", incarnation: 0 },
      { ...common, at: 9, action: "start", instance: "p-2", incarnation: 1 },
    ];
    service.stop();
    service = restarted(broker, {
      plan: { ...EMPTY, nodes: [node] } as unknown as RackPlan,
      partitions: [{ name: "p", nodes: ["a"] }],
      crossings: [],
      recorded,
      stayUp: true,
    });
    bus = broker.connect({ onError });
    const start = { at: 9, action: "start", partition: "p", nodes: ["a"] };
    assert.deepEqual(await ask("faults", { from: 1 }), {
      ok: true,
      count: 2,
      faults: [start],
      powered: {},
    });
    assert.deepEqual(service.timekeeper.died("p", "p-2"), true);
    const { count, faults } = await ask("faults", { from: 2 }) as {
      count: number;
      faults: { action: string }[];
    };
    assert.deepEqual([count, faults.map(({ action }) => action)], [3, ["kill"]]);
    assert.deepEqual(await ask("faults", { from: -1 }), {
      error: "Cannot faults: malformed request",
    });
  });

  it("takes a partition for dead that died before this timekeeper began, where no supervisor reports deaths", async () => {
    const config = { ports: 1, mode: "cut-through", latencyPs: 1, queueBytes: 1, forwarding: [] };
    const node = { name: "a", kind: "switch", config } as const;
    broker = createMemoryBroker({ seed: 1 });
    const records: Recorded[] = [];
    let ms = 0;
    const alone = restarted(broker, {
      plan: { ...EMPTY, nodes: [node] } as RackPlan,
      partitions: [{ name: "a", nodes: ["a"] }],
      livenessMs: 100,
      wallMs: () => ms += 5,
      onRecord: (fault) => records.push(fault),
    });
    try {
      await until(() => records.length > 0);
      assert.deepEqual(records.map(({ action, partition }) => [action, partition]), [[
        "kill",
        "a",
      ]]);
    } finally {
      alone.stop();
    }
  });

  it("takes no process for dead that it could not hear while it was itself asleep", async () => {
    broker = createMemoryBroker({ seed: 1 });
    const records: Recorded[] = [];
    let ms = 0, looks = 0;
    const sleeper = restarted(broker, {
      livenessMs: 100,
      wallMs: () => {
        looks++;
        return ms;
      },
      onRecord: (fault) => records.push(fault),
    });
    const ticks = (count: number) => {
      const wanted = looks + count;
      return until(() => looks >= wanted);
    };
    try {
      await ticks(1);
      ms = 1_000;
      await ticks(2);
      assert.deepEqual(records, []);
      for (const later of [1_040, 1_080, 1_120]) {
        ms = later;
        await ticks(2);
      }
      assert.deepEqual(records.map(({ action }) => action), ["kill"], "it had its chance");
    } finally {
      sleeper.stop();
    }
  });

  it("repeats an order to kill until that death is reported", async () => {
    broker = createMemoryBroker({ seed: 1 });
    const other = broker.connect({ onError });
    const heard: string[] = [];
    const order = subjectOf({ kind: "clock.order", run: "r", partition: "a" });
    const finished = subjectOf({ kind: "control", run: "r", verb: "finished" });
    other.subscribe(order, () => heard.push("order"));
    other.subscribe(finished, () => heard.push("finished"));
    const dead = {
      partition: "a",
      nodes: [],
      digests: [],
      sent: [],
      settledSpan: 0,
      incarnation: 0,
    };
    const alone = restarted(broker, {
      recorded: [{ ...dead, at: 5, action: "kill", instance: "a1" }],
    });
    const tell = async (instance: string) => {
      const subject = subjectOf({ kind: "control", run: "r", verb: "death" });
      await other.request(subject, encode({ partition: "a", instance }), ASK);
      await other.request(subject.replace("death", "resume"), encode({}), ASK);
      heard.length = 0;
      // Both are published once at each tick.
      await until(() => heard.filter((verb) => verb === "finished").length === 2);
      return heard.includes("order");
    };
    try {
      assert.equal(await tell("a0"), true, "that was another process");
      assert.equal(await tell("a1"), false);
    } finally {
      alone.stop();
      await other.close();
    }
  });

  it("has a process killed that was asleep while its power failed, also by an earlier timekeeper's record", async () => {
    broker = createMemoryBroker({ seed: 1 });
    const asleep = broker.connect({ onError });
    const orders: unknown[] = [];
    asleep.subscribe(subjectOf({ kind: "clock.order", run: "r", partition: "a" }), (payload) => {
      orders.push(decodeSealed(payload));
    });
    const record = { partition: "a", nodes: [], digests: [], sent: [], settledSpan: 0 };
    const alone = restarted(broker, {
      recorded: [
        { ...record, at: 5, action: "kill", instance: "a1", incarnation: 0 },
        { ...record, at: 6, action: "start", instance: "a2", incarnation: 1 },
      ],
    });
    try {
      const alive = subjectOf({ kind: "clock.alive", run: "r", partition: "a" });
      for (const instance of ["a2", "a1"]) asleep.publish(alive, encodeSealed(["a", instance, []]));
      await until(() => orders.length > 0);
      assert.deepEqual(orders, [["kill", "a", 0, "a1"]]);
    } finally {
      alone.stop();
      await asleep.close();
    }
  });
});
