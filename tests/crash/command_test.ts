/** `rack explore` as a person uses it: what it prints, how it ends, and that its command shows it again. */
import { deepStrictEqual as same, match, ok, strictEqual as equal } from "node:assert/strict";
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

/** The same where the cache is not lost: it is the order of the stores that is wrong. */
const BACKWARDS = PROTOCOL.replace(
  /cpu\.store\(address \+ 4096, (.*)\);\n.*cpu\.store\(address \+ 8192, .*\);/,
  "cpu.store(address + 8192, $1); cpu.store(address + 4096, $1);",
);

/** A recovery that adds to what it has added before, if the power fails before it has said so. */
const TWICE = `
const word = (value) => Uint8Array.of(value, 0, 0, 0, 0, 0, 0, 0);
export default function* ({ cpu }) {
  yield* cpu.ntStore(cpu.scm.address + 4096, word(1));
}
export function* recover({ cpu }) {
  const { address } = cpu.scm;
  const sum = cpu.load(address + 8192, 8)[0];
  if (cpu.load(address + 4096, 8)[0] === 0) return sum;
  yield* cpu.ntStore(address + 8192, word(sum + 1));
  yield* cpu.ntStore(address + 4096, word(0));
  return sum + 1;
}
export function check({ hosts }) {
  const { recovered } = hosts.b;
  return recovered > 1 ? "1 was added " + recovered + " times" : undefined;
}
`;

const EADR = `
name: eadr
hosts: { a: {}, b: { domain: eadr, scm: { size: 1MiB } } }
programs:
  - { on: b, program: ./backwards.ts }
`;

const OWN = `
name: own
hosts: { a: {}, b: { scm: { size: 1MiB } } }
programs:
  - { on: b, program: ./own.ts }
`;

/** A client whose server is not there, and that has a check. */
const LONELY = `
name: lonely
hosts: { a: {}, b: { services: none } }
programs:
  - { on: a, program: ./lonely.ts }
`;
const REFUSED = `
export default function* ({ cpu, device }) {
  const { allocPd, createCq, connect, refused, must } = device.verbs;
  const cq = must(yield* createCq(device, { entries: 16 }));
  const qp = { pd: allocPd(device), sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 };
  const connection = yield* connect(device, { to: "b", service: "mylog", qp });
  if (refused(connection)) cpu.report("result", { program: "lonely", ...connection });
}
export function check() {}
`;

const BROKEN = `
name: broken
hosts: { a: {}, b: { scm: { size: 1MiB } } }
programs:
  - { on: b, program: ./broken.ts }
`;

/** One run of an exploration's document. */
interface Ended {
  readonly verdict: string;
  readonly why?: string;
  readonly exhaustive: boolean;
}

let rig: CommandRig;
let put = "", own = "", bare = "", eadr = "", twice = "";

beforeAll(async () => {
  rig = await CommandRig.open();
  put = await rig.file("put.yaml", PUT);
  bare = await rig.file("bare.yaml", PUT.replace(", bytes: 300", ""));
  own = await rig.file("own.yaml", OWN);
  await rig.file("own.ts", PROTOCOL);
  eadr = await rig.file("eadr.yaml", EADR);
  await rig.file("backwards.ts", BACKWARDS);
  twice = await rig.file("twice.yaml", OWN.replace("own.ts", "twice.ts"));
  await rig.file("twice.ts", TWICE);
});

afterAll(() => rig.close());

/** The command that a report names, as arguments. */
function argumentsIn(stdout: string): string[] {
  const command = /^ {2}rack (.*)$/m.exec(stdout)?.[1];
  ok(command !== undefined, stdout);
  return command.split(" ");
}

/** What robustness says. */
function foundIn(text: string): string | undefined {
  return /^robustness: .*$/m.exec(text)?.[0];
}

describe("rack explore", () => {
  it("P-41: says that promises are kept, for each run that a scenario stands for", async () => {
    const args = ["explore", put, "--method", "write-send", "--json"];
    const { code, stdout, stderr } = await rig.run(args);
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

  it("P-41: has it again where a core was interrupted between two stores", async () => {
    const explored = await rig.run(["explore", eadr]);
    equal(explored.code, 1, explored.stderr);
    match(explored.stdout, /check: the second is there without the first/);
    match(explored.stdout, /0x2000 to 0x2008 of b, as a core was storing it at/);
    const again = await rig.run(argumentsIn(explored.stdout));
    equal(again.code, 1, `${again.stdout}${again.stderr}`);
    match(again.stdout, /the second is there without the first/);
  });

  it("P-41: has it again where it takes a second power failure, of the recovery", async () => {
    const once = await rig.run(["explore", twice, "--cuts", "1"]);
    equal(once.code, 2, `${once.stdout}${once.stderr}`);
    match(
      once.stdout,
      /^could not tell .*; not all: \d+ recoveries that write were not cut again \(--cuts 1\)$/m,
    );
    ok(!once.stdout.includes("all choices at all instants"), once.stdout);
    const explored = await rig.run(["explore", twice, "--tear", "64"]);
    equal(explored.code, 1, explored.stderr);
    match(explored.stdout, /It fails again when recovery has done \d things? to its memory/);
    const command = argumentsIn(explored.stdout);
    equal(command[0], "explore");
    ok(`${command}`.includes("--tear,64,--from"), `${command}`);
    const again = await rig.run(command);
    equal(again.code, 1, `${again.stdout}${again.stderr}`);
    match(again.stdout, /check: 1 was added 2 times/);
  });

  it("ends with 2 and never says safe where nothing was promised or checked", async () => {
    // With DDIO on, a READ behind the WRITE promises nothing (P-10).
    const { code, stdout, stderr } = await rig.run(["explore", put, "--json"]);
    equal(code, 2, stderr);
    match(
      stderr,
      /a program's cpu\.note, a protocol's recover or check, --claims would say what has to hold/,
    );
    const verdicts = JSON.parse(stdout).runs.map(({ verdict, why, exhaustive }: Ended) =>
      [verdict, why, exhaustive].join()
    );
    same(verdicts, ["safe,,true", "unchecked,nothing was promised or checked,false"]);
  });

  for (
    const [what, cut, program, says] of [
      [
        "a program throws",
        [],
        "export default function* () { throw new Error('no such luck'); }",
        /^failed +broken: .*; the plain run failed: b: .*no such luck/,
      ],
      [
        "a program says that it failed",
        ["--cut", "a"],
        "export default function* ({ cpu }) { cpu.report('result', { status: 'failed', error: 'no peer' }); }",
        /^failed +broken: .*; the plain run failed: b: no peer/,
      ],
      [
        "a protocol's check finds something wrong",
        ["--until", "1ns"],
        "export default function* () {}\n" +
        "export function check({ cut }) { return cut.length === 0 ? 'never well' : undefined; }",
        /^failed +broken: .*; the plain run failed: \.\/broken\.ts: never well/,
      ],
      [
        "a promise is not kept in the end",
        [],
        `export default function* ({ cpu }) {
           const bytes = new Uint8Array(64).fill(7);
           cpu.note({ kind: "writes", id: 0, on: "b", at: 4096, bytes });
           cpu.note({ kind: "persistent", id: 0, promised: true });
         }`,
        /^(failed|unsafe) +broken: /,
      ],
    ] as const
  ) {
    it(`ends with 1 and never says safe where ${what} without a power failure`, async () => {
      const broken = await rig.file("broken.yaml", BROKEN);
      await rig.file("broken.ts", program);
      const [explored, run] = await rig.each([
        ["explore", broken, ...cut],
        ["run", broken, "--pack", "all"],
      ]);
      equal(explored!.code, 1, `${explored!.stdout}${explored!.stderr}`);
      match(explored!.stdout, says);
      equal(run!.code, 1, "as `rack run` says");
    });
  }

  it("ends with 1 where a program was refused its connection, and says so as `rack run` does", async () => {
    const lonely = await rig.file("lonely.yaml", LONELY);
    await rig.file("lonely.ts", REFUSED);
    const lines = [["explore", lonely], ["run", lonely, "--pack", "all"]];
    for (const { code, stdout, stderr } of await rig.each(lines)) {
      equal(code, 1, `${stdout}${stderr}`);
      match(stdout, /^(failed|FAIL) .*: a: its connection was refused: no-service: Rejected/m);
    }
  });

  it("judges a protocol without a check by what it recovers, and one without a recovery not at all", async () => {
    const bare = await rig.file("mute.yaml", OWN.replace("own.ts", "mute.ts"));
    await rig.file("mute.ts", PROTOCOL.replace(/export function check[^]*$/, ""));
    const judged = await rig.run(["explore", bare]);
    equal(judged.code, 1, judged.stderr);
    match(judged.stdout, /^unsafe +own: .*; judged by robustness$/m);
    match(judged.stdout, /^robustness: recovery finds B, .* no clwb \(cpu\.flush\) of b/m);
    const again = /^ +(rack explore .* --from \d+ps --until \d+ps)$/m.exec(judged.stdout)![1]!;
    const same = await rig.run(again.split(" ").slice(1));
    equal(same.code, 1, same.stderr);
    equal(foundIn(same.stdout), foundIn(judged.stdout));
    await rig.file("mute.ts", PROTOCOL.replace(/export function\* recover[^]*$/, ""));
    const { code, stdout, stderr } = await rig.run(["explore", bare]);
    equal(code, 2, stderr);
    match(stdout, /^unchecked own: .*; nothing was promised or checked$/m);
    match(stderr, /a protocol's recover or check/);
  });

  it("ends with 2 where it was stopped before all was seen, or was not to see all", async () => {
    const [some, limited] = await rig.each([
      ["explore", put, "--ddio", "off", "--from", "100us", "--until", "1ms"],
      ["explore", put, "--ddio", "on", "--limit", "10"],
    ]);
    equal(some!.code, 2, some!.stderr);
    match(
      some!.stdout,
      /^could not tell .*not all: only instants from 100 us until 1 ms were asked for$/m,
    );
    equal(limited!.code, 2, limited!.stderr);
    match(limited!.stdout, /^could not tell .*not all: 10 crash points were asked for/);
  });

  it("refuses what cannot be", async () => {
    const cases = [
      ["--cut", "nobody", /--cut is "nobody": expected a, b, each, all or none/],
      ["--tear", "12", /--tear is "12": expected a multiple of 8/],
      ["--cuts", "3", /--cuts is "3"/],
      ["--from", "soon", /--from is "soon": expected a time/],
      ["--choices", "0", /--choices is "0"/],
      ["--limit", "-1", /--limit is "-1"/],
      ["--for", "10", /--for is "10": expected a time/],
    ] as const;
    const lines = cases.map(([option, value]) => ["explore", put, option, value]);
    for (const [i, { code, stderr }] of (await rig.each(lines)).entries()) {
      equal(code, 64, cases[i]![0]);
      match(stderr, cases[i]![2]);
    }
  });
});
