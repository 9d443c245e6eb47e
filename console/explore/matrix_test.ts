import { deepEqual as same, equal } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { DOMAIN_NAMES } from "../../fabric/rack/plan/persistence_domain.ts";
import { MEMORIES } from "../../fabric/rack/plan/plan.ts";
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { matrixPlaces } from "./matrix.ts";
import { MIXED_METHODS } from "./mixed_writes.ts";

it("the matrix has each method with each update, on each kind of responder, once", () => {
  const places = matrixPlaces();
  const responders = DOMAIN_NAMES.length * 2 * 2;
  for (const method of METHODS) {
    for (const update of ["single", "compound", "mixed", "replaced"] as const) {
      const own = places.filter((each) => each.method === method && each.update === update);
      // An object that replaces another one comes without a message, but by this method.
      const isReceived = update !== "replaced" || method === "send-read";
      const memories = isReceived ? MEMORIES : ["dram"];
      const isThere = update !== "mixed" || MIXED_METHODS.some((each) => each === method);
      equal(own.length, isThere ? responders * memories.length : 0, `${method} ${update}`);
      same(new Set(own.map((each) => each.receiveBuffer)), new Set(isThere ? memories : []));
    }
  }
  const keys = places.map((place) => JSON.stringify(place));
  equal(new Set(keys).size, keys.length);
});
