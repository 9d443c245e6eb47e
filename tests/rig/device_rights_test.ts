/** What the process of a host may do once a user's program is loaded in it: what a device may. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { runProcesses } from "../../console/rack/run_variant.ts";
import { RackBench } from "../support/process_rack.ts";
import { allRefused, triesAll } from "../support/tries_all.ts";

let bench: RackBench;

beforeAll(async () => {
  bench = await RackBench.open();
});

afterAll(() => bench.close());

describe("a host's process with a user's program", () => {
  it("may use its bus, the files that it has open and outputs/, and nothing else", async () => {
    await Deno.writeTextFile(`${bench.directory}/own.ts`, "export default function* () {}\n");
    const prepared = await bench.prepare({
      scenario: "name: own\nhosts: { a: {}, b: {} }\nprograms: [{ on: a, run: ./own.ts }]\n",
    });
    const directory = `${bench.directory}/with, a comma`;
    const outcome = await runProcesses(
      { ...prepared, programs: { "./own.ts": triesAll(directory) } },
      { run: "rights", directory, broker: bench.server },
    );
    const reports = outcome.finals.flatMap(({ reports }) => reports);
    const found = reports.find(({ topic }) => topic === "result")?.value;
    assert.deepEqual(found, allRefused(), JSON.stringify(reports));
  });
});
