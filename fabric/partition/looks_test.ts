/** A wake in which a node has only looked (`Node.onlyLooked`) is none: to digest, counters and counts. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Node } from "../node.ts";
import { NEVER, type Time } from "../base/time.ts";
import { Partition } from "./partition.ts";
import { PARTITION_OF, type Script, scriptedNodes, threeInARow } from "./partition_testing.ts";

/** Instants at which `a` wakes. "act": it does something; "look": only that; "plain": it cannot look. */
type Wakes = readonly (readonly [at: Time, what: "act" | "look" | "plain"])[];

function run(wakes: Wakes) {
  let looked: boolean | undefined;
  const nextOf = (now: Time) => wakes.find(([at]) => at > now)?.[0] ?? NEVER;
  const a: Script = ({ now, input }) => {
    const what = wakes.find(([at]) => at === now)?.[1];
    looked = what === "plain" ? undefined : input.kind === "wake" && what === "look";
    return nextOf(now);
  };
  const { create, heard } = scriptedNodes({ scripts: { a } });
  const partition = new Partition({
    nodes: ["a", "b"],
    partitionOf: PARTITION_OF,
    scriptedFaults: true,
    returnDelay: () => NEVER,
    plan: threeInARow(),
    create: (name, life, kept) => {
      const node: Node = create(name, life, kept);
      if (name !== "a") return node;
      return Object.defineProperty(node, "onlyLooked", { get: () => looked ?? false });
    },
  });
  partition.powerOn(0, new Map(["a", "b"].map((name) => [name, { life: 0 }])));
  const { events } = partition.advance(NEVER);
  assert.equal(partition.events, events);
  const steps = heard.filter((line) => line.startsWith("a/0 wake")).length;
  return { events, digest: Object.fromEntries(partition.digestStates()), steps };
}

describe("Node.onlyLooked", () => {
  it("a wake with a look alone is neither counted nor in the digest", () => {
    const without = run([[10, "act"], [30, "act"]]);
    const { steps, ...withLook } = run([[10, "act"], [20, "look"], [30, "act"]]);
    assert.deepEqual({ ...withLook, steps: 2 }, without);
    assert.equal(steps, 3, "the node itself has had it");
  });

  it("looks before, between and behind others change no counter of a later wake", () => {
    const without = run([[100, "act"], [200, "act"], [300, "act"]]);
    const looks = [7, 8, 9, 101, 102, 201, 299, 301].map((at) => [at, "look"] as const);
    const acts = [100, 200, 300].map((at) => [at, "act"] as const);
    const { steps: _, ...withLooks } = run([...looks, ...acts].sort(([x], [y]) => x - y));
    assert.deepEqual({ ...withLooks, steps: 3 }, without);
  });

  it("a wake that acts is an event, as is each of a node that cannot look", () => {
    const two = run([[10, "act"], [20, "act"]]);
    assert.equal(run([[10, "act"]]).events, two.events - 1);
    assert.notDeepEqual(run([[10, "act"], [20, "look"]]).digest, two.digest);
    assert.deepEqual(run([[10, "plain"], [20, "plain"]]), two);
  });
});
