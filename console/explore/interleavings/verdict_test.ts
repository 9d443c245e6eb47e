import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import type { Verdict } from "../types.ts";
import type { Interleaved } from "./search.ts";
import { withInterleavings } from "./verdict.ts";

const COUNTS = { runs: 3, orders: 2, preemptions: 2, untried: 0 };

it("withInterleavings is safe, and exhaustive, only where all of both was tried; what is wrong stays so", () => {
  const rows: [Verdict["verdict"], string | undefined, Verdict["verdict"], string | undefined][] = [
    ["safe", undefined, "safe", undefined],
    ["safe", "few", "partial", "few"],
    ["partial", undefined, "partial", "cut short"],
    ["partial", "few", "partial", "cut short; few"],
    ["unsafe", "few", "unsafe", undefined],
    ["failed", "few", "failed", undefined],
    ["unchecked", "few", "unchecked", undefined],
  ];
  for (const [is, left, becomes, says] of rows) {
    const why = is === "partial" ? { why: "cut short" } : {};
    const given = { verdict: is, exhaustive: is === "safe", ...why } as Verdict;
    const found: Interleaved = { counts: COUNTS, counterexample: null, ...(left && { why: left }) };
    const { verdict, exhaustive, why: said, interleavings } = withInterleavings(given, found);
    same([verdict, said, interleavings], [becomes, says, COUNTS], `${is}, ${left}`);
    same(exhaustive, becomes === "safe");
    same(withInterleavings(given, undefined), given);
  }
});
