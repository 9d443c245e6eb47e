/** Power failures and returns, with a timekeeper that lives. */
import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { spanNumber } from "./clock.ts";
import type { RecordedFault } from "./record.ts";
import { NEVER } from "../base/time.ts";
import { horizons, LOOKAHEAD, NAMES, planWith, Rig } from "./timekeeper_testing.ts";

describe("Timekeeper, when power fails", () => {
  it("carries out a scripted failure when nothing can happen before it, with news to the neighbours", () => {
    const faults = [
      { at: 2_000, action: "kill" as const, node: "b" },
      { at: 3_000, action: "start" as const, node: "b" },
    ];
    const rig = new Rig({ plan: planWith({ faults }) });
    rig.settle({ a: 1_000, b: 5_000, c: NEVER });
    assert.equal(rig.take().at(-1)![1].horizon, 2_100);
    rig.report("a", { grant: 2, next: 9_000 });
    assert.deepEqual(rig.kills, [["b", 2_000]]);
    assert.deepEqual(rig.starts, [["b", 3_000]]);
    // The news takes as long as anything from b does: processing, serialisation, latency.
    const grants = rig.take();
    assert.deepEqual(grants.map(([name]) => name), ["a", "c"]);
    for (const [, { links }] of grants) {
      assert.deepEqual(links.map(({ at, up }) => [at, up]), [[2_097, false]]);
    }
    assert(grants.every(([, { horizon }]) => horizon <= 3_150));
  });

  it("lets happen what a partition has before its scripted failure, and none of it at the run's limit", () => {
    const faults = [{ at: 2_000, action: "kill" as const, node: "b" }];
    const rig = new Rig({ plan: planWith({ faults, until: 9_000 }) });
    rig.settle({ a: NEVER, b: 1_000, c: NEVER });
    assert.deepEqual(rig.kills, []);
    assert.deepEqual(horizons(rig.take().slice(3)), { b: 2_000 });
    rig.report("b", { grant: 2, next: 5_000, ran: 1_000 });
    assert.deepEqual(rig.kills, [["b", 2_000]]);
    const limited = new Rig({ plan: planWith({ faults, until: 2_000 }) });
    limited.settle({ a: NEVER, b: NEVER, c: NEVER });
    assert.deepEqual([limited.kills, limited.finished?.reason], [[], "until"]);
  });

  it("welcomes the process that comes back with the life, digest and last span of the one before", () => {
    const faults = [
      { at: 2_000, action: "kill" as const, node: "b" },
      { at: 3_000, action: "start" as const, node: "b" },
    ];
    const rig = new Rig({ plan: planWith({ faults }) });
    rig.settle({ a: NEVER, b: NEVER, c: NEVER });
    rig.keeper.join({ partition: "b", instance: "b2" });
    const welcome = rig.welcomes.get("b")!;
    assert.equal(welcome.instance, "b2");
    assert.equal(welcome.incarnation, 1);
    assert.equal(welcome.bootAt, 3_000);
    assert.equal(welcome.settledSpan, 1);
    assert.equal(welcome.lives[0]![1], 1);
    assert.deepEqual(rig.records.map(({ at, action }) => [at, action]), [[2_000, "kill"], [
      3_000,
      "start",
    ]]);
  });

  it("dates an unscripted death where no partition has run past the news, and records it", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: 1_500, c: NEVER });
    rig.report("a", { grant: 2, next: 4_000, now: 1_000, ran: 1_000 });
    rig.keeper.died("b", "b1");
    const [{ at, settledSpan }] = rig.records as [RecordedFault];
    assert(at <= 1_500 && at + LOOKAHEAD[1]![0]! > 1_000, String(at));
    assert.equal(settledSpan, 1);
  });

  it("takes the same death once, however often it is reported, and no death of a process that is not it", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: 1_500, c: NEVER });
    rig.keeper.died("b", "b0");
    assert.equal(rig.records.length, 0);
    rig.keeper.died("b", "b1");
    rig.keeper.died("b", "b1");
    rig.report("a", { grant: 2, next: 4_000, now: 1_000, ran: 1_000 });
    rig.keeper.died("b", "b1");
    assert.equal(rig.records.length, 1);
  });

  it("dates a death before what a partition that runs is just sending to the one that died", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: NEVER, c: 5_000 });
    assert.equal(rig.take().at(-1)![1].horizon, 5_250);
    assert.equal(rig.keeper.died("b", "b1"), false, "tell me again");
    assert.equal(rig.keeper.isOver("b", "b1"), false, "its failure has no instant yet");
    assert.equal(rig.records.length, 0, "a may still send something: wait for it");
    assert.deepEqual(rig.take(), []);
    rig.report("a", { grant: 2, ran: 1_000, sent: [["b", 0, 1, 1_100]] });
    assert.equal(rig.records.length, 1);
    assert.equal(rig.keeper.died("b", "b1"), true, "it is on record");
    assert(rig.records[0]!.at <= 1_100, `b had not taken it, so it is dead by then`);
  });

  it("dates two deaths so that neither has done what the other's would have changed", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: 1_500, c: 3_000 });
    rig.keeper.died("b", "b1");
    rig.keeper.died("c", "c1");
    rig.report("a", { grant: 2, next: 9_000, ran: 1_590 });
    const [b, c] = rig.records.map(({ at }) => at);
    assert(b! <= 1_500 && b! > 1_590 - LOOKAHEAD[1]![0]!);
    assert(c! <= b! + 97, "it did not hear that b was gone");
    assert(c! + LOOKAHEAD[2]![1]! >= b!, "nor b that it was");
  });

  it("lets a process wait that comes back before the instant of the death is known", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: NEVER, c: 5_000 });
    rig.keeper.died("b", "b1");
    rig.keeper.join({ partition: "b", instance: "b2" });
    assert.equal(rig.records.length, 0);
    rig.report("a", { grant: 2, next: 9_000, ran: 1_000 });
    assert.deepEqual(rig.records.map(({ action }) => action), ["kill", "start"]);
    const { instance, incarnation, settledSpan } = rig.welcomes.get("b")!;
    assert.deepEqual([instance, incarnation, settledSpan], ["b2", 1, 1]);
  });

  it("does not give power to a process that died again while it waited for it", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: NEVER, c: 5_000 });
    rig.keeper.died("b", "b1");
    rig.keeper.join({ partition: "b", instance: "b2" });
    rig.keeper.died("b", "b2");
    rig.report("a", { grant: 2, next: 9_000, ran: 1_000 });
    assert.deepEqual(rig.records.map(({ action }) => action), ["kill"]);
    rig.keeper.join({ partition: "b", instance: "b3" });
    rig.answerAll();
    assert.deepEqual(rig.records.map(({ action }) => action), ["kill", "start"]);
    assert.equal(rig.welcomes.get("b")!.instance, "b3");
  });

  it("P-05 (in part): counts of a second life what it reported, and all of the first life's", () => {
    const rig = new Rig();
    rig.settle({ a: 3_000, b: NEVER, c: 9_000 });
    rig.keeper.join({ partition: "b", instance: "b2" });
    rig.report("a", { grant: 2, next: 4_000, ran: 3_000 });
    const grants = rig.take();
    assert.equal(grants.filter(([name, { id }]) => name === "b" && id === 1).length, 2);
    rig.keeper.died("b", "b2");
    for (const [name, { id }] of grants) if (name !== "b") rig.report(name, { grant: id });
    const settled = rig.records.map(({ action, settledSpan }) => [action, settledSpan]);
    assert.deepEqual(settled, [
      ["kill", spanNumber(0, 1)],
      ["start", spanNumber(0, 1)],
      ["kill", spanNumber(1, 0)],
    ]);
    assert.ok(spanNumber(0, 1) < spanNumber(1, 0) && spanNumber(1, 0) < spanNumber(1, 1));
  });

  it("takes a new process for a living partition as the death of the one before", () => {
    const rig = new Rig();
    rig.settle({ a: NEVER, b: NEVER, c: 9_000 });
    rig.keeper.join({ partition: "b", instance: "b2" });
    rig.report("c", { grant: 2, next: 9_500, now: 9_000, ran: 9_000 });
    assert.deepEqual(rig.records.map(({ action }) => action), ["kill", "start"]);
    assert(rig.welcomes.get("b")!.bootAt > rig.records[0]!.at);
  });

  it("records a scripted failure before any order to carry it out", () => {
    const faults = [
      { at: 2_000, action: "kill" as const, node: "b" },
      { at: 3_000, action: "start" as const, node: "b" },
    ];
    const rig = new Rig({ plan: planWith({ faults }) });
    rig.settle({ a: NEVER, b: NEVER, c: NEVER });
    assert.deepEqual(rig.deeds, ["record kill b1", "order kill b1", "order start b"]);
  });

  it("welcomes a process again, as long as it has done nothing", () => {
    const rig = new Rig();
    rig.join("a", "b", "c");
    rig.welcomes.clear();
    // It has been granted something already: both may have been lost with the broker.
    rig.join("a");
    assert.equal(rig.welcomes.get("a")?.instance, "a1");
    rig.report("a", { next: NEVER });
    rig.welcomes.clear();
    rig.join("a");
    assert.equal(rig.welcomes.size, 0);
  });

  it("lets a life that did nothing end as it began, not before", () => {
    const rig = new Rig();
    rig.settle({ a: 5_000, b: NEVER, c: NEVER });
    rig.keeper.join({ partition: "b", instance: "b2" });
    rig.report("a", { grant: 2, next: 9_000, now: 5_000, ran: 5_000 });
    const { bootAt } = rig.welcomes.get("b")!;
    rig.keeper.join({ partition: "b", instance: "b3" });
    rig.answerAll({ ran: 5_000 });
    const dates = rig.records.map(({ action, at }) => [action, at] as const);
    assert.deepEqual(dates.slice(1, 3), [["start", bootAt], ["kill", bootAt]]);
    assert.ok(dates[3]![1] > bootAt);
  });

  it("gives no later process news of such a life", () => {
    const rig = new Rig();
    rig.settle({ a: NEVER, b: NEVER, c: 9_000 });
    rig.keeper.died("a", "a1");
    rig.keeper.join({ partition: "b", instance: "b2" });
    rig.report("c", { grant: 2, next: 20_000, now: 9_000, ran: 9_000 });
    rig.keeper.died("b", "b2");
    rig.report("c", { grant: 3, next: 20_000, now: 9_000, ran: 9_000 });
    rig.take();
    rig.keeper.join({ partition: "a", instance: "a2" });
    const grants = rig.take().filter(([name]) => name === "a");
    assert.deepEqual(grants.flatMap(([, { links }]) => links.filter(({ up }) => up)), []);
  });

  it("hears no more of a process that is known to be dead", () => {
    const rig = new Rig();
    rig.settle({ a: NEVER, b: NEVER, c: 9_000 });
    rig.keeper.died("b", "b1");
    rig.report("c", { grant: 2, next: 20_000, now: 9_000, ran: 9_000 });
    // Its own report arrives after the report of its death.
    assert.equal(rig.keeper.isOver("b", "b2"), false, "nobody has told");
    assert.equal(rig.keeper.died("b", "b2"), true);
    assert.equal(rig.keeper.isOver("b", "b2"), true, "though it is on no record");
    rig.keeper.join({ partition: "b", instance: "b2" });
    rig.answerAll();
    assert.deepEqual(rig.deeds, ["record kill b1"]);
  });

  it("writes down that what was lost with its sender makes the run inexact", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: NEVER, c: NEVER });
    rig.report("a", { grant: 2, next: 9_000, sent: [["b", 0, 3, 1_200]] });
    rig.keeper.died("a", "a1");
    rig.wallMs = 3_000;
    rig.keeper.repeat(100);
    assert.deepEqual(rig.inexact, ["b lost messages with the process of a"]);
    assert.deepEqual(rig.take().at(-1)![1].lost, [["a", 0]]);
  });

  it("reports a run as inexact where others had news of a life that then never began", () => {
    const rig = new Rig();
    rig.settle({ a: NEVER, b: NEVER, c: 9_000 });
    for (const name of ["a", "b"]) {
      rig.keeper.join({ partition: name, instance: `${name}2` });
    }
    rig.report("c", { grant: 2, next: 20_000, now: 9_000, ran: 9_000 });
    rig.keeper.died("a", "a2");
    rig.answerAll({ ran: 9_000 });
    assert.deepEqual(rig.inexact, [
      "a failed before it did anything, and others had news that it was up",
    ]);
  });
});

describe("Timekeeper, of a partition's next life", () => {
  /** A rack at rest that stays up, where a has sent b three messages at 1 000 ps. */
  function sentToB(options: { taken: boolean }): Rig {
    const rig = new Rig({ stayUp: true });
    rig.settle({ a: 1_000, b: NEVER, c: NEVER });
    rig.take();
    if (!options.taken) rig.keeper.pause();
    rig.report("a", { grant: 2, ran: 1_000, sent: [["b", 0, 3, 1_200]] });
    rig.take();
    if (options.taken) rig.report("b", { grant: 2, ran: 1_200 });
    return rig;
  }

  /** The process of a partition dies, all others hear of it, and another one is there. */
  function renew(rig: Rig, name: string, ran = 2_000): void {
    rig.keeper.died(name, `${name}1`);
    rig.answerAll({ ran });
    rig.keeper.join({ partition: name, instance: `${name}2` });
  }

  const grantOf = (rig: Rig, name: string) => rig.take().find(([to]) => to === name)![1];

  it("lets it begin behind what the life before was sent, which the sender need not keep", () => {
    const rig = sentToB({ taken: false });
    rig.keeper.died("b", "b1");
    rig.keeper.resume();
    rig.answerAll({ ran: 2_000 });
    rig.keeper.join({ partition: "b", instance: "b2" });
    assert.deepEqual(rig.welcomes.get("b")!.sentSoFar, [["a", 0, 3]]);
    const { expect, incarnation } = grantOf(rig, "b");
    assert.deepEqual([incarnation, expect], [1, []]);
    rig.report("b", { incarnation: 1, sent: [["a", 1, 1, 9_000]] });
    assert.deepEqual(grantOf(rig, "a").confirmed, [["b", 3]]);
  });

  it("is given nothing that was reported as sent while there was none", () => {
    const rig = new Rig({ stayUp: true });
    rig.settle({ a: 50_000, b: NEVER, c: NEVER });
    rig.take();
    rig.keeper.pause();
    rig.report("a", { grant: 2, next: 50_000 });
    rig.keeper.died("b", "b1");
    rig.keeper.resume();
    rig.take();
    rig.report("c", { grant: 2 });
    rig.report("a", { grant: 3, ran: 50_000, sent: [["b", 0, 2, 50_200]] });
    rig.answerAll({ ran: 50_000 });
    rig.keeper.join({ partition: "b", instance: "b2" });
    assert.deepEqual(rig.welcomes.get("b")!.sentSoFar, [["a", 0, 2]]);
    assert.deepEqual(grantOf(rig, "b").expect, []);
  });

  it("gets no confirmation of messages that the life before had sent", () => {
    const rig = sentToB({ taken: true });
    renew(rig, "a");
    const { incarnation, confirmed } = grantOf(rig, "a");
    assert.deepEqual([incarnation, confirmed], [1, []]);
  });

  it("counts what it sends from 0, also for a neighbour that comes back after it", () => {
    const rig = sentToB({ taken: true });
    renew(rig, "a");
    rig.answerAll({ ran: 5_000 });
    renew(rig, "b", 9_000);
    assert.deepEqual(rig.welcomes.get("b")!.sentSoFar, []);
  });

  it("gets cables' faults that were ordered before it", () => {
    const rig = new Rig({ stayUp: true });
    rig.settle({ a: NEVER, b: NEVER, c: NEVER });
    rig.answerAll();
    rig.keeper.orderLinkFault("1", { action: "cut", cable: 0, direction: "both" });
    rig.answerAll();
    renew(rig, "b");
    assert.deepEqual(grantOf(rig, "b").cables.map(({ action }) => action), ["cut"]);
  });

  it("gets news of a death that are still on their way to it", () => {
    const dead = { at: 5_000, action: "kill", incarnation: 0, settledSpan: 1 } as const;
    const recorded = ["b", "c"].map((name) => ({
      ...dead,
      partition: name,
      nodes: [name],
      instance: `${name}1`,
      digests: [],
      sent: [],
    }));
    const rig = new Rig({ stayUp: true, term: 1, recorded });
    rig.keeper.pause();
    rig.report("a", { term: 1, grant: 5, taken: [], ran: 1_000 });
    rig.keeper.join({ partition: "b", instance: "b2" });
    rig.keeper.resume();
    assert.equal(rig.welcomes.get("b")!.bootAt, 5_001);
    const ofC = grantOf(rig, "b").links.filter(({ source }) => source === NAMES.indexOf("c"));
    assert.deepEqual(ofC.map(({ at, up }) => [at, up]), [[5_097, false]]);
  });
});
