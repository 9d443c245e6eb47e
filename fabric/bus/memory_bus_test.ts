import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { busContract, until } from "./bus_contract.ts";
import { type BusFaults, createMemoryBroker } from "./memory_bus_testing.ts";

busContract("MemoryBus", () => {
  const broker = createMemoryBroker({ seed: 1 });
  return Promise.resolve({
    connect: (_name, onError) => Promise.resolve(broker.connect({ onError })),
    outage: () => Promise.resolve(broker.stop()),
    heal: () => Promise.resolve(broker.start()),
    close: () => Promise.resolve(),
  });
});

function fail(error: Error): void {
  throw error;
}

/** What of `count` numbered messages arrives, in order of arrival. */
async function arrivals(seed: number, faults: BusFaults): Promise<number[]> {
  const broker = createMemoryBroker({ seed, faults });
  const a = broker.connect({ onError: fail });
  const b = broker.connect({ onError: fail });
  const got: number[] = [];
  let end = false;
  b.subscribe("t", (payload) => got.push(payload[0]!));
  b.subscribe("end", () => end = true);
  for (let i = 0; i < 200; i++) {
    a.publish("t", Uint8Array.of(i));
    if (i % 10 === 0) await a.flush();
  }
  broker.setFaults({});
  a.publish("end", new Uint8Array());
  await until(() => end);
  return got;
}

describe("createMemoryBroker's faults", () => {
  it("drop: some messages never arrive, the rest in order", async () => {
    const got = await arrivals(3, { drop: 0.3 });
    assert.ok(got.length > 100 && got.length < 180, `${got.length} of 200`);
    assert.deepEqual(got, got.toSorted((x, y) => x - y));
    assert.equal(new Set(got).size, got.length);
  });

  it("duplicate: some arrive twice, all in order", async () => {
    const got = await arrivals(3, { duplicate: 0.3 });
    assert.equal(new Set(got).size, 200);
    assert.ok(got.length > 220 && got.length < 300, `${got.length} of 200`);
    assert.deepEqual(got, got.toSorted((x, y) => x - y));
  });

  it("delay: all arrive, and a lane keeps its order", async () => {
    const got = await arrivals(3, { delay: 0.5 });
    assert.deepEqual(got, Array.from({ length: 200 }, (_, i) => i));
  });

  it("delay: lets another publisher overtake", async () => {
    const broker = createMemoryBroker({ faults: { delay: 1, pattern: "slow" } });
    const slow = broker.connect({ onError: fail });
    const quick = broker.connect({ onError: fail });
    const b = broker.connect({ onError: fail });
    const got: string[] = [];
    b.subscribe("*", (_payload, subject) => got.push(subject));
    slow.publish("slow", new Uint8Array());
    quick.publish("quick", new Uint8Array());
    await until(() => got.length === 2);
    assert.deepEqual(got, ["quick", "slow"]);
  });

  it("strike the same messages with the same seed", async () => {
    const faults = { drop: 0.2, duplicate: 0.2, delay: 0.2 };
    assert.deepEqual(await arrivals(5, faults), await arrivals(5, faults));
    assert.notDeepEqual(await arrivals(5, faults), await arrivals(6, faults));
  });

  it("pattern: spare all other subjects", async () => {
    const got = await arrivals(3, { drop: 1, pattern: "end" });
    assert.equal(got.length, 200);
  });
});

describe("MemoryBus", () => {
  it("disconnect: cuts one connection off, both ways, until reconnect", async () => {
    const broker = createMemoryBroker();
    const a = broker.connect({ onError: fail });
    const b = broker.connect({ onError: fail });
    const got: string[] = [];
    a.subscribe("to-a", () => got.push("to-a"));
    b.subscribe("to-b", () => got.push("to-b"));
    a.disconnect();
    a.publish("to-b", new Uint8Array());
    b.publish("to-a", new Uint8Array());
    await b.flush();
    await b.flush();
    assert.deepEqual(got, []);
    a.reconnect();
    a.publish("to-b", new Uint8Array());
    b.publish("to-a", new Uint8Array());
    await until(() => got.length === 2);
    assert.deepEqual(got.toSorted(), ["to-a", "to-b"]);
  });

  it("stop: loses what was under way", async () => {
    const broker = createMemoryBroker();
    const a = broker.connect({ onError: fail });
    const got: number[] = [];
    a.subscribe("t", (payload) => got.push(payload[0]!));
    a.publish("t", Uint8Array.of(1));
    broker.stop();
    broker.start();
    a.publish("t", Uint8Array.of(2));
    await until(() => got.length > 0);
    assert.deepEqual(got, [2]);
  });

  it("lets timers fire while two handlers answer each other for ever", async () => {
    const broker = createMemoryBroker();
    const a = broker.connect({ onError: fail });
    const b = broker.connect({ onError: fail });
    // They do end, so that a bus that lets nothing else happen fails here and does not hang.
    const forEver = 200_000;
    let rounds = 0;
    a.subscribe("a", (payload) => {
      if (++rounds < forEver) a.publish("b", payload);
    });
    b.subscribe("b", (payload) => b.publish("a", payload));
    a.publish("a", Uint8Array.of(0));
    await until(() => rounds >= 10);
    assert.ok(rounds < forEver, "no timer fired before they were at their end");
    await b.close();
  });
});
