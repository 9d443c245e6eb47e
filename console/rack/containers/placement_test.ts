import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan, partitionsOf } from "../../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../../fabric/rack/scenario/variants.ts";
import { placesOf } from "./placement.ts";

function placesIn(text: string, { nameLength = 52, trace = false } = {}) {
  const plan = makePlan(variants(parseScenario(text, "test.yaml"))[0]!);
  return placesOf({ plan, partitions: partitionsOf(plan, "node"), trace }, { nameLength });
}

describe("placesOf", () => {
  it("gives each partition a DNS label of its own, its own name where that is one", () => {
    const places = placesIn("name: t\nhosts: { a: {}, A: {}, a-1: {}, B-: {}, NATS: {} }\n");
    const names = new Map(places.map(({ partition, name }) => [partition, name]));
    assert.equal(names.get("a"), "a");
    assert.equal(names.get("A"), "a-2");
    assert.equal(names.get("a-1"), "a-1");
    assert.equal(names.get("B-"), "b-1");
    assert.equal(names.get("NATS"), "nats-1");
    assert.equal(new Set(names.values()).size, places.length);
  });

  it("shortens names to what there is room for, and keeps them apart", () => {
    const names = ["a", "b"].map((end) => "long-name-of-a-host-in-the-lab-" + end);
    const hosts = names.map((name) => `${name}: {}`).join(", ");
    const places = placesIn(`name: t\nhosts: { ${hosts} }\n`, { nameLength: 20 });
    assert.ok(places.every(({ name }) => name.length <= 20 && !name.endsWith("-")));
    assert.equal(new Set(places.map(({ name }) => name)).size, places.length);
  });

  it("leaves dead what the scenario kills last, and only that", () => {
    const places = placesIn(
      "name: t\nhosts: { a: {}, b: {}, c: {} }\nfaults:\n" +
        "  - { at: 1us, kill: b }\n  - { at: 2us, start: b }\n  - { at: 1us, kill: c }\n",
    );
    assert.deepEqual(places.filter(({ staysDead }) => staysDead).map(({ name }) => name), ["c"]);
  });

  it("knows a machine's leaf, and what of it has to be kept", () => {
    const text =
      "name: t\nfabric: { topology: leaf-spine, leaves: 2, spines: 1 }\nhosts: { a: {}, b: {} }\n";
    const places = new Map(placesIn(text).map((place) => [place.partition, place]));
    const { a, "a-rnic": card, b, leaf1 } = Object.fromEntries(places);
    assert.deepEqual([a!.machine, card!.machine, a!.leaf], ["a", "a", card!.leaf]);
    assert.notEqual(a!.leaf, b!.leaf);
    assert.equal(leaf1!.leaf, "leaf1");
    assert.ok(a!.keptBytes! > 0 && card!.keptBytes === undefined);
    assert.ok(placesIn(text, { trace: true }).every(({ keptBytes }) => keptBytes !== undefined));
  });
});
