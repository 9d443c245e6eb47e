import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { sourceOf } from "../scenarios/scenario_source.ts";
import { type DrawOptions, drawRound, type Field } from "./draw.ts";

const scenario = sourceOf("name: s\nhosts: { a: {}, b: {} }\n", {
  path: "s.yaml",
  base: ".",
  allowRead: [],
});

/** All that is drawn of an option in many rounds, each once. */
function drawn(of: "size" | "depth", field: Partial<Field>, fixed: DrawOptions["fixed"] = {}) {
  const takes = { size: false, depth: false };
  const options: DrawOptions = {
    ...{ scenario, seed: 7, fixed },
    field: { variants: [{}], hasFaults: false, takes, ...field },
  };
  const rounds = Array.from({ length: 60 }, (_, number) => drawRound(number, options));
  return new Set(rounds.flatMap(({ choices }) => choices[of] ?? []));
}

describe("drawRound", () => {
  it("draws the options that some program uses, and no others", () => {
    for (const size of [false, true]) {
      for (const depth of [false, true]) {
        const field = { takes: { size, depth } };
        same(drawn("size", field), new Set(size ? [256, 1000, 2048, 16384] : []));
        same(drawn("depth", field), new Set(depth ? [1, 2, 5, 8] : []));
      }
    }
  });

  it("draws nothing of what the command line or the variant says", () => {
    const takes = { size: true, depth: true };
    same(drawn("size", { takes }, { size: 77 }), new Set([77]));
    same(drawn("depth", { takes, variants: [{ depth: 3 }] }), new Set([3]));
    same(drawn("depth", { takes, variants: [{ depth: 3 }] }, { depth: 4 }), new Set([4]));
  });

  it("gives each device a process where the scenario has power failures of its own", () => {
    const field: Field = { variants: [{}], hasFaults: true, takes: { size: false, depth: false } };
    const packings = (hasFaults: boolean) =>
      new Set(Array.from({ length: 60 }, (_, number) => {
        const options = { scenario, seed: 7, fixed: {}, field: { ...field, hasFaults } };
        return drawRound(number, options).packing;
      }));
    same(packings(true), new Set(["node"]));
    same(packings(false), new Set(["node", "machine"]));
  });
});
