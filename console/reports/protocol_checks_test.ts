import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Check, CrashView } from "../../nodes/host/recovery/protocol.ts";
import { recordOf } from "../checks/record_testing.ts";
import { findingsOf, viewOf } from "./protocol_checks.ts";

const view: CrashView = { cut: [], at: 0, hosts: {}, reports: [], notes: [] };

function findings(answer: unknown): readonly string[] {
  return findingsOf((() => answer) as Check, view);
}

describe("what a user's check answers", () => {
  it("is nothing, one thing or several, in words", () => {
    assert.deepEqual(findings(undefined), []);
    assert.deepEqual(findings([]), []);
    assert.deepEqual(findings("b has nothing"), ["b has nothing"]);
    assert.deepEqual(findings(["one", "two"]), ["one", "two"]);
  });

  it("is wrong itself where it is anything else, so that `true` is never taken for all is well", () => {
    for (const answer of [true, false, 5, 0, { broken: 1 }, [1]]) {
      const [text, ...more] = findings(answer);
      assert.match(text!, /check answers .*: expected what is wrong, in words/);
      assert.deepEqual(more, []);
    }
  });

  it("is that it throws, where it does", () => {
    const check: Check = () => {
      throw new Error("no such host");
    };
    assert.deepEqual(findingsOf(check, view), ["check throws no such host"]);
  });
});

describe("the rack at the end of a run, as a user's check sees it", () => {
  const reports = [{ time: 300, node: "a", topic: "result", value: {} }];
  const view = (power: Parameters<typeof recordOf>[0]["power"]) =>
    viewOf(recordOf({ reports, ...(power && { power }) }))("./mine.ts");

  it("has lost a host that lost its power when all had been said, and says when", () => {
    const { cut, at, hosts } = view([{ at: 400, action: "kill", node: "b" }]);
    assert.deepEqual([cut, at, hosts["a"]?.survived, hosts["b"]?.survived], [
      ["b"],
      400,
      true,
      false,
    ]);
  });

  it("has lost it though it has come back", () => {
    const { cut, at } = view([
      { at: 100, action: "kill", node: "b" },
      { at: 200, action: "start", node: "b" },
    ]);
    assert.deepEqual([cut, at], [["b"], 100]);
  });

  it("is whole at its end where nothing happened", () => {
    const { cut, at } = view([]);
    assert.deepEqual([cut, at], [[], 300]);
  });
});
