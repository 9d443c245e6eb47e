import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { TimedRecord } from "../../fabric/audit.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { LinkFaultRequest } from "../../fabric/rack/plan/link_plan.ts";
import type { ChaosAction } from "./chaos_actions.ts";
import type { RoundOutcome } from "./progress.ts";
import { firedBy, GOALS } from "./goals.ts";
import { crc32 } from "../../fabric/wire/roce/icrc.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";

const TEXT = "name: pair\nhosts: { a: {}, b: {} }\nprograms: []\n";
const PLAN = makePlan(variants(parseScenario(TEXT, "pair.yaml"))[0]!);

/** A round in which nothing happened, but for what is given. */
function round(
  of: Partial<RoundOutcome> & { notes?: TimedRecord[]; found?: Uint8Array },
): RoundOutcome {
  const { notes = [], found = new Uint8Array(64), ...rest } = of;
  const scm = () => ({ read: (from: number, to: number) => found.subarray(from, to) });
  const record = { plan: PLAN, lives: new Map(), reports: [], notes, scm };
  const calm = {
    finals: [],
    faults: [],
    injected: [],
    events: [],
    settled: [],
    summary: undefined,
  };
  return { record, ...calm, ...rest };
}

function injected(action: ChaosAction, hit = true): Partial<RoundOutcome> {
  return { injected: [{ action, wallMs: 0, hit }] };
}

const kill = (process: string): ChaosAction => ({ at: 1, kind: "kill", process, backMs: null });
const link = (request: Partial<LinkFaultRequest>): ChaosAction => {
  return {
    at: 1,
    kind: "link",
    request: { action: "cut", cable: 2, direction: "both", ...request },
  };
};

describe("firedBy", () => {
  it("finds nothing in a round in which nothing happened", () => {
    assert.deepEqual(firedBy(round({})), []);
  });

  it("counts an action by the process that it hit, and not one that missed", () => {
    assert.deepEqual(firedBy(round(injected(kill("b")))), ["kill a host"]);
    assert.deepEqual(firedBy(round(injected(kill("b-rnic")))), ["kill a rnic"]);
    assert.deepEqual(firedBy(round(injected(kill("timekeeper")))), ["kill timekeeper"]);
    assert.deepEqual(firedBy(round(injected(kill("b"), false))), []);
    const pause: ChaosAction = { at: 1, kind: "pause", process: "b", forMs: 5 };
    assert.deepEqual(firedBy(round(injected(pause))), ["pause a device"]);
    assert.deepEqual(firedBy(round(injected(link({})))), ["cut a cable"]);
    assert.deepEqual(firedBy(round(injected(link({ direction: "a" })))), [
      "cut one way of a cable",
    ]);
    assert.deepEqual(firedBy(round(injected(link({ action: "loss" })))), ["loss on a cable"]);
  });

  it("P-41 (in part): tells how much of a message is there", () => {
    const bytes = Uint8Array.from({ length: 200 }, (_, i) => i + 1);
    const writes = { kind: "writes", id: 1, on: "b", at: 0, bytes } as const;
    const noted = (note: TimedRecord["note"]): TimedRecord => ({
      time: 1,
      node: "a",
      by: "a",
      note,
    });
    const shape = (there: readonly [number, number][], ...more: TimedRecord[]) => {
      const found = new Uint8Array(200);
      for (const [from, to] of there) found.set(bytes.subarray(from, to), from);
      return firedBy(round({ notes: [noted(writes), ...more], found }));
    };
    assert.deepEqual(shape([]), ["of a message: none"]);
    assert.deepEqual(shape([[0, 64]]), ["of a message: prefix"]);
    assert.deepEqual(shape([[0, 64], [128, 192]]), ["of a message: hole"]);
    assert.deepEqual(shape([[64, 200]]), ["of a message: hole"]);
    assert.deepEqual(shape([[0, 192]]), ["of a message: all but its end"]);
    assert.deepEqual(shape([[0, 200]]), ["a whole message that nobody was promised"]);
    const promise = noted({ kind: "persistent", id: 1, promised: true });
    assert.deepEqual(shape([[0, 200]], promise), []);
  });

  it("P-41: tells how puts over an object have ended", () => {
    // Where the directory of objects begins: its header, then its entries.
    const objects = (...found: [at: number, state: "complete" | "incomplete"][]) => {
      const bytes = new Uint8Array(128 * 1024), view = new DataView(bytes.buffer);
      [0x5243_4b4d, 1].forEach((word, i) => view.setUint32(4 + 4 * i, word));
      for (const [i, [at, state]] of found.entries()) {
        const entry = new DataView(bytes.buffer, 128 * (i + 1), 128);
        entry.setUint32(4, (state === "complete" ? 0 : 2) * 2 ** 30 + i + 1);
        entry.setBigUint64(8, BigInt(at));
        entry.setBigUint64(16, 64n);
        bytes.set([1, "x".charCodeAt(0)], 128 * (i + 1) + 24);
        entry.setUint32(0, crc32(bytes.subarray(128 * (i + 1) + 4, 128 * (i + 2))));
      }
      return bytes;
    };
    const put = (by: string, at: number, ...states: ("begun" | "asked" | "stored")[]) =>
      states.map((state): TimedRecord => ({
        time: 1,
        node: "a",
        by,
        note: { kind: "object", state, name: "x", on: "b", at, length: 64 },
      }));
    const first = put("put#1", 4096, "begun", "asked", "stored");
    const ends = (found: Uint8Array, ...more: TimedRecord[]) =>
      firedBy(round({ notes: [...first, ...more], found }));
    const old = objects([4096, "complete"]), both = objects([4096, "complete"], [8192, "complete"]);
    assert.deepEqual(ends(old), []);
    assert.deepEqual(ends(both, ...put("put#2", 8192, "begun", "asked", "stored")), [
      "put: an object is replaced",
    ]);
    assert.deepEqual(ends(old, ...put("put#2", 8192, "begun")), [
      "put: cut short over an object",
      "put: the old object is there",
    ]);
    assert.deepEqual(ends(both, ...put("put#2", 8192, "begun", "asked")), [
      "put: cut short while it is published",
      "put: the new object is there, unconfirmed",
    ]);
    const odd = objects([4096, "complete"], [8192, "incomplete"]);
    assert.deepEqual(ends(odd, ...put("put#2", 8192, "begun", "asked")), [
      "put: cut short while it is published",
      "put: an incomplete object is there",
    ]);
  });

  it("tells what a replicated log went through", () => {
    const replica = (acked: number, tries: number) => ({ host: "b", acked, tries });
    const log = (value: Record<string, unknown>) => {
      const report = { time: 1, node: "a", topic: "result", value: { program: "log", ...value } };
      const base = round({});
      return firedBy({ ...base, record: { ...base.record, reports: [report] } });
    };
    assert.deepEqual(log({ status: "done", replicas: [replica(5, 1), replica(5, 1)] }), []);
    assert.deepEqual(log({ status: "done", replicas: [replica(5, 1), replica(3, 2)] }), [
      "log: a replica is connected to again",
      "log: done though a replica is behind",
    ]);
    assert.deepEqual(log({ status: "done", recovered: 2, replicas: [replica(5, 1)] }), [
      "log: a client that starts again finds records",
    ]);
  });

  it("has a name of its own for each goal", () => {
    assert.equal(new Set(GOALS.map(({ name }) => name)).size, GOALS.length);
  });
});
