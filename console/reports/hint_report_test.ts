import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { hintRows, hintTable, isInHintTable } from "./hint_report.ts";
import { programText } from "./program_report.ts";

const COUNTERS = {
  pageFaults: 9,
  pageFaultsMerged: 2,
  hintPageRequests: 4,
  rnrNaksOut: 3,
  translationMisses: 5,
  contextMisses: 6,
  hintPagesUseful: 10,
  hintPagesLate: 7,
  hintPagesLateBehindFirst: 5,
  hintPagesWasted: 1,
  hintLinesUseful: 20,
  hintLinesLate: 2,
  hintContextsLate: 4,
  hintContextsUseful: 30,
  hintContextsWasted: 2,
  hintMissesBehindFirst: 1,
};
const SENT = { hintsSent: 8, hintBytesOut: 50, bytesOut: 1_000 };
const LATENCY = { median: 2e6, p99: 3e6, max: 4e6 };
const MEASURED = {
  program: "hints",
  workload: "alone",
  to: "b",
  messages: 4,
  failed: 1,
  latencyPs: LATENCY,
  heldPs: 0,
  ...SENT,
};
/** What {@link COUNTERS} come to. */
const SERVED = {
  faults: 7,
  rnrNaks: 3,
  misses: 11,
  useful: 60,
  late: 13,
  wasted: 3,
  faultsFirst: 2,
  faultsBehindFirst: 5,
  missesFirst: 5,
  missesBehindFirst: 1,
};

function rowsOf(
  hosts: string,
  results: readonly { readonly node: string; readonly value: unknown }[] = [],
) {
  const plan = makePlan(variants(parseScenario(`name: x\nhosts: ${hosts}\n`, "x.yaml"))[0]!);
  const statistics = { "a-rnic": { ...COUNTERS, ...SENT, hintHoldPs: 5e6 }, "b-rnic": COUNTERS };
  const reports = results.map((each) => ({ time: 0, topic: "result", ...each }));
  const outcome = { finals: [{ statistics, reports }] } as unknown as Parameters<
    typeof hintRows
  >[1];
  return hintRows({ label: "x", plan }, outcome);
}

describe("hintRows", () => {
  it("H-30 (in part): are of cards that take part in hints, and of no others", () => {
    const [row, ...more] = rowsOf("{ a: { hints: { send: 600us } }, b: {} }", [
      { node: "a", value: { program: "mine", latencyPs: LATENCY } },
    ]);
    assert.deepEqual(more, []);
    assert.deepEqual(row, {
      variant: "x",
      node: "a-rnic",
      workload: null,
      send: "after 600 us",
      encoding: "opcode",
      by: null,
      messages: null,
      failed: null,
      latencyPs: LATENCY,
      stallPs: null,
      heldPs: 5e6,
      hints: 8,
      hintBytes: 50,
      overhead: 0.05,
      ...SERVED,
    });
    assert.deepEqual(rowsOf("{ a: {}, b: {} }"), []);
  });

  it("H-30: are what programs of hints have measured, with what their servers' cards counted", () => {
    const first = { node: "b", value: { program: "hints", client: "a", counters: COUNTERS } };
    const second = { node: "b", value: { ...first.value, counters: { hintPagesUseful: 1 } } };
    const off = { node: "b", value: { ...first.value, client: "c", counters: { pageFaults: 5 } } };
    const rows = rowsOf("{ a: { hints: { send: after-ack } }, b: { hints: on }, c: {} }", [
      { node: "a", value: { ...MEASURED, by: "carrier", stallPs: 6e6 } },
      { node: "c", value: { ...MEASURED, hintsSent: 0, hintBytesOut: 0 } },
      off,
      first,
      // Its server says nothing of it.
      { node: "c", value: MEASURED },
      { node: "a", value: { ...MEASURED, workload: "behind", by: "uc-carrier" } },
      second,
    ]);
    assert.deepEqual(
      rows.map(({ node, workload, send, by, faults, useful }) => [
        node,
        workload,
        send,
        by,
        faults,
        useful,
      ]),
      [
        ["a-rnic", "alone", "after the ACK", "carrier", 7, 60],
        ["c-rnic", "alone", "no hints", null, 5, 0],
        ["c-rnic", "alone", "no hints", "own", null, null],
        ["a-rnic", "behind", "after the ACK", "uc-carrier", 0, 1],
      ],
    );
    const [head, , line] = hintTable(rows).split("\n");
    assert.deepEqual(head!.split(/ {2,}/), [
      "card",
      "workload",
      "requests",
      "encoding",
      "by",
      "messages",
      "failed",
      "faults",
      "RNR",
      "misses",
      "median",
      "p99",
      "stall",
      "useful",
      "late",
      "wasted",
      "late pages",
      "late entries",
      "hints",
      "bytes",
    ]);
    assert.match(
      line!,
      /^a-rnic .* carrier +4 +1 +7 +3 +11 +2 us +3 us +6 us +60 +13 +3 +2 \+ 5 +5 \+ 1 +8 +5\.00 %$/,
    );
  });

  it("H-30 (in part): stand in the place of the results that they were made of", () => {
    const values = [MEASURED, { program: "hints", client: "a", counters: {} }];
    assert.deepEqual(values.map((value) => isInHintTable({ value })), [true, true]);
    const failed = { program: "hints", status: "failed", error: "x" };
    assert.equal(isInHintTable({ value: failed }), false);
    const results = [...values, failed].map((value) => ({ node: "a", variant: "x", value }));
    assert.equal(programText(results).length, 1);
  });
});
