/** `loads-return-the-last-store` of cores with store buffers: right runs hold, and each broken rule is found. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { AccessRecord, AuditRecord, TimedRecord } from "../../../fabric/audit.ts";
import { makePlan } from "../../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../../fabric/rack/scenario/variants.ts";
import { loads } from "../../../console/checks/shared/loads.ts";
import { wrongBuffers } from "../../../console/checks/shared/store_buffers.ts";
import { fill, noted, recordOf } from "../../../console/checks/record_testing.ts";
import { drained, type RunRecord } from "../../../console/checks/run_record.ts";
import {
  findingsOfShared,
  recordOfShared,
  sharedRack,
  sharedScenario,
} from "../../coherence/shared_rack.ts";

/** A run of random accesses on cores with store buffers. */
function runOf(
  of: { readonly seed: number; readonly drain: string; readonly faults?: readonly string[] },
): RunRecord {
  const all = { ...of, restart: true } as const;
  const text = sharedScenario(all).replace(
    "services: none",
    `services: none, memory: tso, timing: { host: { storeBuffer: ${of.drain} } }`,
  );
  const [variant] = variants(parseScenario(text, "shared.yaml"));
  return recordOfShared({ ...sharedRack(all), plan: makePlan(variant!) });
}

const FAULTS: readonly (readonly string[])[] = [
  [],
  ["{ at: 240us, kill: b-rnic }", "{ at: 300us, start: b-rnic }"],
  ["{ at: 250us, kill: b }", "{ at: 300us, start: b }"],
  ["{ at: 250us, kill: a-rnic }", "{ at: 290us, start: a-rnic }"],
  ["{ at: 250us, kill: a }", "{ at: 300us, start: a }"],
  ["{ at: 230us, shutdown: c }"],
];

type Place = readonly [place: number, note: AccessRecord];

describe("loads-return-the-last-store of cores with store buffers", () => {
  for (const faults of FAULTS) {
    it(`C-09, C-10, decision 16: holds in random runs with faults ${faults.join(", ") || "none"}`, () => {
      let forwarded = 0, buffered = 0;
      for (const [seed, drain] of ["0ps", "10ns", "800ns", "5us"].entries()) {
        const run = runOf({ seed: seed + 1, drain, faults });
        assert.deepEqual(findingsOfShared(run), [], `seed ${seed + 1}, ${drain}`);
        for (const { note } of run.notes) {
          if (note.kind === "buffered") buffered++;
          if (note.kind === "access" && note.forwarded !== undefined) forwarded++;
        }
      }
      assert.ok(forwarded > 5 && buffered > 100, `${forwarded} of ${buffered}`);
    });
  }

  const run = runOf({ seed: 3, drain: "800ns" });
  const accesses = run.notes.flatMap(({ note }, place): Place[] =>
    note.kind === "access" ? [[place, note]] : []
  );
  const leaving = accesses.filter(([, note]) => note.buffered !== undefined);
  const found = accesses.filter(([, note]) => note.forwarded !== undefined);
  const endOf = (place: number, { id }: AccessRecord) =>
    run.notes.findIndex(({ by, note }) =>
      note.kind === "accessed" && note.id === id && by === run.notes[place]!.by
    );
  const withNote = (place: number, note: TimedRecord["note"]): RunRecord => ({
    ...run,
    notes: run.notes.with(place, { ...run.notes[place]!, note }),
  });

  /** Each of these runs is found to be wrong, by such a text. */
  function areFound(mutants: readonly RunRecord[], text: RegExp): void {
    assert.ok(mutants.length > 2, `${mutants.length} mutants`);
    for (const mutant of mutants) {
      assert.match(drained(wrongBuffers(mutant))[0]?.text ?? "nothing", text);
      assert.ok(loads.check(mutant).length > 0);
    }
  }

  it("finds a store that leaves before an earlier one of its core", () => {
    const mutants = leaving.flatMap(([place, note], i): RunRecord[] => {
      const { node } = run.notes[place]!;
      const next = leaving.slice(i + 1).find(([at]) => run.notes[at]!.node === node);
      // Both are in the buffer when the first one leaves.
      const isIn = next !== undefined &&
        run.notes.slice(0, place).some((each) =>
          each.node === node && each.note.kind === "buffered" && each.note.id === next[1].buffered
        );
      return isIn ? [withNote(place, { ...note, buffered: next[1].buffered! })] : [];
    });
    areFound(mutants, /leaves its buffer before store/);
  });

  it("finds a store that leaves with other bytes", () => {
    const mutants = leaving.map(([place, note]) =>
      withNote(place, { ...note, bytes: note.bytes!.map((byte) => byte ^ 1) })
    );
    areFound(mutants, /leaves its buffer with other bytes/);
  });

  it("finds a store that never leaves", () => {
    const mutants = leaving.map(([place, note]) => ({
      ...run,
      notes: run.notes.filter((_, at) => at !== place && at !== endOf(place, note)),
    }));
    areFound(
      mutants,
      /never left its buffer|leaves its buffer before|before store .* has left|does not have/,
    );
  });

  it("finds a store past the buffer", () => {
    const mutants = leaving.map(([place, { buffered: _, ...note }]) => withNote(place, note));
    areFound(mutants, /has not gone through/);
  });

  it("finds a load that does not see its own core's store, or sees other bytes", () => {
    const past = found.map(([place, { forwarded: _, ...note }]) => withNote(place, note));
    areFound(past, /does not have its bytes from store/);
    const other = found.map(([place, note]) => {
      const end = endOf(place, note), { note: ended } = run.notes[end]!;
      assert.ok(ended.kind === "accessed");
      return withNote(end, { ...ended, bytes: ended.bytes!.map((byte) => byte ^ 1) });
    });
    areFound(other, /where its core's buffer has/);
  });

  it("finds a load of what no store of its core has", () => {
    const mutants = accesses.filter(([, { op, forwarded }]) =>
      op === "load" && forwarded === undefined
    )
      .map(([place, note]) => withNote(place, { ...note, forwarded: 1e6 }));
    areFound(mutants, /from a store that is not in its core's buffer/);
  });

  it("finds fences, atomics and flushes before the buffer is empty", () => {
    const behind = (note: (core: number, region: string, offset: number) => TimedRecord["note"]) =>
      run.notes.flatMap((each, place): RunRecord[] => {
        if (each.note.kind !== "buffered") return [];
        const { core, region, offset } = each.note;
        const added = { ...each, note: note(core, region, offset) };
        return [{ ...run, notes: run.notes.toSpliced(place + 1, 0, added) }];
      });
    areFound(behind((core) => ({ kind: "store-fence", core })), /a fence of .* ends before/);
    const access = { kind: "access", id: 1e6, length: 8 } as const;
    areFound(
      behind((core, region) => ({ ...access, core, region, op: "add", offset: 0 })),
      /add 1000000 .* begins before store/,
    );
    areFound(
      behind((core, region, offset) => ({ ...access, core, region, op: "flush", offset })),
      /flush 1000000 .* begins before store/,
    );
  });
});

describe("a store that the card has refused", () => {
  const place = { region: "s", offset: 0, length: 8 };
  const stored = (id: number): AuditRecord => ({
    ...{ kind: "buffered", id, core: 0, bytes: fill(id) },
    ...place,
  });
  const leaves = (id: number, buffered: number): AuditRecord => ({
    ...{ kind: "access", id, op: "store", core: 0, buffered, bytes: fill(buffered) },
    ...place,
  });
  const ended = (id: number, result: "done" | "refused"): AuditRecord => ({
    kind: "accessed",
    id,
    result,
  });
  const wrongIn = (...notes: AuditRecord[]) =>
    drained(wrongBuffers(recordOf({ notes: notes.map((note, at) => noted(at, note)) })))
      .map(({ text, at }) => `${at.time} ${at.node}: ${text}`);
  const refused = [stored(1), stored(2), leaves(10, 1), ended(10, "refused")];

  it("decision 16: leaves once more, or is given up for those behind it; one that is not refused is not", () => {
    assert.deepEqual(
      wrongIn(...refused, leaves(11, 1), ended(11, "done"), leaves(12, 2), ended(12, "done")),
      [],
    );
    assert.deepEqual(wrongIn(...refused, leaves(12, 2), ended(12, "done")), []);
    assert.deepEqual(wrongIn(stored(1), stored(2), leaves(12, 2), ended(12, "done")), [
      "2 a: store 2 of a/0/put#0 leaves its buffer before store 1 of a/0/put#0",
      "0 a: store 1 of a/0/put#0 never left its buffer",
    ]);
  });

  it("decision 16: need not leave, where one that was not refused has to", () => {
    assert.deepEqual(wrongIn(stored(1), leaves(10, 1), ended(10, "refused")), []);
    assert.deepEqual(wrongIn(...refused), ["1 a: store 2 of a/0/put#0 never left its buffer"]);
  });
});
