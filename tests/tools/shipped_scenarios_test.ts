/** What scenarios may say is what there is: shipped files parse, and every word has its program. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan, PACKINGS, partitionsOf } from "../../fabric/rack/assembly/topology.ts";
import { crossings } from "../../fabric/rack/plan/lookahead.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { PROGRAMS, SERVICES } from "../../fabric/rack/plan/vocabulary.ts";
import { PROGRAMS as SHIPPED } from "../../nodes/host/programs/programs.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";

const FOLDER = new URL("../../scripts/scenarios/", import.meta.url);

const FILES = [...Deno.readDirSync(FOLDER)].map(({ name }) => name).filter((name) =>
  name.endsWith(".yaml")
).toSorted();

describe("shipped scenarios", () => {
  for (const file of FILES) {
    it(`${file} makes racks that can be packed in every way`, () => {
      const scenario = parseScenario(Deno.readTextFileSync(new URL(file, FOLDER)), file);
      assert.equal(scenario.name, file.replace(".yaml", "").replaceAll("_", "-"));
      for (const plan of variants(scenario, { input: "data.bin" }).map(makePlan)) {
        for (const packing of PACKINGS) {
          const between = crossings(plan, partitionsOf(plan, packing));
          assert.ok(between.every(({ delayPs }) => delayPs > 0));
        }
      }
    });
  }

  it("SCENARIO.md: the file that it shows is one", () => {
    const page = Deno.readTextFileSync(new URL("SCENARIO.md", FOLDER));
    const [, text] = page.match(/^```yaml\n([\s\S]*?)^```$/m) ?? [];
    assert.equal(parseScenario(text!, "SCENARIO.md").name, "persist-pair");
  });
});

describe("vocabulary", () => {
  it("names the programs that there are", () => {
    for (const name of [...Object.keys(PROGRAMS), ...SERVICES]) {
      assert.ok(Object.hasOwn(SHIPPED, name), `program ${name}`);
    }
  });
});
