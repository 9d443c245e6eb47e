/** The README's tables of the methods are those that this tree makes. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { measureMethods, methodsTable } from "../../scripts/bench/methods.ts";
import { withTable } from "../../scripts/bench/put_table.ts";
import {
  logFailureTable,
  logTable,
  measureLog,
  measureLogFailure,
} from "../../scripts/bench/replicated_log.ts";
import { measureVerified, verifiedTable } from "../../scripts/bench/verified.ts";

describe("The README's table of methods", () => {
  const readme = Deno.readTextFileSync(new URL("../../README.md", import.meta.url));

  it("P-40: is what a run gives, to the digit (deno task bench --only m --write)", () => {
    assert.equal(readme, withTable(readme, methodsTable(measureMethods(7))));
  });

  it("V-10: of verified writes is what a run gives, too", () => {
    assert.equal(readme, withTable(readme, verifiedTable(measureVerified(7))));
  });

  it("P-40: of the replicated log is what a run gives, too (deno task bench --only l --write)", () => {
    const made = withTable(readme, logTable(measureLog(7)));
    assert.equal(readme, withTable(made, logFailureTable(measureLogFailure(7))));
  });
});
