import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import type { Topology } from "../../api/rack.ts";
import type { Work } from "../data/shown.ts";
import { activities, wrapped } from "./activity.ts";

const RACK = {
  nodes: [
    { name: "a", kind: "host", process: "a", host: null, config: {} },
    { name: "a-rnic", kind: "rnic", process: "a", host: "a", config: { address: 0x0a000001 } },
    { name: "b", kind: "host", process: "b", host: null, config: {} },
    { name: "b-rnic", kind: "rnic", process: "b", host: "b", config: { address: 0x0a000002 } },
  ],
} satisfies Pick<Topology, "nodes">;

const PUT = {
  ...{ host: "a", program: "put#2", serves: false, since: 5 },
  waitsFor: "a completion (waitCompletion)",
};

/** Of one card, with so many requests to `peer` that have no answer. */
function queuePairs(peer: string, unanswered: number): Work["queuePairs"] {
  const queuePair = { peer: { address: peer, qpn: 17 }, unanswered, persistWaiting: 0 };
  return new Map([["a-rnic", [queuePair]]]) as unknown as Work["queuePairs"];
}

it("activities says how far a program is, what it waits for, and for whom", () => {
  const programs = [
    { ...PUT, progress: { done: 23, of: 64 } },
    { ...PUT, program: "cm#0", serves: true },
  ];
  const found = activities(RACK, { at: 9, programs, queuePairs: queuePairs("10.0.0.2", 3) });
  same(found.get("a"), {
    lines: ["put: 23 of 64 writes, waits for a completion of b"],
    owedBy: new Map([["b", 3]]),
    serving: 1,
  });
  same(found.get("b"), { lines: [], owedBy: new Map(), serving: 0 });
});

it("activities names nobody where nobody owes an answer, and a share where there is no number", () => {
  const programs = [
    { ...PUT, program: "fio#1", waitsFor: "nothing", progress: { done: 0.5, of: 1 } },
  ];
  const found = activities(RACK, { at: 9, programs, queuePairs: queuePairs("10.0.0.2", 0) });
  same(found.get("a")!.lines, ["fio: 50\u202f%, computes"]);
  same(found.get("a")!.owedBy.size, 0);
});

it("wrapped breaks between words and says that something is left out", () => {
  same(wrapped("put: 23 of 64 writes, waits", 12, 3), ["put: 23 of", "64 writes,", "waits"]);
  same(wrapped("put: 23 of 64 writes, waits", 12, 2), ["put: 23 of", "64 writes,…"]);
  same(wrapped("abcdefghijklmnop", 8, 2), ["abcdefg…"]);
});
