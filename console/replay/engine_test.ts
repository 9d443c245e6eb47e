import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { TimedRecord } from "../../fabric/audit.ts";
import { NEVER } from "../../fabric/base/time.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { type EngineOptions, ReplayEngine } from "./engine.ts";
import type { ReplayJob } from "./job.ts";
import { type Loaded, Recording } from "./recording.ts";
import { Spool } from "./spool.ts";
import type { OperationRow, OperationsQuery } from "../api/replay.ts";
import { COPY_PLACES } from "../api/replay_terms.ts";

const SCENARIO = "name: pair\nhosts: { a: {}, b: { ddio: on, scm: { size: 4MiB } } }\n" +
  "programs:\n  - { on: a, run: put, to: b, method: write-flush, bytes: 256KiB, depth: 4 }\n" +
  "faults: [{ link: a-rnic/tor, loss: all, from: 1us, until: 2us }, { at: 320us, kill: b }, { at: 340us, start: b }]\n";
const LOADED: Loaded = { own: {}, inputs: new Map(), replace: (create) => create };

async function engineOf(
  scenario: string,
  options: EngineOptions = {},
  { orders = [], until = null }: Partial<Pick<ReplayJob, "orders" | "until">> = {},
): Promise<ReplayEngine> {
  const engine = new ReplayEngine({ ...jobOf(scenario), orders, until }, LOADED, options);
  await engine.run(until, () => {});
  return engine;
}

function jobOf(scenario: string): ReplayJob {
  const plan = makePlan(variants(parseScenario(scenario, "test.yaml"))[0]!);
  const job: Omit<ReplayJob, "runFile"> = {
    ...{ run: "test", variant: "", plan, orders: [], known: [], until: null },
    ...{ unknownEnd: "", expectedPs: null, isLive: false },
  };
  // Only the process reads the run file.
  return job as ReplayJob;
}

describe("ReplayEngine", () => {
  it("answers of any instant what it would with all details kept, in bounded memory", async () => {
    const all = await engineOf(SCENARIO),
      few = await engineOf(SCENARIO, { detailBytes: 1 << 20 });
    const { kept: _, ...timeline } = all.timeline();
    const { kept, ...same } = few.timeline();
    assert.ok(kept.detailFromPs > 260e6, "the first pass has forgotten most of it");
    assert.deepEqual(same, timeline);
    const [loss] = timeline.faults;
    assert.deepEqual([loss?.action, loss?.at, loss?.until], ["loss", 1e6, 2e6]);
    // To and fro; the last ones are those that the first pass still has.
    for (const us of [255, 215, 320, 8_000]) {
      const at = Math.min(us * 1e6, timeline.endPs);
      const ask = async (engine: ReplayEngine) => {
        const loss = await engine.loss(at, ["b"]), from = (loss.lost[0]?.from ?? 96 << 10) - 8_192;
        const { lines, writes } = await engine.memory(at, { host: "b", from, to: from + 20_480 });
        const operations = engine.operations({ from: at, to: at + 1 });
        const [first] = operations.operations;
        const { rows } = first === undefined ? { rows: [] } : await engine.ladder(first.index);
        return {
          memory: [lines, writes],
          snapshot: await engine.snapshot(at, { exact: false }),
          loss,
          events: await engine.eventsAround({ at, before: 40, after: 40 }),
          found: await engine.find({ after: at, step: "write-ack", node: "b-rnic" }),
          operations,
          // What was posted long before is another stretch's where stretches are as short as here.
          ladder: rows.filter(({ sincePs }) => sincePs >= 0 && sincePs < 20e6),
        };
      };
      assert.deepEqual(await ask(few), await ask(all), `at ${us} us`);
      const { detailBytes } = few.timeline().kept;
      assert.ok(detailBytes <= 1 << 20, `${detailBytes} B of both passes at ${us} us`);
    }
    await assertMapped(all, 255e6);
    // A search goes through all stretches.
    const search = { at: 0, before: 0, after: 500, text: "is persistent" };
    const texts = (await all.eventsAround(search)).rows;
    assert.ok(texts.length > 60 && texts.every(({ text }) => /is persistent/.test(text)));
    assert.deepEqual(await few.eventsAround(search), {
      ...{ rows: texts, split: 0, fromPs: 0, toPs: null },
    });
    const some = await few.eventsAround({ ...search, after: 3 });
    assert.deepEqual(some.rows, texts.slice(0, some.rows.length));
    assert.equal(some.toPs, some.rows.at(-1)!.time + 1);
    assertFiltered(all);
    const half = SCENARIO.replace(/\{ at: 320us.*/, "{ at: 240us, kill: b }]\n");
    const statuses = (engine: ReplayEngine) => {
      const of = (status: OperationRow["status"]) => engine.operations({ status }).total;
      return { open: of("open"), completed: of("completed"), failed: of("failed") };
    };
    // While b has no power no request completes; then retries are exhausted, and the program takes
    // no further completions.
    const during = statuses(await engineOf(half, {}, { until: 260e6 }));
    assert.ok(during.open === 4 && during.failed === 0, JSON.stringify(during));
    const after = statuses(await engineOf(half));
    assert.deepEqual([after.completed, after.open + after.failed], [during.completed, during.open]);
    assert.ok(after.failed > 0 && after.open > 0, JSON.stringify(after));
    // Counted over more than is kept at once; with DDIO on the card traces it by its number in figure 3.
    const query = { step: "S205", count: 30 }, counted = await all.find(query);
    assert.deepEqual([counted!.node, counted!.name], ["b-rnic", "S305"]);
    assert.deepEqual(await few.find(query), counted);
    assert.equal(await few.find({ ...query, atPs: counted!.time }), null);
    await assert.rejects(few.find({ step: "no-step" }), /"no-step": expected one of S201–S214, /);
    await assert.rejects(few.find({ step: "nak", node: "c" }), /device "c": expected one of a, /);
  });

  it("holds no byte of a write that has landed or was lost: it reads them where they are kept", async () => {
    const path = await Deno.makeTempFile();
    using file = await Deno.open(path, { read: true, write: true });
    await Deno.remove(path);
    const spool = new Spool(file, { cacheBytes: 16 << 10 }), loaded = { ...LOADED, spool };
    const recording = new Recording(jobOf(SCENARIO), loaded, {});
    while (recording.advance(NEVER));
    const { writes } = recording.memory.get("b")!;
    assert.equal(writes.reduce((sum, { landing }) => sum + landing.heldBytes, 0), 0);
    const notes = recording.notes.filter(({ note }) => note.kind === "writes");
    const ownBytes = ({ note }: TimedRecord) =>
      Object.getOwnPropertyDescriptor(note, "bytes")!.value?.length ?? 0;
    assert.equal(notes.reduce((sum, each) => sum + ownBytes(each), 0), 0);
    assert.equal(spool.bytes.kept, writes.reduce((sum, { landing }) => sum + landing.length, 0));
    assert.ok(spool.bytes.kept >= 256 << 10, `${spool.bytes.kept} B`);
    const answers = async (engine: ReplayEngine) => {
      await engine.run(null, () => {});
      const range = { host: "b", from: 64 << 10, to: 160 << 10 };
      return await Promise.all([255e6, 320e6, 345e6].map((at) => engine.memory(at, range)));
    };
    const job = jobOf(SCENARIO);
    assert.deepEqual(
      await answers(new ReplayEngine(job, loaded)),
      await answers(new ReplayEngine(job, LOADED)),
    );
    assert.ok(spool.bytes.cached <= 16 << 10, `${spool.bytes.cached} B in memory`);
  });

  it("looks programs' waits up in turns, and only where asked to beyond so many events", async () => {
    const engine = await engineOf(SCENARIO, { waitsEvents: 100 }), at = 255e6;
    const told: number[] = [];
    await engine.run(null, ({ atPs }) => void told.push(atPs));
    const some = await engine.programs(at, {});
    assert.equal(some.isWhole, false);
    assert.ok(some.programs.every(({ state }) => state !== "waits"));
    const all = await engine.programs(at, { exact: true });
    assert.equal(all.isWhole, true);
    assert.deepEqual(
      all.programs.filter(({ state }) => state === "waits").map(({ host }) => host),
      [
        "a",
      ],
    );
    const { endPs } = engine.timeline();
    // The first pass stands there: no other one is needed.
    assert.equal((await engine.programs(endPs, {})).isWhole, true);
    assert.deepEqual(
      await engine.programs(endPs, {}),
      await (await engineOf(SCENARIO)).programs(endPs, { exact: true }),
    );
  });

  it("ends in a sentence where the process would hold more memory than it may", async () => {
    // Of every process: it is found at the first turn, which a small run may not come to.
    const engine = new ReplayEngine(jobOf(SCENARIO), LOADED, { residentBytes: 1 });
    await assert.rejects(
      engine.run(null, () => {}),
      /needs more than 1 B of memory, the most: it was ended at .* after \d+ events/,
    );
  });

  it("lists the latest thousand orders in a time line, and says how many were before them", async () => {
    const program = { run: "list", at: 0, service: false, options: { from: "b" } };
    const orders = Array.from({ length: 1_200 }, (_, counter) => {
      return { time: 1e9 + counter, host: "a", life: 0, counter, program };
    });
    const timeline = (await engineOf(SCENARIO, {}, { orders, until: 1_000 })).timeline();
    assert.deepEqual([timeline.orders.length, timeline.moreOrders], [1_000, 200]);
    assert.equal(timeline.orders.at(-1)!.order, 1_199);
  });
});

/** Parts of a range say of its lines what they say one by one. */
/** Each filter has what fits, all of it, and nothing else; the run's kinds and hosts are all there. */
function assertFiltered(engine: ReplayEngine): void {
  const { operations, total, all, nodes, kinds } = engine.operations({ most: 1_000 });
  assert.deepEqual([total, all, nodes, kinds], [64, 64, ["a"], ["write"]]);
  const took = ({ startPs, endPs }: OperationRow) => endPs - startPs;
  const middle = operations.map(took).sort((x, y) => x - y)[32]!;
  const cases: [OperationsQuery, (row: OperationRow) => boolean][] = [
    [{ status: "completed" }, ({ status }) => status === "completed"],
    [{ status: "failed" }, ({ status }) => status === "failed"],
    [{ status: "open" }, ({ status }) => status === "open"],
    [{ kind: "write" }, () => true],
    [{ kind: "read" }, () => false],
    [{ on: "b" }, () => false],
    [{ minPs: middle }, (row) => took(row) >= middle],
    [{ maxPs: middle - 1 }, (row) => took(row) < middle],
    [{ text: "MESSAGE 7 " }, ({ text }) => text.includes("message 7 ")],
  ];
  for (const [query, fits] of cases) {
    const found = engine.operations({ ...query, most: 1_000 });
    assert.deepEqual(found.operations, operations.filter(fits), JSON.stringify(query));
    assert.equal(found.total, found.operations.length);
  }
  const page = engine.operations({ sort: "duration", skip: 2, most: 3 });
  const longest = operations.toSorted((x, y) => took(y) - took(x) || x.index - y.index);
  assert.deepEqual(page.operations, longest.slice(2, 5));
  assert.deepEqual([page.total, page.more], [64, 59]);
}

async function assertMapped(engine: ReplayEngine, at: number): Promise<void> {
  const range = { host: "b", from: 65_536 + 192, to: 65_536 + (200 << 10) };
  const { lines, moreLines } = await engine.memory(at, range);
  const { parts, partBytes } = await engine.memoryMap(at, { ...range, parts: 20 });
  assert.equal(moreLines, 0);
  assert.ok(parts.length > 10 && parts.length <= 20 && partBytes % 64 === 0);
  for (const { from, to, lines: count, lost, torn, byPlace } of parts) {
    const own = lines.filter(({ at }) => at >= from && at < to);
    assert.equal(count, own.length);
    assert.equal(lost, own.filter(({ spans }) => spans.some(({ survives }) => !survives)).length);
    assert.equal(torn, own.filter(({ torn }) => torn).length);
    for (const place of COPY_PLACES) {
      const farthest = own.filter(({ spans }) =>
        place === COPY_PLACES.find((each) => spans.some(({ place }) => place === each))
      );
      assert.equal(byPlace[place], farthest.length, `${place} in [${from}, ${to})`);
    }
  }
  const whole = await engine.memoryMap(at, { host: "b", from: 0, to: 4 << 20, parts: 1 });
  assert.ok(whole.parts.length === 1 && whole.parts[0]!.lost > 0);
}
