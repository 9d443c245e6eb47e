/** What a test does to a rack fails the test at once, also where the rack stands and would never end. */
import { rejects } from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import type { Supervisor } from "../../console/rack/supervisor.ts";
import { RackBench, type RunOf } from "./process_rack.ts";

const PAIR: RunOf = {
  scenario: new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url),
  inputBytes: 24 * 1024 - 100,
  ...{ method: "persist-address", ddio: "on", packing: "machine", delayMsMax: 2 },
  ...{ size: 1024, depth: 4 },
};

async function stopAndFail({ control }: Supervisor): Promise<void> {
  await control.attempt("pause", {});
  throw new Error("the file is not there");
}

describe("a rack of processes that stands", () => {
  let bench: RackBench;
  beforeAll(async () => {
    bench = await RackBench.open();
  });
  afterAll(() => bench.close());

  it("is taken down where what is done midway fails, and that is what is reported", async () => {
    const run = { ...PAIR, midway: { share: 0.3, act: stopAndFail } };
    await rejects(bench.run(run), /^Error: the file is not there$/);
  });

  it("is taken down where what is done at its start fails", async () => {
    await rejects(bench.run({ ...PAIR, onStart: stopAndFail }), /^Error: the file is not there$/);
  });

  it("is taken down where that fails before it has waited for anything", async () => {
    const fails = () => {
      throw new Error("at once");
    };
    await rejects(bench.run({ ...PAIR, midway: { share: 0.3, act: fails } }), /^Error: at once$/);
    await rejects(bench.run({ ...PAIR, onStart: fails }), /^Error: at once$/);
  });
});
