/**
 * The catalogue: each protocol has the verdict that its row says, by the explorer with the row's stalls and frames; and
 * the list is what the folder has.
 */
import { deepStrictEqual as same, match, ok, strictEqual as equal } from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { verdictWords } from "../../console/api/explore_text.ts";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS } from "../../console/explore/types.ts";
import { catalogueRows, scenarioOf } from "../../console/scenarios/catalogue.ts";
import type { OwnProgram } from "../../nodes/host/own_programs.ts";
import { CommandRig } from "../support/command.ts";
import { afterCut, rackOf } from "./explored_rack.ts";

const FOLDER = new URL("catalogue/", import.meta.url);
const ROWS = catalogueRows();

async function protocolOf(name: string): Promise<OwnProgram> {
  const { default: program, recover, check } = await import(new URL(`${name}.ts`, FOLDER).href);
  return { program, ...(recover && { recover }), ...(check && { check: afterCut(check) }) };
}

describe("the catalogue of protocols", () => {
  it("has a file for each row and a row for each file, at least 60, half of them wrong", () => {
    const files = [...Deno.readDirSync(FOLDER)].map(({ name }) => name)
      .filter((name) => name.endsWith(".ts") && name !== "prelude.ts")
      .map((name) => name.slice(0, -".ts".length));
    same(ROWS.map(({ name }) => name).sort(), files.sort());
    const wrong = ROWS.filter(({ verdict }) => verdict === "unsafe").length;
    ok(ROWS.length >= 60, `${ROWS.length}`);
    ok(Math.abs(2 * wrong - ROWS.length) <= ROWS.length / 5, `${wrong} of ${ROWS.length}`);
  });

  it("says in a sentence why, and tries other timings wherever it says safe", () => {
    for (const { name, verdict, why, stalls } of ROWS) {
      match(why, /^[A-Z].*\.$/, name);
      ok(verdict === "unsafe" || stalls > 0, name);
    }
  });

  for (const row of ROWS) {
    const { name, verdict, stalls, frames } = row;
    it(`${name}: ${verdict}`, async () => {
      const rack = rackOf(scenarioOf(row), { [`./${name}.ts`]: await protocolOf(name) });
      const found = await explore(rack, { ...EXPLORE_DEFAULTS, stalls, frames });
      const { counterexample } = found;
      equal(found.verdict, verdict, counterexample?.found ?? found.why ?? "");
      equal(counterexample === null, verdict === "safe");
      if (verdict === "safe") match(verdictWords(found), /^safe for everything tried/);
      // A protocol that fails by itself shows nothing.
      else ok(!/recover failed|failed on/.test(counterexample!.found), counterexample!.found);
    });
  }
});

describe("rack explore --list", () => {
  let rig: CommandRig;

  beforeAll(async () => {
    rig = await CommandRig.open();
  });
  afterAll(() => rig.close());

  it("lists them, for readers and for programs", async () => {
    const { code, stdout } = await rig.run(["explore", "--list"]);
    equal(code, 0);
    for (const { name, why } of ROWS) ok(stdout.includes(name) && stdout.includes(why), name);
    const { protocols } = JSON.parse((await rig.run(["explore", "--list", "--json"])).stdout);
    same(protocols, ROWS);
  });

  it("has names that stand for their scenarios", async () => {
    const { code, stdout } = await rig.run(["explore", "send_not_flushed"]);
    equal(code, 1);
    match(stdout, /write 0 of .* is lost|lost: write 0/);
    // What shows it again takes the name, too.
    const [, again] = /To see it again:\n\s+rack (.*)/.exec(stdout)!;
    const shown = await rig.run([...again!.split(" "), "--json"]);
    equal(shown.code, 1, shown.stderr);
    const unknown = await rig.run(["explore", "send_not_flush"]);
    equal(unknown.code, 64, unknown.stderr);
  });
});
