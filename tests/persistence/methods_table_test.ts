/** The tables of `scripts/bench/RESULTS.md` and of the memory's FIDELITY.md are those that this tree makes. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { planOf } from "../../scripts/bench/bench_rack.ts";
import {
  type Constant,
  constants,
  constantsTable,
  measureConstants,
  originsOf,
  sampleOf,
  settingOf,
  SOURCE,
} from "../../scripts/bench/constants.ts";
import { BASELINES, measureMethods, methodsTable } from "../../scripts/bench/methods.ts";
import { measurePublished, publishedTable } from "../../scripts/bench/published.ts";
import { FIDELITY, RESULTS, withTable } from "../../scripts/bench/put_table.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import {
  logCases,
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
    assert.equal(results, withTable(results, logFailureTable(measureLogFailure(7))));
    const rowsOf = (text: string) => {
      const [, table = ""] = /<!-- log: [^>]*-->([^]*)<!-- log end -->/.exec(text) ?? [];
      return table.trim().split("\n");
    };
    const written = rowsOf(results), cases = logCases();
    assert.deepEqual(
      new Set(written.slice(2).map((row) => row.split(" | ", 2).join(" "))),
      new Set(cases.map(({ ddio, method }) => `| ${ddio} ${method}`)),
    );
    // A third of them, and what they are relative to.
    const some = cases.filter(({ ddio, method }, i) => i % 3 === 1 || method === BASELINES[ddio]);
    for (const row of rowsOf(withTable(results, logTable(measureLog(7, some))))) {
      assert.ok(written.includes(row), row);
    }
  });

  it("that of published figures is what a run gives (deno task bench --only u --write)", () => {
    assert.equal(results, withTable(results, publishedTable(measurePublished(7))));
  });
});

/** What a constant's table says: a row of each that it shows, then the names of the others. */
function saidIn(document: string) {
  const [, made = ""] = /<!-- constants: [^>]*-->([^]*)<!-- constants end -->/.exec(document) ?? [];
  const names = (text: string) => [...text.matchAll(/`([\w.]+)`/g)].map(([, name]) => name!);
  const rows = made.split("\n").filter((line) => line.startsWith("| `"));
  const below = made.split("\n").findLast((line) => line !== "") ?? "";
  const [, some = "", none = ""] = /^Less than (.*)\. Nothing at all: (.*?)\.(?: |$)/.exec(below) ??
    [];
  return { rows, shown: rows.flatMap((row) => names(row)), some: names(some), none: names(none) };
}

describe("The table of constants in FIDELITY.md", () => {
  const document = Deno.readTextFileSync(FIDELITY), said = saidIn(document);

  it("has each constant of the profile once, in a row or below", () => {
    const found = [...said.shown, ...said.some, ...said.none].toSorted();
    assert.deepEqual(found, constants().map(({ name }) => name).toSorted());
  });

  it("is what a run gives, to the digit, for a sample of them (deno task bench --only u --write)", () => {
    const sample = sampleOf(constants());
    const made = saidIn(withTable(document, constantsTable(measureConstants(7, sample))));
    assert.equal(made.shown.length + made.some.length + made.none.length, sample.length);
    for (const kind of ["rows", "some", "none"] as const) {
      const missing = new Set<string>(made[kind]).difference(new Set<string>(said[kind]));
      assert.deepEqual([...missing], [], kind);
    }
  });

  it("has of each constant where its value is from, as profile.ts marks it", () => {
    const origins = originsOf(Deno.readTextFileSync(SOURCE));
    const without = constants().filter(({ name }) => !origins.get(name));
    assert.deepEqual(without, []);
    assert.deepEqual(
      ["host.scmMediumPs", "rnic.receivePs", "bus.latencyPs", "llc.ways"]
        .map((name) => origins.get(name)),
      ["derived", "derived, choice", "choice", "choice"],
    );
  });

  it("is of settings that reach the rack: each value as it is changes nothing, another something", () => {
    const planWith = (constant: Constant, value: number) => {
      const { hosts = "", fabric = "" } = settingOf(constant, value);
      const more = hosts === "" ? "" : `, ${hosts}`;
      const defaults = `dram: 64MiB${more}`;
      return planOf(
        `{ name: x, fabric: { ${fabric} }, defaults: { ${defaults} }, hosts: { a: {}, b: {} } }`,
      );
    };
    const plain = planOf("{ name: x, defaults: { dram: 64MiB }, hosts: { a: {}, b: {} } }");
    for (const constant of constants()) {
      assert.deepEqual(planWith(constant, constant.value), plain, constant.name);
      for (const value of [Math.floor(constant.value / 2), 2 * constant.value]) {
        try {
          assert.notDeepEqual(planWith(constant, value), plain, constant.name);
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
        }
      }
    }
  });
});
