/** Rows of one's own in the coherent cards' protocol: in a run, in every packing, and explored. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { exploreProtocol } from "../../console/explore/protocol/explore_protocol.ts";
import { exitOfProtocol, protocolText } from "../../console/explore/protocol/protocol_report.ts";
import { PROTOCOL_RACKS } from "../../console/explore/protocol/racks.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";
import { writeNewProtocol } from "../../console/scenarios/new_protocol.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { RackBench } from "../support/process_rack.ts";

const shipped = (file: string) => fromFileUrl(projectFile(`scripts/scenarios/${file}`));
const OWN = shipped("my_coherence.ts");

/** The scenarios are elsewhere. */
const READS = {
  allowRead: [fromFileUrl(projectFile("scripts/scenarios")), Deno.realPathSync("/tmp")],
};

/** The rack of `my_coherence.yaml`, with fewer accesses. */
function scenarioWith(coherence: string | undefined): string {
  return `
name: own-protocol
seed: 7
profile: clx-optane-cx5
${coherence === undefined ? "" : `coherence: ${coherence}`}
defaults: { services: none, attach: coherent }
hosts: { home-remote: {}, far-remote: {} }
shared:
  - { name: remote, home: home-remote, far: [far-remote], memory: dram, bytes: 4KiB, placement: remote }
programs:
  - on: all
    program: ${shipped("coherent_access.ts")}
    bytes: 4KiB
    lines: 4
    begin: 200us
    every: 8us
    warmUp: 4
    accesses: 20
    stores: 30
    shares: 75
`;
}

describe("a rack with rows of one's own in its protocol", () => {
  let bench: RackBench, folder: string;
  beforeAll(async () => {
    bench = await RackBench.open();
    folder = await Deno.makeTempDir({ prefix: "rackmesh-own-protocol-" });
  });
  afterAll(async () => {
    await bench.close();
    await Deno.remove(folder, { recursive: true });
  });

  async function written(name: string, rows: string): Promise<string> {
    const path = `${folder}/${name}.ts`;
    await Deno.writeTextFile(path, `export default ${rows};\n`);
    return path;
  }

  it("runs them, to one digest in one process and in one for each node", async () => {
    const plain = await bench.run({ ...READS, scenario: scenarioWith(undefined), packing: "all" });
    const one = await bench.run({ ...READS, scenario: scenarioWith(OWN), packing: "all" });
    assert.notEqual(one.outcome.digest, plain.outcome.digest);
    const { outcome } = await bench.run({ ...READS, scenario: scenarioWith(OWN), packing: "node" });
    assert.ok(outcome.processes > 1);
    assert.equal(outcome.digest, one.outcome.digest);
  });

  it("ends where a row goes wrong, with node, time and row, and what finds the way there", async () => {
    const rows =
      '{ home: { "idle free": { GetM: (line) => ({ line: { ...line, phase: "P9" } }) } } }';
    const scenario = scenarioWith(await written("p9", rows));
    await assert.rejects(
      bench.run({ ...READS, scenario, packing: "all" }),
      /home-remote-rnic at .* home idle free: GetM: found that line\.phase is "P9".*explore --protocol/,
    );
  });

  it("is refused where the file is a program, or names what there is not", async () => {
    const wrong = [
      [shipped("coherent_access.ts"), /coherent_access\.ts is a program: expected rows of the/],
      [
        await written("slip", "{ far: { S: { lod: null } } }"),
        /far S: found "lod", .*"load" \(one/,
      ],
    ] as const;
    for (const [file, said] of wrong) {
      await assert.rejects(
        bench.run({ ...READS, scenario: scenarioWith(file), packing: "all" }),
        said,
      );
    }
    const scenario = scenarioWith(undefined).replace(shipped("coherent_access.ts"), OWN);
    await assert.rejects(
      bench.run({ ...READS, scenario, packing: "all" }),
      /my_coherence\.ts is rows of a/,
    );
  });

  it("is what rack new --coherence writes: rows, a scenario that names them, and the names of the doors", async () => {
    const made = await writeNewProtocol(`${folder}/mine_rows`, "coherence");
    assert.deepEqual([made.protocol, made.scenario], ["mine_rows.ts", "mine_rows.yaml"]);
    const { scenario } = await readScenario(`${made.folder}/${made.scenario}`);
    const { coherence, shared } = scenario;
    assert.deepEqual([coherence, shared.length], ["./mine_rows.ts", 1]);
    const rows = await Deno.readTextFile(`${made.folder}/${made.protocol}`);
    assert.match(rows, /rack explore --protocol mine_rows\.ts$/m);
    const found = await exploreProtocol(`${made.folder}/${made.protocol}`, {
      jobs: 1,
      racks: PROTOCOL_RACKS.slice(0, 1),
      stopped: () => false,
    });
    assert.equal(found.verdict, "holds");
    await assert.rejects(writeNewProtocol(`${folder}/mine_rows`, "coherence"), Refusal);
  });

  describe("explored", () => {
    const [first, verbs] = PROTOCOL_RACKS;
    const explored = (file: string, statesMax = 10_000) =>
      exploreProtocol(file, { jobs: 1, statesMax, racks: [first!], stopped: () => false });

    it("C-12: holds in every state: 0", async () => {
      const found = await explored(OWN);
      assert.deepEqual(
        [found.verdict, found.racks[0]?.verdict, found.racks[0]?.states, found.unmet],
        ["holds", "holds", 2624, []],
      );
      assert.equal(exitOfProtocol(found), 0);
    });

    it("C-12: is broken, with the shortest way there as a ladder: 1", async () => {
      const file = await written(
        "silent",
        '{ far: { E: { store: { next: "M", serves: true } } } }',
      );
      const found = await explored(file);
      assert.equal(exitOfProtocol(found), 1);
      const lines = protocolText(found).split("\n");
      assert.equal(
        lines[0],
        "broken    2 computers, 1 line, ownership, flushes: 77 states, 245 steps; " +
          "after 6 steps: card 1 in M: the directory takes it for E",
      );
      assert.deepEqual(lines.slice(2, 6), [
        "2 computers, 1 line, ownership, flushes:",
        "       home      home card    card 1",
        "1        │           │           ●       card 1: store 0  [card 1 I → IM]",
        "2        │           │◀──────────●       GetM 0, 1 → home",
      ]);
      assert.match(lines[6]!, / RdInvOwn 0, card → agent {2}\[agent none → X\]$/);
      assert.equal(lines.at(-1), "card 1 in M: the directory takes it for E");
    });

    it("is partial where a rack has more states than were asked for: 2", async () => {
      const found = await explored(OWN, 100);
      assert.deepEqual([found.verdict, exitOfProtocol(found)], ["partial", 2]);
      const stopped = await exploreProtocol(OWN, { jobs: 1, stopped: () => true });
      assert.deepEqual([stopped.verdict, exitOfProtocol(stopped)], ["partial", 2]);
    });

    it("is unchecked where no rack has met a row, and notes rows that none has met: 2", async () => {
      // Nothing fails in this rack.
      const file = await written("unmet", '{ far: { E: { fence: { next: "I", loses: true } } } }');
      const found = await explored(file);
      assert.deepEqual([found.verdict, exitOfProtocol(found)], ["unchecked", 2]);
      assert.match(
        protocolText(found),
        /unchecked: no rack has met any of 1 row \(far E: fence\)$/,
      );
    });

    it("finds an old value that a write-back without its place in the order leaves", async () => {
      const rows = '{ home: { "P2 free": { Cmp: (line) => ({ line: { ...line, phase: "idle", ' +
        "serving: null, waiting: 0, data: undefined } }) } } }";
      const file = await written("forgetful", rows);
      const found = await exploreProtocol(file, {
        jobs: 2,
        racks: [first!, verbs!],
        stopped: () => false,
      });
      assert.deepEqual(found.racks.map(({ verdict }) => verdict), ["broken", "broken"]);
    });

    it("is refused where the file is a program", async () => {
      await assert.rejects(explored(shipped("coherent_access.ts")), Refusal);
    });
  });
});
