import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { faultsIn, writebackLine } from "./fault_lines.ts";

describe("A record of faults", () => {
  it("tells power failures, returns and early write-backs, each in its order", () => {
    const early = { at: 90, node: "b", from: 64, to: 72, buffered: true };
    const stored = { at: 91, node: "b", from: 0, to: 8, buffered: false, data: "0102030405060708" };
    const text = [
      `{"at":100,"action":"kill","nodes":["b","b-rnic"],"partition":"b","settledSpan":3}`,
      writebackLine(early),
      writebackLine(stored),
      `{"at":200,"action":"start","nodes":["b"]}`,
    ].join("\n") + "\n";
    assert.deepEqual(faultsIn(text, "f"), {
      faults: [
        { at: 100, action: "kill", node: "b" },
        { at: 100, action: "kill", node: "b-rnic" },
        { at: 200, action: "start", node: "b" },
      ],
      writebacks: [early, stored],
      linkFaults: [],
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
});
