import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { congestionRows, congestionTable } from "./congestion_report.ts";
import type { Outcome } from "../rack/run_variant.ts";

function outcome(statistics: Record<string, Record<string, number>>): Outcome {
  const final = {
    partition: "all",
    statistics,
    reports: [],
    refused: 0,
    refusedOn: [],
    sent: 0,
    residentBytes: 0,
    linkFaults: [],
  };
  return {
    digest: "",
    virtualPs: 0,
    events: 0,
    wallMs: 0,
    processes: 1,
    finals: [final],
    refused: [],
    directory: "",
  };
}

describe("congestionRows", () => {
  it("says nothing of a run without a queue, though frames were lost", () => {
    const statistics = {
      tor: { queuePeakBytes: 0, ecnMarked: 0 },
      "a-rnic": { retransmissions: 2 },
    };
    assert.deepEqual(congestionRows("x", outcome(statistics)), []);
  });

  it("is there as soon as a frame has waited, without any congestion control", () => {
    const rows = congestionRows("x", outcome({ tor: { queuePeakBytes: 60, bufferPeakBytes: 60 } }));
    const counters = { queuePeakBytes: 60, bufferPeakBytes: 60 };
    assert.deepEqual(rows, [{ variant: "x", node: "tor", counters }]);
  });

  it("names the nodes that it showed at, with what is not 0", () => {
    const rows = congestionRows(
      "x",
      outcome({
        tor: { ecnMarked: 3, pausesOut: 0, queuePeakBytes: 70, floodedFrames: 9 },
        a: {},
        "a-rnic": { cnpsIn: 2, pausedPs: 0 },
      }),
    );
    assert.deepEqual(rows, [
      { variant: "x", node: "a-rnic", counters: { cnpsIn: 2 } },
      { variant: "x", node: "tor", counters: { ecnMarked: 3, queuePeakBytes: 70 } },
    ]);
  });
});

describe("congestionTable", () => {
  it("has a column for each counter that some node has", () => {
    const lines = congestionTable([
      { variant: "x", node: "a-rnic", counters: { pausesIn: 2, pausedPs: 1_500_000 } },
      { variant: "x", node: "tor", counters: { pausesOut: 2 } },
    ]).split("\n");
    assert.match(lines[0]!, /^node +pauses out +pauses in +paused *$/);
    assert.match(lines[2]!, /^a-rnic +2 +1.5 us *$/);
  });
});
