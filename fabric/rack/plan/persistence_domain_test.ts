import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { DOMAIN_NAMES as DOMAINS, PLACES, survives } from "./persistence_domain.ts";

describe("survives", () => {
  it("P-05: answers for every place and domain: eADR adds the LLC, wsp all that is on its way", () => {
    const expected = {
      rnic: [false, false, true],
      // C-10, decision 12: a coherent card's caches.
      remoteCache: [false, false, false],
      localCache: [false, false, true],
      bus: [false, false, true],
      iio: [false, false, true],
      llc: [false, true, true],
      wcb: [false, false, true],
      wpq: [true, true, true],
      scm: [true, true, true],
      dram: [false, false, false],
    };
    const found = Object.fromEntries(
      PLACES.map((place) => [place, DOMAINS.map((domain) => survives(place, domain))]),
    );
    assert.deepEqual(found, expected);
  });

  it("P-05: what a card keeps it writes again, so that nothing on its way there may be lost", () => {
    for (const domain of DOMAINS) {
      const kept = (["rnic", "localCache", "bus"] as const).map((place) => survives(place, domain));
      assert.equal(new Set(kept).size, 1, `${domain}: one journal has them all`);
      if (kept[0]) assert.ok(survives("iio", domain), `${domain}: it forgets what has arrived`);
      assert.ok(!survives("remoteCache", domain) && !survives("dram", domain), domain);
    }
  });

  it("P-01: a wider domain never loses what a narrower one keeps", () => {
    for (const place of PLACES) {
      for (const [i, domain] of DOMAINS.entries()) {
        for (const wider of DOMAINS.slice(i + 1)) {
          if (survives(place, domain)) assert.ok(survives(place, wider), `${place} under ${wider}`);
        }
      }
    }
  });
});
