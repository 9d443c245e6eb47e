/**
 * What is done where not every way to find memory can be tried, or every power failure of a recovery: covering
 * arrays, second power failures up to a limit, and first one instant of each kind. The verdict says how far it went.
 */
import { deepStrictEqual as same, match, ok, strictEqual as equal } from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { CrashView, RecoveryContext } from "../../nodes/host/recovery/protocol.ts";
import { explore } from "../../console/explore/explore.ts";
import {
  EXPLORE_DEFAULTS,
  type ExploreOptions,
  type Verdict,
} from "../../console/explore/types.ts";
import { CommandRig } from "../support/command.ts";
import { ownRack, putRack, rackOf } from "./explored_rack.ts";
import * as record from "../../scripts/scenarios/checksummed_record.ts";

const SHIPPED = new URL("../../scripts/scenarios/checksummed_record.yaml", import.meta.url);

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterAll(() => rig.close());

/** The shipped scenario with other records. */
async function withRecords(changes: Readonly<Record<string, string>>): Promise<string> {
  const text = await Deno.readTextFile(SHIPPED);
  return Object.entries(changes).reduce((text, [from, to]) => text.replaceAll(from, to), text);
}

describe("rack explore: a record with a checksum", () => {
  it("of 4 KiB, DDIO off, has a verdict that says what was covered, and ends with 2", async () => {
    const shipped = fileURLToPath(SHIPPED);
    // With all 4096 ways it is quadruples, in some seconds.
    const few = ["--cut", "b", "--no-check", "--choices", "300"];
    const { code, stdout, stderr } = await rig.run(["explore", shipped, ...few]);
    equal(code, 2, `${stdout}${stderr}`);
    match(
      stdout,
      /^could not tell +checksummed-record: .*not all: not every choice was tried \(--choices\), but at 1 instant every three of 512 words in every combination$/m,
    );
  });

  it("that is an XOR of 264 B is found wrong: two equal words that are missing cancel each other", async () => {
    await rig.file(
      "checksummed_record.ts",
      await Deno.readFile(new URL("checksummed_record.ts", SHIPPED)),
    );
    const changes = { "bytes: 4096": "bytes: 264", crc32: "xor" };
    const xor = await rig.file("xor.yaml", await withRecords(changes));
    const { code, stdout, stderr } = await rig.run(["explore", xor, "--no-check"]);
    equal(code, 1, `${stdout}${stderr}`);
    match(stdout, /^unsafe +checksummed-record: /m);
    match(stdout, /^check: record 0 is not what was written, and its checksum is right$/m);
    const command = /^ {2}rack (run .*)$/m.exec(stdout)![1]!;
    const again = await rig.run([...command.split(" "), "--no-check"]);
    equal(again.code, 1, again.stderr);
    match(again.stdout, /record 0 is not what was written, and its checksum is right/);
  });

  it("is safe where every choice was tried", async () => {
    const { default: program, recover, check } = record;
    const rack = rackOf(await withRecords({ "bytes: 4096": "bytes: 72" }), {
      "./checksummed_record.ts": { program, recover, check },
    });
    const { verdict, exhaustive, paths } = await explore(rack, EXPLORE_DEFAULTS);
    same([verdict, exhaustive], ["safe", true]);
    ok(paths >= 2 ** 9, `${paths}: each of nine words is there or not`);
  });
});

/**
 * Copies `words` words to another place, one after the other, and says there that it has.
 * @param more.reads bytes that recovery reads before it begins.
 * @param more.isOpen recovery reads a line that the cache may have written back, too.
 */
function copying(
  words: number,
  { isRight, isOpen = false, reads = 8 }: {
    readonly isRight: boolean;
    readonly isOpen?: boolean;
    readonly reads?: number;
  },
) {
  const program = function* ({ cpu }: ProgramContext): Steps<void> {
    if (isOpen) cpu.store(cpu.scm.address + 64, one(1));
    yield* cpu.ntStore(cpu.scm.address, one(1));
  };
  const recover = function* ({ cpu }: RecoveryContext): Steps<unknown> {
    const { address } = cpu.scm;
    cpu.load(address + 32_768, reads);
    if (isOpen) cpu.load(address + 64, 8);
    const isDone = () => cpu.load(address + 4096, 8)[0] === 1;
    if (!isDone() && cpu.load(address, 8)[0] === 1) {
      if (!isRight) yield* cpu.ntStore(address + 4096, one(1));
      for (let i = 0; i < words; i++) yield* cpu.ntStore(address + 8192 + 8 * i, one(7));
      yield* cpu.ntStore(address + 4096, one(1));
    }
    const copy = Array.from({ length: words }, (_, i) => cpu.load(address + 8192 + 8 * i, 8)[0]);
    return isDone() && copy.some((word) => word !== 7) ? "half" : "whole or not begun";
  };
  const check = ({ hosts }: CrashView) => hosts.b!.recovered === "half" ? "half a copy" : undefined;
  return ownRack({ program, recover, check });
}

function one(value: number): Uint8Array {
  return Uint8Array.of(value, 0, 0, 0, 0, 0, 0, 0);
}

describe("rack explore: a recovery that writes", () => {
  const cut = (isRight: boolean, more: Partial<ExploreOptions> = {}, words = 6) =>
    explore(copying(words, { isRight }), { ...EXPLORE_DEFAULTS, cut: { host: "b" }, ...more });

  it("is cut again without being asked, and --cuts 1 does not", async () => {
    const { verdict, counterexample } = await cut(false);
    equal(verdict, "unsafe");
    equal(counterexample!.found, "half a copy");
    ok(counterexample!.again !== undefined);
    const once = await cut(false, { cuts: 1 });
    const { recoveries: left, ...none } = once.again;
    same([once.verdict, once.exhaustive, none], ["partial", false, { cut: 0, ways: 0 }]);
    ok(left > 1);
    equal(once.why, `${left} recoveries that write were not cut again (--cuts 1)`);
    const right = await cut(true);
    same([right.verdict, right.exhaustive], ["safe", true]);
    const { recoveries, cut: done, ways } = right.again;
    ok(recoveries > 0 && done === recoveries && ways > recoveries, JSON.stringify(right.again));
    same((await cut(true, { cuts: 2 })).again, right.again);
  });

  it("is partial where that costs too much, with the numbers, and --cuts 2 goes on", async () => {
    const { verdict, why, again } = await cut(true, {}, 400);
    equal(verdict, "partial");
    ok(again.cut > 0 && again.cut < again.recoveries, JSON.stringify(again));
    match(
      why!,
      /^the power failed again during \d+ of \d+ recoveries that write, with \d+ ways to find memory: --cuts 2/,
    );
    const reading = copying(400, { isRight: true, reads: 32_768 });
    const read = await explore(reading, { ...EXPLORE_DEFAULTS, cut: { host: "b" } });
    ok(2 * read.again.ways < again.ways, `${read.again.ways}: what is read costs, too`);
    const open = copying(400, { isRight: true, isOpen: true });
    const both = await explore(open, { ...EXPLORE_DEFAULTS, cut: { host: "b" }, choices: 1 });
    match(
      both.why!,
      /^not every choice was tried \(--choices\), but .*; the power failed again during \d+ of \d+ recoveries/,
    );
  });
});

describe("rack explore: an exploration that is stopped", () => {
  it("ends within an instant: it asks after each way to find memory, also of a second recovery", async () => {
    let calls = 0, last = Infinity;
    const exploring = () =>
      explore(copying(6, { isRight: true }), {
        ...{ ...EXPLORE_DEFAULTS, cut: { host: "b" }, stopped: () => ++calls > last },
      });
    const whole = await exploring();
    equal(whole.verdict, "safe");
    ok(calls >= whole.paths && whole.paths > 2 * whole.instants, `${calls} of ${whole.paths}`);
    // At the last way of all: behind it come what its instant has found, and the rest of the run.
    [calls, last] = [0, calls - 3];
    const { verdict, why, instants, again } = await exploring();
    equal(verdict, "partial");
    match(why!, /^it was interrupted after /);
    ok(instants === whole.instants - 1 && again.cut > 0, `${instants} of ${whole.instants}`);
  });
});

describe("rack explore: first an instant of each kind", () => {
  const claims = { claims: true } as const;

  it("finds a mistake at fewer instants, and in fewer runs of the rack", async () => {
    const rack = () => putRack({ method: "write-only", ddio: "off", bytes: 2000, depth: 4 });
    const inOrder = await explore(rack(), { ...EXPLORE_DEFAULTS, ...claims, inOrder: true });
    const byKind = await explore(rack(), { ...EXPLORE_DEFAULTS, ...claims });
    same([inOrder.verdict, byKind.verdict], ["unsafe", "unsafe"]);
    equal(byKind.counterexample!.checker, inOrder.counterexample!.checker);
    ok(3 * byKind.instants < inOrder.instants, `${byKind.instants} of ${inOrder.instants}`);
  });

  it("judges every instant once, whatever the order", async () => {
    for (
      const rack of [
        () => putRack({ method: "write-read", ddio: "off" }),
        () => copying(3, { isRight: true }),
      ]
    ) {
      const inOrder = await explore(rack(), { ...EXPLORE_DEFAULTS, inOrder: true });
      const byKind = await explore(rack(), EXPLORE_DEFAULTS);
      const of = ({ verdict, instants, crashPoints, paths, exhaustive }: Verdict) => ({
        verdict,
        instants,
        crashPoints,
        paths,
        exhaustive,
      });
      equal(byKind.verdict, "safe");
      same(of(byKind), of(inOrder));
    }
  });
});
