import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { faultsIn, holdLine, stallLine, writebackLine } from "./fault_lines.ts";

describe("A record of faults", () => {
  it("tells power failures, returns, early write-backs, holds and stalls, each in its order", () => {
    const hold = { node: "b", by: "b/0/p#1", step: "store", number: 2, until: 95 } as const;
    const stall = { node: "b", by: "b/0/p#1", number: 7, at: 80, ps: 50 };
    const early = { at: 90, node: "b", from: 64, to: 72, buffered: true };
    const stored = { at: 91, node: "b", from: 0, to: 8, buffered: false, data: "0102030405060708" };
    const text = [
      `{"at":100,"action":"kill","nodes":["b","b-rnic"],"partition":"b","settledSpan":3}`,
      writebackLine(early),
      writebackLine(stored),
      holdLine(hold),
      stallLine(stall),
      `{"at":200,"action":"start","nodes":["b"]}`,
    ].join("\n") + "\n";
    assert.deepEqual(faultsIn(text, "f"), {
      faults: [
        { at: 100, action: "kill", node: "b" },
        { at: 100, action: "kill", node: "b-rnic" },
        { at: 200, action: "start", node: "b" },
      ],
      writebacks: [early, stored],
      holds: [hold],
      stalls: [stall],
      linkFaults: [],
      morePrograms: [],
    });
  });

  it("names the line, and what of it, that is none", () => {
    const refused: [line: string, where: RegExp][] = [
      ["nonsense", /^f:1: found "nonsense", expected a line/],
      [`{"at":-1,"action":"kill","nodes":["b"]}`, /^f:1: at: found -1, expected a line/],
      [`{"at":1,"action":"burn","nodes":["b"]}`, /: action: found "burn"/],
      [`{"at":1,"action":"writeback","nodes":["b"],"scm":[1,9]}`, /: scm\.0: found 1,/],
      [`{"at":1,"action":"writeback","nodes":["b"],"scm":[16,8]}`, /: scm: found a list/],
      [`{"at":1,"action":"writeback","nodes":["b"],"scm":[0,8],"data":"01"}`, /: data: found "/],
      [
        `{"at":1,"action":"hold","nodes":["b"],"by":"b/0/p#1","step":"load","number":1}`,
        /: step: /,
      ],
      [`{"at":1,"action":"hold","nodes":["b"],"by":"p","step":"store","number":0}`, /: number: /],
      [`{"at":1,"action":"stall","nodes":["b"],"by":"p","number":1,"ps":0}`, /: ps: found 0/],
      [
        `{"at":1,"action":"writeback","nodes":["b"],"scm":[0,8],"data":"never 8 bytes!!!"}`,
        /: data: found "/,
      ],
    ];
    for (const [line, where] of refused) {
      assert.throws(() => faultsIn(line, "f"), (error: Error) => {
        assert.ok(error instanceof Refusal);
        assert.match(error.message, where);
        return true;
      });
    }
  });

  it("refuses a line twice, and power that fails twice or returns where it is", () => {
    const kill = `{"at":1,"action":"kill","nodes":["b"]}`,
      start = `{"at":2,"action":"start","nodes":["b"]}`;
    const again = `{"at":3,"action":"kill","nodes":["b"]}`;
    assert.equal(faultsIn([kill, start, again].join("\n"), "f").faults.length, 3);
    const refused = (text: string, where: RegExp) =>
      assert.throws(() => faultsIn(text, "f"), where);
    refused(
      [kill, start, kill].join("\n"),
      /^Refusal: f:3: found an earlier line again, expected it once/,
    );
    refused(
      [kill, again].join("\n"),
      /f:2: found a kill of b, which is dead, expected its start before/,
    );
    refused(
      [start, kill].join("\n"),
      /f:1: found a start of b, which has power, expected its kill/,
    );
  });
});
