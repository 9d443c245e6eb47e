import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import type { RunReport } from "./method_report.ts";
import { checksText } from "./report_text.ts";
import { warningsOf } from "./summarise.ts";

const PLAN = { addresses: { a: 0x0a00_0001 } };
const SHORT = { program: "p", message: "Q-01: too few receives" };

describe("warningsOf", () => {
  it("Q-01: a warning is in the report, once for each of its kind, and a line of the text", () => {
    const nak = { message: "NAK to 10.0.0.1, not to 10.0.0.2" };
    const reports = [SHORT, SHORT, { free: 1n }, "plain", nak].map((value) => ({
      time: 9,
      node: "a",
      topic: "warning",
      value,
    }));
    const other = { time: 9, node: "a", topic: "result", value: SHORT };
    const finals = [{ reports: [...reports, other] } as unknown as FinalReply];
    const warnings = warningsOf([{ one: { label: "one", plan: PLAN }, outcome: { finals } }]);
    const text = checksText({ checks: [], refused: [], warnings } as unknown as RunReport);
    assert.deepEqual(text, [
      "note one, a: Q-01: too few receives",
      'note one, a: {"free":1}',
      'note one, a: "plain"',
      "note one, a: NAK to a, not to 10.0.0.2",
    ]);
  });
});
