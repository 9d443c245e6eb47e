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
 * are in: each is tried at every other place. An object is replaced by every other method on each kind of
 * responder, and at the places where that is unsafe. `rack explore --matrix` explores all.
 */
function isTried(place: MatrixPlace): boolean {
  const { method, update, arch, ddio, domain, receiveBuffer } = place;
  const others = [arch === "ddio", ddio === "off", domain === "eadr"];
  if (update === "replaced") {
    others.push(METHODS.findIndex((each) => each === method) % 2 === 0);
    if (whyUnsafe(place) !== undefined) return true;
  } else {
    if (BY_SENDS.includes(method)) return true;
    others.push(receiveBuffer === "dram");
  }
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

  it("is explored by each method on half of the responders at least, on each of them by several methods", () => {
    const tried = matrixPlaces().filter(isTried);
    const count = (of: Partial<MatrixPlace>) => {
      const wanted = Object.entries(of);
      return tried.filter((place) => wanted.every(([key, value]) => Object(place)[key] === value))
        .length;
    };
    for (const { update, arch, ddio, domain, method } of matrixPlaces()) {
      assert.ok(count({ update, method }) >= 6, `${update}, ${method}`);
      assert.ok(count({ update, arch, ddio, domain }) >= 4, `${update}, ${arch} ${ddio} ${domain}`);
    }
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
