/** `rack chaos` on a rack that is up: here, and of another machine, over nothing but the bus. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { isThere } from "../../console/base/files.ts";
import { NatsCluster } from "../../scripts/bench/nats_cluster.ts";
import { CommandRig, processesNaming, type RunningCommand } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";

const PAIR = new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url).pathname;
const ONE = ["--method", "persist-opcode", "--ddio", "off"];

describe("rack chaos on a rack that is up", () => {
  let here: CommandRig, there: CommandRig, third: CommandRig;
  let cluster: NatsCluster | undefined;
  let node: RunningCommand | undefined;

  beforeEach(async () => {
    [here, there, third] = [
      await CommandRig.open(),
      await CommandRig.open(),
      await CommandRig.open(),
    ];
    cluster = node = undefined;
  });

  afterEach(async () => {
    await here.run(["down", "--all"]);
    await node?.ended;
    await cluster?.close();
    for (const rig of [here, there, third]) {
      assert.deepEqual(processesNaming(`${rig.cache}/`), []);
      await rig.close();
    }
  });

  const powerOf = async (rig: CommandRig): Promise<Record<string, string>> => {
    const { processes } = JSON.parse(await rig.must(["ps", "--json"]));
    const devices = processes.filter(({ kind }: { kind: string }) => kind === "partition");
    return Object.fromEntries(
      devices.map(({ name, status }: { name: string; status: string }) => [name, status]),
    );
  };

  it("of another machine: kills over the bus, replays to the rack's digest, leaves it whole", async () => {
    cluster = await NatsCluster.open(here.cache, { servers: 1 });
    const { urls } = cluster;
    node = there.start(["node", urls, "b", "b-rnic"]);
    await here.must(["up", PAIR, ...ONE, "--nats", urls, "--elsewhere", "b,b-rnic"]);
    const junit = `${third.cache}/chaos.xml`;
    // Of this seed, rounds 3 and 4 put, and kill devices of both machines.
    const line = ["chaos", "--attach", urls, "--seed", "7", "--from", "3", "--rounds", "2"];
    const { code, stdout, stderr } = await third.run([...line, "--junit", junit, "--json"]);
    assert.equal(code, 0, stdout + stderr);
    const report = JSON.parse(stdout);
    assert.deepEqual([report.rounds, report.held, report.replayed], [2, 2, 2]);
    assert.ok(report.hits > 0);
    assert.match(await Deno.readTextFile(junit), /tests="2" failures="0" errors="0"/);
    // The record of the rack has what chaos did, at its instants.
    const [run] = third.runs();
    const record = (await Deno.readTextFile(`${run}/faults.jsonl`)).trim().split("\n")
      .map((text) => JSON.parse(text));
    assert.ok(record.some(({ action, at }) => action === "kill" && at > 0));
    const powers = await powerOf(third);
    assert.deepEqual(Object.values(powers).filter((status) => status !== "idle"), []);
    assert.doesNotMatch(await third.must(["ls", "--from", "b"]), /chaos\.bin/);
    assert.ok(isThere(`${run}/chaos.json`));
  });

  it("refuses a rack that it cannot judge, and does nothing to it", async () => {
    await here.must(["up", PAIR, ...ONE]);
    const mine = await here.file("chaos.bin", new Uint8Array(100).fill(7));
    await here.must(["put", "--to", "b", mine]);
    const refused = await here.run(["chaos", "--rounds", "1"]);
    assert.match(refused.stderr, /b has an object chaos\.bin, which rounds would write over/);
    assert.equal(refused.code, 64);
    await here.must(["rm", "--from", "b", "chaos.bin"]);
    await here.must(["pause"]);
    const paused = await here.run(["chaos", "--rounds", "1"]);
    assert.match(paused.stderr, /is paused: expected time to run/);
    await here.must(["resume"]);
    await here.must(["kill", "a"]);
    const dead = await here.run(["chaos", "--rounds", "1"]);
    assert.match(dead.stderr, /a of \S+ has no power: expected all devices up: rack start a/);
    assert.equal((await powerOf(here))["a"], "dead");
    assert.deepEqual([paused.code, dead.code], [64, 64]);
  });

  it("tells a power failure by others from its own, and has no result then", async () => {
    await here.must(["up", PAIR, ...ONE]);
    const chaos = here.start(["chaos", "--rounds", "1", "--seed", "7", "--from", "4", "--json"]);
    const [directory] = here.runs();
    await eventually("a device was killed", () =>
      isThere(`${directory}/faults.jsonl`) &&
      Deno.readTextFileSync(`${directory}/faults.jsonl`).includes('"kill"'));
    const { processes } = JSON.parse(await here.must(["ps", "--json"]));
    const tor = processes.find(({ name }: { name: string }) => name === "tor");
    Deno.kill(tor.pid, "SIGKILL");
    const { code, stdout, stderr } = await chaos.ended;
    assert.equal(code, 2, stdout + stderr);
    const [round] = JSON.parse(stdout).failures;
    assert.equal(round.outcome, "untold");
    assert.match(round.untold, /^tor lost power at .*, by a crash or by others/);
  });

  it("refuses what belongs to a scenario, and a scenario beside a rack", async () => {
    const wrong: [RegExp, string[]][] = [
      [/--pack is without a scenario: expected a scenario, too/, ["--pack", "node"]],
      [/--no-check is without a scenario/, ["--no-check"]],
      [/--allow-read is without a scenario/, ["--allow-read", "/tmp"]],
      [/--nats-users is without --attach/, ["--nats-users", "x"]],
      [/--run is together with a scenario: expected one of them/, [PAIR, "--run", "x"]],
      [/--attach is together with a scenario/, [PAIR, "--attach", "x"]],
      [/No rack is up/, []],
    ];
    const said = await here.each(wrong.map(([, line]) => ["chaos", ...line]));
    for (const [i, [text]] of wrong.entries()) {
      assert.match(said[i]!.stderr, text);
      assert.equal(said[i]!.code, 64, said[i]!.stderr);
    }
  });
});
