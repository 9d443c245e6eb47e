/** A process that ends, but not by SIGKILL: an error that names it, and no power failure. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { RackError } from "../../console/base/rack_error.ts";
import { RackBench } from "../support/process_rack.ts";

const PAIR = new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url);
const RUN = {
  scenario: PAIR,
  inputBytes: 64 * 1024,
  method: "persist-opcode",
  ddio: "off",
} as const;

let bench: RackBench;

beforeAll(async () => {
  bench = await RackBench.open();
});

afterAll(() => bench.close());

async function failsWith(run: Promise<unknown>, text: RegExp): Promise<void> {
  await assert.rejects(run, (error) => {
    assert.ok(error instanceof RackError, String(error));
    assert.match(error.message, text);
    assert.equal(error.code, 2);
    return true;
  });
}

describe("a rack of processes", () => {
  for (const [signal, how] of [["SIGTERM", "exit code 0"], ["SIGABRT", "SIGABRT"]] as const) {
    it(`fails where ${signal} ends a device`, async () => {
      const run = bench.run({
        ...RUN,
        midway: {
          share: 0.2,
          act: (rack) => {
            const { pid } = rack.processes().find(({ name }) => name === "b")!;
            Deno.kill(pid!, signal);
          },
        },
      });
      await failsWith(run, new RegExp(`^b ended by itself \\(${how}\\)`));
    });
  }

  it("fails where SIGABRT ends the timekeeper, which SIGKILL restarts", async () => {
    const run = bench.run({
      ...RUN,
      midway: {
        share: 0.2,
        act: (rack) => Deno.kill(rack.processes()[0]!.pid!, "SIGABRT"),
      },
    });
    await failsWith(run, /^timekeeper ended by itself \(SIGABRT\)/);
  });

  it("fails where a partition gives no final report", async () => {
    const run = bench.run({
      ...RUN,
      onStart: (rack) => void rack.finished.then(() => rack.kill("b"), () => {}),
    });
    await failsWith(run, /^Found no final report of b: nothing is known of their programs$/);
  });

  it("does without the final report of a device that chaos kills when all is over", async () => {
    const { outcome } = await bench.run({
      ...RUN,
      onStart: (rack) => void rack.finished.then(() => rack.kill("tor"), () => {}),
      mayLackFinal: (partition) => partition === "tor",
    });
    const names = outcome.finals.map(({ partition }) => partition);
    assert.deepEqual(names, ["a", "a-rnic", "b", "b-rnic"]);
  });
});
