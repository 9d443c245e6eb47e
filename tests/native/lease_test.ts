/** What the library answers itself within its lease changes nothing that the rack or the program could see. */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { executableInPath } from "../../console/base/executables.ts";
import { prepare } from "../../console/rack/prepare.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";
import { PS_PER_NS } from "../../fabric/base/time.ts";
import { LEASE_VARIABLE } from "../../nodes/host/native/port.ts";
import {
  differenceOf,
  type NativeJob,
  runNative as runJob,
  scenarioOf,
} from "../../scripts/native/runs.ts";
import { compiled, nativeMissing, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const NAME = "tests/native/lease_test.ts";
const missing = await nativeMissing();
const it = itUnless(missing, NAME);
const folder = await Deno.makeTempDir({ prefix: "rackmesh-lease-" });

afterAll(() => Deno.remove(folder, { recursive: true }));

describe("polls of an empty completion queue", () => {
  it("leave the caches as they are, whether the library or the host answers them", async () => {
    const file = compiled(folder, "polls_check.c", ["-libverbs"]);
    // Two ways: the queue's line stays in the cache, or is the next to leave it, by who has used it last.
    const text = `
name: polls
defaults: { llc: { size: 4KiB, ways: 2, ddioWays: 1 } }
hosts: { a: { services: none } }
programs: [{ on: a, native: [${file}] }]
`;
    const on = await runNative(folder, text);
    assert.match(on.lines.a![0]!, /^\d+ ns$/);
    for (const lease of ["off", "1"]) {
      const less = await runNative(folder, text, { env: { [LEASE_VARIABLE]: lease } });
      assert.deepEqual(less.transcript, on.transcript, lease);
      assert.equal(less.rack.simulator.digest, on.rack.simulator.digest, lease);
    }
  });
});

describe("clock reads of a program beside another one on its core", () => {
  it("come to one digest with leases and without them", async () => {
    const file = compiled(folder, "clock_check.c");
    const text = `
name: turns
hosts: { a: { cores: 1 }, b: {} }
programs:
  - { on: a, native: [${file}], at: 100us }
  - { on: a, native: [${file}], at: 100us }
`;
    const on = await runNative(folder, text);
    const off = await runNative(folder, text, { env: { [LEASE_VARIABLE]: "off" } });
    assert.deepEqual(off.transcript, on.transcript);
    assert.equal(off.rack.simulator.digest, on.rack.simulator.digest);
  });
});

describe(LEASE_VARIABLE, () => {
  it("is refused where it is none, before anything starts", async () => {
    const path = `${folder}/polls.yaml`, before = Deno.env.get(LEASE_VARIABLE);
    const file = compiled(folder, "clock_check.c");
    Deno.writeTextFileSync(
      path,
      `name: clock\nhosts: { a: , b: }\nprograms: [{ on: a, native: [${file}] }]\n`,
    );
    try {
      for (const lease of ["clock", "123456", "-1", ""]) {
        Deno.env.set(LEASE_VARIABLE, lease);
        await assert.rejects(
          prepare(await readScenario(path), { packing: "all", native: { kind: "run" } }),
          {
            message:
              `${LEASE_VARIABLE} is "${lease}": expected on, off, or a seed of up to 5 digits`,
          },
        );
      }
    } finally {
      if (before === undefined) Deno.env.delete(LEASE_VARIABLE);
      else Deno.env.set(LEASE_VARIABLE, before);
    }
  });
});

describe("a run whose leases a seed leaves out", () => {
  const LEASES = ["on", "off", "1"] as const;
  const JOB: NativeJob = {
    binary: "ibv_ud_pingpong",
    packaged: "ibverbs-utils",
    options: ["-g", "0", "-n", "50"],
    client: ["b"],
  };
  const absent = executableInPath(JOB.binary) === undefined
    ? `there is no ${JOB.binary}`
    : undefined;

  itUnless(missing ?? absent, NAME)(
    "finds a lease that is too long, as one without leases does",
    async () => {
      /** Of each way the first difference from the run with all leases. */
      const differences = async (longerPs: number) => {
        const runs = await Promise.all(
          LEASES.map((lease) => runJob(scenarioOf(JOB), { lease, longerPs })),
        );
        const [on, ...less] = runs.map(({ transcript }) => transcript);
        return less.map((transcript) => differenceOf(on!, transcript));
      };
      assert.deepEqual(await differences(0), [undefined, undefined]);
      // A WRITE or SEND that arrives within is seen by the next poll only.
      const [off, drawn] = await differences(100 * PS_PER_NS);
      assert.match(off ?? "", /^line \d+: /);
      assert.match(drawn ?? "", /^line \d+: /);
    },
  );
});
