import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { runRack } from "../explore/rerun.ts";
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

describe("the result of put", () => {
  it("says of the wire nothing where its card does not answer at the end", () => {
    const wireWith = (faults: string) => {
      const text = "name: dead\nhosts: { a: {}, b: {} }\n" +
        `programs: [{ on: a, run: put, to: b, bytes: 64KiB, method: write-read }]\n${faults}`;
      const [variant] = variants(parseScenario(text, "test.yaml"));
      const { reports } = runRack({ plan: makePlan(variant!), inputs: {}, own: {} });
      const { value } = reports.find(({ topic }) => topic === "result")!;
      return (value as { wire?: { frames: number } }).wire;
    };
    assert.ok(wireWith("")!.frames > 0);
    assert.equal(wireWith("faults: [{ at: 205us, kill: a-rnic }]\n"), undefined);
  });
});

describe("reportTable", () => {
  it("says of the wire nothing where the card that counts its frames had died", () => {
    const [, , line] = reportTable([{ ...ROW, packetsPerMessage: null, bytesPerMessage: null }])
      .split("\n");
    assert.deepEqual(line!.split(/ +/).slice(1, 5), ["off", "2.00", "-", "-"]);
  });

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
