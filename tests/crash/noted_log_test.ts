/** The shipped log that notes its operations, `scripts/scenarios/noted_log.ts`, judged by them alone. */
import { match, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS } from "../../console/explore/types.ts";
import * as notedLog from "../../scripts/scenarios/noted_log.ts";
import { rackOf } from "./explored_rack.ts";

const SCENARIO = await Deno.readTextFile(
  new URL("../../scripts/scenarios/noted_log.yaml", import.meta.url),
);

function explored(order: string) {
  const { default: program, recover } = notedLog;
  const rack = rackOf(SCENARIO.replace("record-first", order), {
    "./noted_log.ts": { program, recover },
  });
  return explore(rack, { ...EXPLORE_DEFAULTS, cut: { host: "b" } });
}

describe("scripts/scenarios/noted_log.ts", () => {
  it("is safe by its operations, without a check", async () => {
    const { verdict, exhaustive, judgedBy } = await explored("record-first");
    equal(verdict, "safe");
    equal(exhaustive, true);
    equal(judgedBy.join(), "operations");
  });

  it("is unsafe where its tail goes first: the log has a record that nothing has appended", async () => {
    const { verdict, counterexample } = await explored("tail-first");
    equal(verdict, "unsafe");
    match(counterexample!.found, /b recovers log as \[0\]: .*under way \(append\(100\)\)/);
  });
});
