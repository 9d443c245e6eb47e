/** `rack explore` as a person uses it: what it prints, how it ends, and that its command shows it again. */
import { match, ok, strictEqual as equal } from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";

const PUT = `
name: one-write
hosts: { a: {}, b: { ddio: both, scm: { size: 1MiB } } }
programs:
  - { on: a, run: put, to: b, method: write-read, depth: 1, size: 256, bytes: 300 }
`;

/** Two words that belong together, written one after the other by someone who forgot to flush between. */
const PROTOCOL = `
const word = (value) => Uint8Array.of(value, 0, 0, 0, 0, 0, 0, 0);
export default function* ({ cpu }) {
  const { address } = cpu.scm;
  cpu.store(address + 4096, word(1));
  cpu.store(address + 8192, word(1));
  yield* cpu.flush(address + 8192, 8);
  yield* cpu.flush(address + 4096, 8);
}
export function* recover({ cpu }) {
  return [4096, 8192].map((at) => cpu.load(cpu.scm.address + at, 8)[0]);
}
export function check({ hosts }) {
  const [first, second] = hosts.b.recovered ?? [1, 1];
  return second > first ? "the second is there without the first" : undefined;
}
`;

const OWN = `
name: own
hosts: { a: {}, b: { scm: { size: 1MiB } } }
programs:
  - { on: b, program: ./own.ts }
`;

let rig: CommandRig;
let put = "", own = "", bare = "";

beforeAll(async () => {
  rig = await CommandRig.open();
  put = await rig.file("put.yaml", PUT);
  bare = await rig.file("bare.yaml", PUT.replace(", bytes: 300", ""));
  own = await rig.file("own.yaml", OWN);
  await rig.file("own.ts", PROTOCOL);
});

afterAll(() => rig.close());

/** The command that a report names, as arguments. */
function argumentsIn(stdout: string): string[] {
  const command = /^ {2}rack (.*)$/m.exec(stdout)?.[1];
  ok(command !== undefined, stdout);
  return command.split(" ");
}

describe("rack explore", () => {
  it("P-41: says that promises are kept, for each run that a scenario stands for", async () => {
    const { code, stdout, stderr } = await rig.run(["explore", put, "--json"]);
    equal(code, 0, stderr);
    const { scenario, runs } = JSON.parse(stdout);
    equal(scenario, "one-write");
    equal(runs.length, 2);
    for (const { verdict, crashPoints, instants, hosts, counterexample, command } of runs) {
      equal(verdict, "safe");
      equal(`${hosts}`, "b");
      ok(crashPoints >= instants && instants > 200);
      equal(counterexample, null);
      equal(command, null);
    }
    equal(rig.runs().length, 0, "nothing is left");
  });

  it("P-10, P-41: shows a counterexample, and the command that has it again", async () => {
    const explored = await rig.run(["explore", bare, "--ddio", "on", "--claims"]);
    equal(explored.code, 1, explored.stderr);
    match(explored.stdout, /^unsafe +ddio on: \d+ crash points/);
    match(explored.stdout, /survives-what-was-reported: b: SCM at 0x10000 is lost/);
    match(explored.stdout, /What had been promised:\n {2}write 0 [^]*as its method claims/);
    match(explored.stdout, /Where the bytes were:/);
    match(explored.stdout, /the power of b fails/);
    const again = await rig.run(argumentsIn(explored.stdout));
    equal(again.code, 1, again.stderr);
    match(again.stdout, /FAIL +survives-what-was-reported.*SCM at 0x10000 is lost/);
  });

  it("finds a bug in a protocol of one's own, by its own check", async () => {
    const explored = await rig.run(["explore", own]);
    equal(explored.code, 1, explored.stderr);
    match(explored.stdout, /check: the second is there without the first/);
    match(
      explored.stdout,
      /What had got to memory early:\n {2}0x2000 to 0x2008 of b, as the cache/,
    );
    const again = await rig.run(argumentsIn(explored.stdout));
    equal(again.code, 1, `${again.stdout}${again.stderr}`);
    match(again.stdout, /the second is there without the first/);
  });

  it("ends with 2 where it was stopped before all was seen", async () => {
    const limited = await rig.run(["explore", put, "--ddio", "on", "--limit", "10"]);
    equal(limited.code, 2, limited.stderr);
    match(limited.stdout, /^partial .*not all: 10 crash points were asked for/);
  });

  it("refuses what cannot be", async () => {
    for (
      const [option, value, says] of [
        ["--cut", "nobody", /--cut is "nobody": expected a, b, each or all/],
        ["--tear", "12", /--tear is "12": expected a multiple of 8/],
        ["--cuts", "3", /--cuts is "3"/],
        ["--from", "soon", /--from is "soon": expected a time/],
      ] as const
    ) {
      const { code, stderr } = await rig.run(["explore", put, option, value]);
      equal(code, 64, option);
      match(stderr, says);
    }
  });
});
