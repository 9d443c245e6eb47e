/** What is noted of a run and checked at its end: alike however it is packed, and of the dead as well. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import type { TimedRecord } from "../../fabric/audit.ts";
import { EXPECTATIONS, METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { checkAll, CHECKERS } from "../../console/checks/all.ts";
import { findingsText } from "../support/sound.ts";
import { notedWrites } from "../../console/checks/noted_writes.ts";
import { persistence } from "../../console/checks/persistence.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";
import { CommandRig } from "../support/command.ts";
import type { MethodRow } from "../../console/reports/method_row.ts";
import { RackBench, type Ran } from "../support/process_rack.ts";
import { withBytes } from "../support/seen_run.ts";

const PAIR = new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url);
const TRANSFER = { scenario: PAIR, inputBytes: 16 * 1024 - 100, size: 1024, depth: 4 };

function recordOf({ outcome }: Ran): RunRecord {
  assert.ok(outcome.record !== undefined, "The bench records every run");
  return outcome.record;
}

/** A copy of the notes that two runs can be compared by: those of each node, in its order. */
function notesOf(ran: Ran): TimedRecord[] {
  const { notes, plan } = recordOf(ran);
  const byNode = Map.groupBy(notes, ({ node }) => node);
  return plan.nodes.flatMap(({ name }) => byNode.get(name) ?? []).map(({ note, ...rest }) => ({
    ...rest,
    note: note.kind === "writes" ? { ...note, bytes: Uint8Array.from(note.bytes) } : note,
  }));
}

/** The same run, of which one byte of `host` is not what it was. */
function withByteChanged(
  run: RunRecord,
  { host, at }: { readonly host: string; readonly at: number },
): RunRecord {
  const [byte] = run.scm(host)!.read(at, at + 1);
  return withBytes(run, { host, at, bytes: Uint8Array.of(byte! ^ 0xff) });
}

describe("P-41: what is noted of a run", () => {
  let bench: RackBench;

  beforeAll(async () => {
    bench = await RackBench.open();
  });

  afterAll(() => bench.close());

  it("does not depend on how it is packed", async () => {
    const of = { ...TRANSFER, method: "write-send", ddio: "on" } as const;
    const whole = await bench.run({ ...of, packing: "all" });
    const packed = notesOf(whole), { reports } = recordOf(whole);
    assert.ok(packed.some(({ note }) => note.kind === "persistent"));
    const topics = new Set(reports.map(({ topic }) => topic));
    for (const topic of ["progress", "result", "served"]) assert.ok(topics.has(topic), topic);
    for (const packing of ["node", "machine"] as const) {
      const ran = await bench.run({ ...of, packing });
      assert.deepEqual(notesOf(ran), packed, packing);
      assert.deepEqual(recordOf(ran).reports, reports, packing);
    }
  });

  for (const method of METHODS) {
    it(`${method}: agrees with what put reports in the end`, async () => {
      for (const ddio of ["off", "on"] as const) {
        const ran = await bench.run({ ...TRANSFER, method, ddio, packing: "all" });
        const [put] = ran.puts;
        assert.ok(put !== undefined && put.confirmedMessages === (put.promises ? 16 : 0));
        const writes = notedWrites(recordOf(ran).notes, { ...recordOf(ran), claims: false });
        assert.equal(writes.length, put.messages);
        const { scmOffset } = put.object;
        const promised = writes.filter((write) => write.promised !== undefined);
        const bytes = promised.reduce((sum, { from, to }) => sum + to - from, 0);
        const confirmed = put.confirmed.reduce((sum, [from, to]) => sum + to - from, 0);
        assert.equal(bytes, confirmed);
        for (const write of writes) {
          const from = write.from - scmOffset;
          assert.deepEqual(write.bytes, ran.file.subarray(from, write.to - scmOffset));
        }
      }
    });
  }

  it("is known of a requester that was killed before it could report anything", async () => {
    const ran = await bench.run({
      ...TRANSFER,
      method: "persist-opcode",
      ddio: "on",
      delayMsMax: 2,
      midway: { share: 0.5, act: (rack) => void rack.kill("a") },
    });
    assert.deepEqual(ran.puts, [], "it reports nothing");
    const record = recordOf(ran);
    const promised = notedWrites(record.notes, { ...record, claims: false })
      .filter((write) => write.promised !== undefined);
    assert.ok(promised.length >= 4 && promised.length < 16, `${promised.length} promises`);
    assert.equal(findingsText(checkAll(record)), "");
    for (const { on: host, from } of promised) {
      const broken = persistence.check(withByteChanged(record, { host, at: from }));
      assert.equal(broken.length, 1, "each of them is held to be kept");
    }
  });
});

describe("P-41: rack run", () => {
  let rig: CommandRig;

  beforeAll(async () => {
    rig = await CommandRig.open();
  });

  afterAll(() => rig.close());

  interface Check {
    readonly name: string;
    readonly holds: boolean;
    readonly looked: readonly string[];
    readonly detail: string;
  }

  async function checksOf(scenario: string, pack: string) {
    const { code, stdout, stderr } = await rig.run(["run", scenario, "--pack", pack, "--json"]);
    assert.notEqual(stdout, "", stderr);
    const { checks } = JSON.parse(stdout) as { checks: Check[] };
    return { code, checks: new Map(checks.map((check) => [check.name, check])) };
  }

  it("says what it has checked", async () => {
    const scenario = new URL("../../scripts/scenarios/rack_8.yaml", import.meta.url).pathname;
    const { code, checks } = await checksOf(scenario, "all");
    assert.equal(code, 0);
    // Promises that the run is not about, of shared regions, are left out.
    const { concerned = [], others = [] } = Object.groupBy(
      CHECKERS,
      ({ concerns }) => concerns === undefined ? "concerned" : "others",
    );
    const names = concerned.map(({ name }) => name);
    assert.deepEqual([...checks.keys()], [...names, "programs-run-through"]);
    assert.equal(names.length + others.length, EXPECTATIONS.length);
    assert.deepEqual(checks.get(persistence.name)?.looked, ["128 writes, 128 promised"]);
    for (const name of names) assert.equal(checks.get(name)?.holds, true, name);
  });

  it("calls nothing lost where a later object has the place of one that was replaced", async () => {
    const puts = [1, 2, 3].map((number) =>
      `{ on: a, run: put, to: b, file: ${number}.bin, name: x, at: ${number}ms, method: write-send }`
    );
    for (const number of [1, 2, 3]) {
      await rig.file(`${number}.bin`, new Uint8Array(4096).fill(number));
    }
    const scenario = await rig.file(
      "replaced.yaml",
      `name: replaced\nhosts: { a: {}, b: {} }\nprograms: [${puts}]\n`,
    );
    const { code, stdout, stderr } = await rig.run(["run", scenario, "--pack", "all", "--json"]);
    assert.equal(code, 0, stderr);
    const { methods } = JSON.parse(stdout) as { methods: readonly MethodRow[] };
    assert.deepEqual(
      methods.map((
        { promises, confirmed, intact, replaced, loss },
      ) => [promises, confirmed, intact, replaced, loss]),
      [[true, 1, false, true, null], [true, 1, true, true, null], [true, 1, true, undefined, null]],
    );
  });

  it("fails where the scenario expects a check to be about something, and it is not", async () => {
    const scenario = await rig.file(
      "nothing.yaml",
      "name: nothing\nhosts: { a: {}, b: {} }\nexpect: [survives-what-was-reported]\n" +
        "programs: [{ on: a, run: put, to: b, bytes: 4KiB, method: write-only }]\n",
    );
    const { code, checks } = await checksOf(scenario, "all");
    assert.equal(code, 1);
    assert.deepEqual([...checks.values()].filter(({ holds }) => !holds).map(({ name }) => name), [
      persistence.name,
    ]);
    assert.match(checks.get(persistence.name)!.detail, /expects it to examine something: no write/);
    const chosen = await rig.run(["run", scenario, "--pack", "all", "--ddio", "off"]);
    assert.equal(chosen.code, 0, "another run than the scenario's own");
  });

  it("fails where a program was promised what is not there, in one process and in many", async () => {
    await rig.file(
      "liar.ts",
      `export default function* ({ cpu }) {
        const bytes = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
        cpu.note({ kind: "writes", id: 0, on: "b", at: 1 << 20, bytes });
        bytes.fill(0);
        yield* cpu.sleep(1_000_000);
        cpu.note({ kind: "persistent", id: 0, promised: true });
      }`,
    );
    const scenario = await rig.file(
      "liar.yaml",
      "name: liar\nhosts: { a: {}, b: {} }\nprograms: [{ on: a, run: ./liar.ts }]\n",
    );
    for (const pack of ["all", "node"]) {
      const { code, checks } = await checksOf(scenario, pack);
      assert.equal(code, 1);
      const { holds, detail, looked } = checks.get(persistence.name)!;
      assert.equal(holds, false);
      assert.match(
        detail,
        /b: SCM at 0x100000 is lost: write 0 of a\/0\/\.\/liar\.ts#\d was confirmed/,
      );
      assert.deepEqual(looked, ["1 write, 1 promised"]);
      assert.equal(checks.get("completes-once-in-order")?.holds, true);
    }
  });
});
