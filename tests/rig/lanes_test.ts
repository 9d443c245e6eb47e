import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { readFaultLines } from "../../console/rack/fault_lines.ts";
import { prepare, type Prepared } from "../../console/rack/prepare.ts";
import { findProcesses } from "../../console/rack/process_table.ts";
import type { RunReport } from "../../console/reports/method_report.ts";
import { runScenario, runVariants } from "../../console/rack/run_scenario.ts";
import type { Outcome } from "../../console/rack/run_variant.ts";
import { runSideBySide } from "../../console/rack/side_by_side.ts";
import type { Supervisor } from "../../console/rack/supervisor.ts";
import { atSomePace } from "../support/eventually.ts";
import { removeUnlessKept } from "../support/leavings.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

const PUTS = `name: lanes
hosts: { a: {}, b: { ddio: both, scm: { size: 1MiB } } }
programs:
  - { on: a, run: put, to: b, method: METHODS, bytes: 24KiB, size: 1KiB, depth: 4 }
`;

interface Ran {
  readonly outcomes: readonly { readonly one: Prepared; readonly outcome: Outcome }[];
  /** Process ids of each rack's partitions and timekeeper, as they were when it had started. */
  readonly pids: readonly (readonly (number | null)[])[];
}

describe("Lanes: variants in one set of processes", () => {
  let folder: string;

  beforeAll(async () => {
    folder = await Deno.makeTempDir({ prefix: "rackmesh-lanes-" });
  });
  afterAll(() => removeUnlessKept(folder));

  async function variantsOf(scenario: string, files: Readonly<Record<string, string>> = {}) {
    const path = `${folder}/${crypto.randomUUID()}`;
    await Deno.mkdir(path);
    for (const [name, text] of Object.entries({ "lanes.yaml": scenario, ...files })) {
      await Deno.writeTextFile(`${path}/${name}`, text);
    }
    return {
      scenario: `${path}/lanes.yaml`,
      prepared: await prepare(await readScenario(`${path}/lanes.yaml`), { packing: "node" }),
    };
  }

  async function run(
    prepared: readonly Prepared[],
    options: {
      readonly packing?: "all";
      readonly lanes?: number;
      readonly delayMsMax?: number;
      readonly onUp?: (place: number, rack: Supervisor) => void;
    } = {},
  ): Promise<Ran> {
    const pids: (number | null)[][] = [];
    const { results } = await runVariants(prepared, {
      packing: "node",
      ...options,
      check: "wire",
      directory: `${folder}/run-${crypto.randomUUID().slice(0, 8)}`,
      onUp: (place, rack) => {
        pids[place] = rack.processes().map(({ pid }) => pid);
        options.onUp?.(place, rack);
      },
      onOutcome: (_, ended) => Promise.resolve(ended),
    });
    return { outcomes: results, pids };
  }

  function digests({ outcomes }: Ran): Record<string, string> {
    return Object.fromEntries(outcomes.map(({ one, outcome }) => [one.label, outcome.digest]));
  }

  it("come to the digests of one process, in the order of the variants, in the same processes", async () => {
    const { prepared } = await variantsOf(
      PUTS.replace("METHODS", "[write-read, send-flush, persist-opcode]"),
    );
    assert.equal(prepared.length, 6);
    const packed = await run(prepared, { packing: "all" });
    const laned = await run(prepared, { lanes: 4 });
    assert.deepEqual(digests(laned), digests(packed));
    assert.deepEqual(
      laned.outcomes.map(({ one }) => one.label),
      prepared.map(({ label }) => label),
    );
    assert.equal(laned.pids[0]!.length, 6);
    for (const pids of laned.pids) assert.deepEqual(pids, laned.pids[0]);
    for (const { outcome: { refused, directory } } of laned.outcomes) {
      assert.deepEqual(refused, []);
      // Output of each rack is its own.
      assert.match(
        await Deno.readTextFile(`${directory}/logs/timekeeper.log`),
        /^finished [^\n]*\n$/,
      );
    }
  });

  /** Whether the timekeepers of these racks have a power failure on record. */
  async function areOnRecord(racks: Iterable<Supervisor>): Promise<boolean> {
    const all = await Promise.all(
      Array.from(racks, async ({ control }) => {
        const answer = await control.attempt<{ readonly count: number }>("faults", { from: 0 });
        return answer !== undefined && "ok" in answer && answer.ok.count > 0;
      }),
    );
    return all.every((is) => is);
  }

  it("die together where a process dies, each at an instant of its own, on record", async () => {
    const { scenario, prepared } = await variantsOf(
      PUTS.replace("METHODS", "[write-read, send-flush]"),
    );
    const racks = new Map<number, Supervisor>(), ended = new Set<Supervisor>();
    let isOver = false;
    const disturb = async () => {
      while (racks.size < prepared.length) await sleep(5);
      const [first] = racks.values() as Iterable<Supervisor>;
      while (((await first!.status())?.events ?? 0) < 500) await sleep(5);
      assert.ok(first!.kill("b"));
      let isTimekeeperKilled = false;
      while (!isOver) {
        // Where it dies together with b, nothing is known of b's last span.
        const left = [...racks.values()].filter((rack) => !ended.has(rack));
        if (!isTimekeeperKilled && left.length > 0 && await areOnRecord(left)) {
          isTimekeeperKilled = left[0]!.kill("timekeeper");
        }
        for (const rack of racks.values()) rack.startPartition("b");
        await sleep(20);
      }
    };
    const running = run(prepared, {
      delayMsMax: 4,
      onUp: (place, rack) => void racks.set(place, rack),
    });
    const [laned] = await Promise.all([running.finally(() => isOver = true), disturb()]);
    let struck = 0;
    for (const [i, { one, outcome }] of laned.outcomes.entries()) {
      assert.equal(outcome.inexact, undefined, `${one.label}: ${outcome.inexact}`);
      const lines = await readFaultLines(`${outcome.directory}/faults.jsonl`);
      struck += lines.faults.filter(({ node, action }) => node === "b" && action === "kill").length;
      const again = await prepare(await readScenario(scenario), { packing: "all", ...lines });
      const replayed = await run([again[i]!], { packing: "all" });
      assert.equal(replayed.outcomes[0]!.outcome.digest, outcome.digest, one.label);
    }
    // A rack may have come to its end before.
    assert.ok(struck >= 1, `${struck} racks have b's death on record`);
  });

  it("go on over a nats-server that is killed", async () => {
    const { prepared } = await variantsOf(PUTS.replace("METHODS", "[write-read, send-flush]"));
    let killed = false;
    const kill = async (rack: Supervisor) => {
      while (((await rack.status())?.events ?? 0) < 200) await sleep(5);
      Deno.kill(findProcesses(folder).find(({ kind }) => kind === "nats")!.pid, "SIGKILL");
      killed = true;
    };
    const killing = Promise.withResolvers<void>();
    const laned = await run(prepared, {
      delayMsMax: 2,
      onUp: (place, rack) => {
        if (place === 0) kill(rack).then(killing.resolve, killing.reject);
      },
    });
    await killing.promise;
    assert.ok(killed);
    assert.deepEqual(digests(laned), digests(await run(prepared, { packing: "all" })));
  });

  it("have instances of a user's program of their own, with the rights of one", async () => {
    const { prepared } = await variantsOf(
      `name: own
hosts: { a: {}, b: { ddio: both } }
programs: [{ on: a, program: ./own.ts }]
`,
      {
        "own.ts": `import type { ProgramContext } from "rackmesh";
let calls = 0;
export default function* own({ cpu }: ProgramContext) {
  yield* cpu.sleep(10);
  calls++;
  cpu.report("result", { calls });
  cpu.log("calls", calls);
}
`,
      },
    );
    assert.equal(prepared.length, 2);
    const laned = await run(prepared);
    assert.deepEqual(laned.pids[0], laned.pids[1]);
    assert.deepEqual(digests(laned), digests(await run(prepared, { packing: "all" })));
    for (const { outcome } of laned.outcomes) {
      const results = outcome.record!.reports.filter(({ topic }) => topic === "result");
      assert.deepEqual(results.map(({ value }) => (value as { calls: number }).calls), [1]);
      assert.match(await Deno.readTextFile(`${outcome.directory}/logs/a.log`), /calls 1\n$/);
    }
  });

  it("leave what had ended where the run is interrupted, and say that it is not all", async () => {
    const { scenario } = await variantsOf(
      PUTS.replace("METHODS", "[write-read, send-flush, persist-opcode]"),
    );
    const interrupting = new AbortController(), judged: string[] = [];
    const reason = new Error("interrupted");
    let report: RunReport | undefined;
    const running = runScenario(await readScenario(scenario), {
      prepare: { packing: "node" },
      lanes: 2,
      delayMsMax: 2,
      directory: `${folder}/interrupted`,
      signal: interrupting.signal,
      onJudged: ({ one }) => {
        judged.push(one.label);
        interrupting.abort(reason);
      },
      onInterrupted: (left) => report = left,
    });
    await assert.rejects(running, reason);
    assert.ok(report !== undefined && judged.length >= 1 && judged.length < 6, judged.join());
    const { holds, detail } = report.checks.find(({ name }) => name === "all-variants-run")!;
    assert.equal(holds, false);
    assert.match(detail, new RegExp(`interrupted when ${judged.length} of 6 had ended`));
    assert.equal(report.methods.length, judged.length);
    assert.deepEqual(
      JSON.parse(await Deno.readTextFile(`${folder}/interrupted/report.json`)),
      report,
    );
    assert.deepEqual(findProcesses(folder), []);
  });

  it("run again alone where one holds the others up, which ends at its limit", async () => {
    const own = (body: string) =>
      `import type { ProgramContext } from "rackmesh";\nexport default function* own({ cpu }: ProgramContext) {\n` +
      `  yield* cpu.sleep(10);\n  ${body}\n}\n`;
    const variants = await Promise.all(
      ["for (;;);", 'cpu.report("result", {});'].map(async (body) => {
        const text =
          "name: held\nhosts: { a: {}, b: {} }\nprograms: [{ on: a, program: ./own.ts }]\n";
        return (await variantsOf(text, { "own.ts": own(body) })).prepared[0]!;
      }),
    );
    await atSomePace(async (slower) => {
      const path = `${folder}/held-${slower}`, ended: number[] = [], failed: string[] = [];
      await Deno.mkdir(path);
      await runSideBySide(
        variants.map((one, i) => ({ one, run: { run: `held-${i}`, directory: `${path}/${i}` } })),
        {
          ...{ id: "held", path, limitMs: 2_000 * slower },
          onEnded: (place) => void ended.push(place),
          onFailed: (place, error) => void failed.push(`${place}: ${(error as Error).message}`),
        },
      );
      assert.deepEqual(ended, [1]);
      assert.deepEqual(failed, [`0: No end within ${2 * slower} s of wall time`]);
    });
    assert.deepEqual(findProcesses(folder), []);
  });

  it("have processes of their own where the plan ends a process", async () => {
    const { prepared } = await variantsOf(
      `${PUTS.replace("METHODS", "write-read")}faults: [{ at: 205us, kill: b }]\n`,
    );
    assert.equal(prepared.length, 2);
    const apart = await run(prepared);
    assert.deepEqual(apart.pids[0]!.filter((pid) => apart.pids[1]!.includes(pid)), []);
    assert.deepEqual(digests(apart), digests(await run(prepared, { packing: "all" })));
  });
});
