import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Observation, ObservationScope, Observer } from "./observation.ts";
import { teeOf } from "./tee.ts";

const AT = { time: 1, node: 0, event: 1 };
const PASSED = { ...AT, port: 0, startPs: 1, endPs: 2, text: "" };
const SEEN: Readonly<Record<string, Observation>> = {
  note: { ...AT, kind: "note", by: "a/0/put#0", note: { kind: "visible", id: 0 } },
  report: { ...AT, kind: "report", topic: "result", value: { records: 3 } },
  frame: { ...PASSED, kind: "sent", frame: Uint8Array.of(1) },
  bus: { ...PASSED, kind: "received", frame: undefined },
  step: { ...AT, kind: "step", step: { step: "S901", text: "" } },
  busy: {
    ...AT,
    kind: "step",
    step: { step: "busy", text: "", busy: { track: "IIO", fromPs: 0, untilPs: 1 } },
  },
};

function listen(scope: ObservationScope) {
  const heard: string[] = [];
  const spans: number[] = [];
  const nameOf = new Map(Object.entries(SEEN).map(([name, seen]) => [seen, name]));
  const observer: Observer = {
    scope,
    see: (seen) => void heard.push(nameOf.get(seen)!),
    commit: (span) => void spans.push(span),
  };
  return { observer, heard, spans };
}

describe("several observers", () => {
  it("receive what each one's scope has, and every span", () => {
    const scopes = ["notes", "wire", "frames", "all"] as const;
    const all = scopes.map(listen);
    const tee = teeOf([...all.map(({ observer }) => observer), undefined]);
    assert.equal(tee?.scope, "all");
    for (const seen of Object.values(SEEN)) tee?.see(seen);
    tee?.commit(7);
    assert.deepEqual(Object.fromEntries(all.map(({ heard }, i) => [scopes[i], heard])), {
      notes: ["note", "report"],
      wire: ["note", "report", "frame"],
      frames: ["note", "report", "frame", "step"],
      all: ["note", "report", "frame", "bus", "step", "busy"],
    });
    for (const { spans } of all) assert.deepEqual(spans, [7]);
  });

  it("are the only one, or none", () => {
    const { observer } = listen("wire");
    assert.equal(teeOf([undefined, observer]), observer);
    assert.equal(teeOf([undefined]), undefined);
  });
});
