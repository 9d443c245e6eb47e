/**
 * The property tests of these folders once more, with a seed drawn from the commit instead of their own fixed one.
 * `RACKMESH_TEST_SEED` names one to try again; `deno task seeds` plays many.
 */
import assert from "node:assert/strict";
import { it } from "@std/testing/bdd";
import fc from "fast-check";
import { ROOT } from "../../console/base/paths.ts";
import { commitSeed } from "./commit_seed.ts";

const FOLDERS = ["fabric", "nodes", "console"] as const;
const HELPER = "property_testing.ts";
/** The helper's own test is about the fixed seed. */
const HELPER_TEST = "property_testing_test.ts";

/** Files of property tests below a folder. */
function* propertyTests(folder: string): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) yield* propertyTests(path);
    else if (name.endsWith("_test.ts") && name !== HELPER_TEST && isPropertyTest(path)) yield path;
  }
}

function isPropertyTest(path: string): boolean {
  return Deno.readTextFileSync(path).includes(HELPER);
}

const seed = commitSeed();
fc.configureGlobal({ seed });
const files = FOLDERS.flatMap((folder) => [...propertyTests(`${ROOT}/${folder}`)]).sort();
for (const file of files) await import(`file://${file}`);

it(`property tests, with seed ${seed}`, () => {
  assert.ok(files.length > 0, "there is none");
});
