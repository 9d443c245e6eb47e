import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PLACES, survives } from "./adr.ts";

describe("survives", () => {
  it("P-05: answers for every place and domain: the IIO, the LLC and DRAM are lost, eADR keeps the LLC", () => {
    const expected = {
      "iio/adr": false,
      "iio/eadr": false,
      "llc/adr": false,
      "llc/eadr": true,
      "wpq/adr": true,
      "wpq/eadr": true,
      "scm/adr": true,
      "scm/eadr": true,
      "dram/adr": false,
      "dram/eadr": false,
    };
    const found = Object.fromEntries(
      PLACES.flatMap((place) =>
        (["adr", "eadr"] as const).map((
          domain,
        ) => [`${place}/${domain}`, survives(place, domain)])
      ),
    );
    assert.deepEqual(found, expected);
  });

  it("P-01: a wider domain never loses what a narrower one keeps", () => {
    for (const place of PLACES) {
      if (survives(place, "adr")) assert.ok(survives(place, "eadr"), place);
    }
  });
});
