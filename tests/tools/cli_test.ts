/**
 * The command on a rack that is up, as a person uses it: every call is a process of its own. The first
 * tests are of one rack, which each of them leaves with power everywhere.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { readProcesses } from "../../console/rack/process_table.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { v8Flags } from "../../console/base/v8_flags.ts";
import { forEachAtOnce } from "../../console/base/at_once.ts";
import { CommandRig, type Ended } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { contentOf } from "../support/process_rack.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

async function down(): Promise<void> {
  await rig.run(["down", "--all"]);
  await rig.gone();
}

afterAll(() => rig.close());

/** Runs a command that must succeed, from a directory that has nothing to do with the project. */
async function rack(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await rig.run(args, { cwd: rig.cache });
  assert.equal(code, 0, `rack ${args.join(" ")}: ${stderr}`);
  return stdout;
}

async function json(...args: string[]): Promise<Record<string, unknown>> {
  return JSON.parse(await rack(...args, "--json"));
}

/** A command that must fail, with an exit code and a message. */
async function refused(code: number, message: RegExp, ...args: string[]): Promise<void> {
  const ended: Ended = await rig.run(args, { cwd: rig.cache });
  assert.equal(ended.code, code, `rack ${args.join(" ")}: ${ended.stdout}${ended.stderr}`);
  assert.match(ended.stderr, message);
}

interface Up {
  readonly run: string;
  readonly directory: string;
}

async function up(...args: string[]): Promise<Up> {
  return await json("up", PAIR, "--ddio", "on", ...args) as unknown as Up;
}

function pidOf({ directory }: Up, name: string): number {
  return readProcesses(directory).find((entry) => entry.name === name)!.pid!;
}

async function stateOf(name: string): Promise<string> {
  const { processes } = await json("ps") as { processes: { name: string; status: string }[] };
  return processes.find((entry) => entry.name === name)!.status;
}

/** Whether the rack knows that a device has no process, without a command. */
function isDead({ directory }: Up, name: string): boolean {
  return readProcesses(directory).find((entry) => entry.name === name)!.pid === null;
}

describe("a rack that is up", () => {
  const file = contentOf(200_000);
  let theRack: Up;

  beforeAll(async () => {
    await rig.file("data.bin", file);
    theRack = await up();
  });

  afterAll(down);

  async function isWhole(): Promise<void> {
    await rack("get", "--from", "b", "data.bin", "copy.bin");
    assert.deepEqual(await Deno.readFile(`${rig.cache}/copy.bin`), file);
  }

  it("has the same flags of V8 in all its processes, which share compiled code", () => {
    const flag = v8Flags().split("=")[1]!;
    const others = rig.processes().filter((line) => line.includes("deno") && !line.includes(flag));
    assert.deepEqual(others, []);
  });

  it("P-05: what was confirmed is there after kill and start, whoever did the killing", async () => {
    const put = await json("put", "--to", "b", "data.bin");
    assert.equal(put["confirmedMessages"], put["messages"]);

    const killed = await json("kill", "b");
    assert.equal(await stateOf("b"), "dead");
    await refused(1, /failed: connect: timeout/, "get", "--from", "b", "data.bin", "copy.bin");
    await refused(64, /Cannot kill b: it has no power/, "kill", "b");
    const started = await json("start", "b");
    assert.ok(Number(started["atPs"]) > Number(killed["atPs"]));
    const got = await json("get", "--from", "b", "data.bin", "copy.bin");
    assert.equal(got["sha256"], put["sha256"]);
    assert.deepEqual(await Deno.readFile(`${rig.cache}/copy.bin`), file);

    // kill -9 by somebody else is the same event.
    Deno.kill(pidOf(theRack, "b"), "SIGKILL");
    await eventually("b is seen dead", () => isDead(theRack, "b"));
    await rack("start", "b");
    await isWhole();
    const lines = (await Deno.readTextFile(`${theRack.directory}/faults.jsonl`)).trim().split("\n");
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)).map(({ action, nodes }) => `${action} ${nodes}`),
      ["kill b", "start b", "kill b", "start b"],
    );

    assert.deepEqual((await json("ls", "--from", "b"))["objects"], [
      { name: "data.bin", length: 200_000 },
    ]);
    const nothing = ["get", "--from", "b", "nothing", "copy.bin"];
    await refused(1, /not-found; rack ls lists the objects/, ...nothing);
    assert.deepEqual(await Deno.readFile(`${rig.cache}/copy.bin`), file);
  });

  it("P-05: starts no host whose SCM is damaged, unless that is accepted, leaves the file, and goes on", async () => {
    // Its last span is in the log when the power fails.
    await rack("put", "--to", "b", "data.bin");
    await rack("kill", "b");
    const harms: readonly (readonly [name: string, bytes: Uint8Array, said: RegExp])[] = [
      ["b.scm", contentOf(1_000), /Cannot use SCM file .*: the file has 1000 B/],
      ["b.scm", new Uint8Array(0), /b\.scm of host b is damaged: it is empty/],
      ["b.scm.log", new Uint8Array(0), /b\.scm of host b is damaged: .*log has 0 B/],
    ];
    const scm = `${theRack.directory}/scm`;
    for (const [name, bytes, said] of harms) {
      const before = await Deno.readFile(`${scm}/${name}`);
      await Deno.writeFile(`${scm}/${name}`, bytes);
      await refused(2, said, "start", "b");
      assert.deepEqual(await Deno.readFile(`${scm}/${name}`), bytes);
      assert.ok(isDead(theRack, "b"));
      await Deno.writeFile(`${scm}/${name}`, before);
    }
    await rack("start", "b");
    await isWhole();
    await rack("kill", "b");
    const turned = await Deno.readFile(`${scm}/b.scm`);
    turned[turned.length - 1]! ^= 1;
    await Deno.writeFile(`${scm}/b.scm`, turned);
    await refused(2, /its page at \d+ is not what was written .*--accept-damage/, "start", "b");
    await rack("start", "b", "--accept-damage");
    await isWhole();
    // It is as it was accepted from now on.
    await rack("kill", "b");
    await rack("start", "b");
  });

  it("goes on when timekeeper and nats are killed: the supervisor starts them again", async () => {
    for (const servant of ["timekeeper", "nats"]) {
      const before = pidOf(theRack, servant);
      await rack("kill", servant);
      await rack("start", servant);
      assert.notEqual(pidOf(theRack, servant), before);
      await isWhole();
    }
    // A new timekeeper knows neither processes nor orders of the one before: it learns of them.
    await rack("kill", "b");
    assert.equal(await stateOf("b"), "dead");
    await rack("start", "b");
  });

  it("lets time be stopped, stepped, paced and asked for", async () => {
    const paused = await json("pause");
    assert.equal(paused["paused"], true);
    const at = Number(paused["virtualPs"]) + 3e9;
    await rack("kill", "a", "--at", `${at}ps`);
    await refused(64, /already/, "kill", "a", "--at", `${at + 1}ps`);
    await refused(64, /1 us is past: expected .* or later/, "kill", "b", "--at", "1us");
    assert.match(await rack("why"), /Virtual time is .*: paused\./);
    const stepped = await json("until", `${at - 1e9}ps`);
    assert.deepEqual([stepped["limitPs"], stepped["nextPs"]], [at - 1e9, at]);
    await json("step");
    assert.equal(await stateOf("a"), "dead");
    await rack("start", "a");
    await refused(1, /S907 has not happened/, "until", "b-rnic:S907");
    assert.equal((await json("pace", "10ms/s"))["psPerSecond"], 1e10);
    assert.equal((await json("pace", "max"))["psPerSecond"], 0);
    await refused(
      64,
      /The pace is "0us\/s": expected a rate such as 10us\/s, or max/,
      "pace",
      "0us/s",
    );
    assert.match(await rack("logs", "supervisor"), /a died \(SIGKILL\)/);
  });

  it("says what was found and what was expected, with exit code 64", async () => {
    const { run } = theRack;
    const cases: readonly (readonly [message: RegExp, args: readonly string[]])[] = [
      [/There is no x in .*: expected one of nats, timekeeper, a, a-rnic/, ["kill", "x"]],
      [/Cannot start b: b has power/, ["start", "b"]],
      [/--from is "tor": expected one of a, b/, ["ls", "--from", "tor"]],
      [/--on is "b": expected one of a/, ["ls", "--from", "b", "--on", "b"]],
      [/"soon here": expected a time/, ["until", "soon here"]],
      [/2 times: expected one/, ["until", "2ms", "3ms"]],
      [/is up: rack down ends it first/, ["runs", "rm", run]],
    ];
    await forEachAtOnce(cases, ([message, args]) => refused(64, message, ...args));
    assert.match(await rack("down"), /is down: 8 processes ended/);
    assert.deepEqual(rig.processes(), []);
    assert.match(await rack("runs", "rm", run), /1 removed/);
  });
});

describe("a rack whose time is paused", () => {
  let theRack: Up;

  beforeAll(async () => {
    theRack = await json("up", PAIR, "--ddio", "off") as unknown as Up;
    await rack("pause");
  });

  afterAll(down);

  it("stops at a step of the document's, in the middle of a transfer", async () => {
    await rig.file("data.bin", contentOf(100_000));
    const put = rig.run(["put", "--to", "b", "data.bin"], { cwd: rig.cache });
    await eventually("the order is there", async () => {
      return ((await json("ps"))["clock"] as { nextPs: number | null }).nextPs !== null;
    });
    const stopped = await json("until", "b-rnic:S907");
    assert.equal(stopped["paused"], true);
    const [hit] = stopped["hits"] as { atPs: number }[];
    assert.partialDeepStrictEqual((stopped["found"] as unknown[])[0], {
      ...{ node: "b-rnic", name: "S907", time: hit!.atPs },
    });
    const { code, stderr } = await rig.run(["put", "--to", "b", "data.bin", "--timeout", "1"], {
      cwd: rig.cache,
    });
    assert.deepEqual([code, stderr.includes("has no result after 1 s")], [2, true], stderr);
    await rack("resume");
    const ended = await put;
    assert.equal(ended.code, 0, ended.stderr);
    assert.match(ended.stderr, /Time is held at .*: put waits for rack resume/);
  });

  it("leaves nothing when its supervisor is killed: down ends the rest", async () => {
    Deno.kill(pidOf(theRack, "supervisor"), "SIGKILL");
    await rack("down", "--run", theRack.run);
    assert.deepEqual(rig.processes(), []);
  });
});

describe("rack up", () => {
  it("takes down what it has started when it is interrupted", async () => {
    const command = rig.start(["up", PAIR, "--ddio", "on"], { detached: true });
    await rig.up(3);
    command.interrupt();
    assert.equal((await command.ended).code, 130);
    await rig.gone();
  });
});

describe("a rack command with something wrong", () => {
  const NOT_MOVING = /time is not moving: it waits for a, busy for \d/;

  it("says by itself whom time waits for when it does not move", async () => {
    await rig.file("busy.ts", "export default function* () { while (true); }\n");
    const scenario = await rig.file(
      "busy.yaml",
      "name: busy\nhosts: { a: {} }\nprograms: [{ on: a, run: ./busy.ts }]\n",
    );
    const command = rig.start(["run", scenario]);
    const isSaid = () => NOT_MOVING.test(command.stderr);
    await eventually("it says that time is not moving", isSaid);
    command.kill("SIGTERM");
    assert.equal((await command.ended).code, 143);
    await rig.gone();
  });

  it("says what was found and what was expected, with exit code 64", async () => {
    const cases: readonly (readonly [message: RegExp, args: readonly string[]])[] = [
      [/No rack is up: expected one that rack up SCENARIO/, ["ps"]],
      [/stands for 2 runs.*choose --ddio off\|on/, ["up", PAIR]],
      [/--run is "x": 0 runs have that name/, ["ps", "--run", "x"]],
      [/unknown command 'dwon'/, ["dwon"]],
      [/'--run <id>' has no value: found the option '--json'/, ["ps", "--run", "--json"]],
      [/'--for <time>' has no value: found the option '--at'/, [
        ...["link", "loss", "a", "1%", "--for", "--at", "3ms"],
      ]],
      [/Cannot read the scenario/, ["up", "nothing.yaml"]],
    ];
    const said = await rig.each(cases.map(([, args]) => args));
    for (const [i, [message, args]] of cases.entries()) {
      assert.equal(said[i]!.code, 64, args.join(" "));
      assert.match(said[i]!.stderr, message);
    }
  });
});
