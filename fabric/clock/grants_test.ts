/** What answers confirm, and what is given up where none comes. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Grant } from "./clock.ts";
import { Grants } from "./grants.ts";
import type { Member } from "./member.ts";
import { members, reportOf } from "./timekeeper_testing.ts";

const GRANT: Grant = {
  term: 0,
  incarnation: 0,
  id: 1,
  horizon: 5_000,
  expect: [],
  confirmed: [],
  links: [],
  runs: [],
  cables: [],
  lost: [],
  breaks: [],
};

describe("Grants", () => {
  function grantsOf(of: readonly Member[]): {
    grants: Grants;
    sent: Grant[];
    lost: string[];
    clock: { ms: number };
  } {
    const sent: Grant[] = [], lost: string[] = [];
    const clock = { ms: 0 };
    const grants = new Grants({
      byName: new Map(of.map((member) => [member.name, member])),
      term: 0,
      out: { grant: (_, grant) => sent.push(grant), inexact: (why) => lost.push(why) },
      wallMs: () => clock.ms,
    });
    return { grants, sent, lost, clock };
  }

  it("confirm to the life that sent what was taken, and not to the next one", () => {
    const [a, b] = members("a", "b") as [Member, Member];
    const { grants } = grantsOf([a, b]);
    for (const [incarnation, confirmed] of [[0, [["b", 3]]], [1, []]] as const) {
      const report = reportOf("b", { grant: 1, taken: [["a", 0, 3]] });
      Object.assign(a, { incarnation, toConfirm: new Map() });
      Object.assign(b, { status: "running", grant: { ...GRANT, expect: [["a", 0, 3]] } });
      grants.answer(b, { ...report, taken: null });
      assert.deepEqual([...a.toConfirm], confirmed);
      // The same from a partition that answers a new timekeeper.
      Object.assign(a, { toConfirm: new Map() });
      Object.assign(b, { status: "unknown" });
      grants.answer(b, report);
      assert.deepEqual([...a.toConfirm], confirmed);
    }
  });

  it("give up after a while what a dead process or an earlier life had sent, and nothing else", () => {
    const [a, b, c, d] = members("a", "b", "c", "d") as [Member, Member, Member, Member];
    const { grants, sent, lost, clock } = grantsOf([a, b, c, d]);
    const expect = [["a", 0, 1], ["b", 0, 1], ["c", 0, 1]] as const;
    Object.assign(a, { status: "dead" });
    Object.assign(b, { incarnation: 1 });
    Object.assign(d, { status: "running", grant: { ...GRANT, expect }, sinceMs: 1_000 });
    clock.ms = 3_000;
    grants.repeat(d);
    assert.deepEqual([sent.at(-1)!.lost, lost], [[], []]);
    clock.ms = 3_001;
    grants.repeat(d);
    assert.deepEqual(sent.at(-1)!.lost, [["a", 0], ["b", 0]]);
    assert.equal(lost.length, 1);
  });
});
