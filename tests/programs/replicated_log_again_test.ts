/** The replicated log's client when it starts again: on a file that has grown, is another, or is gone (P-41). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { PS_PER_MS, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { madeUpBytes } from "../../nodes/host/programs/common/made_up.ts";
import {
  isFailure,
  openClient,
  openObject,
} from "../../nodes/host/programs/persist/persist_client.ts";
import { disconnect } from "../../nodes/host/cm/connection.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";

const FILE = madeUpBytes(24 * 1024, "grown");

interface Result {
  readonly status: string;
  readonly error?: string;
  readonly durable: number;
  readonly recovered: number;
  readonly dropped?: number;
  readonly records: number;
  readonly bytes?: number;
  readonly segments?: readonly number[];
  readonly replicas: readonly {
    readonly acked: number;
    readonly tries: number;
    readonly caughtUp?: { readonly times: number; readonly longestPs: Time };
  }[];
}

/** What is given out on a host. */
interface Taken {
  readonly regions: number;
  readonly domains: number;
  readonly queuePairs: number;
  /** Where memory of its kind would be given out next, and the number of the next queue. */
  readonly scattered: number;
  readonly contiguous: number;
  readonly queue: number;
}

/** Tells what is given out on its host. */
function* count({ cpu, device }: ProgramContext): Steps<void> {
  const { regions, pds, queuePairs } = device.state;
  const scattered = cpu.allocate(1 << 20).address, contiguous = cpu.allocateContiguous(1 << 20);
  const cq = device.verbs.must(yield* device.verbs.createCq(device, { entries: 1 }));
  const taken: Taken = {
    regions: regions.size,
    domains: pds.size,
    queuePairs: queuePairs.size,
    scattered,
    contiguous: contiguous.address,
    queue: cq.cqn,
  };
  cpu.report("taken", taken);
}

/** A client that dies when its objects have been made, of another size, and nothing is in them. */
function* replace({ device, options }: ProgramContext): Steps<void> {
  for (const to of options.of as string[]) {
    const client = yield* openClient(device, {
      to,
      terms: { method: "persist-opcode", messageBytes: 256, depth: 1, policy: "auto" },
      mode: "poll",
      attempts: 1,
      pausePs: PS_PER_US,
      idlePs: PS_PER_MS,
    });
    assert.ok(!isFailure(client));
    assert.ok(!isFailure(yield* openObject(client, { name: "log", length: 8_000, alone: true })));
    yield* disconnect(client.connection);
  }
}

/** Runs programs against three replicas: the log's on `a`, and who reads it back on `e`. */
function runAll(
  programs: readonly string[],
  more: {
    readonly inputs?: Readonly<Record<string, Uint8Array>>;
    readonly faults?: readonly string[];
    readonly defaults?: string;
    readonly seed?: number;
  } = {},
): SimulatedRack {
  const { inputs = {}, faults = [], defaults = "ddio: off", seed = 3 } = more;
  const text = [
    "name: log",
    `seed: ${seed}`,
    `defaults: { ${defaults}, dram: 32MiB, scm: { size: 1MiB } }`,
    "hosts: { a: {}, b: {}, c: {}, d: {}, e: {} }",
    "programs:",
    ...programs.map((program) =>
      `  - { on: ${/log, to|count|replace/.test(program) ? "a" : "e"}, ${program} }`
    ),
    ...(faults.length > 0 ? ["faults:", ...faults.map((fault) => `  - ${fault}`)] : []),
  ].join("\n") + "\n";
  return new SimulatedRack(text, {
    inputs,
    programs: { "./count.ts": count, "./replace.ts": replace },
  }).run();
}

function results(rack: SimulatedRack, program = "log"): Result[] {
  return rack.reported("result").filter((value) =>
    value.program === program
  ) as unknown as Result[];
}

function readBack(rack: SimulatedRack): Uint8Array {
  return Uint8Array.from(rack.reported("output").at(-1)!.bytes as Uint8Array);
}

const LOG = "run: log, to: [b, c, d], depth: 8";
const READ = "run: log-read, from: [b, c, d]";

describe("A replicated log's client that starts again", () => {
  it("P-41: goes on behind what is durable, by any method, where the file has grown", () => {
    for (const [i, method] of METHODS.entries()) {
      for (const ddio of i % 2 === 0 ? ["off"] : ["on"]) {
        const rack = runAll([
          `${LOG}, record: 256, method: ${method}, file: short`,
          `${LOG}, method: ${method}, file: long, at: 5ms`,
          `${READ}, at: 20ms`,
        ], {
          inputs: { short: FILE.subarray(0, 5_000), long: FILE },
          defaults: `ddio: ${ddio}, receive: ${method === "send-read" ? "scm" : "dram"}`,
        });
        const [, second] = results(rack);
        assert.equal(second?.status, "done", `${method}, DDIO ${ddio}: ${second?.error}`);
        const records = 20 + Math.ceil((FILE.length - 5_000) / 256);
        assert.deepEqual([second?.recovered, second?.durable], [20, records], method);
        // It had not as many slots: there are more in a second object, in which nothing else is.
        assert.equal(second?.segments?.length, 2);
        // Claim and barriers.
        assert.deepEqual(
          second?.replicas.map(({ acked }) => acked),
          new Array(3).fill(records + 3),
        );
        assert.deepEqual(readBack(rack), FILE);
      }
    }
  });

  it("P-41: grows by a power failure of any host at any time, and loses nothing", () => {
    const inputs = { short: FILE.subarray(0, 5_000), long: FILE };
    const programs = [
      `${LOG}, record: 256, file: short`,
      `${LOG}, file: long, at: 2ms, restart: true, linger: 50ms`,
      `${READ}, at: 60ms`,
    ];
    const told = runAll(programs, { inputs }).reports.filter(({ topic, time }) =>
      topic === "progress" && time > 2 * PS_PER_MS
    );
    const from = told[0]!.time - 40 * PS_PER_US, to = told.at(-1)!.time;
    for (const host of ["a", "b", "c"]) {
      for (let part = 0; part < 4; part++) {
        const kill = Math.floor(from + (to - from) * part / 3);
        const faults = [
          `{ at: ${kill / 1_000}ns, kill: ${host} }`,
          `{ at: ${kill / 1_000 + 100_000}ns, start: ${host} }`,
        ];
        const rack = runAll(programs, { inputs, faults });
        const last = results(rack).at(-1);
        assert.equal(last?.status, "done", `${host} at ${kill}: ${last?.error}`);
        assert.deepEqual(readBack(rack), inputs.long, `${host} at ${kill}`);
      }
    }
  });

  it("P-41: is not overtaken by late packets of its life before", () => {
    for (const [method, seed] of [["persist-opcode", 4], ["send-flush", 5]] as const) {
      const kill = 400 + 3 * seed;
      const faults = [
        `{ link: a, reorder: 60%, hold: 800us, from: ${kill - 4}us, until: ${kill + 1}us }`,
        `{ at: ${kill}us, kill: a }`,
        `{ at: ${kill + 10}us, start: a }`,
      ];
      const log = `${LOG}, bytes: 160KiB, method: ${method}, restart: true`;
      // The run itself holds what was told durable against what any two of three have at its end.
      const [result] = results(runAll([log], { faults, seed }));
      assert.equal(result?.status, "done", method);
      assert.ok(result.recovered > 100, `${method}: ${result.recovered} were there`);
    }
  });

  it("P-41: finds what is durable whatever quorum there was before", () => {
    const faults = ["{ at: 100us, kill: d }", "{ at: 2500us, start: d }"];
    const rack = runAll([
      `${LOG}, file: file, linger: 0us`,
      // Had it read one of three, as is enough where all three are a quorum: then maybe the one without.
      `run: log, to: [d, b, c], file: file, quorum: 3, at: 4ms`,
    ], { inputs: { file: FILE }, faults });
    assert.deepEqual(results(rack).map(({ status, recovered }) => [status, recovered]), [
      ["done", 0],
      ["done", 96],
    ]);
  });

  it("P-41: never claims an epoch again that was a log's before, whose objects have been replaced", () => {
    const inputs = { one: FILE, other: FILE.slice(0, 10_000).reverse() };
    const faults = [
      "{ at: 8ms, kill: d }",
      "{ at: 20ms, start: d }",
      "{ at: 20ms, kill: c }",
    ];
    const rack = runAll([
      `${LOG}, file: one`,
      `${LOG}, file: one, at: 4ms`,
      // Its object has another size: the client before has made it, and died.
      `run: ./replace.ts, of: [b, c], at: 10ms`,
      `${LOG}, record: 100, file: other, linger: 0us, at: 12ms`,
      `${READ}, at: 25ms`,
    ], { inputs, faults });
    assert.deepEqual(results(rack).map(({ status, error }) => error ?? status), [
      "done",
      "done",
      "done",
    ]);
    // Of the two that are there one has what is durable, the other the older log.
    assert.equal(results(rack, "log-read")[0]?.records, 100);
    assert.deepEqual(readBack(rack), inputs.other);
  });

  it("leaves a log alone that holds something else, and says from where on", () => {
    const other = FILE.slice(0, 5_000);
    other[700]! ^= 0xff;
    const rack = runAll([
      `${LOG}, record: 256, file: one`,
      `${LOG}, record: 256, file: other, at: 3ms`,
      `${LOG}, record: 64, file: one, at: 6ms`,
      `${READ}, at: 9ms`,
    ], { inputs: { one: FILE.subarray(0, 5_000), other } });
    const [, second, third] = results(rack);
    assert.equal(second?.status, "failed");
    const byte = 700 - 2 * 256;
    assert.match(
      second?.error ?? "",
      new RegExp(`log is another's: its record 2 has .* at byte ${byte}`),
    );
    assert.match(third?.error ?? "", /it has 20 records of at most 256 B, not of 64 B/);
    assert.deepEqual(readBack(rack), FILE.slice(0, 5_000));
  });

  it("P-41: begins it anew where it is told to, once, and does not when it starts again", () => {
    const inputs = { one: FILE, other: FILE.slice(0, 20_000).reverse() };
    for (const record of ["", ", record: 100"]) {
      const programs = [
        `${LOG}, file: one`,
        `${LOG}${record}, file: other, anew: true, at: 5ms, restart: true`,
        `${READ}, at: 60ms`,
      ];
      const rack = runAll(programs, { inputs });
      const second = results(rack)[1];
      assert.equal(second?.status, "done", second?.error);
      assert.deepEqual([second?.dropped, second?.recovered], [96, 0]);
      assert.deepEqual(readBack(rack), inputs.other);
      const told = rack.reports.filter(({ topic, time }) =>
        topic === "progress" && time > 5 * PS_PER_MS
      );
      for (const part of [1, 40, 70]) {
        const kill = told[part]!.time;
        const faults = [
          `{ at: ${kill / 1_000}ns, kill: a }`,
          `{ at: ${kill / 1_000 + 100_000}ns, start: a }`,
        ];
        const again = runAll(programs, { inputs, faults });
        const last = results(again).at(-1)!;
        assert.equal(last.dropped, undefined, "what was durable of the new log is kept");
        assert.ok(last.recovered >= Number(told[part]!.value.durable));
        assert.deepEqual(readBack(again), inputs.other);
      }
    }
  });
});

describe("A replica that comes and goes", () => {
  /** What the client's host and card have given out after so many power failures, and after how many tries. */
  function after(times: number): { readonly taken: Taken; readonly tries: number } {
    const faults = Array.from({ length: times }, (_, i) => [
      `{ at: ${2 + 4 * i}ms, kill: c }`,
      `{ at: ${4 + 4 * i}ms, start: c }`,
    ]).flat();
    const log = `${LOG}, bytes: 64KiB, linger: ${4 * times}ms`;
    const count = `run: ./count.ts, at: ${10 + 4 * times}ms`;
    const rack = runAll([log, count], { faults: [...faults, "{ at: 100us, kill: d }"] });
    const tries = results(rack)[0]!.replicas.reduce((sum, replica) => sum + replica.tries, 0);
    return { taken: rack.reported("taken")[0] as unknown as Taken, tries };
  }

  it("costs its client memory and regions of one connection, however often", () => {
    const few = after(2), often = after(12);
    assert.ok(often.tries > few.tries + 20, `${few.tries}, then ${often.tries} tries`);
    assert.deepEqual(often.taken, few.taken);
  });

  it("P-51 (in part): is sent deposits from the first of the connection on, whichever slot that is", () => {
    const faults = ["{ at: 500us, kill: c }", "{ at: 600us, start: c }"];
    const log = `${LOG}, bytes: 128KiB, method: send-read, linger: 30ms`;
    const rack = runAll([log], { faults, defaults: "ddio: off, receive: scm" });
    const [result] = results(rack);
    assert.equal(result?.replicas[1]?.caughtUp?.times, 1);
    assert.deepEqual(result?.replicas.map(({ acked }) => acked), [514, 514, 514]);
    // The run itself holds what was told persistent against what is there, stored or in receive buffers.
    assert.equal(result?.replicas[1]?.tries, 2);
  });

  it("catches up, and the result says how often and how long it was behind", () => {
    const faults = ["{ at: 350us, kill: c }", "{ at: 900us, start: c }"];
    const rack = runAll([`${LOG}, bytes: 64KiB, linger: 20ms`], { faults });
    const [result] = results(rack);
    assert.deepEqual(result?.replicas.map(({ acked }) => acked), [258, 258, 258]);
    const [b, c] = result!.replicas;
    assert.equal(b?.caughtUp, undefined);
    assert.equal(c?.caughtUp?.times, 1);
    assert.ok(c!.caughtUp!.longestPs > 0, JSON.stringify(c));
  });
});

describe("log-read", () => {
  const inputs = { file: FILE };

  it("says that too few are there, and does not wait for ever", () => {
    const faults = ["{ at: 6ms, kill: b }", "{ at: 6ms, kill: d }"];
    const rack = runAll([`${LOG}, file: file`, `${READ}, at: 7ms`], { inputs, faults });
    const [read] = results(rack, "log-read");
    assert.deepEqual([read?.status, read?.error], [
      "failed",
      "only 1 of 2 replicas could be read",
    ]);
    assert.deepEqual(rack.reported("output"), []);
  });

  it("says that there is no log of the name", () => {
    const rack = runAll([`${LOG}, file: file`, `${READ}, name: lag, at: 6ms`], { inputs });
    const [read] = results(rack, "log-read");
    assert.deepEqual([read?.status, read?.error], [
      "failed",
      "none of the 2 replicas that were read has a log lag",
    ]);
  });

  it("reads records of the log's own size without being told", () => {
    const rack = runAll([`${LOG}, file: file, record: 1000`, `${READ}, at: 6ms`], { inputs });
    assert.deepEqual(results(rack, "log-read")[0]?.records, 25);
    assert.deepEqual(readBack(rack), FILE);
  });
});
