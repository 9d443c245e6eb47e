/**
 * A rack on several machines without a shared disk: devices by `rack node`, commands by `rack
 * attach`. Here a machine is a cache of its own: nothing but the bus joins two of them.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { ifThere, isThere } from "../../console/base/files.ts";
import { CommandRig, processesNaming, type RunningCommand } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { NatsCluster } from "../../scripts/bench/nats_cluster.ts";
import { contentOf } from "../support/process_rack.ts";

function sizeOf(path: string): number {
  return ifThere(() => Deno.statSync(path))?.size ?? 0;
}

const PAIR = new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url).pathname;
const ONE = ["--method", "persist-opcode", "--ddio", "off"];
const DEVICES = ["b", "b-rnic"];
const ELSEWHERE = ["--elsewhere", DEVICES.join(",")];

describe("A rack of which some devices are started elsewhere", () => {
  /** The machine that brings the rack up, the one of the devices, a third that looks on. */
  let here: CommandRig, there: CommandRig, third: CommandRig;
  let cluster: NatsCluster | undefined;
  let input: string, content: Uint8Array;
  let nodes: RunningCommand[];

  beforeEach(async () => {
    [here, there, third] = [
      await CommandRig.open(),
      await CommandRig.open(),
      await CommandRig.open(),
    ];
    content = contentOf(64 * 1024);
    input = await here.file("data.bin", content);
    nodes = [];
  });

  afterEach(async () => {
    if (here.processes().length > 0) await here.run(["down", "--all"]);
    await Promise.all(nodes.map(({ ended }) => ended));
    await cluster?.close();
    cluster = undefined;
    for (const rig of [here, there, third]) {
      assert.deepEqual(processesNaming(`${rig.cache}/`), []);
      await rig.close();
    }
  });

  async function server(config?: string): Promise<string> {
    cluster = await NatsCluster.open(here.cache, { servers: 1, ...(config && { config }) });
    return cluster.urls;
  }

  function node(args: readonly string[], rig = there): RunningCommand {
    const command = rig.start(["node", ...args]);
    nodes.push(command);
    return command;
  }

  const replayed = async (scenario: string, more: readonly string[] = []) =>
    JSON.parse(await here.must(["run", scenario, ...more, "--pack", "all", "--json"])).digest;

  it("has the digest of one process, each process with a user's rights, and is judged as a whole", async () => {
    const out = `${here.cache}/bus`;
    await here.must(["nats-config", PAIR, "--account", "lab", "--out", out]);
    const urls = await server('accounts { include "bus/lab.conf" }');
    const users = ["--nats-users", `${out}/users.json`];
    // The devices wait for their rack.
    const started = node([urls, ...DEVICES, ...users]);
    const line = ["run", PAIR, ...ONE, "--input", input, "--json"];
    const { code, stdout, stderr } = await here.run([
      ...line,
      "--nats",
      urls,
      ...users,
      ...ELSEWHERE,
    ]);
    assert.equal(code, 0, stderr);
    const report = JSON.parse(stdout);
    assert.equal(report.digest, await replayed(PAIR, [...ONE, "--input", input]));
    const { looked } = report.checks.find(({ name }: { name: string }) =>
      name === "survives-what-was-reported"
    );
    assert.ok(looked.length > 0, "the SCM file of b is here");
    assert.deepEqual((await started.ended).code, 0);
    const { directory } = report;
    assert.ok(isThere(`${directory}/scm/b.scm`) && isThere(`${directory}/logs/b.log`));
    assert.doesNotMatch(cluster!.server(0).log, /Violation/);
  });

  it("obeys the plan's power failures there, as one process does", async () => {
    const scenario = await here.file(
      "kills.yaml",
      `${await Deno.readTextFile(
        PAIR,
      )}\nfaults:\n  - { at: 60us, kill: b }\n  - { at: 90us, start: b }\n`,
    );
    const urls = await server();
    const started = node([urls, ...DEVICES]);
    const line = [scenario, ...ONE, "--input", input];
    const ran = await here.run(["run", ...line, "--json", "--nats", urls, ...ELSEWHERE]);
    assert.ok(ran.code <= 1, ran.stderr);
    assert.equal(JSON.parse(ran.stdout).digest, await replayed(scenario, line.slice(1)));
    assert.match((await started.ended).stdout, /is down: kept/);
    assert.match(started.stderr, /b has lost its power \(SIGKILL\)\nb started/);
  });

  it("is seen and commanded from a third machine: power, objects, cables, time, record, logs", async () => {
    const urls = await server();
    node([urls, ...DEVICES]);
    await here.must(["up", PAIR, ...ONE, "--nats", urls, ...ELSEWHERE]);
    const run = here.runs()[0]!.replace(/.*\//, "");
    assert.match(await third.must(["attach", urls]), new RegExp(`^${run} is attached`));
    const statusIn = (ps: string, name: string) =>
      JSON.parse(ps).processes.find((each: { name: string }) => each.name === name).status;
    const stateOf = async (name: string) => statusIn(await third.must(["ps", "--json"]), name);
    assert.equal(await stateOf("b"), "idle");
    await third.must(["put", "--to", "b", await third.file("data.bin", content)]);
    // A kill from outside on the devices' machine, and an order from the third.
    const [device] = processesNaming(`${there.cache}/nodes/${run}/b/run.json`);
    Deno.kill(parseInt(device!), "SIGKILL");
    await eventually("b has no power", async () => await stateOf("b") === "dead");
    await third.must(["start", "b"]);
    // In one process: commands are processes of their own before and behind it.
    const killed = ["b-rnic", "a"], out = `${third.cache}/out.bin`;
    const said = await third.mustEach([
      ...killed.flatMap((name) => [["kill", name], ["ps", "--json"], ["start", name]]),
      ["link", "cut", "a"],
      ["link", "heal", "a"],
      ["get", "--from", "b", "data.bin", out],
      ["ls", "--from", "b"],
      ["pause"],
      ["why"],
      ["checkpoint", "--name", "c1", "--json"],
      ["step"],
      ["resume"],
      ["until", "50ms"],
    ]);
    for (const [i, name] of killed.entries()) {
      assert.equal(statusIn(said[3 * i + 1]!, name), "dead");
    }
    const [cut, heal, , listed, paused, why, checkpoint] = said.slice(3 * killed.length);
    assert.match(cut!, /a: cut from/);
    assert.match(heal!, /a: heal from/);
    assert.deepEqual(await Deno.readFile(out), content);
    assert.match(listed!, /data\.bin/);
    assert.match(paused!, /paused/);
    assert.match(why!, /Virtual time is/);
    const taken = JSON.parse(checkpoint!);
    const events = third.start(["events"]);
    await eventually("the state is told", () => events.stdout.includes('"event":"state"'));
    events.kill("SIGTERM");
    await events.ended;
    // The record came over the bus: the third machine repeats the run by itself, to each digest of it.
    const resumed = await third.must(["resume", run, "--at", "c1", "--json"]);
    const { run: again } = JSON.parse(resumed);
    await third.must(["down", "--run", again]);
    assert.equal(taken.checkpoint, "c1");
    assert.ok(isThere(`${third.cache}/runs/${run}/logs/b.log`) === false, "no log was asked for");
    await third.must(["logs", "b"]);
    assert.ok(isThere(`${third.cache}/runs/${run}/logs/b.log`));
    // As an earlier detaching left it, which the rack did not answer.
    const uncollected = `${third.cache}/runs/${run}/uncollected.txt`;
    await Deno.writeTextFile(uncollected, "no timekeeper");
    assert.match(await third.must(["down", "--run", run]), /is detached: it goes on/);
    assert.equal(isThere(uncollected), false);
    assert.equal(await third.run(["ps"]).then(({ code }) => code), 64);
    await here.must(["ps"]);
    await here.must(["down"]);
    assert.ok(isThere(`${here.runs()[0]!}/scm/b.scm`), "what b has left is in the run's directory");
  });

  it("is captured where it is brought up, and where it is attached, to the byte", async () => {
    const urls = await server();
    node([urls, ...DEVICES]);
    const pcap = `${here.cache}/pcap`;
    await here.must(["up", PAIR, ...ONE, "--nats", urls, ...ELSEWHERE, "--pcap", pcap]);
    await third.must(["attach", urls]);
    await third.must(["put", "--to", "b", await third.file("data.bin", content)]);
    const [directory] = third.runs(), run = directory!.replace(/.*\//, "");
    const told = JSON.parse(await third.must(["down", "--run", run, "--json"]));
    const [capture] = told[0].captures;
    assert.ok(capture.startsWith(`${directory}/captures/`), capture);
    const bytes = await Deno.readFile(capture);
    assert.ok(bytes.length > content.length, "it has the frames that carried the object");
    await here.must(["down"]);
    const [name] = [...Deno.readDirSync(pcap)].map((entry) => entry.name);
    assert.deepEqual(await Deno.readFile(`${pcap}/${name}`), bytes);
  });

  it("says of a machine that is dead at the end what it lacks, and judges nothing", async () => {
    const urls = await server();
    const started = node([urls, ...DEVICES, "--json"]);
    const line = ["run", PAIR, ...ONE, "--input", input, "--delay", "3", "--json", "--nats", urls];
    const running = here.start([...line, ...ELSEWHERE, "--liveness", "2000"]);
    const logs = () =>
      processesNaming(`${there.cache}/nodes/`)
        .map((each) => `${/\S+(?=\/run\.json)/.exec(each)}/scm/b.scm.log`);
    await eventually("something is persistent on b", () => logs().some((log) => sizeOf(log) > 0));
    // As a machine ends: all of it, without a word.
    started.kill("SIGKILL");
    for (const each of processesNaming(`${there.cache}/nodes/`)) {
      Deno.kill(parseInt(each), "SIGKILL");
    }
    const { code, stdout, stderr } = await running.ended;
    assert.equal(code, 2, stderr);
    assert.match(stderr, /has come to its end, digest \w{16}, and is not judged/);
    for (const device of DEVICES) {
      assert.ok(
        stderr.includes(`\nFound no files of ${device}: no process answers for it`),
        stderr,
      );
    }
    assert.equal(stdout, "");
  });

  it("refuses what is not meant, with what was found and expected", async () => {
    const urls = await server();
    const up = (...more: string[]) => ["up", PAIR, ...ONE, "--nats", urls, ...more];
    const wrong: [RegExp, number, string[]][] = [
      [/--elsewhere is "c": expected one of a, a-rnic, b/, 64, up("--elsewhere", "b,c")],
      [/--elsewhere is b twice: expected each device once/, 64, up("--elsewhere", "b,b")],
      [/--liveness is no --elsewhere: expected/, 64, up("--liveness", "2000")],
      [/--elsewhere is together with --pack all: expected/, 64, [
        ...["run", PAIR, ...ONE, "--input", input, "--pack", "all", ...ELSEWHERE],
      ]],
      [/b is named twice: expected each device once/, 64, ["node", urls, "b", "b"]],
      [/No rack answers on nats:/, 64, ["attach", urls]],
      [/nats:\/\/127\.0\.0\.1:1 does not answer/, 2, ["attach", "127.0.0.1:1"]],
      [/--attach is together with a scenario: expected one of them/, 64, [
        ...["console", PAIR, "--attach", urls],
      ]],
    ];
    const said = await here.each(wrong.map(([, , line]) => line));
    for (const [i, [text, code]] of wrong.entries()) {
      assert.match(said[i]!.stderr, text);
      assert.equal(said[i]!.code, code, said[i]!.stderr);
    }
    node([urls, ...DEVICES]);
    await here.must(up(...ELSEWHERE));
    const run = here.runs()[0]!.replace(/.*\//, "");
    const later: [RegExp, number, string[]][] = [
      [/--run is "other": no run there has that name: expected/, 64, [
        "attach",
        urls,
        "--run",
        "other",
      ]],
      [/does not expect a from elsewhere: expected .*b.*b-rnic/, 64, ["node", urls, "a"]],
      [/does not expect nobody from elsewhere/, 64, ["node", urls, "nobody"]],
      [new RegExp(`b of ${run} has been started by another: expected one parent`), 64, [
        "node",
        urls,
        "b",
      ]],
    ];
    const answers = await third.each(later.map(([, , line]) => line));
    for (const [i, [text, code]] of later.entries()) {
      assert.match(answers[i]!.stderr, text);
      assert.equal(answers[i]!.code, code, answers[i]!.stderr);
    }
    const own = await here.run(["attach", urls]);
    assert.match(own.stderr, /was brought up on this machine: expected no attachment/);
    assert.equal(own.code, 64);
  });

  it("refuses a credential that is wrong, or not the user's", async () => {
    const out = `${here.cache}/bus`;
    await here.must(["nats-config", PAIR, "--account", "lab", "--out", out]);
    const urls = await server('accounts { include "bus/lab.conf" }');
    const users = ["--nats-users", `${out}/users.json`];
    node([urls, ...DEVICES, ...users]);
    await here.must(["up", PAIR, ...ONE, "--nats", urls, ...users, ...ELSEWHERE]);
    const { a } = JSON.parse(await Deno.readTextFile(`${out}/users.json`));
    const asA = urls.replace("://", `://${a.user}:${a.password}@`);
    const [nobody, device, unknown] = await third.each([
      ["attach", urls.replace("://", "://me:no@")],
      ["attach", asA],
      ["node", urls, "x", ...users],
    ]);
    assert.match(nobody!.stderr, /refuses its credential/);
    assert.equal(nobody!.code, 2);
    assert.match(device!.stderr, /Not allowed: |does not let lab\.a ask/);
    assert.equal(device!.code, 2, device!.stderr);
    assert.match(unknown!.stderr, /--nats-users is no user for x in/);
    assert.equal(unknown!.code, 64);
    await third.must(["attach", urls, ...users]);
    await third.must(["kill", "b"]);
    await here.must(["down"]);
    const { code, stdout } = await third.run(["ps"]);
    assert.match(stdout, /the clock does not answer: the rack is down, or.*lets go of it/);
    assert.equal(code, 2);
  });

  it("loses the power of its devices where rack node is interrupted, and has it back with their SCM", async () => {
    const urls = await server();
    const first = node([urls, ...DEVICES]);
    await here.must(["up", PAIR, ...ONE, "--nats", urls, ...ELSEWHERE]);
    await here.must(["put", "--to", "b", input]);
    first.kill("SIGINT");
    const { code, stdout } = await first.ended;
    assert.deepEqual([code, stdout.replace(/:.*\n/, "").replace(/^\S+ /, "")], [
      130,
      "goes on without",
    ]);
    const { processes } = JSON.parse(await here.must(["ps", "--json"]));
    for (const name of DEVICES) {
      assert.equal(processes.find((each: { name: string }) => each.name === name).status, "dead");
    }
    node([urls, ...DEVICES]);
    await eventually(
      "the devices are back",
      async () =>
        JSON.parse(await here.must(["ps", "--json"])).processes
          .every(({ status }: { status: string | null }) => status !== "dead"),
    );
    const out = `${here.cache}/out.bin`;
    await here.must(["get", "--from", "b", "data.bin", out]);
    assert.deepEqual(await Deno.readFile(out), content);
    const why = JSON.parse(await here.must(["why", "--json"]));
    assert.deepEqual(why.inexact ?? [], [], "the failure is dated: the run can be replayed");
  });
});
