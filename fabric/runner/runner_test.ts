/** One partition's runner, by hand: the test is timekeeper, peer and bus. Nothing here waits for a timer. */
import assert from "node:assert/strict";
import { afterEach, describe, it } from "@std/testing/bdd";
import { NEVER, type Time } from "../base/time.ts";
import type { BusHandler } from "../bus/bus.ts";
import { decodeSealed, encodeSealed } from "../bus/codec.ts";
import { matches } from "../bus/memory_bus_testing.ts";
import { subjectOf } from "../bus/subjects.ts";
import {
  type Grant,
  newsToBytes,
  type Report,
  reportFromBytes,
  spanNumber,
  type Welcome,
} from "../clock/clock.ts";
import type { Event } from "../partition/event_queue.ts";
import {
  frame,
  leastPs,
  messageFromC,
  PARTITION_OF,
  powerOfC,
  PROCESSING_PS,
  type RigOptions,
  type Script,
  scriptedNodes,
  sendsAtPower,
  threeInARow,
} from "../partition/partition_testing.ts";
import { Runner, type RunnerOptions } from "./runner.ts";
import { batchToBytes } from "./wire_batch.ts";

const RUN = "r";
const WELCOME: Welcome = {
  term: 1,
  instance: "ab-1",
  incarnation: 0,
  bootAt: 0,
  settledSpan: 0,
  lives: [["a", 0, 1, 2, 0], ["b", 0, 1, 2, 0]],
  noticed: [],
  sentSoFar: [],
};

const open: Runner[] = [];
afterEach(() => open.splice(0).forEach((runner) => runner.stop()));

/** A runner of a and b, with what it did, in order: stored, published, reported. */
function rigOf(
  options: Pick<RigOptions, "plan" | "scripts" | "durable"> & Partial<Omit<RunnerOptions, "plan">> =
    {},
) {
  const { plan: changes, scripts, durable, ...rest } = options;
  const log: string[] = [];
  const reports: Report[] = [];
  const sent: { first: number; rows: unknown[] }[] = [];
  const handlers: { pattern: string; handler: BusHandler }[] = [];
  const { heard, create } = scriptedNodes({
    ...(scripts && { scripts }),
    ...(durable && { durable }),
  });
  function publish(subject: string, payload: Uint8Array): void {
    const kind = subject.split(".").slice(2, 4).join(".");
    log.push(kind);
    if (kind === "clock.report") reports.push(reportFromBytes(payload)!);
    if (!kind.startsWith("wire.")) return;
    const [, first, rows] = decodeSealed(payload) as [number, number, unknown[]];
    sent.push({ first, rows });
  }
  const runner = new Runner({
    run: RUN,
    partition: "ab",
    nodes: ["a", "b"],
    plan: threeInARow(changes && { plan: changes }),
    partitionOf: PARTITION_OF,
    returnDelay: () => NEVER,
    instance: "ab-1",
    bus: {
      maxPayload: 1 << 20,
      publish,
      subscribe(pattern, handler) {
        handlers.push({ pattern, handler });
        return { close: () => {} };
      },
    },
    create: (...of) => {
      log.push(`create ${of[0]}`);
      return create(...of);
    },
    stores: new Map(["a", "b"].map((host) => [host, {
      settle: (span) => log.push(`settle ${host} ${span}`),
      commit: (span, writes) =>
        log.push(`store ${host} ${span}: ${writes.map(({ offset }) => offset)}`),
      close: () => {},
    }])),
    onFatal: (error) => {
      throw error;
    },
    ...rest,
  });
  open.push(runner);
  runner.start();
  const say = (subject: string, value: unknown) => sayBytes(subject, encodeSealed(value));
  function sayBytes(subject: string, payload: Uint8Array): void {
    for (const { pattern, handler } of handlers) {
      if (matches(pattern, subject)) {
        handler(payload as Uint8Array<ArrayBuffer>, subject);
      }
    }
  }
  const clock = subjectOf({ kind: "clock.grant", run: RUN, partition: "ab" });
  return {
    runner,
    log,
    reports,
    sent,
    heard,
    welcome: (of: Partial<Welcome> = {}) =>
      sayBytes(clock, newsToBytes({ kind: "welcome", body: { ...WELCOME, ...of } })),
    grant: (id: number, of: Partial<Grant> = {}) =>
      sayBytes(clock, newsToBytes({ kind: "grant", body: { ...GRANT, id, ...of } })),
    /** c sends these events, the first of which is its event number `first`. */
    fromC: (events: readonly Event[], of: { incarnation?: number; first?: number } = {}) =>
      sayBytes(
        subjectOf({ kind: "wire", run: RUN, from: "c", to: "ab" }),
        batchToBytes({ incarnation: of.incarnation ?? 0, first: of.first ?? 0, events }),
      ),
    ask: (term: number) => say(subjectOf({ kind: "clock.ask", run: RUN }), term),
    again: (incarnation: number, from: number) =>
      say(subjectOf({ kind: "again", run: RUN, asker: "c", of: "ab" }), [incarnation, from]),
  };
}

const GRANT: Grant = {
  term: 1,
  incarnation: 0,
  id: 1,
  horizon: 100_000,
  expect: [],
  confirmed: [],
  links: [],
  runs: [],
  cables: [],
  lost: [],
  breaks: [],
};

describe("Runner, welcomed", () => {
  it("makes good what an earlier process left before it makes its nodes", () => {
    const { log, welcome, grant } = rigOf();
    welcome({ settledSpan: 7 });
    grant(1);
    assert.deepEqual(log.filter((line) => /settle|create/.test(line)), [
      "settle a 7",
      "settle b 7",
      "create a",
      "create b",
    ]);
  });

  it("takes only a welcome that names it, and that once", () => {
    const { heard, welcome, grant, runner } = rigOf();
    welcome({ instance: "ab-0" });
    grant(1);
    assert.equal(runner.partition, undefined);
    welcome();
    welcome({ bootAt: 50_000 });
    grant(1);
    assert.ok(heard.includes("a/0 power @0"));
  });

  const second = {
    incarnation: 1,
    bootAt: 50_000,
    lives: [["a", 1, 1, 2, 3], ["b", 1, 1, 2, 3]],
  } satisfies Partial<Welcome>;

  it("hears what arrives as its power comes, and nothing from before", () => {
    const { heard, welcome, grant, fromC } = rigOf();
    welcome(second);
    fromC([49_999, 50_000].map((at, counter) => messageFromC(at, { counter, targetLife: 1 })));
    grant(1, { incarnation: 1, expect: [["c", 0, 2]] });
    assert.deepEqual(heard.filter((line) => line.includes("message")), ["b/1 message:1 @50000"]);
  });

  it("finds its cables as the news left them that came before its power did", () => {
    const down = { at: 20_000, target: 1, port: 1, up: false, source: 2, sourceLife: 0 };
    const told = rigOf();
    told.welcome({ ...second, noticed: [down] });
    told.grant(1, { incarnation: 1 });
    const late = rigOf();
    late.welcome(second);
    late.grant(1, { incarnation: 1, links: [down] });
    for (const { heard } of [told, late]) {
      assert.ok(heard.includes("b/1 down:1 @50000"), heard.join());
    }
  });

  it("begins after what its earlier life was sent", () => {
    const { heard, welcome, grant, fromC } = rigOf();
    welcome({ ...second, sentSoFar: [["c", 0, 1]] });
    fromC([60_000, 61_000].map((at, counter) => messageFromC(at, { counter, targetLife: 1 })));
    grant(1, { incarnation: 1, expect: [["c", 0, 2]] });
    assert.deepEqual(heard.filter((line) => line.includes("message")), ["b/1 message:1 @61000"]);
  });

  it("carries out the plan's power failures where it is several nodes, not where it is one", () => {
    const faults = [{ at: 10_000, action: "kill", node: "b" }] as const;
    for (const nodes of [["a", "b"], ["b"]]) {
      const { welcome, grant, fromC, heard } = rigOf({ nodes, plan: { faults } });
      welcome({ lives: nodes.map((name) => [name, 0, 1, 2, 0] as const) });
      fromC([messageFromC(20_000)]);
      grant(1, { expect: [["c", 0, 1]] });
      assert.equal(heard.includes("b/0 message:1 @20000"), nodes.length === 1, nodes.join());
    }
  });
});

describe("Runner, granted", () => {
  it("waits for all that the grant names, and takes no more than that", () => {
    const { heard, welcome, grant, fromC, reports } = rigOf();
    welcome();
    fromC([messageFromC(20_000)]);
    grant(1, { expect: [["c", 0, 2]] });
    assert.equal(reports.length, 0);
    fromC([messageFromC(21_000), messageFromC(22_000)], { first: 1 });
    assert.equal(reports.length, 1);
    const messages = () => heard.filter((line) => line.includes("message"));
    assert.deepEqual(messages(), ["b/0 message:1 @20000", "b/0 message:1 @21000"]);
    grant(2, { horizon: 200_000 });
    assert.equal(messages().length, 2, "what no grant names has not been sent");
  });

  it("does without what is lost together with its sender's life, and with that one only", () => {
    const { welcome, grant, reports } = rigOf();
    welcome();
    grant(1, { expect: [["c", 1, 2]] });
    grant(1, { expect: [["c", 1, 2]], lost: [["c", 0]] });
    assert.equal(reports.length, 0);
    grant(1, { expect: [["c", 1, 2]], lost: [["c", 1]] });
    assert.equal(reports.length, 1);
  });

  it("has stored a span and committed it to its observer before anything of it is published, its report last", () => {
    const rig = rigOf({
      scripts: { b: sendsAtPower(1) },
      durable: { "a/0": [10], "b/0": [20, 30] },
      observer: { scope: "notes", see: () => {}, commit: (span) => rig.log.push(`seen ${span}`) },
    });
    rig.welcome({ incarnation: 3 });
    rig.log.length = 0;
    rig.grant(1, { incarnation: 3 });
    const span = spanNumber(3, 1);
    assert.deepEqual(rig.log.filter((line) => !line.startsWith("create")), [
      `store a ${span}: 10`,
      `store b ${span}: 20,30`,
      `seen ${span}`,
      "wire.ab",
      "clock.report",
    ]);
    assert.deepEqual(rig.reports[0]!.sent, [["c", 3, 1, leastPs("b")]]);
  });

  it("repeats its report for a repeated grant, and does nothing twice", () => {
    const { welcome, grant, reports, heard, log } = rigOf({ scripts: { b: sendsAtPower(1) } });
    welcome();
    grant(1);
    const events = heard.length, said = log.filter((line) => line === "wire.ab").length;
    grant(1, { horizon: 500_000 });
    assert.deepEqual(reports[1], reports[0]);
    assert.deepEqual([heard.length, log.filter((line) => line === "wire.ab").length], [
      events,
      said,
    ]);
  });

  it("refuses grants of another life, of an older timekeeper and out of turn", () => {
    const { welcome, grant, reports, runner } = rigOf();
    welcome({ incarnation: 2, term: 4 });
    grant(1, { incarnation: 1, term: 4 });
    grant(1, { incarnation: 2, term: 3 });
    grant(2, { incarnation: 2, term: 4 });
    assert.equal(reports.length, 0);
    // The others may be late; one out of turn is nobody's.
    assert.deepEqual(runner.refusals.rows(), [[`rack.${RUN}.clock.grant.ab`, 1]]);
    grant(1, { incarnation: 2, term: 5 });
    // The newer term counts from now on.
    grant(2, { incarnation: 2, term: 4 });
    assert.deepEqual(reports.map(({ grant: id, term }) => [id, term]), [[1, 5]]);
  });

  it("keeps what it has sent until that is confirmed, and sends it again when asked", () => {
    const { welcome, grant, again, sent } = rigOf({ scripts: { b: sendsAtPower(1, 1, 1) } });
    welcome();
    grant(1);
    sent.length = 0;
    again(0, 1);
    assert.deepEqual(sent.map(({ first, rows }) => [first, rows.length]), [[1, 2]]);
    grant(2, { horizon: 200_000, confirmed: [["c", 2]] });
    sent.length = 0;
    again(0, 0);
    assert.deepEqual(sent.map(({ first, rows }) => [first, rows.length]), [[2, 1]]);
    sent.length = 0;
    again(1, 0);
    assert.deepEqual(sent, [], "that was asked of another life");
  });

  it("takes up an order once, though a new timekeeper repeats it: programs, cables, power", () => {
    const program = { run: "get", at: 0, service: false, options: {} };
    const { welcome, grant, heard, fromC } = rigOf();
    welcome();
    const orders: Partial<Grant> = {
      runs: [{ at: 150_000, host: "b", counter: 0, program }],
      cables: [{ id: 0, action: "cut", cable: 0, direction: "both", at: 150_000 }],
      links: [{ at: 160_000, target: 1, port: 1, up: false, source: 2, sourceLife: 0 }],
    };
    grant(1, orders);
    // The news of c's end came from c as well.
    fromC([powerOfC(160_000, { up: false, sourceLife: 0 })]);
    grant(2, { ...orders, term: 2, horizon: 300_000, expect: [["c", 0, 1]] });
    assert.deepEqual(
      heard.slice(2).sort(),
      [
        `a/0 down:0 @${150_000 + leastPs("b")}`,
        "b/0 down:1 @160000",
        `b/0 down:0 @${150_000 + leastPs("a")}`,
        "b/0 run @150000",
      ].sort(),
    );
  });

  it("separates the news of one life of a neighbour from those of the next", () => {
    const { welcome, grant, heard } = rigOf();
    welcome();
    const news = [[1, false, 0], [2, true, 1], [3, false, 1], [4, true, 2]] as const;
    grant(1, {
      links: news.map(([i, up, sourceLife]) => ({
        at: i * 1_000,
        target: 1,
        port: 1,
        up,
        source: 2,
        sourceLife,
      })),
    });
    assert.deepEqual(heard.slice(2), [
      "b/0 down:1 @1000",
      "b/0 up:1 @2000",
      "b/0 down:1 @3000",
      "b/0 up:1 @4000",
    ]);
  });

  it("hears of the end of a neighbour's life though the next one has spoken already", () => {
    const { welcome, grant, heard, fromC } = rigOf();
    welcome();
    const ended = { at: 1_000, target: 1, port: 1, up: false, source: 2, sourceLife: 0 };
    fromC([powerOfC(2_000, { up: true, sourceLife: 1 })], { incarnation: 1 });
    grant(1, { links: [ended], expect: [["c", 1, 1]] });
    // A new timekeeper tells it all again.
    grant(2, { term: 2, links: [ended, { ...ended, at: 2_000, up: true, sourceLife: 1 }] });
    assert.deepEqual(heard.slice(2), ["b/0 down:1 @1000", "b/0 up:1 @2000"]);
  });

  it("brings what a program needs before it starts it", async () => {
    const program = { run: "mine", at: 0, service: false, options: {} };
    const loaded = Promise.withResolvers<void>();
    const asked: string[] = [];
    const done = Promise.withResolvers<void>();
    const { welcome, grant, heard } = rigOf({
      load: (names) => {
        asked.push(...names);
        return loaded.promise;
      },
      hesitate: () => done.resolve(),
    });
    welcome();
    grant(1, { runs: [{ at: 1_000, host: "b", counter: 0, program }] });
    assert.deepEqual([asked, heard], [["mine"], []]);
    loaded.resolve();
    await done.promise;
    assert.ok(heard.includes("b/0 run @1000"));
  });

  it("stops with the instant of the wanted step of any node, or of the one named, and reports it", () => {
    const steps: Script = ({ now, input, out }) => {
      out.trace({ step: "S907", text: "" });
      if (input.kind === "power") return 5_000;
      return now < 15_000 ? 15_000 : NEVER;
    };
    for (
      const [breaks, hits, reached] of [
        [[["S907", "", 1]], [[0, "a", 0]], 1],
        [[["S908", "", 1], ["S907", "b", 1]], [[1, "b", 5_000]], 5_001],
        [[["S907", "a", 2]], [[0, "a", 0], [0, "a", 5_000]], 5_001],
        [[["S908", "", 1]], [], 100_000],
        [[["S907", "c", 1]], [], 100_000],
      ] as const
    ) {
      const scripts = breaks.some(([, node]) => node === "b") ? { b: onWake(steps) } : { a: steps };
      const { welcome, grant, reports } = rigOf({ scripts });
      welcome();
      grant(1, { breaks });
      assert.deepEqual([reports[0]!.hits, reports[0]!.reached], [hits, reached], String(breaks));
    }
  });
});

/** The same, but in silence until its first deadline. */
function onWake(script: Script): Script {
  return (moment) => moment.input.kind === "power" ? 5_000 : script(moment);
}

describe("Runner, asked by a new timekeeper", () => {
  it("reports all that it has sent and taken, and drops a grant that it has not begun", () => {
    const { welcome, grant, ask, fromC, reports, heard } = rigOf({
      scripts: { b: sendsAtPower(1, 1) },
    });
    welcome();
    fromC([messageFromC(20_000)]);
    grant(1, { expect: [["c", 0, 1]] });
    grant(2, { horizon: 200_000, expect: [["c", 0, 2]] });
    const events = heard.length;
    ask(2);
    const answer = reports.at(-1)!;
    assert.deepEqual([answer.term, answer.grant, answer.taken], [2, 1, [["c", 0, 1]]]);
    assert.deepEqual(answer.sent, [["c", 0, 2, leastPs("b")]]);
    fromC([messageFromC(150_000)], { first: 1 });
    assert.equal(heard.length, events, "the grant was the last timekeeper's");
    grant(2, { term: 2, horizon: 200_000, expect: [["c", 0, 2]] });
    assert.equal(heard.at(-1), "b/0 message:1 @150000");
  });

  it("does not answer an older one", () => {
    const { welcome, ask, reports, runner } = rigOf();
    welcome({ term: 4 });
    ask(3);
    assert.equal(reports.length, 0);
    assert.equal(runner.refusals.total, 0);
  });

  it("asks to be let in where it has not begun", () => {
    const { ask, log, reports } = rigOf();
    log.length = 0;
    ask(2);
    assert.deepEqual([log, reports], [["clock.join"], []]);
  });
});

describe("Runner.sent", () => {
  it("counts what this life has sent, confirmed or not", () => {
    const sends: Script = ({ now, input, out }) => {
      if (input.kind === "power") out.send(1, frame(), now + PROCESSING_PS.b!);
      return input.kind === "power" ? 150_000 as Time : NEVER;
    };
    const { welcome, grant, runner } = rigOf({ scripts: { b: sends } });
    welcome();
    grant(1);
    grant(2, { horizon: 200_000, confirmed: [["c", 1]] });
    assert.equal(runner.sent, 1);
  });
});
