import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import type { NodePlan } from "../rack/plan/plan.ts";
import { Silence } from "./silence.ts";

const LIVENESS_MS = 5_000;
const NAMES = ["a", "a-rnic", "b", "b-rnic", "tor"];

describe("Silence", () => {
  let said: string[];
  let silence: Silence;

  beforeEach(() => {
    said = [];
    silence = silenceAfter(LIVENESS_MS);
  });

  function silenceAfter(livenessMs: number): Silence {
    const nodes = NAMES.map((name) => {
      const host = name.replace("-rnic", "");
      return host === name ? { name, kind: "host", config: {} } : {
        name,
        kind: "rnic",
        config: { host },
      };
    });
    return new Silence({
      livenessMs,
      plan: { nodes: nodes as unknown as NodePlan[] },
      partitions: NAMES.map((name) => ({ name, nodes: [name] })),
      onSilence: (text) => said.push(text),
    });
  }

  /** Heartbeats of some, every half second up to an instant. @returns who is dead when. */
  function beat(names: readonly string[], { from, to }: { from: number; to: number }): string[] {
    const dead: string[] = [];
    for (let atMs = from; atMs <= to; atMs += 500) {
      for (const name of names) silence.heard(name, { instance: `${name}1`, atMs });
      for (const { partition, instance } of silence.dead(atMs)) {
        dead.push(`${instance} of ${partition} at ${atMs}`);
      }
    }
    return dead;
  }

  it("takes a machine that is silent for so long for dead, with nothing to say", () => {
    beat(NAMES, { from: 0, to: 2_000 });
    const dead = beat(["a", "a-rnic", "tor"], { from: 2_500, to: 9_000 });
    assert.deepEqual(dead, ["b1 of b at 7000", "b-rnic1 of b-rnic at 7000"]);
    assert.deepEqual(said, []);
  });

  it("suspects the link where several machines fall silent together, says it, and waits as long again", () => {
    beat(NAMES, { from: 0, to: 2_000 });
    assert.deepEqual(beat(["a", "a-rnic"], { from: 2_500, to: 11_500 }), []);
    assert.equal(said.length, 1);
    assert.match(
      said[0]!,
      /^b, b-rnic, tor fell silent when other machines did: the link .* is suspected/,
    );
    const dead = beat(["a", "a-rnic"], { from: 12_000, to: 13_000 });
    assert.deepEqual(dead.map((each) => each.split(" ")[2]), ["b", "b-rnic", "tor"]);
    assert.match(said[1]!, /^b, b-rnic, tor stayed silent for another 5 s/);
  });

  it("says of each which is suspected, also of those whose time is over later", () => {
    silence.heard("b", { instance: "b1", atMs: 0 });
    silence.heard("tor", { instance: "tor1", atMs: 400 });
    assert.deepEqual(silence.dead(5_000), []);
    assert.deepEqual(silence.dead(5_400), []);
    assert.deepEqual(said.map((text) => text.split(" ")[0]), ["b", "tor"]);
    assert.deepEqual(silence.dead(10_000).map(({ partition }) => partition), ["b"]);
    silence.heard("tor", { instance: "tor1", atMs: 10_100 });
    assert.match(said.at(-1)!, /^tor is heard of again: no process is suspected/, "b is dead");
  });

  it("declares none dead before it is known which fell silent together, however short the time", () => {
    silence = silenceAfter(1_500);
    silence.heard("b", { instance: "b1", atMs: 0 });
    silence.heard("tor", { instance: "tor1", atMs: 900 });
    const dead: [string, number][] = [];
    for (let now = 0; now <= 5_000; now += 50) {
      for (const { partition } of silence.dead(now)) dead.push([partition, now]);
    }
    assert.deepEqual(dead, [["b", 3_450], ["tor", 3_900]]);
  });

  it("lets them be heard of again, as if nothing had been", () => {
    beat(NAMES, { from: 0, to: 2_000 });
    beat(["a"], { from: 2_500, to: 8_000 });
    assert.deepEqual(beat(NAMES, { from: 8_500, to: 30_000 }), []);
    assert.match(said.at(-1)!, /heard of again/);
    assert.equal(said.length, 2);
  });

  it("begins anew with all, suspects too, where it could hear none for a time", () => {
    beat(NAMES, { from: 0, to: 2_000 });
    const heard = ["a", "a-rnic"];
    assert.deepEqual(beat(heard, { from: 2_500, to: 8_000 }), []);
    assert.equal(said.length, 1);
    silence.forgive(8_000);
    assert.deepEqual(beat(heard, { from: 8_500, to: 17_500 }), []);
    assert.equal(said.length, 2, "they are suspected once more");
    assert.equal(beat(heard, { from: 18_000, to: 18_000 }).length, 3);
  });

  it("suspects nothing where powers are on record as failed, or fail one after the other", () => {
    beat(NAMES, { from: 0, to: 2_000 });
    silence.forget("b");
    silence.forget("a");
    beat(["b-rnic", "tor", "a-rnic"], { from: 2_500, to: 20_000 });
    const dead = [
      ...beat(["b-rnic", "tor"], { from: 20_500, to: 22_500 }),
      ...beat(["tor"], { from: 23_000, to: 40_000 }),
    ];
    assert.equal(dead.length, 2);
    assert.deepEqual(said, []);
  });
});
