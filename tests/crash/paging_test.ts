/** Memory on demand at every instant at which the power may fail: what was promised is in SCM. */
import { ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS } from "../../console/explore/types.ts";
import { putRack } from "./explored_rack.ts";

/** Its pages are taken back all the time while they are written and flushed. */
const HOST = ", pin: false, fault: rnr, pressure: { at: 300us, every: 60us, times: 40, pages: 3 }";

describe("pages that are taken back while they are flushed", () => {
  it("persist-opcode, DDIO on: nothing that was promised is lost", async () => {
    const rack = putRack({ method: "persist-opcode", ddio: "on", bytes: 300, hostB: HOST });
    const { verdict, instants, counterexample } = await explore(rack, EXPLORE_DEFAULTS);
    equal(verdict, "safe", counterexample?.found);
    ok(instants > 100, `${instants} instants`);
  });
});
