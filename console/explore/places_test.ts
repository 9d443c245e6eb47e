import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import { type Entry, Pages } from "./history.ts";
import { HeldHistory } from "./held_history.ts";
import { type AnnouncedWrite, placesOf } from "./places.ts";
import { victimOf } from "./post_crash_run.ts";
import type { RackRun } from "./rerun.ts";

/** The power failure, long after everything that is far from it. */
const CUT = 10 * PS_PER_US;
const filled = (length: number, value: number) => new Uint8Array(length).fill(value);
const bus = (at: number, arrivesAt: number, offset: number, bytes: Uint8Array) => (
  { at, arrivesAt, offset, bytes }
);

const [variant] = variants(parseScenario(
  "name: three\nhosts: { a: {}, b: {}, c: {} }\nprograms: []\n",
  "three.yaml",
));
const PLAN = makePlan(variant!), { noticePs } = victimOf(PLAN, "b");

interface Given {
  readonly entries?: readonly Entry[];
  readonly busWrites?: readonly ReturnType<typeof bus>[];
  readonly lines?: readonly ReturnType<typeof bus>[];
  readonly local?: HeldHistory;
  readonly remote?: HeldHistory;
  readonly left?: Pages;
}

/** The places of the bytes of these writes of `a` to `b`; without any: of the card's. */
function placed(given: Given, ...writes: { at: number; bytes: Uint8Array }[]) {
  const { entries = [], busWrites = [], lines = [], local, remote, left = new Pages() } = given;
  const lives = new Map(
    ["b", "b-rnic", "c-rnic"].map((node) => [node, [{ from: 0, to: Infinity }]]),
  );
  const recording = {
    ...{ plan: PLAN, lives, histories: new Map([["b", { entries }]]) },
    held: new Map([
      ...local === undefined ? [] : [["b-rnic", [local]] as const],
      ...remote === undefined ? [] : [["c-rnic", [remote]] as const],
    ]),
    sendings: new Map([["b-rnic", { busWrites, lines }]]),
  } as unknown as RackRun;
  const run = { plan: PLAN, reports: [], scm: new Map([["b", left]]) } as unknown as RackRun;
  const announced = writes.map(({ at, bytes }, id): AnnouncedWrite => (
    { node: "a", by: "a/0/put", note: { kind: "writes", id, on: "b", at, bytes } }
  ));
  const found = placesOf(recording, { run, hosts: ["b"], at: CUT, writes: announced });
  return found.map(({ from, to, place, survived }) => [from, to, place, survived]);
}

const durable = (at: number, offset: number, bytes: Uint8Array): Entry => (
  { kind: "durable", at, offset, bytes, unit: 8 }
);
const dirty = (at: number, line: number, bytes: Uint8Array): Entry => (
  { kind: "dirty", at, line, bytes, words: 0 }
);

/** A card's cache with this line from an instant on. */
function cacheOf(at: number, line: number, bytes: Uint8Array, of?: string): HeldHistory {
  const history = new HeldHistory(), kept = [{ address: SCM_BASE + line, data: bytes as never }];
  if (of === undefined) history.cached(at, kept);
  else history.cachedOf(of, at, kept);
  return history;
}

describe("placesOf", () => {
  const bytes = filled(8, 7), write = { at: 64, bytes };

  it("a word is where it had come by the failure, the nearest place to memory first", () => {
    const line = filled(64, 7), late = bus(CUT - 5, CUT + 5, 64, line);
    const way: [Given, string][] = [
      [{}, "not there yet"],
      [{ busWrites: [bus(CUT, CUT + 9, 64, line)] }, "not there yet"],
      [{ remote: cacheOf(1, 64, line, "b") }, "remote cache"],
      [{ remote: cacheOf(1, 64, line, "a") }, "not there yet"],
      [{ local: cacheOf(1, 64, line) }, "local cache"],
      [{ local: cacheOf(CUT + noticePs - 1, 64, line) }, "local cache"],
      [{ local: cacheOf(CUT + noticePs, 64, line) }, "not there yet"],
      [{ local: cacheOf(1, 64, line), busWrites: [late] }, "bus"],
      [{ lines: [late] }, "bus"],
      [{ busWrites: [bus(CUT - 1, CUT, 64, line)] }, "bus"],
      [{ busWrites: [bus(CUT - 9, CUT - 1, 64, line)] }, "iio"],
      [{ busWrites: [bus(1, 2, 64, line)], entries: [dirty(CUT - 1, 64, line)] }, "llc"],
      [{ entries: [dirty(CUT, 64, line)] }, "not there yet"],
      [{ entries: [dirty(3, 64, line), dirty(4, 64, filled(64, 8))] }, "not there yet"],
      [{ entries: [dirty(3, 64, line), durable(CUT - 1, 64, bytes)] }, "memory"],
      [{ entries: [durable(CUT, 64, bytes)] }, "not there yet"],
    ];
    for (const [given, place] of way) {
      same(placed(given, write), [[64, 72, place, false]], JSON.stringify(given));
    }
  });

  it("a write of the card has the words that lie in it, wherever it begins", () => {
    const at = (from: number, length: number) => ({
      busWrites: [bus(1, 2, from, filled(length, 7))],
    });
    for (const [from, length] of [[64, 8], [60, 12], [64, 9], [0, 200]] as const) {
      same(placed(at(from, length), write), [[64, 72, "iio", false]], `${length} B at ${from}`);
    }
    for (const [from, length] of [[65, 60], [60, 11], [72, 8], [56, 8]] as const) {
      same(placed(at(from, length), write), [[64, 72, "not there yet", false]]);
    }
    same(placed({ busWrites: [bus(1, 2, 64, filled(8, 6))] }, write)[0]![2], "not there yet");
  });

  it("words of one place and fate are one range; others are apart, as words are torn apart", () => {
    const left = new Pages();
    left.write(72, filled(8, 7));
    const entries = [durable(1, 64, filled(24, 7))];
    same(placed({ entries, left }, { at: 60, bytes: filled(30, 7) }), [
      [60, 64, "not there yet", false],
      [64, 72, "memory", false],
      [72, 80, "memory", true],
      [80, 88, "memory", false],
      [88, 90, "not there yet", false],
    ]);
  });

  it("where no program announced a write: those of the card that are near in time, the last eight", () => {
    const near = 2 * PS_PER_US;
    const some = [
      bus(1, CUT - near - 1, 0, bytes),
      bus(1, CUT - near, 64, bytes),
      bus(CUT + near, CUT + near + 9, 128, bytes),
      bus(CUT + near + 1, CUT + near + 9, 192, bytes),
    ];
    same(placed({ busWrites: some.toReversed() }), [
      [64, 72, "iio", false],
      [128, 136, "not there yet", false],
    ]);
    const many = Array.from({ length: 10 }, (_, i) => bus(CUT - 20 + i, CUT, 64 * i, bytes));
    same(
      placed({ busWrites: many }).map(([from]) => from),
      [2, 3, 4, 5, 6, 7, 8, 9].map((i) => 64 * i),
    );
    const line = filled(64, 7),
      given = [bus(CUT - 5, CUT - 1, 0, line), bus(CUT - 5, CUT, 64, line)];
    same(placed({ lines: given }), [[64, 128, "bus", false]], "what was still on its way");
  });
});
