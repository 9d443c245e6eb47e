/** A timekeeper that takes over from one that was killed, at whatever moment that was. */
import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import type { Grant, Report } from "./clock.ts";
import type { RecordedFault } from "./record.ts";
import { NEVER } from "../base/time.ts";
import { planWith, Rig } from "./timekeeper_testing.ts";

/** The record of a partition that died with all of it reported. */
const DEAD: RecordedFault = {
  at: 700,
  action: "kill",
  partition: "c",
  nodes: ["c"],
  instance: "c1",
  incarnation: 0,
  settledSpan: 3,
  digests: [["c", 1, 2, 3]],
  sent: [],
};

describe("Timekeeper, restarted", () => {
  it("P-41 (in part): keeps all that a process had written that died before it could answer", () => {
    const rig = new Rig({ term: 1 });
    const state = { term: 1, grant: 5, taken: [] as Report["taken"], next: NEVER, ran: 900 };
    rig.report("a", state);
    rig.report("c", state);
    rig.keeper.died("b", "b1");
    assert.equal(rig.records.length, 1);
    assert.equal(rig.records[0]!.settledSpan, Number.MAX_SAFE_INTEGER);
    rig.answerAll({ term: 1 });
    assert.equal(rig.finished?.exact, false, "what it had still to do is not known");
  });

  it("grants nothing before every partition with power has reported", () => {
    const rig = new Rig({ term: 1, recorded: [DEAD] });
    assert.equal(rig.asked, 1);
    const state = { term: 1, grant: 5, taken: [] as Report["taken"] };
    rig.report("a", { ...state, next: 1_000, sent: [["b", 0, 4, 1_050]] });
    assert.deepEqual(rig.take(), []);
    rig.report("b", { ...state, next: 2_000, taken: [["a", 0, 3]] });
    const grants = rig.take();
    assert.deepEqual(grants.map(([name, { id }]) => [name, id]), [["b", 6]]);
    assert.deepEqual(grants[0]![1].expect, [["a", 0, 4]]);
    // b gets the news of c again, and drops them if it has had them.
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
    const rig = new Rig({ plan: planWith({ faults }), term: 1, recorded: [DEAD] });
    assert.deepEqual(rig.kills, [["c", 700]]);
    assert.deepEqual(rig.starts, [["c", 900]]);
  });

  it("knows from the record which process has power, and takes no earlier death for its", () => {
    const common = { partition: "c", nodes: ["c"], digests: [], sent: [] };
    const recorded: RecordedFault[] = [
      { ...common, at: 700, action: "kill", instance: "c1", incarnation: 0, settledSpan: 3 },
      { ...common, at: 800, action: "start", instance: "c2", incarnation: 1, settledSpan: 3 },
    ];
    const rig = new Rig({ term: 1, recorded });
    const status = () => rig.keeper.why().find(({ partition }) => partition === "c")!.status;
    assert.equal(rig.keeper.died("c", "c1"), true);
    assert.equal(status(), "unknown");
    rig.keeper.join({ partition: "c", instance: "c2" });
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
    rig.wallMs = 1_000;
    rig.keeper.repeat(100);
    assert.deepEqual(rig.take(), [["b", grant]]);
    // Its answer to the grant was lost, and the question came once more.
    rig.report("b", { ...answer, grant: 6, next: 2_500 });
    assert.equal(rig.keeper.why().find(({ partition }) => partition === "b")!.next, 2_500);
  });

  it("reports a run as inexact, also when an earlier one noticed", () => {
    assert.equal(new Rig({ term: 2, inexact: true }).keeper.summary("quiet").exact, false);
  });

  it("lets a process that knows nothing begin with the run where no partition has run past it", () => {
    const rig = new Rig({ term: 1 });
    const state = { term: 1, grant: 1, taken: [] as Report["taken"] };
    rig.keeper.join({ partition: "c", instance: "c1" });
    rig.report("a", { ...state, next: 300, ran: 90 });
    assert.equal(rig.welcomes.size, 0);
    rig.report("b", { ...state, next: 300, ran: 90 });
    assert.equal(rig.welcomes.get("c")!.bootAt, 0);
    assert.equal(rig.records.length, 0);
  });

  it("takes such a process for the successor of one that died unseen where they have", () => {
    const rig = new Rig({ term: 1 });
    const state = { term: 1, grant: 1, taken: [] as Report["taken"] };
    rig.keeper.join({ partition: "c", instance: "c1" });
    rig.report("a", { ...state, next: NEVER, ran: 9_000 });
    rig.report("b", { ...state, next: NEVER, ran: 9_000 });
    assert.deepEqual(rig.records.map(({ action }) => action), ["kill", "start"]);
    assert(rig.welcomes.get("c")!.bootAt > 9_000);
  });

  const dead: RecordedFault = {
    at: 700,
    action: "kill",
    partition: "c",
    nodes: ["c"],
    instance: "c1",
    incarnation: 0,
    settledSpan: 3,
    digests: [["c", 1, 2, 3]],
    sent: [["b", 4]],
  };
  const answer = { term: 1, grant: 5, taken: [] as Report["taken"] };

  it("knows from the record what a failed life had sent, and from the others what of it they took", () => {
    for (
      const { taken, expect } of [{ taken: 3, expect: [["c", 0, 4]] }, { taken: 4, expect: [] }]
    ) {
      const rig = new Rig({ term: 1, recorded: [dead] });
      rig.report("a", answer);
      rig.report("b", { ...answer, ran: 600, taken: [["c", 0, taken]] });
      const [, grant] = rig.take().find(([name]) => name === "b")!;
      assert.deepEqual(grant.expect, expect);
    }
  });

  it("counts nothing as still to come that was taken, whichever answers first", () => {
    for (const order of [["a", "b"], ["b", "a"]]) {
      const rig = new Rig({ term: 1 });
      const answers: Record<string, Partial<Report>> = {
        a: { ...answer, next: 9_000, ran: 5_000, sent: [["b", 0, 4, 1_050]] },
        b: { ...answer, next: 9_000, ran: 5_000, taken: [["a", 0, 4]] },
      };
      for (const name of order) rig.report(name, answers[name]!);
      rig.report("c", { ...answer, ran: 5_000 });
      assert.equal(rig.keeper.why().find(({ partition }) => partition === "b")!.next, 9_000);
    }
  });

  it("dates no death before what the process has done, however early its inbound messages arrive", () => {
    const rig = new Rig({ term: 1 });
    rig.report("a", { ...answer, next: 9_000, ran: 5_000, sent: [["b", 0, 4, 1_050]] });
    rig.report("b", { ...answer, next: 9_000, ran: 5_100, taken: [["a", 0, 3]] });
    rig.report("c", answer);
    rig.keeper.died("b", "b1");
    rig.answerAll({ term: 1, ran: 5_000 });
    assert.ok(rig.records[0]!.at > 5_100, String(rig.records[0]!.at));
    assert.deepEqual(rig.inexact, []);
  });

  it("asks for a repeated report of a joined process's death until all others have answered", () => {
    const rig = new Rig({ term: 1 });
    rig.keeper.join({ partition: "b", instance: "b2" });
    assert.equal(rig.keeper.died("b", "b2"), false);
    assert.equal(rig.records.length, 0, "it is unknown how far the others have run");
    rig.report("a", { ...answer, next: NEVER, ran: 9_000 });
    rig.report("c", { ...answer, next: NEVER, ran: 8_000 });
    assert.deepEqual(rig.records.map(({ at, instance }) => [at, instance]), [[9_001, "b2"]]);
    assert.equal(rig.keeper.died("b", "b2"), true);
    assert.deepEqual(rig.inexact, ["it is unknown how far b had run when it failed"]);
  });

  it("takes no earlier process's death for that of one with a heartbeat", () => {
    const rig = new Rig({ term: 1 });
    rig.keeper.heard("b", "b2");
    assert.equal(rig.keeper.died("b", "b1"), true);
    for (const name of ["a", "b", "c"]) rig.report(name, { ...answer, next: 9_000 });
    assert.deepEqual(rig.records, []);
  });

  it("does not take a process that is known to be dead for a partition's, whatever it sends", () => {
    const rig = new Rig({ term: 1, recorded: [dead] });
    rig.keeper.heard("b", "c1");
    for (const name of ["a", "b"]) rig.report(name, { ...answer, next: 30_000 });
    rig.keeper.pause();
    for (const name of ["a", "b"]) rig.report(name, { term: 1, grant: 6, next: 30_000, ran: 800 });
    assert.ok("added" in rig.keeper.addPowerFailure("b", 20_000));
    rig.keeper.resume();
    assert.deepEqual(rig.kills, [["c", 700]], "b's process has not yet said that it is there");
    rig.keeper.heard("b", "b1");
    assert.deepEqual(rig.kills, [["c", 700], ["b", 20_000]]);
  });

  it("knows failed processes by name: one that has only been asleep must not go on", () => {
    const rig = new Rig({ term: 1, recorded: [dead] });
    assert.deepEqual(["c1", "c2"].map((instance) => rig.keeper.isFenced(instance)), [true, false]);
  });

  it("P-41 (in part): puts all deaths on record before any partition goes on", () => {
    const rig = new Rig({ term: 1 });
    rig.keeper.died("a", "a1");
    rig.keeper.join({ partition: "a", instance: "a2" });
    rig.keeper.died("b", "b1");
    rig.report("c", { ...answer, next: 9_000, ran: 5_000 });
    assert.deepEqual(rig.deeds, ["record kill a1", "record kill b1", "record start a2"]);
    const [, grant] = rig.take().find(([name]) => name === "c")!;
    assert.deepEqual(grant.links.map(({ at, up }) => [at, up]), [[5_098, false]]);
  });
});
