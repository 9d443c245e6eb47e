/** The tables of `scripts/bench/RESULTS.md` are those that this tree makes. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { measureMethods, methodsTable } from "../../scripts/bench/methods.ts";
import { RESULTS, withTable } from "../../scripts/bench/put_table.ts";
import {
  logFailureTable,
  logTable,
  measureLog,
  measureLogFailure,
} from "../../scripts/bench/replicated_log.ts";
import { sharedTables } from "../../scripts/bench/shared.ts";
import { measureVerified, verifiedTable } from "../../scripts/bench/verified.ts";

describe("The tables of RESULTS.md", () => {
  const results = Deno.readTextFileSync(RESULTS);

  it("P-40: the methods' is what a run gives, to the digit (deno task bench --only m --write)", () => {
    assert.equal(results, withTable(results, methodsTable(measureMethods(7))));
  });

  it("V-10: that of verified writes is what a run gives, too", () => {
    assert.equal(results, withTable(results, verifiedTable(measureVerified(7))));
  });

  it("C-11: those of shared memory are what a run gives (deno task bench --only s --write)", () => {
    assert.equal(results, sharedTables(7).reduce(withTable, results));
  });

  it("P-40: those of the replicated log are what a run gives (deno task bench --only l --write)", () => {
    const made = withTable(results, logTable(measureLog(7)));
    assert.equal(results, withTable(made, logFailureTable(measureLogFailure(7))));
  });
});
