import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import type { Bus } from "../../../fabric/bus/bus.ts";
import { decode, encode } from "../../../fabric/bus/codec.ts";
import { createMemoryBroker } from "../../../fabric/bus/memory_bus_testing.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { ANY, parseSubject, patternOf } from "../../../fabric/bus/subjects.ts";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { parseGoal } from "../../../fabric/trace/predicate.ts";
import { ControlClient } from "./control.ts";
import { step, until } from "./virtual_time.ts";

/** A clock that answers every order, and whose time never comes. */
const STATUS = { run: "r", now: 10, next: 20, limit: 15, paused: true, hits: [], why: [] };

const HIT = { break: 0, node: "b-rnic", step: "S907", atPs: 10, count: 2 };

describe("virtual time of a rack that is up", () => {
  let rack: Bus;
  let bus: Bus;
  let control: ControlClient;
  let status: Partial<ClockStatus>;
  let orders: unknown[][];
  let driving: number | undefined;

  beforeEach(() => {
    const broker = createMemoryBroker();
    const onError = (error: Error) => assert.fail(error);
    rack = broker.connect({ onError });
    bus = broker.connect({ onError });
    control = new ControlClient(bus, "r");
    status = { ...STATUS } as unknown as Partial<ClockStatus>;
    orders = [];
    driving = undefined;
    const pattern = patternOf({ kind: "control", run: "r", verb: ANY });
    rack.subscribe(pattern, (payload, subject, reply) => {
      const name = parseSubject(subject);
      const verb = name?.kind === "control" ? name.verb : "";
      if (verb !== "status") orders.push([verb, decode(payload)]);
      reply?.(encode(verb === "status" ? status : { ok: true, driving }));
    });
  });

  afterEach(async () => {
    await bus.close();
    await rack.close();
  });

  it("is refused to go on to what is past, and nothing is ordered", async () => {
    await assert.rejects(
      until(control, { breaks: [], time: 10 }),
      /10 ps is past: expected a time after 10 ps/,
    );
    assert.deepEqual(orders, []);
  });

  it("is paused when the way to a time is given up", async () => {
    status = { ...status, limit: 30, paused: false };
    const ending = new AbortController();
    const going = until(control, { breaks: [], time: 30 }, ending.signal);
    ending.abort();
    await assert.rejects(going, { name: "AbortError" });
    assert.deepEqual(orders, [["resume", { until: 30, breaks: [] }], ["pause", {}]]);
  });

  it("is stepped by instants from where it stands still", async () => {
    const { status: after } = await step(control, { events: 2 });
    assert.deepEqual(orders, [["step", {}], ["step", {}]]);
    assert.equal(after.now, 10);
    orders = [];
    await step(control, { spanPs: 500 });
    assert.deepEqual(orders, [["step", { ps: 500 }]]);
  });

  it("ends with a sentence where another command's order has come behind its own", async () => {
    driving = 3;
    status = { ...status, next: 12, limit: 15, driven: { order: 4, verb: "pause" } };
    const found = /Found pause of another command behind this (step|resume), expected none/;
    assert.match((await step(control, { spanPs: 500 })).missed!, found);
    assert.match((await until(control, { breaks: [], time: 30 })).missed!, found);
    assert.match((await until(control, parseGoal(["S907"]))).missed!, found);
  });

  it("has come to a break when the whole rack stands", async () => {
    status = { ...status, hits: [HIT], standsAt: null };
    const breaks = [{ step: "S907", count: 2 }, { step: "qp-err" }];
    const going = until(control, { time: 30, breaks });
    await sleep(50);
    status = { ...status, standsAt: 11 };
    assert.equal((await going).missed, undefined);
    assert.deepEqual(orders, [["resume", { until: 30, breaks }]]);
  });

  it("says what has not happened where nothing more is to happen", async () => {
    status = { ...status, next: Infinity, paused: false };
    const { missed } = await until(control, parseGoal(["b-rnic:S907"]));
    assert.equal(missed, "No event is left, and b-rnic:S907 has not happened");
    assert.deepEqual(orders, [["resume", { breaks: [{ step: "S907", node: "b-rnic" }] }], [
      "resume",
      {},
    ]]);
  });
});
