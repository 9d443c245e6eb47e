import { deepEqual as same, equal, match } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { nativeRows, unseenText } from "./native_report.ts";

describe("unseenText", () => {
  it("says nothing where all was seen, and one sentence where not", () => {
    equal(unseenText({}), undefined);
    match(unseenText({ steps: 1 })!, /^1 time it has stored into several cache lines/);
    match(unseenText({ steps: 2, flushes: 3 })!, /^2 times .*; .*up to 3 instructions/);
  });
});

describe("nativeRows", () => {
  const native = { file: "/bin/x", argv: ["x"], env: {} };
  const program = { run: "x", at: 0, service: false, options: {}, native };
  const plan = { nodes: [{ kind: "host", name: "a", config: { programs: [program] } }] };
  const report = (topic: string, value: unknown) => ({ time: 5, node: "a", topic, value });
  const rows = (reports: unknown[], flushes?: Record<string, number>) =>
    nativeRows(
      { label: "v", plan, ...(flushes && { native: { flushes } }) } as unknown as Parameters<
        typeof nativeRows
      >[0],
      { finals: [], record: { reports } } as unknown as Parameters<typeof nativeRows>[1],
    );

  it("has the end, the lines and what was not seen", () => {
    const ended = { program: "x#1", code: 0, steps: 4 };
    const said = { program: "x#1", at: 5, text: "hello" };
    same(rows([report("log", said), report("native-ended", ended)], { "/bin/x": 7 }), [{
      ...{ node: "a", variant: "v", program: "x#1", code: 0, flushes: 7, steps: 4 },
      lines: [{ atPs: 5, text: "hello" }],
    }]);
    same(rows([report("native-ended", { program: "x#1", code: 1 })]), [{
      ...{ node: "a", variant: "v", program: "x#1", code: 1, lines: [] },
    }]);
  });

  it("has no lines where nothing has kept them", () => {
    const reports = [report("native-ended", { program: "x#1", code: 1 })];
    const found = nativeRows(
      { label: "v", plan } as unknown as Parameters<typeof nativeRows>[0],
      { finals: [{ reports }] } as unknown as Parameters<typeof nativeRows>[1],
    );
    same(found, [{ node: "a", variant: "v", program: "x#1", code: 1 }]);
  });
});
