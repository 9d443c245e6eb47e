import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import type { Planned } from "../interleavings/interleavings.ts";
import type { StepWorker } from "./deal.ts";
import { NOTHING, type StepFound } from "./judge_steps.ts";
import { ExploreMemory, nameOfRack, remembering } from "./memory.ts";

const COST = 3;

/** Judges up to `most` steps at a time, and notes what it is asked. */
function worker(asked: unknown[], most = Infinity): StepWorker {
  const found: StepFound = { ...NOTHING, again: { ...NOTHING.again, cost: COST } };
  return {
    open: () => Promise.reject(new Error("Found an opening: expected steps")),
    turn(planned) {
      asked.push(planned);
      return Promise.resolve({
        runs: 1,
        isTurned: true,
        holds: [],
        found: null,
        counterexample: null,
      });
    },
    disturb(disturbance) {
      asked.push(disturbance);
      return Promise.resolve({ key: "k", judged: null });
    },
    judge({ from, to, spent }) {
      asked.push([from, to, spent]);
      return Promise.resolve(Array.from({ length: Math.min(most, to - from) }, () => found));
    },
    stop() {},
  };
}

const PLANNED = { holds: [] } as unknown as Planned;
const STALL = { at: 1, kind: "k", stall: { node: "b", by: "b/0/p", number: 1, ps: 5, at: 1 } };

describe("what an exploration remembers", () => {
  let folder: string, path: string;

  beforeEach(async () => {
    folder = await Deno.makeTempDir({ prefix: "rackmesh-memory-" });
    path = `${folder}/found.jsonl`;
  });
  afterEach(() => Deno.remove(folder, { recursive: true }));

  it("is asked of nobody again, in another process", async () => {
    const asked: unknown[] = [];
    const first = new ExploreMemory(path);
    const before = remembering(worker(asked, 2), { memory: first, rack: "r" });
    equal((await before.judge({ sweep: 0, from: 0, to: 4, spent: 0 })).length, 2);
    const [turned, disturbed] = [await before.turn(PLANNED), await before.disturb(STALL)];
    first.close();
    asked.length = 0;
    const second = new ExploreMemory(path);
    equal(second.size, 4);
    const after = remembering(worker(asked), { memory: second, rack: "r" });
    equal((await after.judge({ sweep: 0, from: 0, to: 4, spent: 0 })).length, 4);
    same(asked, [[2, 4, 2 * COST]], "the rest, with what the first two have cost");
    same([await after.turn(PLANNED), await after.disturb(STALL)], [turned, disturbed]);
    equal(asked.length, 1);
    second.close();
  });

  it("is not taken for that of another rack, sweep, or cost so far", async () => {
    const asked: unknown[] = [];
    const memory = new ExploreMemory(path);
    const own = remembering(worker(asked), { memory, rack: "r" });
    await own.judge({ sweep: 0, from: 0, to: 1, spent: 0 });
    await own.judge({ sweep: 1, from: 0, to: 1, spent: 0 });
    await own.judge({ sweep: 0, from: 0, to: 1, spent: COST });
    await remembering(worker(asked), { memory, rack: "s" })
      .judge({ sweep: 0, from: 0, to: 1, spent: 0 });
    equal(asked.length, 4);
    memory.close();
  });

  it("keeps no failure, and survives half a line", async () => {
    const memory = new ExploreMemory(path);
    const failing: StepWorker = {
      ...worker([]),
      judge: () => Promise.resolve([{ ...NOTHING, failed: { message: "no memory", code: 70 } }]),
    };
    await remembering(failing, { memory, rack: "r" }).judge({ sweep: 0, from: 0, to: 1, spent: 0 });
    equal(memory.size, 0);
    await remembering(worker([]), { memory, rack: "r" }).turn(PLANNED);
    memory.close();
    await Deno.writeTextFile(path, '{"name":"ha', { append: true });
    const again = new ExploreMemory(path);
    equal(again.size, 1);
    again.keep("more", NOTHING);
    again.close();
    const last = new ExploreMemory(path);
    equal(last.size, 2);
    last.close();
  });

  it("has one name for racks that explore alike", async () => {
    const job = { plan: { seed: 1 }, inputs: { a: { f: Uint8Array.of(1) } } };
    equal(await nameOfRack(job), await nameOfRack(structuredClone(job)));
    const other = { ...job, inputs: { a: { f: Uint8Array.of(2) } } };
    equal(await nameOfRack(job) === await nameOfRack(other), false);
  });
});
