import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { explorePrepared } from "../explore/explore_scenario.ts";
import type { BytePlace } from "../explore/types.ts";
import { ReplayEngine } from "./engine.ts";
import { cutOptions } from "./fork.ts";
import type { ReplayJob } from "./job.ts";
import type { CopyPlace } from "../api/replay_terms.ts";

/** As the explorer calls them. */
const PLACES: Readonly<Record<CopyPlace, BytePlace>> = {
  "in-flight": "not there yet",
  card: "not there yet",
  bus: "bus",
  iio: "iio",
  llc: "llc",
  "write-queue": "memory",
  medium: "memory",
};
const INSTANTS = 6;

describe("a fork", () => {
  for (
    const [method, ddio] of [
      ["write-only", "on"],
      ["write-read", "on"],
      ["write-flush", "on"],
      ["persist-opcode", "off"],
    ]
  ) {
    it(`finds the losses that the replay shows at that instant: ${method}, DDIO ${ddio}`, async () => {
      const scenario =
        `name: pair\nhosts: { a: {}, b: { ddio: ${ddio}, scm: { size: 256KiB } } }\n` +
        `programs: [{ on: a, run: put, to: b, method: ${method}, bytes: 1KiB, size: 256 }]\n`;
      const plan = makePlan(variants(parseScenario(scenario, "test.yaml"))[0]!);
      const job: Omit<ReplayJob, "runFile"> = {
        ...{ run: "test", variant: "", plan, orders: [], known: [], until: null },
        ...{ unknownEnd: "", expectedPs: null, isLive: false },
      };
      const engine = new ReplayEngine(job as ReplayJob, {
        ...{ own: {}, inputs: new Map(), replace: (create) => create },
      });
      await engine.run(null, () => {});
      const { promises } = engine.timeline();
      const from = promises[0]!.at - 4e6, span = promises.at(-1)!.at + 2e6 - from;
      const random = rngFor(11, `fork ${method}`);
      let unsafe = 0;
      for (let i = 0; i < INSTANTS; i++) {
        const at = from + random.below(span);
        const { byStanding, lost } = await engine.loss(at, ["b"]);
        const rack = { plan, inputs: {}, programs: {} };
        const options = cutOptions({ host: "b", at }, { claims: true });
        const { verdict, counterexample } = await explorePrepared(rack, options, () => {});
        const isReported = byStanding.claimed + byStanding.promised > 0;
        // Beyond what was reported by then, survivors may still report what they have heard.
        if (isReported) assert.equal(verdict, "unsafe", `at ${at}: ${JSON.stringify(lost)}`);
        if (counterexample === null) continue;
        unsafe++;
        for (const found of counterexample.places.filter(({ survived }) => !survived)) {
          const { by, id, place } = found;
          const own = lost.filter(({ from, to, write, ...rest }) =>
            write?.by === by && write.id === id && PLACES[rest.place] === place &&
            from <= found.from && found.to <= to
          );
          assert.equal(own.length, 1, `at ${at}: ${JSON.stringify([found, lost])}`);
        }
      }
      const keepsNothing = method === "write-only" || method === "write-read";
      assert.equal(unsafe > 0, keepsNothing, `${unsafe} of ${INSTANTS} instants`);
    });
  }
});
