import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { AuditRecord } from "../../../fabric/audit.ts";
import type { FarState } from "../../../fabric/coherence/far_card_table.ts";
import { REGION_AT, regionPlan } from "../testing/region_testing.ts";
import type { Coherence } from "./state/coherence_state.ts";
import type { Device } from "../state/device.ts";
import { auditLines, auditReset } from "./audit.ts";

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
