/** P-31, P-40, P-41: the explorer's matrix is what the documents say, and each unsafe cell has its proof. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { exploreCell, matrixPlaces, matrixText } from "../../console/explore/matrix.ts";
import { whyUnsafe } from "./matrix_rules.ts";

/** An object that is written by SENDs takes no WRITE (`accessFor`). */
const UNMIXED = ["send-flush", "send-read"] as const;

describe("The matrix of promises", () => {
  it("is of every method, single, compound, behind plain WRITEs and in a put over an object, on every kind of responder", () => {
    const places = matrixPlaces();
    const hosts = 3 * 2 * 2;
    // Of one place there are more choices than can be tried.
    const replaced = (METHODS.length + 1) * hosts - 1;
    assert.equal(places.length, (METHODS.length * 3 - UNMIXED.length) * hosts * 2 + replaced);
    assert.equal(new Set(places.map((place) => JSON.stringify(place))).size, places.length);
  });

  for (const method of METHODS) {
    it(`P-41: ${method}: holds where the rules say so, and is broken by a power failure elsewhere`, async () => {
      const cells = [];
      for (const place of matrixPlaces().filter((place) => place.method === method)) {
        const cell = await exploreCell(place);
        const why = whyUnsafe(place);
        const found = cell.counterexample?.found ?? "nothing";
        const said = `${JSON.stringify(place)}: ${why ?? "safe by the rules"}; found ${found}`;
        assert.equal(cell.safe, why === undefined, said);
        // The explorer has had each counterexample again by a run before it says so.
        assert.equal(cell.counterexample === null, cell.safe, said);
        assert.ok(cell.crashPoints > 0, said);
        cells.push(cell);
      }
      const text = matrixText(cells);
      assert.equal(text.split("\n").length, 2 + cells.length, text);
    });
  }
});
