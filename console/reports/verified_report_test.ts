import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { figuresOf, verifiedTable } from "./verified_report.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";

function cells(text: string): string[][] {
  const [header, , ...rows] = text.trimEnd().split("\n");
  return [header!, ...rows].map((line) => line.trim().split(/\s+/));
}

const US = 1_000_000;

describe("verifiedTable", () => {
  const latency = (median: number) => ({ latencyPs: { median, p99: 0, max: 0 } });
  const cost = { packetsPerMessage: 2, bytesPerMessage: 300, ...latency(US) };
  const ends = { from: "a", to: "b", messages: 16, ...cost } as const;
  const counts = {
    level: "check",
    injected: 9,
    caught: 4,
    rewrites: 3,
    skipped: 0,
    savedPs: 0,
    overlooked: 0,
  };

  it("V-10 (in part): has a row for each put that had its writes checked, and ? for what cannot be attributed", () => {
    const unknown = { ...counts, injected: null, missed: null };
    const [, ...rows] = cells(verifiedTable([
      { ...ends, method: "write-only", ddio: "off" },
      { ...ends, method: "write-verify", ddio: "off", verified: { ...counts, missed: 7 } },
      { ...ends, method: "write-verify", ddio: "on", verified: unknown },
    ]));
    assert.deepEqual(rows, [
      ["write-verify", "off", "a", "b", "check", "16", "9", "4", "3", "7", "0"],
      ["write-verify", "on", "a", "b", "check", "16", "?", "4", "3", "?", "0"],
    ]);
  });

  it("V-10 (in part): holds packets, bytes and latency against the put that compares itself, of the same hosts and DDIO", () => {
    const verified = { ...counts, missed: 0 };
    const compare = {
      ...ends,
      ddio: "off",
      method: "write-compare",
      packetsPerMessage: 4,
      bytesPerMessage: 500,
      ...latency(4 * US),
      verified: { ...verified, level: "compare" },
    } as const;
    const rows = cells(verifiedTable([
      compare,
      { ...ends, method: "write-verify", ddio: "off", verified },
      { ...ends, method: "write-verify", ddio: "on", verified },
      { ...compare, method: "persist-compare", packetsPerMessage: 5, ...latency(8 * US) },
      { ...ends, method: "verify-persist", ddio: "off", verified },
    ]));
    assert.deepEqual(rows.map((row) => row.slice(6, 9)), [
      ["packets/cmp", "bytes/cmp", "median/cmp"],
      ["1.00", "1.00", "1.00"],
      ["0.50", "0.60", "0.25"],
      ["?", "?", "?"],
      ["1.00", "1.00", "1.00"],
      ["0.40", "0.60", "0.13"],
    ]);
  });

  it("V-05 (in part), V-10 (in part): says what history has saved, where it has", () => {
    const verified = { ...counts, missed: 0, skipped: 5, savedPs: 3 * US };
    const none = { ...verified, savedPs: null };
    const [header, first, second] = cells(verifiedTable([
      { ...ends, method: "write-verify", ddio: "off", verified },
      { ...ends, method: "write-verify", ddio: "on", verified: none },
    ]));
    assert.deepEqual([header!.at(-1), first!.slice(-2), second!.at(-1)], [
      "saved",
      ["3", "us"],
      "?",
    ]);
  });
});

describe("figuresOf", () => {
  const plan = makePlan(
    variants(parseScenario(
      `name: x
hosts: { a: {}, b: {} }
faults:
  - { link: a-rnic->tor, corrupt: 1% }
  - { link: a-rnic->tor, corrupt: 1%, past: icrc }
  - { rnic: b, flip: 1%, where: bus }
  - { scm: b, stuck: 0 }
`,
      "x.yaml",
    ))[0]!,
  );
  const counts = { level: "verify", caught: 0, rewrites: 0, missed: 0, overlooked: 0, skipped: 0 };
  const card = {
    verifyReadBacks: 10,
    verifyReadBackPs: 30 * US,
    verifySkipped: 8,
    verifySkippedPs: 4 * US,
  };
  const hits = (fault: number, hit: number) => ({ fault, direction: "a-rnic->tor", seen: 99, hit });
  const linkFaults = [hits(0, 50), hits(1, 3)];
  const put = {
    program: "put",
    method: "write-verify",
    to: "b",
    verified: {},
    object: {},
    written: [],
    persisted: [],
  };
  const reports = (puts: number) =>
    Array.from({ length: puts }, () => ({ time: 0, node: "a", topic: "result", value: put }));

  it("V-10 (in part): counts bits that no ICRC detects; of several puts they cannot be attributed", () => {
    const statistics = { "b-rnic": { ...card, flip0Hit: 4 } };
    const of = (puts: number) => [{ linkFaults, statistics, reports: reports(puts) }];
    assert.equal(figuresOf(counts, "b-rnic", { plan, finals: of(1) }).injected, 7);
    assert.equal(figuresOf(counts, "b-rnic", { plan, finals: of(2) }).injected, null);
  });

  it("V-05 (in part), V-10 (in part): takes the difference of the means for what a skipped look has saved", () => {
    const finals = [{ linkFaults, statistics: { "b-rnic": card }, reports: reports(1) }];
    const saved = (skipped: number, rnic = "b-rnic") =>
      figuresOf({ ...counts, skipped }, rnic, { plan, finals }).savedPs;
    assert.deepEqual([saved(6), saved(0), saved(6, "a-rnic")], [15 * US, 0, null]);
  });
});
