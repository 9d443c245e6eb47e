import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { TimedRecord } from "../../../fabric/audit.ts";
import {
  fill,
  findingsOf,
  noted,
  planOf,
  recordOf,
} from "../../../console/checks/record_testing.ts";
import { answered } from "../../../console/checks/shared/answered.ts";
import {
  BOUND_PS,
  lostAt,
  type Told,
  told,
  used,
} from "../../../console/checks/shared/shared_testing.ts";

type Parts = Parameters<typeof findingsOf>[1];

function found(accesses: readonly Told[], parts: Parts = {}, more: TimedRecord[] = []): string[] {
  return findingsOf(answered, { ...parts, notes: [...used(), ...told(accesses), ...more] });
}

const OPEN: Told = { from: 10, on: "b", bytes: fill(1) };

describe("C-10: an access to a shared region", () => {
  it("C-10: ends within the bound, to the picosecond", () => {
    const of = (to: number) => found([{ from: 10, to, found: fill(0) }]);
    assert.deepEqual(of(10 + BOUND_PS), []);
    assert.match(of(11 + BOUND_PS)[0]!, /took 1001 ps, and the bound is 1000 ps/);
  });

  it("that never ends is named", () => {
    assert.deepEqual(found([OPEN]), [
      "store 0 of b/0/put#0 at 0x0 of s began at 10 ps and was not answered by 1010 ps",
    ]);
  });

  it("need not end where its own host fails, or the run, before the bound", () => {
    const kill = (node: string, at: number): Parts => ({ power: [{ at, action: "kill", node }] });
    assert.deepEqual(found([OPEN], kill("b", 500)), []);
    assert.equal(found([OPEN], kill("b", 1_011)).length, 1);
    // What fails elsewhere is no excuse: neither home, nor the own card.
    for (const node of ["a", "a-rnic", "b-rnic"]) {
      assert.equal(found([OPEN], kill(node, 500)).length, 1, node);
    }
    assert.deepEqual(found([OPEN], { until: 1_010 }), []);
    assert.equal(found([OPEN], { until: 1_011 }).length, 1);
  });

  it("is answered once, and lies in a region", () => {
    const [begin, end] = told([{ from: 10, to: 20, found: fill(0) }]);
    const of = (...notes: TimedRecord[]) => findingsOf(answered, { notes: [...used(), ...notes] });
    assert.deepEqual(of(begin!, end!), []);
    assert.match(of(begin!, end!, end!)[0]!, /is answered twice/);
    assert.match(of(begin!, begin!, end!)[0]!, /begins twice/);
    assert.match(of(end!)[0]!, /an answer to no access/);
    assert.match(found([{ from: 10, to: 20, at: 250, found: fill(0) }])[0]!, /is not within/);
    const other = { ...used()[1]!.note, home: "b" } as TimedRecord["note"];
    assert.match(of(noted(0, other, { node: "b" }))[0]!, /is not as other hosts have it/);
    assert.match(findingsOf(answered, { notes: [begin!] })[0]!, /there is no region s/);
  });

  it("is counted: with none there is nothing that it looks at", () => {
    assert.equal(answered.subjects(recordOf({ notes: [...used(), ...told([OPEN])] })), 1);
    assert.equal(answered.subjects(recordOf({ notes: used() })), 0);
    assert.equal(answered.concerns!(recordOf({ notes: used() })), true);
    assert.equal(answered.concerns!(recordOf({})), false);
  });
});

describe("C-10: what is lost", () => {
  const lost: Told = { from: 100, to: 200, on: "a", result: "lost", length: 8 };
  const power: Parts = { power: [{ at: 50, action: "kill", node: "b-rnic" }] };

  it("is reported by a range that has it", () => {
    assert.deepEqual(found([lost], power, [lostAt(250)]), []);
    assert.match(
      found([lost], power)[0]!,
      /was told that bytes of s at 0x0 are lost, and no report/,
    );
    assert.equal(found([lost], power, [lostAt(250, 64)]).length, 1);
    // A part of the access's bytes is not what it was told of.
    assert.equal(found([lost], power, [lostAt(250, 0, 4)]).length, 1);
    assert.equal(found([{ ...lost, at: 60 }], power, [lostAt(250, 0, 64)]).length, 0);
    assert.equal(found([{ ...lost, at: 60 }], power, [lostAt(250, 0, 60)]).length, 1);
    // A flush of two lines does not say which one is lost.
    const flush: Told = { ...lost, op: "flush", length: 128 };
    assert.deepEqual(found([flush], power, [lostAt(250, 64)]), []);
    assert.equal(found([flush], power, [lostAt(250, 128)]).length, 1);
  });

  it("need not be reported by a host that fails before the report is due", () => {
    const after = (at: number): Parts => ({
      power: [...power.power!, { at, action: "kill", node: "a" }],
    });
    assert.deepEqual(found([lost], after(200 + BOUND_PS)), []);
    assert.equal(found([lost], after(201 + BOUND_PS)).length, 1);
  });

  it("is lost by a fault of power or cables only (C-09)", () => {
    const [one, two] = found([lost], {}, [lostAt(250)]);
    assert.match(one!, /ended as lost at 200 ps, before any fault/);
    assert.match(two!, /are lost at 250 ps, before any fault/);
    const plan = planOf(["{ at: 90ps, cut: b }"]);
    assert.deepEqual(found([lost], { plan }, [lostAt(250)]), []);
    assert.equal(found([{ ...lost, result: "fenced" }]).length, 1);
    assert.deepEqual(found([{ ...lost, result: "fenced" }], power), []);
    // What the card refuses is no loss: it has done nothing.
    assert.deepEqual(found([{ ...lost, result: "refused" }]), []);
  });
});

describe("C-10: an access of a far host that is fenced", () => {
  const HOSTS = ["a", "b", "c"];
  const fenced: Told = { from: 5_000, to: 5_200, on: "b", result: "fenced", length: 8 };
  /** What the host has accessed before: the link to home's card was good then. */
  const before: Told = { from: 4_500, to: 4_600, on: "b", length: 8 };
  const kill = (node: string, at = 4_700): Parts => ({
    plan: planOf([], HOSTS),
    power: [{ at, action: "kill", node }],
  });
  const cables = (...faults: string[]): Parts => ({ plan: planOf(faults, HOSTS) });

  it("C-10, decision 13: has its own host, home, a card of theirs, or the switch fail", () => {
    for (const node of ["a", "a-rnic", "b", "b-rnic", "tor"]) {
      assert.deepEqual(found([before, fenced], kill(node)), [], node);
    }
    for (const node of ["c", "c-rnic"]) {
      assert.deepEqual(found([before, fenced], kill(node)), [
        "load 1 of b/0/put#0 ended as fenced at 5200 ps, without a fault between b and a since 3500 ps",
      ], node);
    }
  });

  it("is parted from home by a cable of either, not by one of a third host", () => {
    for (const host of ["a", "b"]) {
      assert.deepEqual(found([before, fenced], cables(`{ at: 90ps, cut: ${host} }`)), [], host);
      assert.deepEqual(found([before, fenced], cables(`{ link: ${host}, loss: 1% }`)), [], host);
    }
    assert.equal(found([before, fenced], cables("{ at: 90ps, cut: c }")).length, 1);
    assert.equal(found([before, fenced], cables("{ link: c, loss: 1% }")).length, 1);
  });

  it("meets what parts it, or is the first one after it", () => {
    const of = (heal: number, ...accesses: Told[]) =>
      found(accesses, cables("{ at: 90ps, cut: b }", `{ at: ${heal}ps, heal: b }`)).length;
    assert.equal(of(4_500 - BOUND_PS, before, fenced), 0);
    assert.equal(of(4_499 - BOUND_PS, before, fenced), 1);
    // A card that has nothing of home's learns by its next access that home is another one.
    assert.equal(of(100, fenced), 0);
    const elsewhere: Told = { ...before, on: "a" };
    assert.equal(of(100, elsewhere, fenced), 0);
    const power = (at: number): Parts => ({
      plan: planOf([], HOSTS),
      power: [{ at: 90, action: "kill", node: "a" }, { at, action: "start", node: "a" }],
    });
    assert.equal(found([before, fenced], power(4_500 - BOUND_PS)).length, 0);
    assert.equal(found([before, fenced], power(4_499 - BOUND_PS)).length, 1);
    // What fails later is no excuse.
    assert.equal(found([before, fenced], kill("b-rnic", 5_201)).length, 1);
  });
});
