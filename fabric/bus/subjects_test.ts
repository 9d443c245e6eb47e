import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { matches } from "./memory_bus_testing.ts";
import fc from "fast-check";
import { InvariantError } from "../base/assert.ts";
import {
  ANY,
  isPattern,
  isSubject,
  isToken,
  parseSubject,
  patternOf,
  patternOfRun,
  type RackSubject,
  subjectOf,
} from "./subjects.ts";
import { seeded } from "../base/property_testing.ts";

const TABLE: ReadonlyArray<readonly [RackSubject, string]> = [
  [{ kind: "wire", run: "r1", from: "a", to: "a-nic" }, "rack.r1.wire.a.a-nic"],
  [{ kind: "again", run: "r1", asker: "b", of: "a" }, "rack.r1.again.b.a"],
  [{ kind: "clock.grant", run: "r1", partition: "p0" }, "rack.r1.clock.grant.p0"],
  [{ kind: "clock.report", run: "r1", partition: "p0" }, "rack.r1.clock.report.p0"],
  [{ kind: "clock.join", run: "r1", partition: "p0" }, "rack.r1.clock.join.p0"],
  [{ kind: "clock.ask", run: "r1" }, "rack.r1.clock.ask"],
  [{ kind: "trace", run: "r1", node: "sw_0" }, "rack.r1.trace.sw_0"],
  [{ kind: "report", run: "r1", node: "a" }, "rack.r1.report.a"],
  [{ kind: "control", run: "r1", verb: "pause" }, "rack.r1.control.pause"],
];

const token = fc.stringMatching(/^[A-Za-z0-9_-]{1,8}$/);

describe("subjectOf and parseSubject", () => {
  it("write every kind of subject, and parse it again", () => {
    for (const [subject, text] of TABLE) {
      assert.equal(subjectOf(subject), text);
      assert.deepEqual(parseSubject(text), subject);
    }
  });

  it("are each other's inverse for any token", () => {
    fc.assert(
      fc.property(token, token, token, (run, from, to) => {
        const subject: RackSubject = { kind: "wire", run, from, to };
        assert.deepEqual(parseSubject(subjectOf(subject)), subject);
      }),
      seeded(),
    );
  });

  it("parseSubject: answers undefined for what is not a rack's", () => {
    const texts = [
      "",
      "rack",
      "rack.r1",
      "rack.r1.wire",
      "rack.r1.wire.a",
      "rack.r1.wire.a.b.c",
      "rack.r1.wire.a.*",
      "rack.r1.clock",
      "rack.r1.clock.grant",
      "rack.r1.clock.ask.p0",
      "rack.r1.toString",
      "rack.r1.inbox.a.x1",
      "other.r1.trace.a",
      "$SYS.r1.trace.a",
    ];
    for (const text of texts) assert.equal(parseSubject(text), undefined, text);
  });

  it("subjectOf: asserts on tokens that would change the subject", () => {
    for (const from of ["", "a.b", "a b", ">", "*", "ä", "a\n", "x".repeat(65)]) {
      assert.throws(
        () => subjectOf({ kind: "wire", run: "r", from, to: "b" }),
        InvariantError,
        from,
      );
    }
  });
});

describe("patternOf", () => {
  it("matches what subjectOf names, with any token where ANY stands", () => {
    const toB = patternOf({ kind: "wire", run: "r1", from: ANY, to: "b" });
    assert.equal(toB, "rack.r1.wire.*.b");
    assert.ok(matches(toB, subjectOf({ kind: "wire", run: "r1", from: "a", to: "b" })));
    assert.ok(!matches(toB, subjectOf({ kind: "wire", run: "r1", from: "b", to: "a" })));
    assert.ok(!matches(toB, subjectOf({ kind: "wire", run: "r2", from: "a", to: "b" })));
  });

  it("patternOfRun: matches every subject of the run and none of another", () => {
    for (const [subject, text] of TABLE) {
      assert.ok(matches(patternOfRun("r1"), text));
      assert.ok(!matches(patternOfRun("r1"), subjectOf({ ...subject, run: "r2" })));
    }
  });
});

describe("isToken, isSubject, isPattern", () => {
  it("take names and refuse what would break a subject", () => {
    for (const text of ["a", "A-1_b", "0", "x".repeat(64)]) assert.ok(isToken(text), text);
    for (const text of ["", "a.b", "a b", "*", ">", "é", "a\n", "x".repeat(65)]) {
      assert.ok(!isToken(text), text);
    }
  });

  it("a pattern may have *, and > at its end only; a subject neither", () => {
    for (const text of ["a", "a.b", "_INBOX.x.1"]) {
      assert.ok(isSubject(text) && isPattern(text), text);
    }
    for (const text of ["*", ">", "a.*", "*.a", "a.>", "*.*.>"]) {
      assert.ok(!isSubject(text) && isPattern(text), text);
    }
    for (const text of ["", ".", "a.", ".a", "a..b", "a.>.b", ">.a", "a*", "a.b>", "a b", "a\n"]) {
      assert.ok(!isSubject(text) && !isPattern(text), text);
    }
  });
});
