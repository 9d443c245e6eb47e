import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { AuditRecord } from "../../../fabric/audit.ts";
import type { FarState } from "../../../fabric/coherence/far_card_table.ts";
import { REGION_AT, regionPlan } from "../testing/region_testing.ts";
import type { Coherence } from "./state/coherence_state.ts";
import type { Device } from "../state/device.ts";
import type { Request } from "../../../fabric/coherence/home_card_state.ts";
import type { LineTask } from "../state/coherent_port_state.ts";
import { auditLines, auditReset, noteLineAnswer, noteLineTask } from "./audit.ts";

const FIRST = REGION_AT / 64;

function bench() {
  const notes: string[] = [];
  const out = {
    auditing: true,
    audit: (_: string, note: AuditRecord) => {
      if (note.kind === "line-state") notes.push(`${note.cache} ${note.line} ${note.state}`);
    },
  };
  const coherence = { noted: new Map(), home: undefined } as unknown as Coherence;
  const device = { name: "a-rnic", out, coherence } as unknown as Device;
  const regions = [regionPlan()];
  /** A line of the cache takes these states, one after the other. @returns what is noted of that. */
  const take = (cache: "local" | "remote", line: number, ...taken: FarState[]) => {
    const states = taken.map((state) => ({ line: FIRST + line, state }));
    auditLines(device, coherence, { cache, regions, states });
    return notes.splice(0);
  };
  return { take, reset: () => (auditReset(device, device.out), notes.splice(0)) };
}

describe("auditLines", () => {
  it("C-09: notes each change of what cores may do: a line that waits for ownership is readable, a write-back is not", () => {
    const { take } = bench();
    assert.deepEqual(take("remote", 3, "IS", "S", "SM", "E", "M", "MI", "I"), [
      "remote 3 S",
      "remote 3 E",
      "remote 3 M",
      "remote 3 I",
    ]);
    assert.deepEqual(take("remote", 3, "IS", "S", "SM"), ["remote 3 S"]);
    assert.deepEqual(take("remote", 3, "IM"), ["remote 3 I"], "its copy is invalidated");
    assert.deepEqual(take("remote", 3, "E", "S", "I"), ["remote 3 E", "remote 3 S", "remote 3 I"]);
    assert.deepEqual(take("remote", 3, "IM", "E", "MI", "II", "I"), ["remote 3 E", "remote 3 I"]);
  });

  it("C-09: knows lines and caches apart, and nothing of lines of no region", () => {
    const { take } = bench();
    assert.deepEqual(take("local", 0, "E"), ["local 0 E"]);
    assert.deepEqual(take("remote", 0, "S"), ["remote 0 S"]);
    assert.deepEqual(take("local", 15, "S"), ["local 15 S"]);
    assert.deepEqual([take("local", 16, "S"), take("local", -1, "S")], [[], []]);
    assert.deepEqual(take("local", 0, "E"), []);
  });

  it("C-10: a card that is reset has none of its lines any more", () => {
    const { take, reset } = bench();
    take("local", 0, "M"), take("local", 1, "S"), take("local", 1, "I"), take("remote", 2, "SM");
    assert.deepEqual(reset(), ["local 0 I", "remote 2 I"]);
  });
});

/** A card that starts at this time, with requests that its directory has taken. */
function cardFrom(startedAt: number, requests: readonly Request[] = []) {
  const notes: (readonly [by: string, note: AuditRecord])[] = [];
  const out = {
    auditing: true,
    audit: (by: string, note: AuditRecord) => void notes.push([by, note]),
  };
  const home = { regions: [regionPlan()], card: { requests } };
  const coherence = { noted: new Map(), home } as unknown as Coherence;
  const device = { name: "a-rnic", startedAt, out, coherence } as unknown as Device;
  return { device, notes };
}

describe("auditReset", () => {
  it("C-09: drops the requests that the directory has taken and not begun, of a range its lines that are left", () => {
    const request = (line: number, more: Partial<Request> = {}): Request => ({
      message: { kind: "GetM", line: FIRST + line, agent: 1, life: 1, homeLife: 1 },
      isBegun: false,
      access: null,
      ...more,
    });
    const range = { left: [FIRST + 6, FIRST + 7], open: [FIRST + 5], isLost: false };
    const requests = [request(2), request(3, { isBegun: true }), request(5, { range })];
    const { device, notes } = cardFrom(0, requests);
    auditReset(device, device.out);
    const turns = notes.flatMap(([, note]) =>
      note.kind === "line-turn" ? [[note.step, note.line, note.agent]] : []
    );
    assert.deepEqual(turns, [["dropped", 2, 1], ["dropped", 6, 1], ["dropped", 7, 1]]);
  });
});

describe("accesses of verbs", () => {
  it("C-09, decision 14: are of one life of the card each, as their numbers begin anew, and end as they began", () => {
    const address = REGION_AT + 64 + 8;
    const task = { kind: "read", address, length: 4 } as unknown as LineTask;
    const data = Uint8Array.from({ length: 64 }, (_, i) => i);
    const all = [100, 200].flatMap((startedAt) => {
      const { device, notes } = cardFrom(startedAt);
      noteLineTask(device, 1, task);
      const access = { kind: "load", line: FIRST + 1, ticket: 1, change: undefined } as const;
      noteLineAnswer(device, task, { access, result: "done", data });
      return notes;
    });
    const [began, ended, again] = all;
    assert.deepEqual(began![1], {
      ...{ kind: "access", id: 1, region: "s", offset: 72, length: 4, dma: true, op: "load" },
    });
    assert.deepEqual(ended![1], {
      ...{ kind: "accessed", id: 1, result: "done", bytes: Uint8Array.of(8, 9, 10, 11) },
    });
    assert.equal(began![0], ended![0]);
    assert.notEqual(began![0], again![0]);
  });
});
