/** A run again in one process: the same events as in the run, and what it answers for any instant. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { EXIT } from "../../fabric/base/exit.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { RackError } from "../../console/base/rack_error.ts";
import { bringUp } from "../../console/rack/bring_up.ts";
import { takeRacksDown } from "../../console/rack/live/take_down.ts";
import { linkFaultRequest, orderLinkFault } from "../../console/rack/live/cables.ts";
import {
  awaitService,
  killDevice,
  killService,
  startDevice,
} from "../../console/rack/live/power.ts";
import { eventually } from "../support/eventually.ts";
import { findRun, linkedTo, type RackLink, type RackUp } from "../../console/rack/live/racks.ts";
import { getObject, listObjects, putObject } from "../../console/rack/live/transfer.ts";
import { pause, resume } from "../../console/rack/live/virtual_time.ts";
import { listRuns } from "../../console/rack/run_directory.ts";
import { runScenario } from "../../console/rack/run_scenario.ts";
import type { Checkpoint } from "../../console/replay/checkpoints.ts";
import { Replay } from "../../console/replay/client.ts";
import { compareRuns } from "../../console/replay/compare.ts";
import { resumeRun } from "../../console/replay/resume/resume_run.ts";
import { takeCheckpoint } from "../../console/replay/resume/take_checkpoint.ts";
import type { Loss, Timeline } from "../../console/api/replay.ts";
import { CommandRig } from "../support/command.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

const PAIR = "name: pair\nhosts: { a: {}, b: { ddio: on, scm: { size: 4MiB } } }\nprograms: []\n";
const PUT = "[{ on: a, run: put, to: b, method: write-flush, bytes: 16KiB }]";
const TRANSFER = { timeoutSeconds: 60 };

let rig: CommandRig;
let cache: string | undefined;

beforeAll(async () => {
  rig = await CommandRig.open();
  cache = Deno.env.get("RACKMESH_CACHE");
  Deno.env.set("RACKMESH_CACHE", rig.cache);
});

afterAll(async () => {
  await rig.closeDown();
  if (cache === undefined) Deno.env.delete("RACKMESH_CACHE");
  else Deno.env.set("RACKMESH_CACHE", cache);
});

async function replayed<T>(run: string, ask: (replay: Replay) => Promise<T>): Promise<T> {
  const replay = await Replay.open({ run });
  try {
    return await ask(replay);
  } finally {
    await replay.close();
  }
}

function assertEqual({ exactness }: Timeline): void {
  assert.equal(exactness.state, "equal", JSON.stringify(exactness));
}

describe("Replay of a rack that was up", () => {
  let rack: RackUp;
  let live: Timeline, later: Timeline, ended: Timeline;
  let checkpoint: Checkpoint;
  /** A rack as it stood at the checkpoint; it has one of its own, c1. */
  let resumed: RackUp;
  /** What the timekeeper had left before it ended in order. */
  let onTheWay: string;
  const clockFile = () => `${rack.directory}/clock.json`;
  const content = Uint8Array.from({ length: 20_000 }, (_, i) => (i * 31 + (i >> 8)) % 251 + 1);

  const put = (link: RackLink, name: string) =>
    putObject(link, { ...TRANSFER, to: "b", file: name, content, name, method: "persist-opcode" });

  beforeAll(async () => {
    const scenario = await rig.file("pair.yaml", PAIR);
    rack = await bringUp(await readScenario(scenario), { prepare: { packing: "node" } });
    await linkedTo(rack, async (link) => {
      await put(link, "first");
      await killDevice(link, "b");
      await startDevice(link, "b");
      const lossy = { target: "a", action: "loss", terms: { loss: "2%" } } as const;
      const fault = linkFaultRequest(rack.file.plan, lossy);
      const ordered = await orderLinkFault((verb, body) => link.control.attempt(verb, body), fault);
      assert.ok(ordered !== undefined && "ok" in ordered);
      await put(link, "second");
      // On record, and in no grant: the next timekeeper has to hand it out.
      await pause(link.control);
      const got = getObject(link, {
        ...{ ...TRANSFER, from: "b", object: "second", file: `${rig.cache}/copy`, partial: false },
      });
      await onRecord(3);
      killService(rack, "timekeeper");
      await awaitService(link, "timekeeper");
      await resume(link.control);
      await got;
    });
    assert.deepEqual(await Deno.readFile(`${rig.cache}/copy`), content);
    await replayed(rack.id, async (replay) => {
      live = await replay.timeline();
      checkpoint = (await takeCheckpoint({ run: rack.id, name: "before-ls" })).checkpoint;
      await linkedTo(rack, (link) => listObjects(link, { ...TRANSFER, from: "b" }));
      later = await replay.advance();
    });
    await eventually("the timekeeper says on the way how far the run has come", async () => {
      onTheWay = await Deno.readTextFile(clockFile());
      return JSON.parse(onTheWay).isOnTheWay === true;
    });
    await takeRacksDown({ run: rack.id });
    ended = await replayed(rack.id, (replay) => replay.timeline());
  });

  async function onRecord(count: number): Promise<void> {
    const path = `${rack.directory}/orders.jsonl`;
    while ((await Deno.readTextFile(path)).split("\n").length - 1 < count) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  it("has the run's digests, with orders, a kill, a lossy cable and a killed timekeeper", () => {
    assertEqual(ended);
    assert.deepEqual(ended.orders.map(({ program }) => program), ["put", "put", "get", "list"]);
    assert.deepEqual(ended.faults.map(({ action }) => action), ["kill", "start", "loss"]);
    assert.equal(new Set(ended.orders.map(({ order }) => order)).size, 4, "each was given once");
  });

  it("follows a rack that is up to its present instant, and on when asked", () => {
    assertEqual(live);
    assertEqual(later);
    assert.equal(live.isLive, true);
    assert.ok(later.endPs > live.endPs);
    assert.ok(later.endPs <= ended.endPs);
    assert.equal(later.orders.length, live.orders.length + 1);
  });

  it("is brought up again as processes at a checkpoint, and goes on with a record of its own", async () => {
    assert.equal((await findRun(rack.id)).mark, "", "a run with a checkpoint is kept");
    const { rack: again, at, digest, events } = await resumeRun(rack.id, { at: "before-ls" });
    assert.deepEqual([at, events], [checkpoint.at, checkpoint.events]);
    assert.equal(digest, checkpoint.digest);
    const next = await linkedTo(again, async (link) => {
      const { paused, standsAt, ordersFrom } = await link.control.status();
      assert.ok(paused && standsAt! <= at);
      await resume(link.control);
      await getObject(link, {
        ...{ ...TRANSFER, from: "b", object: "second", file: `${rig.cache}/again`, partial: false },
      });
      await killDevice(link, "b");
      return ordersFrom;
    });
    const { checkpoint: second } = await takeCheckpoint({ run: again.id });
    resumed = again;
    await takeRacksDown({ run: again.id });
    assert.deepEqual(await Deno.readFile(`${rig.cache}/again`), content);
    const timeline = await replayed(again.id, (replay) => replay.timeline());
    assertEqual(timeline);
    assert.deepEqual(timeline.orders.map(({ program }) => program), ["put", "put", "get", "get"]);
    assert.equal(timeline.orders.at(-1)!.order, next, "its number is behind all on record");
    assert.deepEqual(timeline.faults.map(({ action }) => action), [
      "kill",
      "start",
      "loss",
      "kill",
    ]);
    assert.ok(second.name === "c1" && second.at > at);
  });

  it("deletes a checkpoint by the command, which says that the run stays kept", async () => {
    const run = resumed.id, remove = ["checkpoint", run, "--delete", "c1"];
    assert.equal(
      await rig.must(remove),
      `c1 of ${run} is deleted\nnext   rack runs release ${run}, or it stays\n`,
    );
    const again = await rig.run(remove);
    assert.equal(again.code, EXIT.usage);
    assert.match(
      again.stderr,
      /The checkpoint is "c1": expected one that rack checkpoint has made/,
    );
    const both = await rig.run([...remove, "--list"]);
    assert.match(both.stderr, /--list and --delete: expected one of them/);
    assert.equal((await findRun(run)).mark, "");
  });

  it("says up to where it is compared, of a run whose timekeeper was killed with it", async () => {
    const text = await Deno.readTextFile(clockFile());
    const exactness = async (end: string) => {
      await Deno.writeTextFile(clockFile(), end);
      return (await replayed(rack.id, (replay) => replay.timeline())).exactness;
    };
    const { state, ...rest } = await exactness(onTheWay);
    assert.equal(state, "unknown");
    assert.match(JSON.stringify(rest), /killed with it: the replay is compared .* up to [\d.]+ ms/);
    const other = onTheWay.replace(/(\["b-rnic",)"\w+"/, '$1"0123"');
    await assert.rejects(exactness(other), /Found other events on b-rnic .*expected 0123$/);
    await Deno.writeTextFile(clockFile(), text);
  });

  it("names the device whose events are others than the run's", async () => {
    const path = clockFile(), text = await Deno.readTextFile(path);
    const end = JSON.parse(text);
    const of = (name: string) =>
      end.partitions.find(({ partition }: { partition: string }) => partition === name);
    of("b-rnic").nodes[0][1] = "0123456789abcdef";
    await Deno.writeTextFile(path, JSON.stringify(end));
    await assert.rejects(Replay.open({ run: rack.id }), (error) => {
      assert.ok(error instanceof RackError);
      assert.match(
        error.message,
        /^Found other events on b-rnic .* by .*expected 0123456789abcdef/,
      );
      return true;
    });
    await Deno.writeTextFile(path, text);
  });

  it("brings up no rack at a checkpoint with other digests, nor at an instant that is not known", async () => {
    const path = `${rack.directory}/checkpoints/before-ls.json`;
    const text = await Deno.readTextFile(path), nodes = checkpoint.nodes.with(0, ["a", "00"]);
    await Deno.writeTextFile(path, JSON.stringify({ ...checkpoint, nodes }));
    const runs = (await listRuns()).length;
    await assert.rejects(
      resumeRun(rack.id, { at: "before-ls" }),
      /^RackError: Found other events on a /,
    );
    await Deno.writeTextFile(path, text);
    const late =
      /^Refusal: The instant is 1 s: expected an instant up to .* as far as the run is known/;
    await assert.rejects(resumeRun(rack.id, { at: 1e12 }), late);
    await assert.rejects(takeCheckpoint({ run: rack.id }), /is not up: expected --at/);
    assert.equal((await listRuns()).length, runs, "nothing is left of them");
  });

  it("refuses a run that cannot be replayed exactly, with the reason", async () => {
    const path = `${rack.directory}/inexact.jsonl`;
    await Deno.writeTextFile(path, JSON.stringify("b lost messages with the process of a") + "\n");
    await assert.rejects(Replay.open({ run: rack.id }), (error) => {
      assert.ok(error instanceof Refusal);
      assert.match(error.message, /cannot be replayed exactly: b lost messages/);
      return true;
    });
    await assert.rejects(resumeRun(rack.id, { at: 1 }), /cannot be replayed exactly: b lost/);
    await Deno.remove(path);
  });
});

describe("Replay of a run of processes", () => {
  it("finds what was lost when the power went, and what was promised", async () => {
    const scenario = await rig.file(
      "cut.yaml",
      "name: cut\nhosts: { a: {}, b: { ddio: on, scm: { size: 4MiB } } }\n" +
        "programs:\n  - { on: a, run: put, to: b, method: write-flush, bytes: 64KiB, depth: 4 }\n" +
        "faults: [{ at: 205us, kill: b }]\n",
    );
    const report = await runScenario(await readScenario(scenario), {
      prepare: { packing: "node" },
    });
    await replayed(report.run, async (replay) => {
      const timeline = await replay.timeline();
      assertEqual(timeline);
      const { exactness, faults: [kill], promises, endPs } = timeline;
      assert.equal(exactness.state === "equal" && exactness.digest, report.digest);
      assert.deepEqual(kill, { at: 205_000_000, action: "kill", nodes: ["b"] });
      assert.ok(promises.length > 0);
      const loss = await replay.loss(kill!.at, ["b"]);
      assertAdded(loss);
      assert.ok(loss.lostBytes > 0, loss.text);
      assert.deepEqual([loss.byStanding.promised, loss.broken], [0, []]);
      const promised = promises.filter(({ at }) => at < kill!.at);
      const bytes = promised.reduce((sum, { from, to }) => sum + to - from, 0);
      assert.equal(loss.keptPromisedBytes, bytes);
      const after = await replay.loss(endPs, ["b"]);
      assert.deepEqual([loss.happened, after.happened, after.at], [false, true, kill!.at]);
      assert.deepEqual(
        { ...after, text: loss.text, happened: false },
        loss,
        "of the cut that has happened",
      );
      const { cut, lines } = await replay.memory(endPs, { host: "b", from: 0, to: 4 << 20 });
      const lost = lines.flatMap(({ spans }) => spans).filter((span) => span.lost !== undefined);
      assert.equal(lost.reduce((sum, { from, to }) => sum + to - from, 0), loss.lostBytes);
      assert.deepEqual(new Set(lost.map((span) => span.lost!.at)), new Set([kill!.at]));
      assert.equal(cut!.at, kill!.at);
      assert.ok(cut!.lines > 0);
      const { devices, programs } = await replay.snapshot(kill!.at + 1, { exact: true });
      assert.equal(devices.find(({ node }) => node === "b")!.hasPower, false);
      assert.ok(programs!.every(({ host }) => host === "a"));
    });
  });

  function assertAdded({ lostBytes, byPlace, byStanding, lost }: Loss): void {
    const sum = (counts: Iterable<number>) => [...counts].reduce((all, count) => all + count, 0);
    assert.equal(sum(Object.values(byPlace)), lostBytes);
    assert.equal(sum(Object.values(byStanding)), lostBytes);
    assert.equal(sum(lost.map(({ from, to }) => to - from)), lostBytes);
  }
});

describe("compareRuns", () => {
  it("finds the first instant at which two runs differ, and none where a run is compared with itself", async () => {
    const runs = [];
    for (const put of [PUT, PUT, PUT.replace("16KiB", "20KiB")]) {
      const scenario = await rig.file("pair.yaml", PAIR.replace("[]", put));
      runs.push(
        (await runScenario(await readScenario(scenario), { prepare: { packing: "all" } })).run,
      );
    }
    const replays = await Promise.all(runs.map((run) => Replay.open({ run })));
    try {
      const [first, again, other] = replays as [Replay, Replay, Replay];
      const same = await compareRuns(first, again);
      assert.deepEqual([same.isSame, same.first, same.figures], [true, null, []]);
      const { isSame, first: parting, figures, configuration } = await compareRuns(first, other);
      assert.ok(!isSame && parting !== null && figures.length > 0);
      assert.deepEqual([same.configuration, configuration], [[], [
        { what: "a: put#1, bytes", here: "16384", there: "20480" },
      ]]);
      for (const rows of [parting.here, parting.there]) {
        assert.ok(rows.some(({ time }) => time >= parting.at), "each side does something there");
        assert.ok(rows.every(({ node }) => parting.nodes.includes(node)));
      }
      const { at, nodes } = parting;
      assert.ok(nodes.length > 0);
      assert.notDeepEqual(
        await first.ask("digestsIn", at, at + 1),
        await other.ask("digestsIn", at, at + 1),
      );
      assert.deepEqual(await first.ask("digestsIn", 0, at), await other.ask("digestsIn", 0, at));
    } finally {
      for (const replay of replays) await replay.close();
    }
  });
});

describe("Replay of an own program in one process", () => {
  it("has the run's digest and its reports", async () => {
    await rig.file(
      "own.ts",
      "let calls = 0;\nexport default function* ({ cpu }) {\n  yield* cpu.sleep(1000 * cpu.random());\n" +
        "  cpu.report('result', { calls: ++calls, at: cpu.now });\n}\n",
    );
    const scenario = await rig.file(
      "own.yaml",
      "name: own\nhosts: { a: {}, b: {} }\nprograms: [{ on: a, program: ./own.ts }]\n",
    );
    const report = await runScenario(await readScenario(scenario), { prepare: { packing: "all" } });
    await replayed(report.run, async (replay) => {
      const timeline = await replay.timeline();
      assertEqual(timeline);
      const { exactness, reports: [first] } = timeline;
      assert.equal(exactness.state === "equal" && exactness.digest, report.digest);
      assert.match(first!.text, /"calls":1/);
    });
  });

  it("P-04: shows where the bytes of a write without a promise are, and at which steps it was", async () => {
    const pair = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
    const input = await rig.file("in.bin", new Uint8Array(16_384).fill(7));
    const prepare = { packing: "all", method: "write-only", ddio: "on", input } as const;
    const report = await runScenario(await readScenario(pair), { prepare });
    await Deno.remove(input);
    await replayed(report.run, async (replay) => {
      const { endPs, promises } = await replay.timeline();
      assert.ok(
        promises.length === 4 && promises.every(({ promised }) => !promised),
        "claims only",
      );
      const { operations } = await replay.operations();
      const [first] = operations;
      assert.equal(operations.length, 4);
      const ladder = await replay.ladder(first!.index);
      assert.deepEqual(ladder.columns, ["a", "a-rnic", "tor", "b-rnic", "b"]);
      const places = new Map<string, number>();
      for (
        let at = first!.startPs;
        at <= Math.min(endPs, first!.startPs + 10_000_000);
        at += 50_000
      ) {
        const { lines } = await replay.memory(at, { host: "b", from: 65_536, to: 69_632 });
        for (const { spans } of lines) {
          for (const { place, write, from, to } of spans) {
            if (write !== undefined) places.set(place, (places.get(place) ?? 0) + to - from);
          }
        }
      }
      // A line whose ways others take is written back; nothing else is by itself.
      const medium = places.get("medium") ?? 0;
      assert.ok(medium < 0.1 * places.get("llc")!, `${medium} B of ${places.get("llc")} B`);
      places.delete("medium");
      const seen = [...places.keys()].sort();
      assert.deepEqual(seen, ["bus", "card", "iio", "in-flight", "llc"], "on its whole way");
      const { rows, split } = await replay.events({ at: first!.startPs, before: 3, after: 3 });
      assert.deepEqual([rows.length, split], [6, 3]);
      assert.ok(rows.slice(0, split).every(({ time }) => time < first!.startPs));
      await assert.rejects(replay.snapshot(endPs + 1e9), /an instant in ps, from 0 to/);
      await assert.rejects(replay.loss(1, ["zz"]), /"zz"/);
      await assert.rejects(replay.memory(1, { host: "b", from: 9, to: 9 }), /9 to 9/);
    });
  });
});
