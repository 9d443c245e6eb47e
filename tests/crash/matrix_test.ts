/** P-31, P-40, P-41: the explorer's matrix is what the documents say, and each unsafe cell has its proof. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import {
  exploreCell,
  type MatrixPlace,
  matrixPlaces,
  matrixText,
} from "../../console/explore/matrix.ts";
import { whyUnsafe } from "./matrix_rules.ts";

/** An object that is written by SENDs takes no WRITE (`accessFor`). */
const UNMIXED = ["send-flush", "send-read"] as const;

/** Methods whose data a SEND brings into a receive buffer. */
const BY_SENDS: readonly string[] = UNMIXED;

/**
 * Whether a place is explored here. Where receive buffers hold no data, the same happens whichever memory they
 * are in: each is tried at every other place. `rack explore --matrix` explores all.
 */
function isTried(place: MatrixPlace): boolean {
  const { method, update, arch, ddio, domain, receiveBuffer } = place;
  if (BY_SENDS.includes(method) || update === "replaced") return true;
  const others = [arch === "ddio", ddio === "off", domain === "eadr", receiveBuffer === "dram"];
  return others.filter((holds) => holds).length % 2 === 0;
}

describe("The matrix of promises", () => {
  it("is of every method, single, compound, behind plain WRITEs and in a put over an object, on every kind of responder", () => {
    const places = matrixPlaces();
    const hosts = 3 * 2 * 2;
    const replaced = (METHODS.length + 1) * hosts;
    assert.equal(places.length, (METHODS.length * 3 - UNMIXED.length) * hosts * 2 + replaced);
    assert.equal(new Set(places.map((place) => JSON.stringify(place))).size, places.length);
  });

  for (const method of METHODS) {
    it(`P-41: ${method}: holds where the rules say so, and is broken by a power failure elsewhere`, async () => {
      const cells = [];
      for (
        const place of matrixPlaces().filter((each) => each.method === method && isTried(each))
      ) {
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
