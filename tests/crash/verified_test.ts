/** Verified and persistent writes at every instant at which the power may fail (V-09). */
import { ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS } from "../../console/explore/types.ts";
import { putRack } from "./explored_rack.ts";

const HOSTS = [
  { name: "DDIO off", ddio: "off", hostB: "" },
  { name: "no-snoop", ddio: "on", hostB: ", architecture: ddio+ns" },
  { name: "DDIO on", ddio: "on", hostB: "" },
] as const;

describe("verify-persist", () => {
  for (const { name, ...host } of HOSTS) {
    it(`V-03, V-09: ${name}: keeps what it reported, though it is looked at while it is written`, async () => {
      // Three packets each: in flow 1 the first is read back before the last is on the bus.
      const amount = { bytes: 24_576, size: 12_288, depth: 2 };
      const rack = putRack({ method: "verify-persist", ...host, ...amount });
      const { verdict, instants, counterexample } = await explore(rack, EXPLORE_DEFAULTS);
      equal(verdict, "safe", counterexample?.found);
      ok(instants > 100, `${instants} instants`);
    });
  }
});
