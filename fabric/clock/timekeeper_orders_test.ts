/** What people order of a running rack: programs, power failures at a time, steps. */
import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import type { ProgramPlan, RackPlan } from "../rack/plan/plan.ts";
import type { Grant, Report } from "./clock.ts";
import {
  orderFromLine,
  orderOnRecord,
  type RecordedOrder,
  RecordError,
  shutdownProgram,
} from "./record.ts";
import { NEVER, type Time } from "../base/time.ts";
import { planWith, reportOf, Rig } from "./timekeeper_testing.ts";
import { ordersBehind } from "./timekeeper.ts";

const PARTITIONS = [
  { name: "a", nodes: ["a"] },
  { name: "b", nodes: ["b"] },
  { name: "cd", nodes: ["c", "d"] },
];
const PROGRAM: ProgramPlan = { run: "get", at: 0, service: false, options: { from: "b" } };

/** A rack at rest whose next event is a's at `next`. */
function atRest(
  options: {
    next?: Time;
    term?: number;
    faults?: RackPlan["faults"];
    paused?: true;
    orders?: RecordedOrder[];
    ran?: Time;
  } = {},
): Rig {
  const { next = NEVER, term = 0, faults = [], paused, orders = [], ran = 0 } = options;
  const { nodes } = planWith();
  const plan = planWith({ nodes: [...nodes, { ...nodes[0]!, name: "d" }], cables: [], faults });
  const rig = new Rig({ plan, partitions: PARTITIONS, term, stayUp: true, orders });
  const names = PARTITIONS.map(({ name }) => name);
  if (term > 0) {
    for (const name of names) rig.report(name, { term, grant: 0, digests: [], taken: [], ran });
    return rig;
  }
  rig.join(...names);
  if (paused) rig.keeper.pause();
  for (const name of names) rig.report(name, { next: name === "a" ? next : NEVER, digests: [] });
  return rig;
}

function lastGrant(rig: Rig, partition: string): Grant {
  return rig.grants.findLast(([name]) => name === partition)![1];
}

function refusal(rig: Rig, node: string, at: Time): string {
  const answer = rig.keeper.addPowerFailure(node, at);
  assert("refusal" in answer, JSON.stringify(answer));
  return answer.refusal;
}

describe("Timekeeper.addPowerFailure", () => {
  it("cuts the power at that time, and not sooner than anything else may happen", () => {
    const rig = atRest({ next: 5_000, paused: true });
    assert.deepEqual(rig.keeper.addPowerFailure("b", 20_000), {
      added: { at: 20_000, action: "kill", node: "b" },
    });
    rig.keeper.resume();
    assert.deepEqual(rig.kills, []);
    assert.equal(lastGrant(rig, "a").horizon, 20_100);
    rig.report("a", { grant: 2, next: NEVER, ran: 5_000 });
    assert.deepEqual(rig.kills, [["b", 20_000]]);
  });

  it("refuses a time that is past, or that others may have run past already", () => {
    const rig = atRest({ next: 5_000, paused: true });
    assert.match(refusal(rig, "b", 0), /0 ps is past: expected .* or later/);
    rig.keeper.resume();
    // a may be anywhere: nothing bounds how far it runs.
    assert.match(refusal(rig, "a", 4_000), /it is unknown how far .* has run: pause it first/);
  });

  it("refuses a device that shares its process, that is unknown, dead or to die", () => {
    const rig = atRest({
      next: 5_000,
      paused: true,
      faults: [{ at: 900_000, action: "kill", node: "a" }],
    });
    assert.match(refusal(rig, "c", 1e9), /shares its process with d/);
    assert.match(refusal(rig, "x", 1e9), /no device x/);
    assert.match(refusal(rig, "a", 1e9), /is to be killed at 900 ns/);
    rig.keeper.died("b");
    assert.match(refusal(rig, "b", 1e9), /no power/);
  });

  it("does not let time jump to it while the rack is paused or held at an earlier time", () => {
    const rig = atRest();
    rig.keeper.pause();
    rig.keeper.addPowerFailure("b", 20_000);
    assert.deepEqual(rig.kills, []);
    rig.keeper.resume({ limit: 10_000 });
    assert.deepEqual(rig.kills, []);
    assert.equal(rig.keeper.limit, 10_000);
    rig.keeper.resume();
    assert.deepEqual(rig.kills, [["b", 20_000]]);
  });
});

describe("Timekeeper.run", () => {
  it("numbers the orders, and lists those that are in no grant yet", () => {
    const rig = atRest({ next: 5_000 });
    assert.equal(rig.keeper.run("b", PROGRAM), 0);
    assert.equal(rig.keeper.run("b", PROGRAM), 1);
    // a is running, so "now" is not defined yet.
    assert.equal(rig.keeper.ordered.length, 2);
    rig.report("a", { grant: 2, next: NEVER, ran: 5_000 });
    assert.equal(rig.keeper.ordered.length, 0);
    const runs = lastGrant(rig, "b").runs;
    assert.deepEqual(runs.map(({ counter, program }) => [counter, program.order]), [[0, 0], [
      1,
      1,
    ]]);
  });

  it("writes an order down, with its instant, before the host is told of it", () => {
    const rig = atRest({ next: 5_000 });
    rig.keeper.run("b", PROGRAM);
    assert.deepEqual(rig.ordered, []);
    rig.report("a", { grant: 2, next: NEVER, ran: 5_000 });
    const program = { ...PROGRAM, order: 0 };
    assert.deepEqual(rig.ordered, [{
      at: 5_001,
      host: "b",
      counter: 0,
      incarnation: 0,
      program,
    }]);
    assert.deepEqual(rig.deeds, ["record order 0", "grant order 0"]);
  });

  it("says with each whether every earlier one has been carried out", () => {
    const rig = atRest({ next: 5_000 });
    rig.keeper.run("b", PROGRAM);
    rig.keeper.run("b", PROGRAM);
    rig.report("a", { grant: 2, next: NEVER, ran: 5_000 });
    rig.keeper.run("b", PROGRAM);
    rig.answerAll();
    rig.answerAll();
    rig.keeper.run("b", PROGRAM);
    assert.deepEqual(rig.before, ["done", "open", "open", "done"]);
  });

  it("takes those on record for open until each host has said how far it has come", () => {
    const order = { host: "b", incarnation: 0, program: PROGRAM, at: 300, counter: 0 };
    const rig = new Rig({ term: 1, orders: [order, { ...order, incarnation: 1 }], stayUp: true });
    rig.keeper.run("c", PROGRAM);
    for (const name of ["a", "b", "c"]) {
      rig.report(name, { term: 1, grant: 4, taken: [], ran: 300 });
    }
    rig.answerAll({ term: 1 });
    rig.keeper.run("c", PROGRAM);
    assert.deepEqual(rig.before, ["open", "open"], "one is for a later life of b");
  });

  it("never gives a number twice, though a new timekeeper knows nothing of the old orders", () => {
    const numbers = [0, 1, 2].map((term) => atRest({ term }).keeper.run("b", PROGRAM));
    assert.equal(new Set(numbers).size, 3);
  });
});

describe("Timekeeper.shutDown", () => {
  const refused = (rig: Rig, host: string) => {
    const answer = rig.keeper.shutDown(host, 20_000);
    assert("refusal" in answer, JSON.stringify(answer));
    return answer.refusal;
  };

  it("C-09: orders it as soon as now is defined, and turns the power off so much later", () => {
    const rig = atRest({ next: 5_000 });
    assert.deepEqual(rig.keeper.shutDown("b", 20_000), { order: 0 });
    rig.report("a", { grant: 2, next: NEVER, ran: 5_000 });
    const program = { ...shutdownProgram(20_000), order: 0 };
    assert.deepEqual(rig.ordered, [{ at: 5_001, host: "b", counter: 0, incarnation: 0, program }]);
    const grant = lastGrant(rig, "b");
    assert.deepEqual(grant.runs.map(({ at }) => at), [5_001]);
    assert.equal(grant.horizon, 25_001, "nothing happens on it later");
    assert.deepEqual(rig.kills, []);
    rig.report("b", { grant: grant.id, next: NEVER, ran: 9_000 });
    assert.deepEqual(rig.kills, [["b", 25_001]]);
  });

  it("C-09: refuses a host that shares its process, has no power, or is to lose it already", () => {
    const faults = [{ at: 900_000, action: "kill", node: "a" }] as const;
    const rig = atRest({ next: 5_000, faults });
    assert.match(refused(rig, "x"), /no device x/);
    assert.match(refused(rig, "c"), /shares its process with d/);
    assert.match(refused(rig, "a"), /is to be killed at 900 ns already/);
    rig.keeper.shutDown("b", 20_000);
    assert.match(refused(rig, "b"), /b is to be shut down already/);
    assert.match(refusal(rig, "b", 1e9), /b is to be shut down already/);
    rig.report("a", { grant: 2, next: NEVER, ran: 5_000 });
    assert.match(refused(rig, "b"), /b is to be killed at 920 ns already/);
    rig.keeper.died("b");
    rig.answerAll();
    assert.match(refused(rig, "b"), /no power/);
  });

  it("C-09: is for one life of the host: neither it nor its power failure is for the next", () => {
    const early = atRest({ next: 5_000 });
    early.keeper.shutDown("b", 20_000);
    early.keeper.died("b");
    early.report("a", { grant: 2, next: NEVER, ran: 5_000 });
    assert.deepEqual(early.ordered, [], "its host lost its power before");
    const late = atRest({ next: 5_000 });
    late.keeper.shutDown("b", 20_000);
    late.report("a", { grant: 2, next: NEVER, ran: 5_000 });
    late.keeper.died("b");
    late.keeper.join({ partition: "b", instance: "b2" });
    late.answerAll();
    late.answerAll();
    assert.equal(late.keeper.powered["b"], "b2");
    assert.deepEqual(late.kills, []);
  });

  it("C-09: is to be read again by a next timekeeper until the power is off", () => {
    const rig = atRest({ next: 5_000 });
    rig.keeper.shutDown("b", 20_000);
    rig.report("a", { grant: 2, next: NEVER, ran: 5_000 });
    rig.keeper.resume({ limit: 10_000 });
    rig.answerAll();
    rig.keeper.run("a", PROGRAM);
    rig.answerAll();
    assert.deepEqual(rig.kills, []);
    rig.keeper.run("a", PROGRAM);
    rig.answerAll();
    rig.keeper.resume();
    rig.answerAll();
    assert.deepEqual(rig.kills, [["b", 25_001]]);
    rig.keeper.run("a", PROGRAM);
    assert.deepEqual(rig.before, ["done", "open", "open", "done"]);
  });

  it("C-09: refuses a time that the clock does not have", () => {
    const answer = atRest().keeper.shutDown("b", Number.MAX_SAFE_INTEGER);
    assert.deepEqual(answer, { refusal: "virtual time ends before its power would go off" });
  });

  it("C-09: goes on under a timekeeper that is started again, from the order alone", () => {
    const program = shutdownProgram(600);
    const order = { at: 300, host: "b", counter: 0, incarnation: 0, program, powerOffAt: 900 };
    const rig = new Rig({ term: 1, orders: [order], stayUp: true });
    rig.keeper.heard("b", "b1");
    rig.keeper.run("c", PROGRAM);
    for (const name of ["a", "b", "c"]) {
      rig.report(name, { term: 1, grant: 4, taken: [], ran: name === "b" ? 300 : 200 });
    }
    rig.answerAll({ term: 1, ran: 400 });
    assert.equal(rig.deeds.includes("grant order 0"), false, "its host has had it");
    assert.deepEqual(rig.kills, [["b", 900]]);
    rig.keeper.run("c", PROGRAM);
    assert.deepEqual(rig.before, ["open", "done"], "it is read again until the power is off");
  });

  it("C-09: keeps the order on record, with when the power goes off", () => {
    const order = { at: 300, host: "b", counter: 0, incarnation: 0, program: shutdownProgram(600) };
    const line = (of: RecordedOrder) => JSON.parse(JSON.stringify(orderOnRecord(of).line));
    const read = orderFromLine(line(order), () => undefined);
    assert.deepEqual(read, { ...order, powerOffAt: 900 });
    assert.deepEqual(orderFromLine(line(read), () => undefined), read);
    const program = { ...order.program, options: {} };
    assert.throws(
      () => orderFromLine(line({ ...order, program }), () => undefined),
      /damaged order on record: expected a shutdown's time/,
    );
  });
});

describe("Timekeeper, started again", () => {
  it("hands out an order on record that its host has not carried out, once, and no other", () => {
    const order = { host: "b", incarnation: 0, program: PROGRAM };
    const orders = [
      { ...order, at: 300, counter: 0 },
      { ...order, at: 500, counter: 1 },
      { ...order, at: 600, counter: 2, incarnation: 1 },
    ];
    const rig = new Rig({ term: 1, orders, stayUp: true });
    assert.deepEqual(rig.keeper.recalled, [0, 1], "that b has had them is not known yet");
    for (const name of ["a", "b", "c"]) {
      rig.report(name, { term: 1, grant: 4, taken: [], ran: 300 });
    }
    assert.deepEqual(rig.deeds, ["grant order 1"]);
    assert.equal(lastGrant(rig, "b").runs[0]!.at, 500);
    assert.deepEqual(rig.keeper.recalled, [1]);
    rig.answerAll({ term: 1 });
    assert.deepEqual([rig.deeds.length, rig.keeper.recalled], [1, []]);
  });

  it("notices the death of a process that it has never been introduced to", () => {
    const rig = atRest({ term: 1 });
    rig.keeper.died("b", "b");
    assert.equal(rig.keeper.why().find(({ partition }) => partition === "b")!.status, "dead");
  });

  it("can order the death of a process after its heartbeat", () => {
    const rig = atRest({ term: 1 });
    rig.keeper.addPowerFailure("b", 20_000);
    assert.deepEqual(rig.kills, []);
    rig.keeper.heard("b", "b");
    assert.deepEqual(rig.kills, [["b", 20_000]]);
  });
});

describe("orderOnRecord", () => {
  it("keeps all that the program was given, and what it cannot have made is refused", () => {
    const options = { from: "b", content: new Uint8Array([0, 255, 7]), size: 4096 };
    const order = {
      at: 7,
      host: "a",
      counter: 3,
      incarnation: 2,
      program: { ...PROGRAM, options },
    };
    const { line, content } = orderOnRecord(order);
    const read = JSON.parse(JSON.stringify(line));
    const { program, ...rest } = orderFromLine(
      read,
      (counter) => counter === 3 ? content : undefined,
    );
    assert.deepEqual({ ...rest, program }, order);
    assert.throws(() => orderFromLine({ ...read, at: "7" }, () => content), /damaged order/);
    assert.throws(
      () => orderFromLine({ ...read, program: "gw==" }, () => content),
      /damaged order/,
    );
    assert.throws(
      () => orderFromLine(read, () => content!.subarray(1)).program,
      /Found one of 2 B, expected the content of order 3: 3 B/,
    );
  });
});

describe("a record of orders without room", () => {
  it("does not stop the program, and says once that the run cannot be replayed", () => {
    const rig = atRest({ next: 5_000 });
    rig.hasRoom = false;
    rig.keeper.run("b", PROGRAM);
    rig.keeper.run("b", PROGRAM);
    rig.report("a", { grant: 2, next: NEVER, ran: 5_000 });
    assert.deepEqual(rig.inexact, ["more content was ordered than a run keeps on record"]);
    assert.equal(lastGrant(rig, "b").runs.length, 2);
  });

  it("refuses an order that cannot be written, and goes on", () => {
    const rig = atRest();
    rig.hasRoom = "none";
    assert.throws(() => rig.keeper.run("b", PROGRAM), RecordError);
    rig.hasRoom = true;
    assert.equal(rig.keeper.run("b", PROGRAM), 0);
    assert.equal(rig.ordered.length, 1);
  });
});

describe("Timekeeper.end", () => {
  it("says of each partition up to which instant its digests count, and nothing before all are known", () => {
    const rig = new Rig({ term: 1, stayUp: true });
    assert.equal(rig.keeper.end(), undefined);
    for (const name of ["a", "b", "c"]) {
      const digests = [[name, 1, 2, 3]] as const;
      const state = { term: 1, grant: 4, taken: [], ran: 900, reached: 1_000, next: NEVER };
      rig.report(name, { ...state, digests });
    }
    rig.keeper.died("c", "");
    const { partitions, isFinished } = rig.keeper.end()!;
    assert.deepEqual(partitions.map(({ partition, reached }) => [partition, reached]), [
      ["a", 1_000],
      ["b", 1_000],
      ["c", null],
    ]);
    assert.deepEqual(partitions[0]!.nodes, [["a", "0000000100000002", 3]]);
    assert.equal(partitions[2]!.nodes[0]![2], 4, "the failure is the last event of its life");
    assert.equal(isFinished, false);
  });
});

describe("Timekeeper.report", () => {
  it("takes nothing that a partition cannot say, and what it says truly after that", () => {
    const rig = atRest({ next: 5_000 });
    const grant = lastGrant(rig, "a").id;
    const answer = { grant, ran: 5_000, digests: [] };
    const lies: Partial<Report>[] = [
      { digests: [["b", 1, 2, 3]] },
      { sent: [["a", 0, 1, 9_000]] },
      { sent: [["zz", 0, 1, 9_000]] },
      { sent: [["b", 1, 1, 9_000]] },
    ];
    for (const lie of lies) {
      assert.equal(rig.keeper.report(reportOf("a", { ...answer, ...lie })), false);
    }
    assert.equal(rig.keeper.report(reportOf("zz", answer)), false);
    assert.equal(rig.keeper.now, 0);
    assert.equal(rig.keeper.report(reportOf("a", { ...answer, now: 5_000 })), true);
    assert.equal(rig.keeper.now, 5_000);
    // What comes late changes nothing, but is no lie.
    assert.equal(rig.keeper.report(reportOf("a", answer)), true);
  });
});

describe("Timekeeper of a run that repeats another", () => {
  const order = { host: "b", incarnation: 0, program: PROGRAM };
  const orders = [
    { ...order, at: 300, counter: 7 },
    { ...order, at: 300, counter: 8 },
    { ...order, at: 500, counter: 9 },
    { ...order, at: 600, counter: 10 },
    { ...order, at: 900, counter: 11, incarnation: 1 },
  ];

  it("hands out the orders of each life at their instants, those of one instant with one grant", () => {
    const faults = [
      { at: 700, action: "kill" as const, node: "b" },
      { at: 800, action: "start" as const, node: "b" },
    ];
    const rig = new Rig({ plan: planWith({ faults }), orders, stayUp: true });
    rig.join("a", "b", "c");
    const given = () => lastGrant(rig, "b").runs.map(({ counter }) => counter);
    assert.deepEqual(given(), [7, 8]);
    for (const name of ["a", "b", "c"]) rig.report(name, { ran: 300 });
    assert.deepEqual([given(), lastGrant(rig, "b").horizon], [[9], 600], "not past the next");
    rig.report("b", { grant: 2, ran: 500 });
    rig.report("b", { grant: 3, ran: 600 });
    assert.deepEqual([rig.kills, rig.starts], [[["b", 700]], [["b", 800]]]);
    rig.keeper.join({ partition: "b", instance: "b2" });
    rig.answerAll();
    assert.deepEqual(rig.deeds.filter((deed) => deed.startsWith("grant")), [
      "grant order 7",
      "grant order 8",
      "grant order 9",
      "grant order 10",
      "grant order 11",
    ]);
    assert.deepEqual(rig.keeper.recalled, []);
  });

  it("stops at its end until it is resumed, also a power failure and an order", () => {
    const faults = [{ at: 400, action: "kill" as const, node: "c" }];
    const rig = new Rig({ plan: planWith({ faults }), orders, stayUp: true, holdAt: 400 });
    rig.settle({ a: 450, b: NEVER, c: NEVER });
    rig.answerAll();
    assert.deepEqual([rig.deeds, rig.keeper.next], [["grant order 7", "grant order 8"], 400]);
    rig.keeper.resume();
    assert.deepEqual(rig.kills, [["c", 400]]);
  });

  it("cuts the power of a life that ends as it begins", () => {
    const faults = [
      { at: 700, action: "kill" as const, node: "b" },
      { at: 800, action: "start" as const, node: "b" },
      { at: 800, action: "kill" as const, node: "b" },
      { at: 801, action: "start" as const, node: "b" },
    ];
    const rig = new Rig({ plan: planWith({ faults }), stayUp: true });
    rig.settle({ a: NEVER, b: NEVER, c: NEVER });
    for (const instance of ["b2", "b3"]) {
      rig.keeper.join({ partition: "b", instance });
      rig.answerAll();
    }
    const happened = rig.records.map(({ action, at, incarnation }) => [action, at, incarnation]);
    assert.deepEqual(happened, [
      ["kill", 700, 0],
      ["start", 800, 1],
      ["kill", 800, 1],
      ["start", 801, 2],
    ]);
  });

  it("hands them to a process that joins a timekeeper which was started again meanwhile", () => {
    const rig = new Rig({ orders, term: 1, stayUp: true });
    rig.join("a", "b", "c");
    rig.answerAll({ term: 1 });
    assert.deepEqual(rig.deeds.slice(0, 2), ["grant order 7", "grant order 8"]);
  });

  it("gives its own orders numbers behind theirs, in each term", () => {
    const ordersFrom = ordersBehind(orders);
    const numbers = [0, 1].map((term) => {
      const rig = new Rig({ term, orders: [], ordersFrom, stayUp: true });
      return rig.keeper.run("b", PROGRAM);
    });
    assert.deepEqual([ordersBehind([]), ...numbers], [0, 2 ** 20, 2 ** 21]);
  });
});
