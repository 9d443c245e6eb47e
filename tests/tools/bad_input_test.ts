/**
 * What is wrong before a run: scenarios, files, the bus. Each is told in a clear message and an exit
 * code; nothing is left running and no data file is touched.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { type NatsServer, startNatsServer } from "../../console/rack/nats_server.ts";
import { contentOf } from "../support/process_rack.ts";
import { forEachAtOnce } from "../../console/base/at_once.ts";
import { CommandRig, type Said } from "../support/command.ts";

const PAIR = new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url).pathname;
const APPEND = new URL("../../scripts/scenarios/append_pair.yaml", import.meta.url).pathname;
const TWO_QUEUES = new URL("../../scripts/scenarios/two_queues.yaml", import.meta.url).pathname;
const LOG = new URL("../../scripts/scenarios/replicated_log.yaml", import.meta.url).pathname;
const ONE = ["--method", "persist-opcode", "--ddio", "off"];

/** What a message for people has no place for. */
const INTERNAL = /\n\s+at |Uncaught|TypeError/;

/** A scenario and its refusal; fabric/rack/scenario has a test of each message. */
const SCENARIOS: readonly (readonly [name: string, text: string, said: string])[] = [
  [
    "an unknown node",
    "name: x\nhosts: { a: {}, b: {} }\nprograms: [{ on: a, run: put, to: c }]\n",
    ':3: programs[0].to: found "c", expected a host of this rack (a or b)',
  ],
  ["what is no YAML", "name: x\nhosts: { a: {}\n", ":"],
];

describe("Bad input", () => {
  let rig: CommandRig;
  let input: string;

  beforeEach(async () => {
    rig = await CommandRig.open();
    input = await rig.file("data.bin", contentOf(16 * 1024));
  });

  afterEach(() => rig.close());

  /** It was said in one line or more, without a trace of the program's own, and nothing was begun. */
  function assertRefused({ code, stdout, stderr }: Said, expected: number): void {
    assert.equal(code, expected, stderr);
    assert.equal(stdout, "");
    assert.doesNotMatch(stderr, INTERNAL);
    assert.deepEqual(rig.processes(), []);
  }

  it("in a scenario: file, line, what was found and what was expected", async () => {
    await forEachAtOnce(SCENARIOS, async ([name, text, said], place) => {
      const path = await rig.file(`bad-${place}.yaml`, text);
      const ended = await rig.run(["run", path, "--input", input]);
      assertRefused(ended, 64);
      assert.ok(ended.stderr.includes(`${path}${said}`), `${name}: ${ended.stderr}`);
      assert.deepEqual(rig.runs(), [], name);
    });
  });

  it("of a record of faults: which file, and what was expected", async () => {
    const cases: readonly (readonly [file: string, said: RegExp])[] = [
      [PAIR, /persist_pair\.yaml:1: found ".*", expected a line/],
      [rig.cache, /Cannot read --faults /],
      [`${rig.cache}/nowhere`, /Cannot read --faults .*nowhere/],
      [await rig.file("empty", ""), /--faults .*empty is empty: expected a line for each fault/],
    ];
    const run = ["run", PAIR, "--input", input, ...ONE];
    const refusals = await rig.each(cases.map(([file]) => [...run, "--faults", file]));
    for (const [i, [, said]] of cases.entries()) {
      assertRefused(refusals[i]!, 64);
      assert.match(refusals[i]!.stderr, said);
    }
  });

  it("of a command line: what was found and what was expected", async () => {
    const nowhere = `${rig.cache}/nowhere`;
    const cases: readonly (readonly [args: readonly string[], said: RegExp])[] = [
      [["run", `${nowhere}.yaml`], /nowhere\.yaml/],
      [["run", PAIR, "--input", nowhere], /cannot find .*nowhere: expected a file/],
      [["run", PAIR, "--input", rig.cache], /is not a file/],
      [["run", PAIR], /put on a has no input: expected --input FILE/],
      [["run", PAIR, "--input", input, "--method", "persist"], /"persist": expected one of/],
      [["run", APPEND, "--method", "write-verify"], /program append on a has not: expected one of/],
      [
        ["up", APPEND, "--method", "verify-persist", "--ddio", "off"],
        /program append on a has not/,
      ],
      [["explore", LOG, "--method", "write-compare"], /program log on a has not: expected one of/],
      [["run", PAIR, "--input", input, "--ddio", "both"], /"both": expected on or off/],
      [["run", PAIR, "--input", input, "--size", "7"], /"7": expected a size from 8 B to 1 MiB/],
      [["run", PAIR, "--input", input, "--depth", "257"], /"257": expected .* from 1 to 256/],
      [["run", PAIR, "--input", input, "--pack", "pod"], /"pod": expected one of node/],
      [["run", PAIR, "--input", input, "--nats", "http://x"], /expected nats:/],
      [["run", PAIR, "--input", input, "--seed", ""], /--seed is "": expected a whole number/],
      [["run", PAIR, "--input", input, "--seed", "0x7"], /--seed is "0x7": expected a whole/],
      [["explore", TWO_QUEUES, "--from", "1.5ps"], /--from is "1\.5ps": expected a time/],
      [["console", "--run", "x"], /--run is without --attach: expected --attach URLS, too/],
      [["console", PAIR, "--nats-users", "x"], /--nats-users is without --attach: expected/],
      [["runs", "rm", ""], /The run is "": 0 runs have that name/],
      [["run", PAIR, "--input", input, "--quickly"], /unknown option '--quickly'/],
      [["fly"], /unknown command 'fly'/],
    ];
    const refusals = await rig.each(cases.map(([args]) => args));
    for (const [i, [, said]] of cases.entries()) {
      assertRefused(refusals[i]!, 64);
      assert.match(refusals[i]!.stderr, said);
    }
    const begun = rig.runs().filter((run) => /append|replicated/.test(run));
    assert.deepEqual(begun, [], "a method that a program has not is refused before a run begins");
  });

  it("without a nats-server: names what was tried and what to do", async () => {
    const env = { RACKMESH_NATS_SERVER: "/nowhere/nats-server" };
    const ended = await rig.run(["run", PAIR, "--input", input, ...ONE], { env });
    assertRefused(ended, 2);
    assert.match(ended.stderr, /Cannot find nats-server: tried \/nowhere\/nats-server.*Install/);
  });

  it("with a server by --nats that is not there, or a port that somebody else has taken", async () => {
    using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = other.addr as Deno.NetAddr;
    void answerWithNonsense(other);
    const run = ["run", PAIR, "--input", input, ...ONE];
    await Promise.all([port, 1].map(async (at) => {
      const url = `nats://127.0.0.1:${at}`;
      const { code, stdout, stderr } = await rig.run([...run, "--nats", url]);
      assert.deepEqual([code, stdout], [2, ""], stderr);
      assert.ok(stderr.includes(`${url} does not answer`), stderr);
      assert.doesNotMatch(stderr, INTERNAL);
    }));
    assert.deepEqual(rig.processes(), []);
  });

  it("with a credential that the server by --nats does not take", async () => {
    const server: NatsServer = await startNatsServer({ dir: rig.cache });
    try {
      const url = server.address.url.replace("//", "//rackmesh:guessed@");
      const ended = await rig.run(["run", PAIR, "--input", input, ...ONE, "--nats", url]);
      assertRefused(ended, 2);
      assert.match(ended.stderr, /refuses its credential/);
      assert.doesNotMatch(ended.stderr, /guessed/);
    } finally {
      await server.stop();
    }
  });

  it("a program that is none: which file, and what was expected", async () => {
    await rig.file("mine.ts", "export const answer = 42;\n");
    const path = await rig.file(
      "mine.yaml",
      "name: mine\nhosts: { a: {} }\nprograms:\n  - { on: a, run: ./mine.ts }\n",
    );
    for (const pack of ["node", "all"]) {
      const { code, stderr } = await rig.run(["run", path, "--pack", pack]);
      assert.match(stderr, /mine\.ts: it has no default export that is a function/);
      assert.equal(code, 64, stderr);
      assert.deepEqual(rig.processes(), []);
    }
    const missing = await rig.file(
      "missing.yaml",
      "name: mine\nhosts: { a: {} }\nprograms:\n  - { on: a, run: ./not_there.ts }\n",
    );
    const ended = await rig.run(["run", missing]);
    assertRefused(ended, 64);
    assert.match(ended.stderr, /Program \.\/not_there\.ts: cannot find .*not_there\.ts/);
  });
});

async function answerWithNonsense(listener: Deno.Listener): Promise<void> {
  for await (const connection of listener) {
    connection.write(new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n")).catch(() => {});
  }
}
