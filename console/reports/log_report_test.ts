import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { programText } from "./program_report.ts";

const latencyPs = { count: 9, min: 1e6, median: 2e6, p99: 3e6, max: 4e6, mean: 2e6 };

describe("what logs have reported", () => {
  it("is a row for each append: what was told durable, apart from what is only claimed", () => {
    const value = {
      program: "append",
      to: "b",
      update: "ordered",
      depth: 4,
      records: 256,
      latencyPs,
    };
    const [text, ...more] = programText([
      { node: "a", variant: "x", value: { ...value, told: 60, claimed: 60, status: "done" } },
      {
        node: "a",
        variant: "y",
        value: { ...value, told: 0, claimed: 86, status: "failed", error: "RETRY_EXC_ERR" },
      },
    ]);
    assert.deepEqual(more, []);
    const [head, , first, second] = text!.split("\n");
    assert.match(head!, /^run +from +to +update +depth +records +told durable +median +p99 +max/);
    assert.match(first!, /^x +a +b +ordered +4 +256 +60 +2 us +3 us +4 us +done$/);
    assert.match(second!, /^y .* 0 \(86 claimed\) .* RETRY_EXC_ERR$/);
  });

  it("is a row for each client of a replicated log: how far it is durable, and where", () => {
    const replicas = [{ host: "b", acked: 61, tries: 1 }, { host: "c", acked: 7, tries: 2 }];
    const value = { program: "log", name: "log", method: "write-flush", quorum: 2, replicas };
    const done = { status: "done", records: 59, durable: 59, recovered: 3, latencyPs };
    const [text] = programText([{ node: "a", variant: "x", value: { ...value, ...done } }]);
    const row = text!.split("\n")[2]!;
    assert.match(
      row,
      /^x +a +log +write-flush +2 of 2 +59 of 59 +3 +b 61, c 7 +2 us +3 us +4 us +done$/,
    );
  });

  it("is what it says itself, of one that never began", () => {
    const value = { program: "append", status: "failed", error: "connect: refused" };
    const [text] = programText([{ node: "a", variant: "x", value }]);
    assert.equal(text, `x: a: ${JSON.stringify(value)}`);
  });
});
