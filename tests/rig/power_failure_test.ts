/**
 * Real processes that are killed, and what is in the SCM files afterwards. `kill -9` by anybody is the
 * power failure of what the process held; the run's record of it replays the run.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import type { Supervisor } from "../../console/rack/supervisor.ts";
import { type MethodName, METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { ScmFile } from "../../nodes/host/store/scm_file.ts";
import { heldFor, survivedView } from "../../console/rack/survived.ts";
import { firstLoss, isReportedOnce, type PutResult } from "../../console/checks/survival.ts";
import { checksText } from "../../console/reports/report_text.ts";
import { summarise } from "../../console/reports/summarise.ts";
import { eventually } from "../support/eventually.ts";
import {
  killFromOutside,
  lifeLine,
  RackBench,
  type Ran,
  readObject,
  readRecord,
  recordedFaults,
  type RunOf,
  survivorOf,
} from "../support/process_rack.ts";

/** Chooses the moments at which processes are killed. A failure names it. */
const SEED = Number(Deno.env.get("RACKMESH_TEST_SEED") ?? 1);

const DDIO = ["off", "on"] as const;
type Switch = typeof DDIO[number];

/** Every message takes long enough for a kill to come before the last. */
const PAIR: RunOf = {
  scenario: new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url),
  inputBytes: 24 * 1024 - 100,
  size: 1024,
  depth: 4,
  delayMsMax: 2,
};

/**
 * WRITE alone promises nothing, nor does the READ behind it where DDIO keeps the data in the LLC, nor a
 * SEND into receive buffers in DRAM.
 */
function promises(method: MethodName, ddio: Switch): boolean {
  return method !== "write-only" && method !== "send-read" &&
    !(method === "write-read" && ddio === "on");
}

/** The method whose responder is killed in a flow; another seed takes another one. */
function methodOf(ddio: Switch): MethodName {
  const promising = METHODS.filter((method) => promises(method, ddio));
  return promising[(SEED + DDIO.indexOf(ddio)) % promising.length]!;
}

function onlyPut({ puts }: Ran): PutResult {
  assert.equal(puts.length, 1);
  return puts[0]!;
}

/** P-41, of the one `put` of a run. */
async function assertSurvival(ran: Ran): Promise<void> {
  const put = onlyPut(ran);
  const survived = await survivorOf(ran, put);
  assert.equal(firstLoss(put, ran.file, survived), undefined, "what was reported survives");
  assert.ok(isReportedOnce(put), "what was reported once is not reported twice");
  for (const row of ran.rows) assert.equal(row.loss, null, "the report agrees");
}

describe("Power failure of real processes", () => {
  let bench: RackBench;

  beforeAll(async () => {
    bench = await RackBench.open();
  });

  afterAll(() => bench.close());

  /** The same power failures at the same instants, in one process: the same digest. */
  async function assertReplays(run: RunOf, ran: Ran): Promise<void> {
    const faults = await recordedFaults(ran);
    assert.ok(faults.length > 0);
    const { midway: _, ...same } = run;
    const replayed = await bench.run({ ...same, faults, packing: "all" });
    assert.equal(replayed.outcome.digest, ran.outcome.digest, JSON.stringify(faults));
    assert.deepEqual(
      replayed.puts.map(({ confirmed }) => confirmed),
      ran.puts.map(({ confirmed }) => confirmed),
    );
  }

  // One method for each flow: what every method promises is cut off at every instant in one process, in
  // `tests/crash/seeded_bugs_test.ts` and `matrix_test.ts`.
  for (const ddio of DDIO) {
    const method = methodOf(ddio);
    const share = 0.25 + 0.5 * rngFor(SEED, `${method} ${ddio}`).below(100) / 100;
    const name = `${method}, DDIO ${ddio}, after ${Math.round(100 * share)} % (seed ${SEED})`;
    it(`P-05, P-41: kill -9 of the responder's process: ${name}`, async () => {
      const run: RunOf = {
        ...PAIR,
        method,
        ddio,
        midway: { share, act: (rack) => killFromOutside(rack, "b") },
      };
      const ran = await bench.run(run);
      assert.deepEqual(lifeLine(ran), ["b died"]);
      const put = onlyPut(ran);
      assert.equal(put.status, "failed");
      assert.ok(put.error, "it says why");
      assert.ok(put.confirmedMessages > 0 && put.confirmedMessages < put.messages);
      await assertSurvival(ran);
      await assertReplays(run, ran);
    });
  }

  it("an order to kill a device is carried out once for its token, and refused without power", async () => {
    const answers: unknown[] = [];
    let isHit = false;
    const run: RunOf = {
      ...PAIR,
      method: "persist-opcode",
      ddio: "on",
      midway: {
        share: 0.4,
        act: async (rack, { directory }) => {
          // A run that was over too soon is tried again.
          answers.length = 0;
          const kill = (node: string, token: string) =>
            rack.control.ask("kill", { node, token }, { repeats: true });
          // Else the requester gives up, and the run is over, before the device is back.
          await rack.control.attempt("pause", {});
          answers.push(await kill("b", "once"));
          await isRecorded(1, { rack, directory });
          answers.push(await kill("b", "twice"), await kill("zz", "other"));
          assert.ok(rack.startPartition("b"));
          await isRecorded(2, { rack, directory });
          // Its answer may have been lost: the process that came after must not be hit.
          answers.push(await kill("b", "once"));
          isHit = !rack.processes().some(({ name, pid }) => name === "b" && pid !== null);
          await rack.control.attempt("resume", {});
        },
      },
    };
    const ran = await bench.run(run);
    const [first, ...others] = answers;
    assert.match((first as { ok: { instance: string } }).ok.instance, /^b-1-/);
    assert.deepEqual(others, [
      { refused: "it has no power" },
      { refused: "there is no device zz" },
      first,
    ]);
    assert.ok(!isHit);
    assert.deepEqual(lifeLine(ran), ["b died", "b started"]);
  });

  it("killed together with the timekeeper: the report says that the run cannot be replayed", async () => {
    const run: RunOf = {
      ...PAIR,
      method: "persist-opcode",
      ddio: "on",
      midway: {
        share: 0.4,
        act(rack) {
          killFromOutside(rack, "timekeeper");
          killFromOutside(rack, "b");
        },
      },
    };
    const { prepared, outcome, rows } = await bench.run(run);
    const outcomes = [{ one: prepared, outcome, rows, protocols: [] }];
    const report = summarise({ id: "x", path: "x", wallMs: 1, nats: true, outcomes });
    const why = "it is unknown how far b had run when it failed";
    assert.deepEqual(report.inexact, [{ variant: prepared.label, why }]);
    const text = `note ${prepared.label} cannot be replayed exactly: ${why}`;
    assert.ok(checksText(report).includes(text), checksText(report).join("\n"));
  });

  it("P-05, P-41: killed and started again: SCM as it was", async () => {
    let copy = "";
    const run: RunOf = {
      ...PAIR,
      method: "persist-opcode",
      ddio: "on",
      midway: {
        share: 0.4,
        act: async (rack, { directory }) => {
          // Else the requester gives up, and the run is over, while the file is being copied.
          await rack.control.attempt("pause", {});
          killFromOutside(rack, "b");
          await isRecorded(1, { rack, directory });
          copy = await copyOfScm(directory, "b");
          assert.ok(rack.startPartition("b"));
          await isRecorded(2, { rack, directory });
          await rack.control.attempt("resume", {});
        },
      },
    };
    const ran = await bench.run(run);
    assert.deepEqual(lifeLine(ran), ["b died", "b started"]);
    const put = onlyPut(ran);
    assert.equal(put.status, "failed");
    assert.ok(put.confirmedMessages > 0 && put.confirmedMessages < put.messages);
    await assertSurvival(ran);
    const atDeath = await readObject(copy, put.object);
    assert.equal(firstLoss(put, ran.file, atDeath), undefined, "right after death as well");
    assert.deepEqual(await survivorOf(ran, put), atDeath, "nobody has written to it since");
    await assertReplays(run, ran);
  });

  const ddio = DDIO[SEED % DDIO.length]!;
  it(`P-01, P-41: kill -9 of a host that loses nothing: its card has what is missing, DDIO ${ddio}`, async () => {
    const share = 0.25 + 0.5 * rngFor(SEED, `wsp ${ddio}`).below(100) / 100;
    const run: RunOf = {
      scenario: `
name: whole-system
hosts: { a: {}, b: { ddio: ${ddio}, domain: wsp, scm: { size: 1MiB } } }
programs: [{ on: a, run: put, to: b, method: write-only, size: 1KiB, depth: 8 }]
`,
      inputBytes: 24 * 1024 - 100,
      delayMsMax: 2,
      midway: { share, act: (rack) => killFromOutside(rack, "b") },
    };
    const ran = await bench.run(run);
    assert.deepEqual(lifeLine(ran), ["b died"]);
    const put = onlyPut(ran);
    assert.equal(put.promises, true);
    assert.ok(put.confirmedMessages > 0 && put.confirmedMessages < put.messages);
    const reports = ran.outcome.finals.flatMap((final) => final.reports);
    assert.ok(reports.some(({ topic }) => topic === "held"), "the card says what it holds");
    const { directory } = ran.outcome;
    const { scmOffset, length } = put.object;
    const survived = survivedView(directory, "b", { held: heldFor("b", reports) })!
      .read(scmOffset, scmOffset + length);
    assert.equal(firstLoss(put, ran.file, survived), undefined);
    for (const row of ran.rows) assert.equal(row.loss, null, "the report agrees");
    await assertReplays(run, ran);
  });

  for (
    const [victim, method] of [["b-rnic", "persist-opcode"], ["tor", "write-send"]] as const
  ) {
    it(`${victim} is killed: put ends with an error, memory lives on, nothing hangs`, async () => {
      const run: RunOf = {
        ...PAIR,
        method,
        ddio: "on",
        midway: { share: 0.3, act: (rack) => killFromOutside(rack, victim) },
      };
      const ran = await bench.run(run);
      assert.deepEqual(lifeLine(ran), [`${victim} died`]);
      assert.equal(onlyPut(ran).status, "failed");
      assert.ok(onlyPut(ran).error);
      await assertSurvival(ran);
      await assertReplays(run, ran);
    });
  }

  it("a machine in one process: its death and return are those of both its nodes", async () => {
    const run: RunOf = {
      ...PAIR,
      method: "persist-address",
      ddio: "on",
      packing: "machine",
      midway: {
        share: 0.3,
        act: async (rack, { directory }) => {
          await rack.control.attempt("pause", {});
          killFromOutside(rack, "b");
          await isRecorded(1, { rack, directory });
          assert.ok(rack.startPartition("b"));
          await isRecorded(2, { rack, directory });
          await rack.control.attempt("resume", {});
        },
      },
    };
    const ran = await bench.run(run);
    assert.deepEqual(lifeLine(ran), ["b died", "b started"]);
    const nodes = (await recordedFaults(ran)).map(({ node }) => node);
    assert.deepEqual(nodes, ["b", "b-rnic", "b", "b-rnic"]);
    assert.equal(onlyPut(ran).status, "failed");
    await assertSurvival(ran);
    await assertReplays(run, ran);
  });
});

/** Waits until so many failures and returns are on record, or the run is over: then they came too late. */
async function isRecorded(
  count: number,
  { rack, directory }: { readonly rack: Supervisor; readonly directory: string },
): Promise<void> {
  let isOver = false;
  const end = () => isOver = true;
  rack.finished.then(end, end);
  await eventually(
    `${count} failures and returns are on record`,
    async () => isOver || (await readRecord(directory)).length >= count,
  );
}

/** A copy of a dead host's SCM file as its next process will find it. */
async function copyOfScm(directory: string, host: string): Promise<string> {
  const [fault] = await readRecord(directory);
  const copy = `${directory}/${host}-at-death.scm`;
  await Deno.copyFile(`${directory}/scm/${host}.scm`, copy);
  for (const beside of ["log", "sums"]) {
    await Deno.copyFile(`${directory}/scm/${host}.scm.${beside}`, `${copy}.${beside}`);
  }
  const { size: bytes } = await Deno.stat(copy);
  const scm = ScmFile.open(copy, { host, bytes });
  scm.settle(fault!.settledSpan);
  scm.close();
  return copy;
}
