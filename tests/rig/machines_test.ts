/**
 * A rack whose nats-servers are other machines, 0.65 ms away: network namespaces at a switch of the
 * test's own. What a network does to it costs time, and changes nothing.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe } from "@std/testing/bdd";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { CommandRig } from "../support/command.ts";
import { Machines, machinesMissing } from "../../scripts/bench/machines.ts";
import { type ClusterOptions, NatsCluster } from "../../scripts/bench/nats_cluster.ts";
import { contentOf } from "../support/process_rack.ts";
import { itUnless } from "../support/skipping.ts";

const PAIR = new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url);
const ONE = ["--method", "persist-opcode", "--ddio", "off"];
const SERVERS = 3, SERVER_NUMBERS = [0, 1, 2] as const;
/** The rack's own; the servers' are before it. */
const RACK = SERVERS;
/** Half of the round trip between halls of a data centre. */
const DELAY_US = 325;
/** Longer than it takes to find a server silent, which is 6 s. */
const CUT_MS = 9_000;

const itOnMachines = itUnless(await machinesMissing(), "a rack over several machines");

describe("A rack over several machines", () => {
  let rig: CommandRig;
  let machines: Machines;
  let cluster: NatsCluster;
  let line: string[];
  /** Of one process, whichever files it has. */
  let digest: string | undefined;

  async function open(
    { topology = "cluster", machineOf = (server) => server }: {
      readonly topology?: ClusterOptions["topology"];
      readonly machineOf?: (server: number) => number;
    } = {},
  ) {
    machines = await Machines.open(rig.cache, { count: SERVERS + 1, delayUs: DELAY_US });
    cluster = await NatsCluster.open(rig.cache, {
      servers: SERVERS,
      topology,
      place: (server) => {
        const machine = machineOf(server);
        return { before: machines.on(machine), host: machines.address(machine) };
      },
    });
  }

  beforeEach(async () => {
    rig = await CommandRig.open();
    const input = await rig.file("data.bin", contentOf(32 * 1024));
    line = ["run", PAIR.pathname, "--input", input, ...ONE, "--json"];
    digest ??= JSON.parse(await rig.must([...line, "--pack", "all"])).digest;
  });

  afterEach(async () => {
    await cluster?.close();
    await machines?.close();
    assert.deepEqual(rig.processes(), []);
    await rig.close();
  });

  const happenings = {
    "a server's end for good": () => Promise.resolve(cluster.server(0).kill()),
    "9 s without a link to the server in use": () => cut(0),
    "9 s without a link to any server": () => cut(RACK),
  };
  for (const [what, happen] of Object.entries(happenings)) {
    itOnMachines(`has the digest of one process: ${what}`, async () => {
      await open();
      const args = [...line, "--delay", "3", "--nats", cluster.urls];
      const command = rig.start(args, { before: machines.on(RACK) });
      await rig.moving();
      await happen();
      const { code, stdout, stderr } = await command.ended;
      assert.equal(code, 0, stderr);
      const report = JSON.parse(stdout);
      assert.equal(report.digest, digest);
      assert.deepEqual(report.faults ?? [], []);
    });
  }

  /** Which machine has a server: the nearest one for its devices. The hub has no devices. */
  const topologies = {
    "a cluster of three": { topology: "cluster", machineOf: (server: number) => server },
    "leaf nodes at a hub": {
      topology: "hub with leaf nodes",
      machineOf: (server: number) => (server + SERVERS - 1) % SERVERS,
    },
  } as const;
  for (const [what, { topology, machineOf }] of Object.entries(topologies)) {
    itOnMachines(
      `has the digest of one process, its hosts on three machines without a shared disk: ${what}`,
      async () => {
        await open({ topology, machineOf });
        const urlNear = (machine: number) => {
          const near = SERVER_NUMBERS.find((server) => machineOf(server) === machine) ?? 0;
          const { host, port } = cluster.server(near);
          return `nats://${host}:${port}`;
        };
        const hosts = [0, 1].map((machine) => ({
          machine,
          devices: [["a", "a-rnic"], ["b", "b-rnic"]][machine]!,
        }));
        const nodes = hosts.map(({ machine, devices }) => {
          const env = { RACKMESH_CACHE: `${rig.cache}/machine-${machine}` };
          const before = machines.on(machine);
          return rig.start(["node", urlNear(machine), ...devices], { before, env });
        });
        const elsewhere = hosts.flatMap(({ devices }) => devices).join(",");
        const args = [...line, "--nats", urlNear(RACK), "--elsewhere", elsewhere];
        const { code, stdout, stderr } = await rig.run(args, { before: machines.on(RACK) });
        assert.equal(code, 0, stderr);
        assert.equal(JSON.parse(stdout).digest, digest);
        for (const [i, node] of nodes.entries()) {
          const { code, stderr } = await node.ended;
          assert.equal(code, 0, stderr);
          // Each had its own devices' files, and no others.
          const [run] = [...Deno.readDirSync(`${rig.cache}/machine-${i}/nodes`)];
          const folders = [...Deno.readDirSync(`${rig.cache}/machine-${i}/nodes/${run!.name}`)];
          assert.deepEqual(folders.map(({ name }) => name).sort(), hosts[i]!.devices);
        }
      },
    );
  }

  async function cut(machine: number): Promise<void> {
    await machines.cut(machine);
    await sleep(CUT_MS);
    await machines.heal(machine);
  }
});
