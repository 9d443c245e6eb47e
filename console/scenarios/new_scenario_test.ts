import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PROGRAMS } from "../../fabric/rack/plan/vocabulary.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { ROOT } from "../base/paths.ts";
import { newScenario, writeNewScenario } from "./new_scenario.ts";
import { SCHEMA_COMMENT, SCHEMA_FILE } from "./shipped.ts";

const TEXT = newScenario({ name: "x", schema: "./schema.json" });

async function inFolder(dir: string, use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ dir });
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

describe("newScenario", () => {
  it("is a scenario, also with its faults switched on", () => {
    assert.equal(parseScenario(TEXT, "x.yaml").faults.length, 0);
    const { faults, linkFaults } = parseScenario(
      TEXT.replaceAll(/^#(?=faults:| {2}- )/gm, ""),
      "x",
    );
    assert.deepEqual([faults.length, linkFaults.length], [2, 3]);
  });

  it("names every shipped program", () => {
    const sentence = /# Shipped programs are ([^.]*)\.\n/.exec(TEXT)![1]!;
    assert.deepEqual(
      sentence.replaceAll("\n#", "").split(/, | and /).sort(),
      Object.keys(PROGRAMS).sort(),
    );
  });
});

describe("writeNewScenario", () => {
  it("names the scenario after its file, as far as it may be called so", async () => {
    await inFolder("/tmp", async (folder) => {
      const names = ["my_rack.yaml", "x.yml", "-.yaml", `${"a".repeat(60)}.yaml`];
      const written = await Promise.all(names.map((name) => writeNewScenario(`${folder}/${name}`)));
      assert.deepEqual(written, ["my-rack", "x", "my-rack", "a".repeat(40)]);
      const text = await Deno.readTextFile(`${folder}/x.yml`);
      assert.equal(parseScenario(text, "x.yml").name, "x");
    });
  });

  it("leaves a file that is there as it is, and says which", async () => {
    await inFolder("/tmp", async (folder) => {
      const file = `${folder}/x.yaml`;
      await Deno.writeTextFile(file, "mine");
      await assert.rejects(writeNewScenario(file), (error: Error) => {
        return error instanceof Refusal && error.message.includes(`${file} is there already`);
      });
      assert.equal(await Deno.readTextFile(file), "mine");
      await assert.rejects(writeNewScenario(`${folder}/none/x.yaml`), /a folder that is there/);
    });
  });

  it("names the schema by its path: from the file within the project, else from the root", async () => {
    const schemaIn = async (folder: string) => {
      await writeNewScenario(`${folder}/x.yaml`);
      const [first] = (await Deno.readTextFile(`${folder}/x.yaml`)).split("\n");
      assert.ok(first!.startsWith(SCHEMA_COMMENT));
      return first!.slice(SCHEMA_COMMENT.length);
    };
    await inFolder("/tmp", async (folder) => assert.equal(await schemaIn(folder), SCHEMA_FILE));
    await inFolder(`${ROOT}/scripts/scenarios`, async (folder) => {
      assert.equal(await schemaIn(folder), "../schema.json");
    });
  });
});
