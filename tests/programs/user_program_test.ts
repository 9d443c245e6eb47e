/** A user's own program, named in a scenario by its file: as processes, packed, and from anywhere. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { CommandRig } from "../support/command.ts";
import { RackBench, type Ran } from "../support/process_rack.ts";

const MY_PROTOCOL = new URL("../../scripts/scenarios/my_protocol.yaml", import.meta.url);
const RECORDS = 10, RECORD_BYTES = 64;

/** What the client of `my_protocol.ts` reports. */
interface Result {
  readonly program: "my_protocol";
  readonly records: number;
  readonly latencies: readonly number[];
}

function resultOf({ outcome }: Ran): Result {
  const results = outcome.finals.flatMap(({ reports }) =>
    reports.filter(({ topic }) => topic === "result").map(({ value }) => value as Result)
  );
  assert.equal(results.length, 1);
  return results[0]!;
}

describe("A user's own program", () => {
  let bench: RackBench;
  let rig: CommandRig;

  beforeAll(async () => {
    bench = await RackBench.open();
    rig = await CommandRig.open();
  });

  afterAll(async () => {
    await bench.close();
    await rig.close();
  });

  it("runs alike as processes and packed, and what it made persistent is in the SCM file", async () => {
    const digests = new Set<string>();
    for (const packing of PACKINGS) {
      const ran = await bench.run({ scenario: MY_PROTOCOL, packing });
      digests.add(ran.outcome.digest);
      const { records, latencies } = resultOf(ran);
      assert.equal(records, RECORDS);
      assert.ok(latencies.every((ps) => ps > 0));
      const scm = await Deno.readFile(`${ran.outcome.directory}/scm/b.scm`);
      const log = scm.subarray(1 << 20, (1 << 20) + RECORDS * RECORD_BYTES);
      const expected = Uint8Array.from(log, (_, i) => 1 + Math.floor(i / RECORD_BYTES));
      assert.deepEqual(log, expected);
    }
    assert.equal(digests.size, 1);
  });

  it("may lie anywhere, and take a file of its own", async () => {
    await rig.file("data.txt", "what to say");
    await rig.file(
      "mine.ts",
      `export default function* ({ cpu, options }) {
        yield* cpu.sleep(5_000_000);
        cpu.report("result", { text: new TextDecoder().decode(cpu.input(options.file)), at: cpu.now });
      }`,
    );
    const scenario = await rig.file(
      "mine.yaml",
      "name: mine\nhosts: { a: {} }\nprograms: [{ on: a, run: ./mine.ts, file: data.txt }]\n",
    );
    const digests = new Set<string>();
    for (const pack of PACKINGS) {
      const { code, stdout, stderr } = await rig.run(["run", scenario, "--pack", pack, "--json"]);
      assert.equal(code, 0, stderr);
      const { digest, results } = JSON.parse(stdout);
      assert.equal(results[0].value.text, "what to say");
      digests.add(digest);
    }
    assert.equal(digests.size, 1);
  });
});
