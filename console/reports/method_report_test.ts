import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { reportTable } from "./method_report.ts";
import type { MethodRow } from "./method_row.ts";

const ROW: MethodRow = {
  method: "write-read",
  ddio: "off",
  from: "a",
  to: "b",
  messages: 4,
  confirmed: 4,
  promises: true,
  requestsPerMessage: 2,
  packetsPerMessage: 4,
  bytesPerMessage: 400,
  latencyPs: { median: 3_000_000, p99: 3_000_000, max: 3_000_000 },
  throughputBps: 1e9,
  cpuPs: { requester: 100, responder: 200 },
  scmAmplification: 1.003,
  intact: true,
  loss: null,
  error: null,
  digest: "0",
};

describe("reportTable", () => {
  it("P-40 (in part): says what SCM's medium is written only where that is more than what came", () => {
    assert.ok(!reportTable([ROW, { ...ROW, scmAmplification: null }]).includes("scm write"));
    const wasteful = reportTable([ROW, { ...ROW, scmAmplification: 4 }, {
      ...ROW,
      scmAmplification: null,
    }]);
    const [header, , ...lines] = wasteful.split("\n");
    const place = header!.indexOf("scm write");
    assert.ok(place > 0);
    assert.deepEqual(
      lines.slice(0, 3).map((line) => line.slice(place, place + 9).trim()),
      ["1.00", "4.00", "-"],
    );
  });
});
