/** Memory on demand at every instant at which the power may fail: what was promised is in SCM. */
import { match, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS } from "../../console/explore/types.ts";
import type { ExploredRack } from "../../console/explore/types.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { putRack, putScenario } from "./explored_rack.ts";

/**
 * Its pages are taken back all the time while they are written and flushed. Faults are as fast as they
 * can be: at the instants of a long wait nothing can be lost that was not lost before.
 */
function hostWith(fault: string): string {
  const timing = {
    rnic: { pageFault: "1us" },
    host: {
      interrupt: "500ns",
      minorFault: "200ns",
      majorFault: "500ns",
      rangePage: "60ns",
      command: "500ns",
    },
  };
  // Beside the transfer, which begins at 141 us.
  const pressure = { at: "140us", every: "5us", times: 20, pages: 3 };
  const options = JSON.stringify({ pin: false, fault, timing, pressure });
  return `, ${options.slice(1, -1)}`;
}

describe("hints in the middle of which power fails", () => {
  it("H-24: hints_put.yaml: nothing that was promised is lost at any instant, by either method and flow", async () => {
    const file = new URL("../../scripts/scenarios/hints_put.yaml", import.meta.url);
    const text = await Deno.readTextFile(file);
    const { "a-rnic": plain } = new SimulatedRack(text).run().simulator.statistics();
    ok(plain!["hintsPrepared"]! > 0, `${plain!["hintsSent"]} hints`);
    const scenario = parseScenario(text, "hints_put.yaml");
    const all = variants(scenario);
    equal(all.length, 4);
    // Each method and each flow once: those that the others below have not.
    for (const variant of [all[0]!, all[3]!]) {
      const rack: ExploredRack = { plan: makePlan(variant), inputs: {}, own: {} };
      const { verdict, instants, promises, counterexample } = await explore(rack, {
        ...EXPLORE_DEFAULTS,
        cut: "each",
      });
      equal(verdict, "safe", counterexample?.found);
      equal(promises, 2);
      ok(instants > 400, `${instants} instants`);
      // One that has no time for all says what makes it large.
      const stopped = await explore(rack, { ...EXPLORE_DEFAULTS, cut: "each", forMs: 0 });
      equal(stopped.verdict, "partial");
      match(
        stopped.why!,
        /^its time of 0 s is over after \d of about \d{2,} runs of the rack, one/,
      );
    }
  });
});

describe("pages that are taken back while they are flushed", () => {
  for (
    const [method, ddio, fault] of [
      // By the processor of `b`, and by a read behind the data.
      ["persist-opcode", "on", "rnr"],
      ["write-flush", "off", "drop"],
    ] as const
  ) {
    it(`${method}, DDIO ${ddio}, fault: ${fault}: nothing that was promised is lost`, async () => {
      const put = { method, ddio, bytes: 300, hostB: hostWith(fault) };
      const plain = new SimulatedRack(putScenario(put)).run().simulator.statistics();
      ok(plain["b-rnic"]!["pagesInvalidated"]! > 5, "pages are taken back");
      const { verdict, instants, promises, counterexample } = await explore(
        putRack(put),
        EXPLORE_DEFAULTS,
      );
      equal(verdict, "safe", counterexample?.found);
      equal(promises, 2);
      ok(instants > 100, `${instants} instants`);
    });
  }
});
