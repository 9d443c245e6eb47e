import { beforeEach, describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { emptyDigest } from "../digest.ts";
import type { NodePlan, RackPlan } from "../rack/plan.ts";
import { type Grant, type Report, spanNumber, type Welcome } from "./clock.ts";
import { NEVER, type Time } from "./time.ts";
import type { RecordedFault, Summary } from "./record.ts";
import { Timekeeper } from "./timekeeper.ts";

const NAMES = ["a", "b", "c"];
/** Least delays between partitions, a chain a – b – c. */
const LOOKAHEAD = [[200, 100, 250], [100, 200, 150], [250, 150, 300]];

function planWith(options: Partial<RackPlan> = {}): RackPlan {
  const nodes = NAMES.map((name): NodePlan => ({
    name,
    kind: "switch",
    config: { ports: 2, mode: "store-and-forward", latencyPs: 10, queueBytes: 1, forwarding: [] },
  }));
  const cable = { kind: "network" as const, latencyPs: 80, bitsPerSecond: 100e12 };
  const cables = [
    { ...cable, a: { node: "a", port: 0 }, b: { node: "b", port: 0 } },
    { ...cable, a: { node: "b", port: 1 }, b: { node: "c", port: 0 } },
  ];
  return {
    scenario: "x",
    seed: 1,
    nodes,
    cables,
    faults: [],
    until: null,
    addresses: {},
    ...options,
  };
}

/** A timekeeper and what it said. */
class Rig {
  readonly grants: [string, Grant][] = [];
  readonly welcomes = new Map<string, Welcome>();
  readonly kills: [string, Time][] = [];
  readonly starts: [string, Time][] = [];
  readonly records: RecordedFault[] = [];
  asked = 0;
  finished: Summary | undefined;
  readonly keeper: Timekeeper;

  constructor(
    options: {
      plan?: RackPlan;
      term?: number;
      recorded?: RecordedFault[];
    } = {},
  ) {
    this.keeper = new Timekeeper({
      plan: options.plan ?? planWith(),
      partitions: NAMES.map((name) => ({ name, nodes: [name] })),
      lookahead: LOOKAHEAD,
      term: options.term ?? 0,
      recorded: options.recorded ?? [],
      stayUp: false,
    }, {
      welcome: (partition, welcome) => this.welcomes.set(partition, welcome),
      grant: (partition, grant) => this.grants.push([partition, grant]),
      ask: () => this.asked++,
      kill: (partition, _instance, at) => this.kills.push([partition, at]),
      start: (partition, at) => this.starts.push([partition, at]),
      record: (fault) => this.records.push(fault),
      finished: (summary) => this.finished = summary,
    });
  }

  join(...names: string[]): void {
    for (const name of names) this.keeper.join({ partition: name, instance: `${name}1` }, 0);
  }

  /** The grants since the last call. */
  take(): [string, Grant][] {
    return this.grants.splice(0);
  }

  report(partition: string, report: Partial<Report>): void {
    const { high, low } = emptyDigest();
    this.keeper.report({
      term: 0,
      partition,
      incarnation: 0,
      grant: 1,
      reached: 0,
      next: NEVER,
      now: 0,
      ran: 0,
      events: 0,
      sent: [],
      digests: [[partition, high, low, 0]],
      stopped: false,
      taken: null,
      ...report,
    }, 0);
  }

  /** Everybody does what was granted, and has nothing more to do. */
  answerAll(report: Partial<Report> = {}): void {
    for (let grants = this.take(); grants.length > 0; grants = this.take()) {
      for (const [name, { id, incarnation, horizon }] of grants) {
        this.report(name, { incarnation, grant: id, ran: Math.min(horizon, 9_000), ...report });
      }
    }
  }

  /** All three are here and have booted; each with its next event. */
  settle(next: Readonly<Record<string, Time>>): void {
    this.join(...NAMES);
    for (const name of NAMES) this.report(name, { next: next[name]! });
  }
}

const horizons = (grants: readonly [string, Grant][]) =>
  Object.fromEntries(grants.map(([name, { horizon }]) => [name, horizon]));

describe("Timekeeper", () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });

  it("grants each partition the least of the others' next events and their distance", () => {
    rig.join(...NAMES);
    assert.deepEqual(horizons(rig.take()), { a: 100, b: 100, c: 150 });
  });

  it("grants only those that have something to do before their horizon", () => {
    rig.settle({ a: 1_000, b: NEVER, c: 5_000 });
    // c's event at 5000 is beyond what a can cause (1000 + 250): it is not woken.
    assert.deepEqual(horizons(rig.take().slice(3)), { a: 5_250 });
  });

  it("lets a lone partition run as far as it likes: its own loop is its own business", () => {
    rig.settle({ a: 1_000, b: NEVER, c: NEVER });
    assert.deepEqual(horizons(rig.take().slice(3)), { a: NEVER });
  });

  it("counts what was sent and not yet taken as the receiver's next event", () => {
    rig.settle({ a: 1_000, b: NEVER, c: NEVER });
    rig.take();
    rig.report("a", { grant: 2, next: 9_000, sent: [["b", 0, 3, 1_200]] });
    const [[name, grant]] = rig.take() as [[string, Grant]];
    assert.equal(name, "b");
    assert.deepEqual(grant.expect, [["a", 0, 3]]);
    assert.equal(grant.horizon, 9_100);
    // a's event at 9000 may yet be answered by what b does at 1200.
    assert.deepEqual(rig.take(), []);
  });

  it("keeps for a partition that comes late what was sent to it before", () => {
    rig.join("a", "c");
    rig.report("a", { next: 4_000, sent: [["b", 0, 2, 95]] });
    rig.take();
    rig.join("b");
    assert.deepEqual(rig.welcomes.get("b")!.sentSoFar, []);
    rig.report("b", { next: NEVER });
    assert.deepEqual(rig.take().find(([name]) => name === "b")![1].expect, [["a", 0, 2]]);
  });

  it("confirms to the sender what was taken, with its next grant", () => {
    rig.settle({ a: 1_000, b: NEVER, c: NEVER });
    rig.report("a", { grant: 2, next: 9_000, sent: [["b", 0, 3, 1_200]] });
    rig.take();
    rig.report("b", { grant: 2, next: NEVER });
    assert.deepEqual(rig.take()[0]![1].confirmed, [["b", 3]]);
  });

  it("ignores reports of another term, incarnation or grant", () => {
    rig.join(...NAMES);
    rig.take();
    for (const stale of [{ term: 3 }, { incarnation: 1 }, { grant: 9 }]) {
      rig.report("a", { next: 5, ...stale });
    }
    assert.equal(rig.keeper.why(0)[0]!.status, "running");
  });

  it("finishes when nothing will happen any more, not before", () => {
    rig.settle({ a: NEVER, b: NEVER, c: 700 });
    assert(!rig.keeper.finished);
    rig.report("c", { grant: 2, next: NEVER, now: 700, events: 4 });
    assert.equal(rig.finished?.reason, "quiet");
    assert.equal(rig.finished?.virtualPs, 700);
  });

  it("finishes at the plan's end, with nothing granted beyond it", () => {
    rig = new Rig({ plan: planWith({ until: 500 }) });
    rig.settle({ a: 400, b: NEVER, c: NEVER });
    assert.deepEqual(horizons(rig.take().slice(3)), { a: 500 });
    rig.report("a", { grant: 2, next: 600 });
    assert.equal(rig.finished?.reason, "until");
  });

  it("grants nothing while paused, a step at a time when asked, and goes on", () => {
    rig.join(...NAMES);
    rig.keeper.pause();
    for (const name of NAMES) rig.report(name, { next: 1_000 });
    rig.take();
    assert.deepEqual(rig.take(), []);
    rig.keeper.resume({ limit: 1_001, wallMs: 0 });
    assert.deepEqual(horizons(rig.take()), { a: 1_001, b: 1_001, c: 1_001 });
    for (const name of NAMES) rig.report(name, { grant: 2, next: 2_000 });
    assert.deepEqual(rig.take(), []);
    rig.keeper.resume({ wallMs: 0 });
    assert.equal(rig.take().length, 3);
  });

  it("pauses where a partition stopped at the wanted step", () => {
    rig.join(...NAMES);
    rig.keeper.resume({ stopOn: "S907", wallMs: 0 });
    for (const name of NAMES) rig.report(name, { next: 1_000 });
    assert.equal(rig.take().at(-1)![1].stopOn, "S907");
    rig.report("a", { grant: 2, next: 1_100, stopped: true });
    assert(rig.keeper.paused);
  });

  it("always has an answer to why time is not moving", () => {
    rig.settle({ a: 1_000, b: NEVER, c: 5_000 });
    const why = rig.keeper.why(50);
    assert.deepEqual(why.map(({ status, heldBy }) => [status, heldBy]), [
      ["running", ""],
      ["idle", ""],
      ["idle", "a"],
    ]);
    assert.equal(why[0]!.next, 1_000);
    assert.equal(why[0]!.sinceMs, 50);
  });

  it("repeats a grant that may have been lost, and only that", () => {
    rig.settle({ a: 1_000, b: NEVER, c: NEVER });
    rig.take();
    rig.keeper.repeat(1_000, 100);
    assert.deepEqual(rig.take().map(([name, { id }]) => [name, id]), [["a", 2]]);
  });
});

describe("Timekeeper, when power fails", () => {
  it("carries out a scripted failure when nothing can happen before it, and tells the neighbours", () => {
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

  it("welcomes the process that comes back with the life, digest and last span of the one before", () => {
    const faults = [
      { at: 2_000, action: "kill" as const, node: "b" },
      { at: 3_000, action: "start" as const, node: "b" },
    ];
    const rig = new Rig({ plan: planWith({ faults }) });
    rig.settle({ a: NEVER, b: NEVER, c: NEVER });
    rig.keeper.join({ partition: "b", instance: "b2" }, 0);
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

  it("dates an unscripted death where nobody has run past the news, and records it", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: 1_500, c: NEVER });
    rig.report("a", { grant: 2, next: 4_000, now: 1_000, ran: 1_000 });
    rig.keeper.died("b", { instance: "b1", wallMs: 0 });
    const [{ at, settledSpan }] = rig.records as [RecordedFault];
    assert(at <= 1_500 && at + LOOKAHEAD[1]![0]! > 1_000, String(at));
    assert.equal(settledSpan, 1);
  });

  it("takes the same death once, from whoever tells of it, and no death of a process that is not it", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: 1_500, c: NEVER });
    rig.keeper.died("b", { instance: "b0", wallMs: 0 });
    assert.equal(rig.records.length, 0);
    rig.keeper.died("b", { instance: "b1", wallMs: 0 });
    rig.keeper.died("b", { instance: "b1", wallMs: 0 });
    rig.report("a", { grant: 2, next: 4_000, now: 1_000, ran: 1_000 });
    rig.keeper.died("b", { instance: "b1", wallMs: 0 });
    assert.equal(rig.records.length, 1);
  });

  it("dates a death before what a partition that runs is just sending to the dead", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: NEVER, c: 5_000 });
    assert.equal(rig.take().at(-1)![1].horizon, 5_250);
    assert.equal(rig.keeper.died("b", { instance: "b1", wallMs: 0 }), false, "tell me again");
    assert.equal(rig.records.length, 0, "a may still send something: wait for it");
    assert.deepEqual(rig.take(), []);
    rig.report("a", { grant: 2, ran: 1_000, sent: [["b", 0, 1, 1_100]] });
    assert.equal(rig.records.length, 1);
    assert.equal(rig.keeper.died("b", { instance: "b1", wallMs: 0 }), true, "it is on record");
    assert(rig.records[0]!.at <= 1_100, `b had not taken it, so it is dead by then`);
  });

  it("dates two deaths so that neither has done what the other's would have changed", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: 1_500, c: 3_000 });
    rig.keeper.died("b", { instance: "b1", wallMs: 0 });
    rig.keeper.died("c", { instance: "c1", wallMs: 0 });
    rig.report("a", { grant: 2, next: 9_000, ran: 1_590 });
    const [b, c] = rig.records.map(({ at }) => at);
    assert(b! <= 1_500 && b! > 1_590 - LOOKAHEAD[1]![0]!);
    assert(c! <= b! + 97, "it did not hear that b was gone");
    assert(c! + LOOKAHEAD[2]![1]! >= b!, "nor b that it was");
  });

  it("lets a process wait that comes back before the instant of the death is known", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: NEVER, c: 5_000 });
    rig.keeper.died("b", { instance: "b1", wallMs: 0 });
    rig.keeper.join({ partition: "b", instance: "b2" }, 0);
    assert.equal(rig.records.length, 0);
    rig.report("a", { grant: 2, next: 9_000, ran: 1_000 });
    assert.deepEqual(rig.records.map(({ action }) => action), ["kill", "start"]);
    const { instance, incarnation, settledSpan } = rig.welcomes.get("b")!;
    assert.deepEqual([instance, incarnation, settledSpan], ["b2", 1, 1]);
  });

  it("does not give power to a process that died again while it waited for it", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: NEVER, c: 5_000 });
    rig.keeper.died("b", { instance: "b1", wallMs: 0 });
    rig.keeper.join({ partition: "b", instance: "b2" }, 0);
    rig.keeper.died("b", { instance: "b2", wallMs: 0 });
    rig.report("a", { grant: 2, next: 9_000, ran: 1_000 });
    assert.deepEqual(rig.records.map(({ action }) => action), ["kill"]);
    rig.keeper.join({ partition: "b", instance: "b3" }, 0);
    rig.answerAll();
    assert.deepEqual(rig.records.map(({ action }) => action), ["kill", "start"]);
    assert.equal(rig.welcomes.get("b")!.instance, "b3");
  });

  it("P-05: counts of a second life what it reported, and all of the first life's", () => {
    const rig = new Rig();
    rig.settle({ a: 3_000, b: NEVER, c: 9_000 });
    rig.keeper.join({ partition: "b", instance: "b2" }, 0);
    rig.report("a", { grant: 2, next: 4_000, ran: 3_000 });
    const grants = rig.take();
    assert.equal(grants.filter(([name, { id }]) => name === "b" && id === 1).length, 2);
    rig.keeper.died("b", { instance: "b2", wallMs: 0 });
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
    rig.keeper.join({ partition: "b", instance: "b2" }, 0);
    rig.report("c", { grant: 2, next: 9_500, now: 9_000, ran: 9_000 });
    assert.deepEqual(rig.records.map(({ action }) => action), ["kill", "start"]);
    assert(rig.welcomes.get("b")!.bootAt > rig.records[0]!.at);
  });
});

describe("Timekeeper, restarted", () => {
  it("P-41: keeps all that a process had written that died before it could answer", () => {
    const rig = new Rig({ term: 1 });
    const state = { term: 1, grant: 5, taken: [] as Report["taken"], next: NEVER, ran: 900 };
    rig.report("a", state);
    rig.report("c", state);
    rig.keeper.died("b", { instance: "b1", wallMs: 0 });
    assert.equal(rig.records.length, 1);
    assert.equal(rig.records[0]!.settledSpan, Number.MAX_SAFE_INTEGER);
    rig.answerAll({ term: 1 });
    assert.equal(rig.finished?.exact, false, "what it had still to do is not known");
  });

  it("grants nothing before every partition has told what it knows, the dead apart", () => {
    const dead: RecordedFault = {
      at: 700,
      action: "kill",
      partition: "c",
      nodes: ["c"],
      instance: "c1",
      incarnation: 0,
      settledSpan: 3,
      digests: [["c", 1, 2, 3]],
    };
    const rig = new Rig({ term: 1, recorded: [dead] });
    assert.equal(rig.asked, 1);
    const state = { term: 1, grant: 5, taken: [] as Report["taken"] };
    rig.report("a", { ...state, next: 1_000, sent: [["b", 0, 4, 1_050]] });
    assert.deepEqual(rig.take(), []);
    rig.report("b", { ...state, next: 2_000, taken: [["a", 0, 3]] });
    const grants = rig.take();
    assert.deepEqual(grants.map(([name, { id }]) => [name, id]), [["b", 6]]);
    assert.deepEqual(grants[0]![1].expect, [["a", 0, 4]]);
    // b is told again that c is gone: it knows whether it has heard it.
    assert.deepEqual(grants[0]![1].links.map(({ at, up }) => [at, up]), [[797, false]]);
    assert.equal(
      rig.keeper.summary("quiet").nodes.find(([n]) => n === "c")![1],
      "0000000100000002",
    );
  });

  it("does once more what an earlier one may not have had done: kill, and start", () => {
    const faults = [
      { at: 700, action: "kill" as const, node: "c" },
      { at: 900, action: "start" as const, node: "c" },
    ];
    const dead: RecordedFault = {
      at: 700,
      action: "kill",
      partition: "c",
      nodes: ["c"],
      instance: "c1",
      incarnation: 0,
      settledSpan: 3,
      digests: [["c", 1, 2, 3]],
    };
    const rig = new Rig({ plan: planWith({ faults }), term: 1, recorded: [dead] });
    assert.deepEqual(rig.kills, [["c", 700]]);
    assert.deepEqual(rig.starts, [["c", 900]]);
  });

  it("knows from the record which process has power, and takes no earlier death for its", () => {
    const common = { partition: "c", nodes: ["c"], digests: [] };
    const recorded: RecordedFault[] = [
      { ...common, at: 700, action: "kill", instance: "c1", incarnation: 0, settledSpan: 3 },
      { ...common, at: 800, action: "start", instance: "c2", incarnation: 1, settledSpan: 3 },
    ];
    const rig = new Rig({ term: 1, recorded });
    const status = () => rig.keeper.why(0).find(({ partition }) => partition === "c")!.status;
    assert.equal(rig.keeper.died("c", { instance: "c1", wallMs: 0 }), true);
    assert.equal(status(), "unknown");
    rig.keeper.join({ partition: "c", instance: "c2" }, 0);
    assert.equal(status(), "joining", "it had not heard that it has power");
  });

  it("forgets nothing when a partition answers a second time that was granted something since", () => {
    const rig = new Rig({ term: 1 });
    const state = { term: 1, grant: 5, taken: [] as Report["taken"] };
    rig.report("a", { ...state, next: 3_000, sent: [["b", 0, 4, 1_050]] });
    rig.report("c", state);
    const answer = { ...state, next: 2_000, taken: [["a", 0, 3]] as Report["taken"] };
    rig.report("b", answer);
    const [[name, grant]] = rig.take() as [[string, Grant]];
    assert.deepEqual([name, grant.id, grant.expect], ["b", 6, [["a", 0, 4]]]);
    rig.report("b", answer);
    assert.deepEqual(rig.take(), [], "it does not yet know of its grant");
    rig.keeper.repeat(1_000, 100);
    assert.deepEqual(rig.take(), [["b", grant]]);
    // Its answer to the grant was lost, and the question came once more.
    rig.report("b", { ...answer, grant: 6, next: 2_500 });
    assert.equal(rig.keeper.why(0).find(({ partition }) => partition === "b")!.next, 2_500);
  });

  it("says of a run that it is not exact, also when it was an earlier one that noticed", () => {
    const unseen: RecordedFault = {
      at: 700,
      action: "kill",
      partition: "c",
      nodes: ["c"],
      instance: "c1",
      incarnation: 0,
      settledSpan: Number.MAX_SAFE_INTEGER,
      digests: [["c", 1, 2, 3]],
    };
    assert.equal(new Rig({ term: 2, recorded: [unseen] }).keeper.summary("quiet").exact, false);
  });

  it("lets a process that knows nothing begin with the run where nobody has run past it", () => {
    const rig = new Rig({ term: 1 });
    const state = { term: 1, grant: 1, taken: [] as Report["taken"] };
    rig.keeper.join({ partition: "c", instance: "c1" }, 0);
    rig.report("a", { ...state, next: 300, ran: 90 });
    assert.equal(rig.welcomes.size, 0);
    rig.report("b", { ...state, next: 300, ran: 90 });
    assert.equal(rig.welcomes.get("c")!.bootAt, 0);
    assert.equal(rig.records.length, 0);
  });

  it("takes such a process for the successor of one that died unseen where they have", () => {
    const rig = new Rig({ term: 1 });
    const state = { term: 1, grant: 1, taken: [] as Report["taken"] };
    rig.keeper.join({ partition: "c", instance: "c1" }, 0);
    rig.report("a", { ...state, next: NEVER, ran: 9_000 });
    rig.report("b", { ...state, next: NEVER, ran: 9_000 });
    assert.deepEqual(rig.records.map(({ action }) => action), ["kill", "start"]);
    assert(rig.welcomes.get("c")!.bootAt > 9_000);
  });
});
