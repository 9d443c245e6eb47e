/**
 * A rack over servers of another owner, by the command: a cluster of which one server ends for good,
 * users with rights, TLS, credentials of NATS.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";
import { type ClusterOptions, NatsCluster } from "../support/nats_cluster.ts";
import { contentOf } from "../support/process_rack.ts";

const PAIR = new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url);
const ONE = ["--method", "persist-opcode", "--ddio", "off"];
/** Timekeeper, two hosts, two RNICs and a switch. */
const PROCESSES = 6;
/** Ends a rack whose servers are all gone. */
const PATIENCE = { RACKMESH_NATS_PATIENCE_MS: "20000" };

describe("A rack on a cluster of nats-servers", () => {
  let rig: CommandRig;
  let cluster: NatsCluster | undefined;
  let line: string[];
  let digest: string;

  beforeEach(async () => {
    rig = await CommandRig.open();
    const input = await rig.file("data.bin", contentOf(64 * 1024));
    line = ["run", PAIR.pathname, "--input", input, ...ONE, "--json"];
    const packed = await rig.run([...line, "--pack", "all"]);
    digest = JSON.parse(packed.stdout).digest;
  });

  afterEach(async () => {
    await cluster?.close();
    cluster = undefined;
    assert.deepEqual(rig.processes(), []);
    await rig.close();
  });

  async function open(options: ClusterOptions): Promise<NatsCluster> {
    cluster = await NatsCluster.open(rig.cache, options);
    return cluster;
  }

  for (const named of [3, 1]) {
    it(`goes on when a server ends for good, of three of which it was told ${named}`, async () => {
      const { urls } = await open({ servers: 3, named });
      const command = rig.start([...line, "--delay", "3", "--nats", urls], { env: PATIENCE });
      await rig.moving();
      cluster!.server(0).kill();
      assert.equal(rig.processes().length, PROCESSES, "it was midway");
      const { code, stdout, stderr } = await command.ended;
      assert.equal(code, 0, stderr);
      assert.equal(JSON.parse(stdout).digest, digest);
    });
  }
});
