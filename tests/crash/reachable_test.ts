/**
 * Every choice that the crash explorer makes is one that the machine can make: a run with the write-backs
 * that it stands for, and a power failure at that instant, leaves what was derived, to the byte.
 */
import { ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Rng, rngFor } from "../../fabric/base/rng.ts";
import type { Time } from "../../fabric/base/time.ts";
import { type Cell, Cells, tornCells } from "../../console/explore/choices.ts";
import { faultsWith } from "../../console/explore/post_crash_run.ts";
import { CrashCursor, Pages } from "../../console/explore/history.ts";
import { runRack } from "../../console/explore/rerun.ts";
import type { ExploredRack } from "../../console/explore/types.ts";
import { type PutOf, putRack } from "./explored_rack.ts";

interface Chosen {
  readonly at: Time;
  readonly cells: readonly Cell[];
  readonly picks: readonly number[];
  /** What is durable without any choice. */
  readonly durable: Pages;
}

/** The SCM that was derived, and that of a run with the power failure, are the same. */
function assertReached(rack: ExploredRack, chosen: Chosen): void {
  const { at, cells, picks, durable } = chosen;
  const writebacks = cells.flatMap((cell, i) =>
    cell.writebacks(picks[i]!).map((each) => ({ ...each, node: "b" }))
  );
  const run = runRack(rack, {
    faults: faultsWith(rack.plan.faults, { hosts: ["b"], at }),
    writebacks,
  });
  for (const [i, cell] of cells.entries()) durable.write(cell.from, cell.alternatives[picks[i]!]!);
  const offset = run.scm.get("b")!.firstDifference(durable);
  const what = `at ${at} ps, 0x${offset?.toString(16)}, with ${JSON.stringify(writebacks)}`;
  equal(offset, undefined, what);
}

function chooseOf(cells: readonly Cell[], rng: Rng): number[] {
  return cells.map(({ alternatives }) => rng.below(alternatives.length));
}

/** Some of the instants at which something is open, with some of the choices. */
function choicesOf(rack: ExploredRack, of: { seed: number; most: number }): Chosen[] {
  const { histories, notes } = runRack(rack, { histories: true });
  const { entries } = histories.get("b")!;
  const from = notes.find(({ note }) => note.kind === "writes")!.time;
  const rng = rngFor(of.seed, "choices");
  const all: Chosen[] = [];
  const durable = () => {
    const copy = new CrashCursor(entries, new Pages());
    while (copy.next !== cursor.next) copy.step();
    return copy.image;
  };
  const cursor: CrashCursor<Pages> = new CrashCursor(entries, new Pages());
  for (let entry = cursor.next; entry !== undefined; entry = cursor.next) {
    if (entry.at >= from && entry.kind === "durable") {
      const torn = tornCells(entry, 8, cursor.image);
      const picks = chooseOf(torn, rng);
      if (torn.length > 1) all.push({ at: entry.at, cells: torn, picks, durable: durable() });
    }
    cursor.step();
    const { next } = cursor;
    if (entry.at < from || next?.at === entry.at) continue;
    const cells = [...cursor.dirty.keys()].flatMap((line) => new Cells(cursor).in(line, line + 1));
    if (cells.length === 0) continue;
    all.push({ at: entry.at + 1, cells, picks: chooseOf(cells, rng), durable: durable() });
  }
  // As many as are wanted, from all over.
  return all.filter((_, i) =>
    Math.floor(i * of.most / all.length) !== Math.floor((i - 1) * of.most / all.length)
  );
}

const CASES: readonly (PutOf & { readonly name: string })[] = [
  { name: "DMA into the cache", method: "write-only", ddio: "on", bytes: 1000, depth: 2 },
  { name: "DMA past the cache", method: "write-read", ddio: "off" },
  { name: "a core that stores and flushes", method: "send-flush", ddio: "on" },
  { name: "a core that flushes what DMA brought", method: "write-send", ddio: "on" },
  {
    name: "a cache so small that it gives up lines by itself",
    method: "write-only",
    ddio: "on",
    bytes: 5000,
    size: 1000,
    depth: 2,
    hostB: ", llc: { size: 8KiB, ways: 4, ddioWays: 2 }",
  },
  {
    name: "eADR, where only writes under way are open",
    method: "write-only",
    ddio: "on",
    hostB: ", domain: eadr",
  },
];

describe("choices of the crash explorer", () => {
  for (const [seed, { name, ...of }] of CASES.entries()) {
    it(`P-04, P-41: a run finds each of them: ${name}`, () => {
      const rack = putRack(of);
      const all = choicesOf(rack, { seed, most: 24 });
      ok(all.length > 0, "there are choices");
      for (const chosen of all) assertReached(rack, chosen);
      ok(all.some(({ picks }) => picks.some((pick) => pick > 0)), "some of them are taken");
    });
  }
});
