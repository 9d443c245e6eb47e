import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type HostLine, newHostLine } from "../../../fabric/coherence/host_agent_table.ts";
import { LOST } from "../../../fabric/wire/roce/coherence_messages.ts";
import {
  DIRECTORY_CONTENT,
  DIRECTORY_ENTRY_BYTES,
  directoryAt,
  REGION_SIZES,
  SCM_BASE,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import { MemorySystem } from "../memory/memory_system.ts";
import { rigPlan } from "../testing/host_testing.ts";
import { MemoryDirectory } from "./memory_directory.ts";

const { none: NONE, shared: SHARED, poison: POISON } = DIRECTORY_CONTENT;
const LINES = 100;

/** Entries that say something, by index: what memory's content is, and `lent`. */
function entriesIn(bytes: Uint8Array): readonly (readonly [index: number, says: string])[] {
  const names = { [NONE]: "", [SHARED]: "shared", [POISON]: "poison" } as Record<number, string>;
  return Array.from({ length: LINES }, (_, i): [number, string] => {
    const [content, lent] = bytes.subarray(i * DIRECTORY_ENTRY_BYTES);
    return [i, `${names[content!]}${lent === 0 ? "" : "lent"}`];
  }).filter(([, says]) => says !== "");
}

function regionAt(address: number, directory: "card" | "memory" = "memory"): SharedRegion {
  return {
    ...REGION_SIZES,
    ...{ id: 0, name: "s", memory: "scm", placement: "remote", directory, address },
    bytes: LINES * 64,
    home: { host: "a", address: 1 },
    far: [],
    ...{ leasePs: 1, leaseMarginPs: 1, homeWaitPs: 1 },
  };
}

const REGION = regionAt(SCM_BASE + 4096);
const FIRST = REGION.address / 64;

function bench(regions: readonly SharedRegion[] = [REGION]) {
  const memory = new MemorySystem(rigPlan());
  const directory = new MemoryDirectory(memory, regions);
  const size = LINES * DIRECTORY_ENTRY_BYTES;
  /** As memory has them. */
  const entries = (region = REGION) => {
    const found = new Uint8Array(size);
    memory.physical.read(directoryAt(region, 0), found);
    return entriesIn(found);
  };
  const survivors = new Uint8Array(rigPlan().scmBytes);
  const durable = () => {
    for (const { offset, data } of memory.durable.take()) survivors.set(data, offset);
    const from = directoryAt(REGION, 0) - SCM_BASE;
    return entriesIn(survivors.subarray(from, from + size));
  };
  return { memory, directory, entries, durable };
}

const MEMORY = new Uint8Array(64);
function line(phase: HostLine["phase"], memory: HostLine["memory"] = MEMORY): HostLine {
  return { ...newHostLine(memory), phase };
}

describe("MemoryDirectory", () => {
  it("decision 7: says of each line what home's card has of it, durable at once", () => {
    const { directory, entries, durable } = bench();
    directory.changed(FIRST, line("none"), line("S"));
    directory.changed(FIRST + 63, line("none"), line("X"));
    directory.changed(FIRST + 64, line("none"), line("busy X"));
    directory.changed(FIRST + LINES - 1, line("none"), line("none", LOST));
    const all = [[0, "shared"], [63, "lent"], [64, "lent"], [LINES - 1, "poison"]];
    assert.deepEqual(entries(), all);
    assert.deepEqual(durable(), all);
    directory.changed(FIRST + 63, line("busy X"), line("busy none"));
    directory.changed(FIRST, line("S"), line("busy S"));
    assert.deepEqual(entries(), [[0, "shared"], [64, "lent"], [LINES - 1, "poison"]]);
    assert.deepEqual(durable(), entries());
  });

  it("decision 7: knows nothing of lines beside its regions, or of one whose directory is the card's", () => {
    const other = regionAt(REGION.address + 64 * LINES + 128), card = regionAt(SCM_BASE, "card");
    const { directory, entries } = bench([REGION, other, card]);
    for (const at of [FIRST - 1, FIRST + LINES, card.address / 64]) {
      directory.changed(at, line("none"), line("X"));
    }
    assert.deepEqual([entries(), entries(other)], [[], []]);
    directory.changed(other.address / 64 + 2, line("none"), line("X"));
    assert.deepEqual([entries(), entries(other)], [[], [[2, "lent"]]]);
  });

  it("decisions 7, 12: finds what an earlier life has left, and what its card's journal has brought back since", () => {
    const { memory, directory, entries } = bench();
    for (const index of [3, 70, 99]) directory.changed(FIRST + index, line("none"), line("X"));
    assert.deepEqual(directory.staleLines(), [FIRST + 3, FIRST + 70, FIRST + 99]);
    // The journal's writes go by flow 2 into the LLC, or by flow 1 into memory.
    memory.dmaWriteCache(directoryAt(REGION, 3), Uint8Array.of(NONE, 0));
    memory.writeThrough(directoryAt(REGION, 99) + 1, Uint8Array.of(0));
    assert.deepEqual(directory.staleLines(), [FIRST + 70]);
    directory.restart([FIRST + 5]);
    assert.deepEqual(directory.staleLines(), [FIRST + 5]);
    assert.deepEqual(entries(), [[5, "poison"]]);
    const next = new MemoryDirectory(memory, [REGION]);
    assert.deepEqual(next.staleLines(), [FIRST + 5]);
  });
});
